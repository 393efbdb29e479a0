// The lanes of a race: their heads (place, name, clock, numbers) and their texts. Two lanes are
// side by side, each with its text; more lanes are rows, and the text of the selected one is below.

import { Text } from './text.js';
import { classes, glossed, html, Link, useState } from './ui.js';
import { walk } from './keys.js';
import { LEGEND, quotedTau, rate, ratio, seconds, settingsWords, times } from '../state/format.js';
import { isVanilla } from '../state/lane.js';
import { markOf } from '../state/race.js';
import { modelOf } from '../state/report.js';
/** @import { Lane } from '../state/lane.js' */
/** @import { PlayerOptions } from '../tabs.d.ts' */
/** @import { Scene } from '../state/stage.js' */
/** @import { Study } from '../study.js' */

const COLUMNS = [
  ['place', 'Place', 'By decode time, among the lanes that wrote as many tokens as the longest.'],
  ['who', 'Lane', 'A method and its settings.'],
  [
    'progress',
    'Tokens so far',
    'Share of the longest text. All lanes share one axis of decode time.',
  ],
  ['clock', 'Decode time, s', 'Seconds of decode time: prefill, drafting, scoring, verification.'],
  ['rate', 'Tokens/s', 'Tokens per second of decode time, so far.'],
  [
    'speed',
    'Speed-up',
    'Tokens per second over those of vanilla, both measured in this race, so far.',
  ],
  ['tau', 'τ', ''], // the glossary explains it
];
const TITLES = Object.fromEntries(COLUMNS.map(([key, , title]) => [key, title]));
const ROW_KEYS = { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity, Enter: 0, ' ': 0 };

/** A lane's settings, or what its method is. @param {Lane | null} lane @param {string} about
 *  @param {Options} options */
function subtitle(lane, about, { noSteps, drafters }) {
  const header = lane?.header;
  if (!header) return about;
  if (!header.server) {
    const words = settingsWords(
      header.config,
      noSteps,
      drafters[String(header.config.pair)],
    );
    return isVanilla(lane) ? `${modelOf(header)}, ${words}` : words;
  }
  const tau = lane.finished ? quotedTau(lane.finished.quoted) : '';
  return `an attached server${tau ? `, reports ${tau}` : ''}`;
}

/** @param {{scene: Scene, name: string, options: Options, select: () => void}} props */
function Head({ scene, name, options, select }) {
  const { lanes: { [name]: lane }, named: { [name]: named }, rows: { [name]: row } } = scene;
  const mark = markOf(lane, row, scene.stage.ends[name], scene.ranks[name], scene.absent);
  const columns = scene.names.length <= 2;
  const selected = name === scene.selected;
  const doubt = scene.stage.doubt(name);
  const tab = columns ? {} : {
    role: 'tab',
    'aria-selected': String(selected),
    'aria-controls': `${options.tabName}-panel`,
    tabindex: selected ? 0 : -1,
  };
  const number = (key, value, unit, attributes = {}) =>
    html`
      <span class="sd-lane-number sd-lane-${key}" title=${TITLES[key] || null}
        data-symbol=${key === 'tau' ? 'τ' : null} ...${attributes}>
            <b data-known=${String(value !== '–')}>${value}</b><small>${unit}</small></span>
    `;
  const clock = { role: 'timer', 'aria-label': `${named.label}: decode time in seconds` };
  const kind = [selected && 'sd-lane-selected', !lane && 'sd-lane-absent'];
  const style = { '--lane': `var(--sd-${named.colour})` };
  const stops = columns ? undefined : null;
  const settings = subtitle(lane, named.about, options);
  const share = row ? row.share : 0;
  return html`
    <div class=${classes('sd-lane', ...kind)} id="${options.tabName}-lane-${name}" style=${style}
      data-state=${mark.kind} data-busy=${String(Boolean(doubt))} onclick=${select} ...${tab}>
        <span class="sd-lane-place" title=${mark.placeTitle || null}>${mark.place}</span>
        <span class="sd-lane-who">
          <span class="sd-lane-name"><span class="sd-lane-glyph" aria-hidden="true">${named
            .glyph}</span><b title=${named.label}>${named.label}</b></span>
          <span class="sd-lane-sub" title=${named.about || null}>${glossed(settings, stops)}</span>
        </span>
        <span class="sd-lane-progress">
          <span class="sd-lane-track">
            <i class="sd-lane-fill" style="transform: scaleX(${share})"></i></span>
          <span class="sd-lane-tokens" title=${mark.title || null}>${mark.words}</span>
        </span>
        ${number('clock', row ? seconds(row.clock.seconds) : '–', ' s', clock)}
        ${number('rate', rate(row && row.clock.rate), ' tokens/s')}
        ${number('speed', times(row && row.speedup), '', { title: doubt || TITLES.speed })}
        ${number('tau', ratio(row && row.tau), ' τ')}
      </div>
  `;
}

