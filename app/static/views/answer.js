// The answer to a question: its sentence, board, figures, all numbers, and where they come from.

import { Boards } from './board.js';
import { columnsOf, csvOf, originOf } from '../state/exploration.js';
import { Component, Facts, glossed, html, Link } from './ui.js';
import { download } from './dom.js';
import { Figures } from './figures.js';
import { FORMULAS } from '../state/formulas.js';
import { applies, settled } from './figure.js';
import { meaningOf } from './glossary.js';
/** @import { Answer as Result, Figure } from '../state/exploration.js' */
/** @import { Lane } from '../state/lane.js' */
/** @import { Part, Widget } from '../tabs.d.ts' */
/** @import { Source } from '../state/answers.js' */

const VALUE = /(?<=(?:^|[\s(])\p{L}) (?=[≤\d])/gu; // the space in “γ 4”, where no line breaks

/** A value, or a list of them, in the table. */
const cell = (value) =>
  [value].flat(Infinity).map((item) =>
    typeof item === 'number' && !Number.isInteger(item) ? Number(item.toPrecision(4)) : item
  ).join(' ');

/** The table of all rows, drawn only while unfolded, because an answer arrives every second.
 *  @param {{rows: Result['rows'], meanings: Record<string, string>, open: boolean,
 *  unfold: (open: boolean) => void}} props */
function Rows({ rows, meanings, open, unfold }) {
  const columns = columnsOf(rows);
  return html`
    <details class="sd-panel sd-answer-numbers" open=${open} data-hide="presenting"
      ontoggle=${({ currentTarget }) => unfold(currentTarget.open)}>
      <summary>All numbers</summary>
      <div class="sd-scroll" tabindex="0" role="region" aria-label="All numbers">${open &&
        html`
          <table class="sd-table">
            <thead>
              <tr>${columns.map((name) =>
                html`<th scope="col" title=${
                  meaningOf(meanings[name]) || meanings[name]
                }>${name}</th>`
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
 *  @param {string} name of the question @param {string} kind of the file */
function save(name, answer, charts, kind) {
  const filename = `specdiff-${name}-` + answer.provenance.date.slice(0, 16).replace(/[^0-9]/g, '');
  const csv = (rows, name) => download(csvOf(rows), 'text/csv', `${name}.csv`);
  if (kind === 'csv') return csv(answer.rows, filename);
  if (kind === 'prompts') return csv(answer.runs ?? [], `${filename}-prompts`);
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

/** The origin of the numbers, and downloads.
 *  @param {{answer: Result, weights: string, save: (kind: string) => void}} props */
function Origin({ answer, weights, save }) {
  /** @type {[kind: string, words: string][]} */
  const kinds = [['csv', 'CSV'], ['json', 'JSON'], ['png', 'PNG'], ['svg', 'SVG']];
  if (answer.runs?.length) kinds.splice(1, 0, ['prompts', 'CSV by prompt']);
  const saves = kinds.map(([kind, words]) => html`<${Link} act=${() => save(kind)}>${words}<//>`);
  return html`
    <section class="sd-panel sd-answer-origin" aria-label="Where these numbers come from"
      data-hide="presenting">
      <header><h2>Where these numbers come from</h2>
        <span class="sd-answer-saves">Download: ${saves}${weights && html`
          <a class="sd-link" download="specdiff-drafter.zip" href=${new URL(
            weights,
            document.baseURI,
          ).href}>Weights</a>
        `}</span></header>
      <${Facts} all=${originOf(answer).map(([name, value]) => [
        name,
        name === 'command'
          ? html`<details><summary>Show the command</summary><code>${value}</code></details>`
          : value,
      ])} />
    </section>
  `;
}

/**
 * @typedef {object} Shown the answer on the screen
 * @property {string} name of the question @property {Result} [answer] @property {Source} from
 * @property {Record<string, string>} columns their meanings @property {string} weights address of
 *  a trained drafter's @property {Part} only what a lesson shows
 *
 * @typedef {object} Races behind the answer
 * @property {boolean} there whether they can be opened, now or at its end: an export leaves some
 *  out, and a measurement that fails loses them @property {(race: string) => void} open
 * @property {Lane | null} lane that formulas replay @property {(race: string) => void} loadLane
 */
/** @typedef {{shown: Shown, races: Races, widget: Widget | null, plotly: string}} Props `plotly`:
 *  address of the library */
/** @typedef {object} State
 * @property {Record<string, Record<string, string>>} chosen by question: values of the switches
 * @property {Record<string, Record<string, number>>} sliders by figure
 * @property {boolean} more whether notes and further charts are unfolded, and @property {boolean}
 *  listed all numbers
 */

/** @extends {Component<Props, State>} */
export class Answer extends Component {
  /** @override */ state = { chosen: {}, sliders: {}, more: false, listed: false };

  /** @type {Figures | null} */
  figures = null;

  /** A figure, with its data computed if it has a formula. @param {Figure} figure */
  computed(figure) {
    const { shown: { answer }, races: { lane, loadLane } } = this.props;
    if (!answer || !figure.formula) return figure;
    const set = this.state.sliders[figure.key];
    const values = Object.fromEntries(
      (figure.sliders ?? []).map((
        { name, value, high },
      ) => [name, Math.min(high, set?.[name] ?? value)]),
    );
    if (figure.race && figure.formula === 'by_gamma') loadLane(figure.race);
    const slide = (slider, value) => this.set('sliders', figure.key, slider, value);
    return { ...figure, values, slide, ...FORMULAS[figure.formula](answer, figure, values, lane) };
  }

  /** @param {'chosen' | 'sliders'} which @param {string} key */
  set(which, key, name, value) {
    const { [which]: all } = this.state;
    this.setState({ [which]: { ...all, [key]: { ...all[key], [name]: value } } });
  }

  /** @param {Props} props @param {State} state @override */
  render({ shown, races, widget, plotly }, state) {
    const { name, answer, columns, weights, only } = shown;
    if (!answer) return null;
    const { report, facts } = answer;
    const chosen = settled(report, state.chosen[name] ?? {});
    const figures = (report.figures ?? []).filter((figure) => applies(figure, chosen))
      .map((figure) => this.computed(figure));
    const stops = /** @type {Set<string>} */ (new Set());
    const aside =
      html`<div class="sd-answer-aside" key="aside" data-hide="presenting">${widget?.view()}</div>`;
    const notes = [
      ...(report.notes ?? []).map((words) => html`<p>${glossed(words, stops)}</p>`),
      ...(facts.skipped ?? []).map((words) =>
        html`<p class="sd-sub">Left out: ${glossed(words, stops)}</p>`
      ),
    ];
    const keys = figures.map(({ key }) => key).join(' ');
    const part = answer.done < answer.total && `${answer.done} of ${answer.total}`;
    return html`
      <div class="sd-answer-notes" data-hide="presenting">${report.answer &&
        html`
          <p class="sd-answer-sentence">${part &&
            html`<span class="sd-sub">So far (${part} steps):${' '}</span>`}${glossed(
              report.answer.replace(VALUE, '\u00a0'),
              stops,
            )}</p>
        `}</div>
      <${Boards} report=${report} chosen=${chosen} only=${only} open=${races.there
        ? races.open
        : null}
        choose=${(key, value) => this.set('chosen', name, key, value)} />
      ${widget?.leads && aside}
      <${Figures} key="${name} ${keys}" ref=${(made) => this.figures = made} shown=${shown}
        figures=${figures} races=${races} widget=${widget} plotly=${plotly} folded=${{
          aside: !widget?.leads && aside,
          notes,
          open: state.more,
          unfold: (more) => this.setState({ more }),
        }} />
      <${Rows} rows=${answer.rows} meanings=${columns} open=${state.listed}
        unfold=${(listed) => this.setState({ listed })} />
      <${Origin} answer=${answer} weights=${weights}
        save=${(kind) => save(name, answer, this.figures?.charts, kind)} />
    `;
  }
}
