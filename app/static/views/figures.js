// The figures of an answer: charts whose marks open races, with sliders where a formula draws them.

import { cell as inCell } from '../state/format.js';
import { Charts } from './charts.js';
import { Component, glossed, html, Link, Slider } from './ui.js';
import { racesOf } from '../state/exploration.js';
/** @import { Answer, Figure } from '../state/exploration.js' */
/** @import { Part, Widget } from '../tabs.d.ts' */

const WITHOUT = 'The chart library could not be loaded; the table below is complete without it.';

/** The sliders of a figure with a formula, its chart, and what it says at their values.
 *  @param {{figure: any, slide: (key: string, name: string, value: number) => void,
 *  children: unknown}} props */
function Computed({ figure: { key, sliders, values, words, block }, slide, children }) {
  return html`
    <div class="sd-exp-computed">${sliders.map(({ name, label, title, low, high, step }) =>
      html`
        <${Slider} ...${{ label, title, min: low, max: high, step, value: values[name] }}
          act=${(value) => slide(key, name, value)} />
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

/** The races of a cell, in place of its figure.
 *  @param {{title: string, races: [name: string, prompt: string][], back: () => void,
 *  openRace: (race: string) => void}} props */
const Races = ({ title, races, back, openRace }) =>
  html`
    <section class="sd-panel sd-exp-races" aria-label="Races of this cell">
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

/**
 * @typedef {object} Props
 * @property {Answer} answer @property {string} source of it; with another the charts begin anew
 * @property {Figure[]} figures that the switches choose @property {number} lead how many of them
 *  come first @property {unknown} aside below them @property {unknown[]} notes
 * @property {Widget | null} widget @property {Part} only the part that a lesson shows
 * @property {boolean} hasRaces @property {(race: string) => void} openRace
 * @property {(key: string, name: string, value: number) => void} slide sets a figure's slider
 * @property {boolean} more whether notes and further charts are unfolded
 * @property {(more: boolean) => void} unfold
 * @property {string} plotly @property {(charts: Charts) => void} made called with the charts
 */

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
    this.props.made(this.charts);
    this.componentDidUpdate();
  }

  /** Open the race of a mark, list those of a cell, or show it in the widget. */
  clicked(place, { points: [{ customdata, data }] }) {
    const { answer, openRace, source, widget } = this.props;
    const race = customdata?.[0];
    if (!race) return;
    const races = racesOf(answer, race).length;
    if (widget?.pick) widget.pick(race);
    else if (races > 1 || (races && data?.type === 'heatmap')) {
      this.setState({ race, figure: place.dataset.figure, source });
    } else openRace(race);
  }

  /** @param {{source: string}} [before] @override */
  componentDidUpdate(before) {
    const { figures, only, source, widget } = this.props;
    if (before && before.source !== source) this.charts?.blank(''); // drawing may take a while
    const { panel, lines } = only ?? {};
    this.charts?.offer((key) => {
      const { data, ...figure } = /** @type {Figure} */ (figures.find((one) => one.key === key));
      const traces = key === panel ? data?.filter(({ name }) => lines?.includes(name)) : [];
      return { ...figure, data: traces?.length ? traces : data, added: widget?.adds?.(key) };
    });
  }

  /** @param {Props} props @override */
  render(props, { race, figure: of, source }) {
    const { answer, figures, lead, aside, notes, widget, hasRaces, slide, more } = props;
    const stops = /** @type {Set<string>} */ (new Set());
    const listed = race && source === props.source;
    const leads = figures.filter(({ key, formula }, i) =>
      i < lead || formula || key === widget?.figure
    );
    const others = figures.filter((figure) => !leads.includes(figure));
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
          hidden=${listed && of === key}>
          <header><h2>${glossed(title, stops)}</h2><span
            class="sd-sub">${glossed(
              [hint, hasRaces && opens].filter(Boolean).join('; '),
              stops,
            )}</span></header>
          ${formula ? html`<${Computed} figure=${figure} slide=${slide}>${chart}<//>` : chart}
        </section>
      `;
    };
    return html`
      <div class="sd-exp-figures">
        ${listed && html`
          <${Races} title=${answer.report.titles?.[race] ?? race} races=${racesOf(answer, race)}
            back=${() => this.setState({ race: '' })} openRace=${props.openRace} />
        `}
        <div class="sd-cmp-charts">${leads.map(panel)}</div>
        ${aside}
        <details class="sd-exp-rest" open=${more}
          ontoggle=${({ currentTarget }) => props.unfold(currentTarget.open)}
          hidden=${!notes.length && !others.length}>
          <summary>Notes and more charts</summary>
          <div class="sd-exp-notes">${notes}</div>
          <div class="sd-cmp-charts">${others.map(panel)}</div>
        </details>
      </div>
    `;
  }
}