/** @typedef {Pick<PlayerOptions, 'drafters' | 'noSteps' | 'tabName'>} Options */
/**
 * @typedef {object} Props
 * @property {Scene} scene @property {Options} options
 * @property {Pick<Study, 'pinned' | 'game' | 'pinToken'>} study what the visitor looks at closely
 * @property {(name: string) => void} select a lane
 */

/** @param {Props} props */
export function Lanes({ scene, options, study, select }) {
  const [all, setAll] = useState(false);
  const [whole, setWhole] = useState(false);
  const { names, named, lanes, states, selected } = scene;
  const columns = names.length <= 2;
  const list = columns ? {} : {
    role: 'tablist',
    'aria-orientation': 'vertical',
    'aria-label': 'Lanes: select one to see its window',
  };
  const keys = (event) => {
    if (columns) return;
    const to = walk(event, [...event.currentTarget.children], ROW_KEYS);
    if (to >= 0) select(names[to]);
  };
  const card = (name) => {
    const pinned = study.pinned?.name === name ? study.pinned?.token ?? -1 : -1;
    const [fullState, judged] = [states[name], states[selected ?? '']?.tokens.length];
    const state = study.game && fullState && name !== selected
      ? { ...fullState, tokens: fullState.tokens.slice(0, judged) } // more would reveal the answer
      : fullState;
    const visible = columns || all || name === selected;
    const lane = lanes[name];
    const failed = lane?.failed && state?.ended ? `${lane.failed.message} ${lane.failed.hint}` : '';
    const { label, glyph, colour } = named[name];
    const text = {
      label: `${label}: text`,
      lane,
      state,
      count: state?.tokens.length ?? 0,
      round: name === selected ? scene.view : null,
      moment: scene.moment,
      pinned,
      press: (token, byKey) => study.pinToken(name, token, byKey),
    };
    return html`
      <article key=${name} class=${classes('sd-lane-text', name === selected && 'sd-lane-selected')}
        hidden=${!visible} style=${{ '--lane': `var(--sd-${colour})` }}>
        <button type="button" class="sd-lane-title" onclick=${() => select(name)}>
          <span class="sd-lane-glyph" aria-hidden="true">${glyph}</span> ${label}</button>
        ${visible && html`<${Text} ...${text} />`}
        <p class="sd-lane-note">${failed}</p>
      </article>
    `;
  };
  const layout = columns ? 'columns' : 'rows';
  const which = all ? `${names.length} lanes` : named[selected ?? '']?.label ?? '';
  const origins = Object.entries(LEGEND).map(([kind, { glyph, words }]) =>
    html`<li><span class="sd-token sd-token-${kind}" aria-hidden="true">${glyph}</span> ${words}</li>`
  );
  return html`
    <section class="sd-panel sd-lanes" aria-label="Race" data-area="lanes" data-layout=${layout}
      data-whole=${String(whole)}>
      <div class="sd-lane-columns" aria-hidden="true">${COLUMNS.map(([, words, title]) =>
        html`<span title=${title || null} data-symbol=${title ? null : words}>${words}</span>`
      )}</div>
      <div class="sd-lane-list" onkeydown=${keys} ...${list}>
          ${names.map((name) =>
            html`
              <${Head} key=${name} scene=${scene} name=${name} options=${options}
                select=${() => select(name)} />
            `
          )}
        </div>
      <header><h2>Text</h2><span class="sd-sub">${which}</span>
          <${Link} act=${() => setAll(!all)} aria-pressed=${String(all)}>${all
            ? 'Only the selected lane'
            : 'All texts'}<//></header>
        <div class="sd-lane-texts" data-all=${String(columns || all)}>${names.map(card)}</div>
        <ul class="sd-lanes-legend" aria-label="Legend">${origins}</ul>
      <${Link} act=${() => setWhole(!whole)} aria-pressed=${String(whole)}
        class="sd-link sd-lanes-whole">${whole ? 'Shorten the texts' : 'Show the whole texts'}<//>
      </section>
  `;
}
