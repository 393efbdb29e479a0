// Describes the race on the stage: a sentence with its result, its origin, and how it was measured.

import { Component, Dialog, html, Link, Pick } from './ui.js';
import { dateOf, endsOf, factsOf, headerOf, placeOf, settingsLink } from '../state/report.js';
import { isRun } from '../state/moment.js';
import { keptRuns } from '../state/history.js';
import { leadWords } from '../state/headline.js';
import { milliseconds, seconds } from '../state/format.js';
/** @import { App } from '../app.js' */
/** @import { Scene } from '../state/stage.js' */
/** @import { Lanes } from '../state/race.js' */

/** @type {Record<string, string>} */
const KINDS = {
  recording: '◉ Recording',
  run: '● Your run',
  kept: '● Run from a link',
  measured: '● Measured here',
  file: '◎ Opened file',
  stopped: '■ Stopped run',
  failed: '! Run that failed',
};
const TITLED = ['recording', 'measured', 'file'];
const LINKED = 'A link that opens this run, paused at this step.';
const PHASES = ['prefill', 'draft', 'score', 'verify', 'other'];
const WAIT = {
  before:
    'A drafter guesses ahead, and the target model checks its guesses in one pass. Measuring the speed-up …',
  after: '',
};

/** The first sentence; its result is hidden until the replay ends. @param {{app: App, scene: Scene}} props */
export function Lead({ app, scene }) {
  const { stage, options } = app;
  const { first, names, lanes, baseline, named } = stage;
  const who = !first
    ? ''
    : names.length <= 2 && first === 'drafted'
    ? 'A drafter'
    : named[first].label;
  const { before, after } = scene.running ? WAIT : first && first !== baseline
    ? leadWords(
      lanes[first],
      lanes[baseline ?? ''] ?? null,
      who,
      names.length,
      !stage.disturbed(first).length,
    )
    : { before: '', after: '' };
  return html`<p class="sd-lead-words" data-kind=${options.kind}>${before}${
    after && html`<span style=${{ visibility: scene.over ? 'visible' : 'hidden' }}>${after}</span>`
  }</p>`;
}

/** @param {{lanes: Lanes, title: string}} props */
function Report({ lanes, title }) {
  const header = headerOf(lanes);
  const ended = endsOf(lanes);
  if (!header) return null;
  return html`<dl class="sd-facts">${
    factsOf(lanes, header, title).flatMap((
      [name, words],
    ) => [html`<dt>${name}</dt>`, html`<dd>${words}</dd>`])
  }</dl>
    ${
    ended.length > 0 && html`
      <table class="sd-table" tabindex="0">
        <caption>Where the decode time went</caption>
        <thead>
          <tr>${['lane', ...PHASES, 'total'].map((words) =>
            html`<th scope="col">${words}</th>`
          )}</tr>
        </thead>
        <tbody>${ended.map(([name, { seconds_by: by, seconds: all }]) =>
          html`<tr><th scope="row">${name}</th>
        ${PHASES.map((phase) => html`<td>${milliseconds(by[phase] || 0)}</td>`)}<td>${
            seconds(all)
          } s</td></tr>`
        )}</tbody>
      </table>
    `
  }`;
}

/** @extends {Component<{app: App, scene: Scene}, {open: boolean}>} */
export class Source extends Component {
  state = { open: false };

  /** @param {{app: App, scene: Scene}} props @param {{open: boolean}} state */
  render({ app, scene }, { open }) {
    const { stage, trace, source, options, recordings, file } = app;
    const runs = scene.running ? [] : keptRuns(options.kept);
    const days = Math.round(options.kept / 86400);
    const header = scene.running ? null : headerOf(stage.lanes);
    const kind = scene.running ? 'run' : source;
    const titled = options.kind === 'race' && TITLED.includes(source) ? ` · ${trace?.title}` : '';
    const note = `${titled}${stage.left ? ` · ${stage.left} more lanes are not shown` : ''}`;
    const words = scene.running
      ? 'your run, timed here; the numbers appear when all lanes are done'
      : header
      ? `${dateOf(header.started_at)} · ${placeOf(header)}${note}`
      : note;
    const own = header && source !== 'run' && options.kind === 'live' && stage.names.length <= 2
      ? stage.lanes[stage.latest ?? '']?.header
      : null;
    return html`
      <div
        class="sd-source"><span class="sd-chip" data-kind=${kind}>${scene.running
          ? '● Measuring'
          : KINDS[kind] || kind}</span><span class="sd-source-words">${words}</span>
            ${header &&
              html`<${Link} act=${() =>
                this.setState({ open: true })} aria-haspopup="dialog">How this was measured<//>`}
            ${own && html`
              <a class="sd-link" href=${settingsLink(own)}
                title="Opens this page with the prompt and the settings of this race">Use its settings</a>
            `}
            ${header && file && html`
              <${Link} act=${(event) => app.keepMoment(event.currentTarget)}
                title=${isRun(file)
                  ? `${LINKED} This server keeps it for ${days} days, or until it restarts.`
                  : LINKED}>Link to this moment<//>
            `}
            ${!scene.running && recordings.length > 1 && html`
              <${Pick} name="sd-more" label="Another recording" all=${recordings}
                words=${({ title }) => title} open=${({ url }) => app.open({ url })} />
            `}
            <${Pick} label="My runs" all=${runs} words=${({ title }) => title}
              open=${({ query }) => location.search = query} />
            <${Dialog} title="How this was measured" open=${open} closed=${() =>
              this.setState({ open: false })}>${open &&
              html`<${Report} lanes=${stage.lanes} title=${trace?.title ?? ''} />`}<//></div>
    `;
  }
}
