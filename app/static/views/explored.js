// The view of the Explore and the Compare tab: the question, its form, its answer with figures and
// boards, and the origin of the numbers.

import { Board } from './board.js';
import { Charts } from './charts.js';
import { Component, ElementSlot, Facts, glossed, html, Link, Select } from './ui.js';
import { isShown, settled } from './figure.js';
import { Slider } from './widgets.js';
import {
  busyMachine,
  columnsOf,
  csvOf,
  originOf,
  originWords,
  racesOf,
} from '../state/exploration.js';
import { cell as inCell } from '../state/format.js';
import { download } from './dom.js';
import { means } from './glossary.js';
import { RoomNotice } from './notes.js';
/** @import { Explore, Source } from '../explore.js' */
/** @import { Answer, Figure } from '../state/exploration.js' */

const FIRST = 'side-by-side'; // its widget is above the figures
const WITHOUT = 'The chart library could not be loaded; the table below is complete without it.';
const VALUE = /(?<=(?:^|[\s(])\p{L}) (?=[≤\d])/gu; // the space in “γ 4”, where no line breaks
const CHIPS = { live: '● Measured here', recorded: '◉ Recording' };

/** @typedef {{words: string, title?: string | null, pressed: boolean, act: () => void}} Choice a
 *  button */

/** @param {Choice[]} choices */
const buttons = (choices) =>
  choices.map(({ words, title = null, pressed, act }) =>
    html`
      <button type="button" aria-pressed=${String(pressed)} title=${title}
        onclick=${act}>${words}</button>
    `
  );

/** The sliders of a figure with a formula, its chart, and what it says at their values.
 *  @param {{app: Explore, figure: any, children: unknown}} props */
function Computed({ app, figure: { key, sliders, values, words, block }, children }) {
  const set = (/** @type {string} */ name, value) => {
    app.sliders[key] = { ...app.sliders[key], [name]: value };
    app.draw();
  };
  return html`
    <div class="sd-exp-computed">${sliders.map(({ name, label, title, low, high, step }) =>
      html`
        <${Slider} ...${{ label, title, min: low, max: high, step, value: values[name] }}
          act=${(value) => set(name, value)} />
      `
    )}
      <p aria-live="polite">${words[0]}</p>
      ${block && html`
        <div class="sd-scene" role="group" aria-label="The drafted block">
          <p>${block.map(({ words: token, kind }) =>
            html`<span data-is=${kind} title=${kind}>${inCell(token)}</span>`
          )}</p>
        </div>
      `}</div>
    ${children}
    <div class="sd-exp-after">${words.slice(1).map((sentence) => html`<p>${sentence}</p>`)}</div>
  `;
}

/** The races of a cell, in place of its figure. @param {{app: Explore, race: string}} props */
function Races({ app, race }) {
  const { titles = {} } = app.answer.report;
  const back = () => {
    app.races = null;
    app.draw();
  };
  return html`
    <section class="sd-panel sd-exp-races" aria-label="Races of this cell">
      <header>
        <h2>${titles[race] ?? race}</h2>
        <${Link} act=${back}>← Back to the chart<//></header>
      <ul>${racesOf(app.answer, race).map(([name, prompt]) =>
        html`
          <li>
            <${Link} act=${() => app.openRace(name)}>Race on ${prompt}<//></li>
        `
      )}</ul>
    </section>
  `;
}

/** Let clicks on a figure's marks open races, list those of a cell, or show them in the widget.
 *  @param {Explore} app @param {any} place drawn by Plotly */
function opens(app, place) {
  place.on('plotly_click', ({ points: [{ customdata, data }] }) => {
    const clicked = customdata?.[0];
    if (!clicked) return;
    const races = racesOf(app.answer, clicked).length;
    if (app.widget?.pick) app.widget.pick(clicked);
    else if (races > 1 || (races && data?.type === 'heatmap')) {
      app.races = { race: clicked, figure: place.dataset.figure };
      app.draw();
    } else app.openRace(clicked);
  });
}

/** The figures that the switches choose: first the leading ones, then notes and the others, folded.
 *  A different choice is a new component (`key`).
 *  @extends {Component<{app: Explore, figures: Figure[], lead: number, aside: unknown,
 *  notes: unknown[], source: string}>} */
class Figures extends Component {
  /** @override */ componentDidMount() {
    const { app } = this.props;
    app.charts = new Charts(this.base.querySelectorAll('.sd-plot'), {
      plotly: app.options.plotly,
      without: WITHOUT,
      share: 0,
      made: (place) => opens(app, place),
    });
    this.componentDidUpdate();
  }

  /** @param {{source: string}} [before] @override */
  componentDidUpdate(before) {
    const { app, figures, source } = this.props;
    if (before && before.source !== source) app.charts?.blank(''); // drawing may take a while
    const { panel, lines } = app.only ?? {};
    app.charts?.offer((key) => {
      const { data, ...figure } = /** @type {Figure} */ (figures.find((one) => one.key === key));
      const traces = key === panel ? data?.filter(({ name }) => lines?.includes(name)) : [];
      return { ...figure, data: traces?.length ? traces : data, added: app.widget?.adds?.(key) };
    });
  }

  /** @param {Figures['props']} props @override */
  render({ app, figures, lead, aside, notes }) {
    const stops = /** @type {Set<string>} */ (new Set());
    const hints = ({ hint, opens }) => [hint, app.hasRaces && opens].filter(Boolean).join('; ');
    const leads = figures.filter(({ key, formula }, i) =>
      i < lead || formula || key === app.widget?.figure
    );
    const others = figures.filter((figure) => !leads.includes(figure));
    const opened = ({ currentTarget }) => {
      app.unfolded = currentTarget.open;
    };
    const panel = (/** @type {Figure} */ figure) => {
      const { key, title, hint, opens, formula } = figure;
      const shape = figure.wide ? 'sd-cmp-bars' : leads.includes(figure) ? 'sd-exp-lead' : '';
      const data = /** @type {any[]} */ (figure.data ?? []);
      const map = data.find(({ type }) => type === 'heatmap');
      const columns = map?.x ?? (Array.isArray(data[0]?.x?.[0]) ? data[0].x[0] : []); // or bars
      const named = data.filter(({ name, showlegend = true }) => name && showlegend).length;
      const chart = html`
        <div class="sd-cmp-scroll" role="group" aria-label="Chart: ${title}"
          tabindex=${figure.wide && columns.length ? 0 : null}>
          <div class="sd-plot" data-figure=${key}></div>
        </div>
      `;
      const style = `--least: ${columns.length && 64 + 52 * columns.length}px; --named: ${named}`;
      return html`
        <section class="sd-panel sd-chart ${shape}" style=${style} aria-label=${title}
          hidden=${app.races?.figure === key}>
          <header><h2>${glossed(title, stops)}</h2><span
            class="sd-sub">${glossed(hints({ hint, opens }), stops)}</span></header>
          ${formula ? html`<${Computed} app=${app} figure=${figure}>${chart}<//>` : chart}
        </section>
      `;
    };
    return html`
      <div class="sd-exp-figures">
        ${app.races && html`<${Races} app=${app} race=${app.races.race} />`}
        <div class="sd-cmp-charts">${leads.map(panel)}</div>
        ${aside}
        <details class="sd-exp-rest" open=${app.unfolded} ontoggle=${opened}
          hidden=${!notes.length && !others.length}>
          <summary>Notes and more charts</summary>
          <div class="sd-exp-notes">${notes}</div>
          <div class="sd-cmp-charts">${others.map(panel)}</div>
        </details>
      </div>
    `;
  }
}

/** The board that the switches choose, and the switches.
 *  @param {{app: Explore, answer: Answer, chosen: Record<string, string>}} props */
function Boards({ app, answer: { report: { boards = [], switches = [] } }, chosen }) {
  const selected = /** @type {any} */ (boards.find((one) => isShown(one, chosen)));
  const rows = selected?.rows.filter(({ label }) => app.only?.lines.includes(label));
  const board = app.only?.panel === 'board' && rows?.length ? { ...selected, rows } : selected;
  const choose = (name, value) => {
    chosen[name] = value;
    app.draw();
  };
  return html`
    <section class="sd-panel sd-exp-board" hidden=${!boards.length}>
      <header>
        <h2>Leaderboard</h2>
        <div class="sd-cmp-choices">${switches.map(({ name, title, options }) =>
          html`
            <div class="sd-cmp-choice" role="group"
              aria-label=${title}><span class="sd-sub">${title}</span>${buttons(
                options.map(([value, words, meaning]) => ({
                  words,
                  title: meaning || null,
                  pressed: chosen[name] === value,
                  act: () => choose(name, value),
                })),
              )}</div>
          `
        )}</div>
      </header>
      <div class="sd-cmp-wrap" tabindex="0" role="region" aria-label="Leaderboard">${board &&
        html`<${Board} board=${board} open=${
          app.hasRaces ? (race) => app.openRace(race) : null
        } />`}</div>
    </section>
  `;
}

/** A value, or a list of them, in the table. */
const cell = (value) =>
  [value].flat(Infinity).map((item) =>
    typeof item === 'number' && !Number.isInteger(item) ? Number(item.toPrecision(4)) : item
  ).join(' ');

/** The table of all rows, drawn only while unfolded, because an answer arrives every second.
 *  @param {{app: Explore, answer: Answer}} props */
function Rows({ app, answer: { rows } }) {
  const columns = columnsOf(rows);
  const meanings = app.options.forms[app.name].columns;
  const opened = ({ currentTarget }) => {
    app.listed = currentTarget.open;
    app.draw();
  };
  return html`
    <details class="sd-panel sd-exp-numbers" open=${app.listed} ontoggle=${opened}>
      <summary>All numbers</summary>
      <div class="sd-cmp-wrap" tabindex="0" role="region" aria-label="All numbers">${app.listed &&
        html`
          <table class="sd-table">
            <thead>
              <tr>${columns.map((name) =>
                html`<th scope="col" title=${means(meanings[name]) || meanings[name]}>${name}</th>`
              )}</tr>
            </thead>
            <tbody>${rows.map((row) =>
              html`<tr>${columns.map((name) => html`<td>${cell(row[name])}</td>`)}</tr>`
            )}</tbody>
          </table>
        `}</div>
    </details>
  `;
}

/** Download the answer, or its first figure as a picture, drawn in this browser.
 *  @param {Explore} app @param {string} kind of the file */
function save({ answer, charts, name }, kind) {
  const filename = `specdiff-${name}-` + answer.origin.date.slice(0, 16).replace(/[^0-9]/g, '');
  if (kind === 'csv') return download(csvOf(answer.rows), 'text/csv', `${filename}.csv`);
  if (kind === 'prompts') {
    return download(csvOf(answer.runs ?? []), 'text/csv', `${filename}-prompts.csv`);
  }
  if (kind === 'json') {
    return download(JSON.stringify(answer, null, 1), 'application/json', `${filename}.json`);
  }
  const place = Object.values(charts?.places ?? {}).find((element) =>
    element.classList.contains('js-plotly-plot')
  );
  const scale = kind === 'png' ? 2 : 1;
  const shape = { format: kind, scale, width: 1200, height: 700, filename };
  if (place) charts?.plotly.downloadImage(place, shape);
}

/** The origin of the numbers, and downloads. @param {{app: Explore, answer: Answer}} props */
function Origin({ app, answer }) {
  const made = app.shown.from === 'live' ? app.made[app.name] : '';
  /** @type {[kind: string, words: string][]} */
  const kinds = [['csv', 'CSV'], ['json', 'JSON'], ['png', 'PNG'], ['svg', 'SVG']];
  if (answer.runs?.length) kinds.splice(1, 0, ['prompts', 'CSV by prompt']);
  const saves = kinds.map(([kind, words]) =>
    html`<${Link} act=${() => save(app, kind)}>${words}<//>`
  );
  const weights = made && new URL(made, document.baseURI).href;
  return html`
    <section class="sd-panel sd-cmp-origin" aria-label="Where these numbers come from">
      <header><h2>Where these numbers come from</h2>
        <span class="sd-exp-saves">Download: ${saves}${weights && html`
          <a class="sd-link" download="specdiff-drafter.zip" href=${weights}>Weights</a>
        `}</span></header>
      <${Facts} all=${originOf(answer).map(([name, value]) => [
        name,
        name === 'command' ? html`<code>${value}</code>` : value,
      ])} />
    </section>
  `;
}

/** The answer. @param {{app: Explore, answer: Answer}} props */
function Full({ app, answer }) {
  const { name, widget } = app;
  const { report, facts } = answer;
  const chosen = app.chosen[name] = settled(report, app.chosen[name] ?? {});
  const figures = (report.figures ?? []).filter((figure) => isShown(figure, chosen))
    .map((figure) => app.computed(figure));
  const stops = /** @type {Set<string>} */ (new Set());
  const aside = html`<div class="sd-exp-aside" key="aside">${widget?.view()}</div>`;
  const notes = [
    ...(report.notes ?? []).map((words) => html`<p>${glossed(words, stops)}</p>`),
    ...(facts.skipped ?? []).map((words) =>
      html`<p class="sd-sub">Left out: ${glossed(words, stops)}</p>`
    ),
  ];
  const keys = figures.map(({ key }) => key).join(' ');
  const part = answer.done < answer.total && `${answer.done} of ${answer.total}`;
  return html`
    <div class="sd-exp-notes">${report.answer &&
      html`
        <p class="sd-exp-answer">${part &&
          html`<span class="sd-sub">So far (${part} steps):${' '}</span>`}${glossed(
            report.answer.replace(VALUE, '\u00a0'),
            stops,
          )}</p>
      `}</div>
    <${Boards} app=${app} answer=${answer} chosen=${chosen} />
    ${name === FIRST && aside}
    <${Figures} key="${name} ${keys}" app=${app} figures=${figures} notes=${notes}
      lead=${report.boards?.length ? 0 : 1} aside=${name !== FIRST && aside}
      source="${app.shown.from} ${answer.origin?.date}" />
    <${Rows} app=${app} answer=${answer} /><${Origin} app=${app} answer=${answer} />
  `;
}

/** The available answers. @param {{app: Explore}} props */
function Sources({ app }) {
  const { name, stem, answers } = app;
  const { from: now, answer } = app.shown;
  const recorded = Object.entries(app.options.recorded[name]);
  const available = /** @type {[source: Source, file: string, words: string][]} */ ([
    ...recorded.map(([file, label]) => ['recorded', file, `Recorded: ${label}`]),
    ...(answers.live[name] ? [['live', stem, 'Measured here']] : []),
  ]);
  const pick = (i) => app.visit(() => app.showAnswer(available[i][0], available[i][1]));
  const at = available.findIndex(([source, file]) => source === now && file === stem);
  const { models = '', pair = 'embedded' } = answer?.choice ?? {};
  const model = models && !/^mdlm/.test(models) ? '' : app.options.pairs[pair]?.label ?? pair;
  const words = answer
    ? originWords(answer) + (model && ` Model: ${model}.`)
    : stem
    ? 'Loading the recorded answer…'
    : 'There is no recording yet. Press Measure here.';
  return html`<div class="sd-source">
    <span class="sd-chip" data-kind=${now === 'live' ? 'measured' : 'recording'}>${
    answer && CHIPS[now]
  }</span>
    <span class="sd-source-words">${words}</span>
    ${
    available.length > 1 && html`
      <${Select} class="sd-pick" label="Answer" value=${at}
        options=${available.map(([, , title], i) => [i, title])} act=${pick} />
    `
  }
  </div>`;
}

/** @param {{app: Explore}} props */
export function Explored({ app }) {
  const { answer, bar, name } = app;
  const { forms, crowded } = app.options;
  const runs = app.busy;
  const questions = Object.entries(forms).map(([key, { title, question }]) => ({
    words: title,
    title: question,
    pressed: key === name,
    act: () => key !== name && app.visit(() => app.showQuestion(key)),
  }));
  const opened = ({ target }) => target.open && app.press('pairs'); // loads pairs
  const form = html`
    <div class="sd-exp-buttons">
          <button type="button" class="sd-exp-run" disabled=${runs} onclick=${() =>
            app.press('run')}>Measure here (${app.about})</button>
          <button type="button" class="sd-exp-stop" hidden=${!runs} onclick=${() =>
            app.press('stop')}>Stop</button>
          <progress class="sd-exp-bar" aria-label="Progress" hidden=${!bar} ...${bar ?? {}} /></div>
    <details class="sd-exp-fields" key=${name} open=${!app.stem ||
      app.linked === name} ontoggleCapture=${opened}>
      <summary>Settings</summary>${app.form.view()}</details>
  `;
  return html`
    <div class="sd-cmp-legend sd-exp-questions" role="group" aria-label="Questions"
      hidden=${questions.length < 2}>${buttons(questions)}</div>
    <${ElementSlot} element=${app.card.element} />
    <section class="sd-panel sd-exp-ask" aria-label="What to measure">
      <header><h2>${forms[name].title}</h2></header>
      <p class="sd-exp-question">${glossed(forms[name].question)}</p><${RoomNotice} />
      ${form}</section>
    <${ElementSlot} element=${app.status.element} />
    <div class="sd-voice" aria-live="polite">${app.voice}</div>
    <${Sources} app=${app} />
    <p class="sd-busy-machine" role="status">${answer && busyMachine(answer, crowded)}</p>
    <div class="sd-cmp-full" hidden=${!answer}>${answer &&
      html`<${Full} app=${app} answer=${answer} />`}</div>
  `;
}
