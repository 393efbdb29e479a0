// The figures of an answer: charts whose marks open races, with sliders where a formula draws them.

import { cell as inCell } from '../state/format.js';
import { Charts } from './charts.js';
import { Component, glossed, html, Link, Slider } from './ui.js';
import { racesOf } from '../state/exploration.js';
/** @import { Answer, Figure } from '../state/exploration.js' */
/** @import { Races as RacesOf, Shown } from './answer.js' */
/** @import { Widget } from '../tabs.d.ts' */

const WITHOUT = 'The chart library could not be loaded; the table below is complete without it.';

/** The sliders of a figure with a formula, its chart, and what it says at their values.
 *  @param {{figure: any, children: unknown}} props */
function Computed({ figure: { sliders, values, slide, words, block }, children }) {
  return html`
    <div class="sd-figures-computed">${sliders.map(({ name, label, title, low, high, step }) =>
      html`
        <${Slider} ...${{ label, title, min: low, max: high, step, value: values[name] }}
          act=${(value) => slide(name, value)} />
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
    <div class="sd-figures-after" data-hide="presenting">${words.slice(1).map((sentence) =>
      html`<p>${sentence}</p>`
    )}</div>
  `;
}

/** The races of a cell, in place of its figure.
 *  @param {{title: string, races: [name: string, prompt: string][], back: () => void,
 *  openRace: (race: string) => void}} props */
const Races = ({ title, races, back, openRace }) =>
  html`
    <section class="sd-panel sd-figures-races" aria-label="Races of this cell">
      <header>
        <h2>${title}</h2>
        <${Link} act=${back}>← Back to the chart<//></header>
      <ul>${races.map(([name, prompt]) =>
        html`
          <li>
            <${Link} act=${() => openRace(name)}>Race on ${prompt}<//></li>
        `
      )}</ul>
    </section>
  `;

/** Of an answer; with another the charts begin anew. @param {Shown} shown */
const sourceOf = ({ from, answer }) => `${from} ${answer?.provenance?.date}`;

/** @typedef {{aside: unknown, notes: unknown[], open: boolean, unfold: (open: boolean) => void}}
 *  Folded `aside`: stands before what is folded: notes and further charts
 *  @typedef {{shown: Shown & {answer: Answer}, figures: Figure[], races: RacesOf,
 *  widget: Widget | null, plotly: string, folded: Folded}} Props `figures`: that the switches choose */

/** First the leading figures, then notes and the others, folded. A different choice is a new
 *  component (`key`). @extends {Component<Props, {race: string, figure: string, source: string}>} */
export class Figures extends Component {
  /** The mark whose races are listed, and its figure. @override */
  state = { race: '', figure: '', source: '' };

  /** @override */ componentDidMount() {
    this.charts = new Charts(this.base.querySelectorAll('.sd-plot'), {
      plotly: this.props.plotly,
      without: WITHOUT,
      share: 0,
      made: (/** @type {any} */ place) =>
        place.on('plotly_click', (event) => this.clicked(place, event)),
    });
    this.componentDidUpdate();
  }

  /** Open the race of a mark, list those of a cell, or show it in the widget. */
  clicked(place, { points: [{ customdata, data }] }) {
    const { shown, races: { open }, widget } = this.props;
    const race = customdata?.[0];
    if (!race) return;
    const races = racesOf(shown.answer, race).length;
    if (widget?.pick) widget.pick(race);
    else if (races > 1 || (races && data?.type === 'heatmap')) {
      this.setState({ race, figure: place.dataset.figure, source: sourceOf(shown) });
    } else open(race);
  }

  /** @param {Props} [before] @override */
  componentDidUpdate(before) {
    const { figures, shown, widget } = this.props;
    if (before && sourceOf(before.shown) !== sourceOf(shown)) this.charts?.blank(''); // drawing may take a while
    const { panel, lines } = shown.only ?? {};
    this.charts?.offer((key) => {
      const { data, ...figure } = /** @type {Figure} */ (figures.find((one) => one.key === key));
      const traces = key === panel ? data?.filter(({ name }) => lines?.includes(name)) : [];
      return { ...figure, data: traces?.length ? traces : data, added: widget?.adds?.(key) };
    });
  }

  /** @param {Props} props @override */
  render(props, { race, figure: of, source }) {
    const { shown, shown: { answer }, figures, races, widget, folded: { aside, notes } } = props;
    const stops = /** @type {Set<string>} */ (new Set());
    const listed = race && source === sourceOf(shown);
    const lead = answer.report.boards?.length ? 0 : 1; // how many come first
    const leads = figures.filter(({ key, formula }, i) =>
      i < lead || formula || key === widget?.figure
    );
    const others = figures.filter((figure) => !leads.includes(figure));
    const panel = (/** @type {Figure} */ figure) => {
      const { key, title, hint, opens, formula } = figure;
      const shape = figure.wide
        ? 'sd-figures-wide'
        : leads.includes(figure)
        ? 'sd-figures-lead'
        : '';
      const data = /** @type {any[]} */ (figure.data ?? []);
      const map = data.find(({ type }) => type === 'heatmap');
      const columns = map?.x ?? (Array.isArray(data[0]?.x?.[0]) ? data[0].x[0] : []); // or bars
      const named = data.filter(({ name, showlegend = true }) => name && showlegend).length;
      const chart = html`
        <div class="sd-figures-scroll" role="group" aria-label="Chart: ${title}"
          tabindex=${figure.wide && columns.length ? 0 : null}>
          <div class="sd-plot" data-figure=${key}></div>
        </div>
      `;
      const style = `--least: ${columns.length && 64 + 52 * columns.length}px; --named: ${named}`;
      return html`
        <section class="sd-panel sd-chart ${shape}" style=${style} aria-label=${title}
          hidden=${listed && of === key} data-hide="presenting">
          <header><h2>${glossed(title, stops)}</h2><span
            class="sd-sub">${glossed(
              [hint, races.there && opens].filter(Boolean).join('; '),
              stops,
            )}</span></header>
          ${formula ? html`<${Computed} figure=${figure}>${chart}<//>` : chart}
        </section>
      `;
    };
    return html`
      <div class="sd-figures">
        ${listed && html`
          <${Races} title=${answer.report.titles?.[race] ?? race} races=${racesOf(answer, race)}
            back=${() => this.setState({ race: '' })} openRace=${races.open} />
        `}
        <div class="sd-figures-charts">${leads.map(panel)}</div>
        ${aside}
        <details class="sd-figures-rest" open=${props.folded.open}
          ontoggle=${({ currentTarget }) => props.folded.unfold(currentTarget.open)}
          hidden=${!notes.length && !others.length}>
          <summary>Notes and more charts</summary>
          <div class="sd-answer-notes" data-hide="presenting">${notes}</div>
          <div class="sd-figures-charts">${others.map(panel)}</div>
        </details>
      </div>
    `;
  }
}
