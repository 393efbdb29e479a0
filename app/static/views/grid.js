// The draft window as a table: rows are denoising steps, columns are positions; below them the
// acceptance tests. DOM, no canvas, so that every number can be hovered and read aloud.

import { classes, html, View } from './ui.js';
import { gridOf, MOST_ROWS, mostRows, placeAt } from '../state/grid.js';
import { EXTRA, verdictsOf } from '../state/verdicts.js';
import { cell } from '../state/format.js';
import { isGreedy } from '../state/lane.js';
import { piece } from '../state/detokenize.js';
import { towards } from './keys.js';
/** @import { Study } from '../study.js' */
/** @import { Lane } from '../state/lane.js' */
/** @import { PartialRound } from '../state/progress.js' */
/** @import { Cell } from '../state/grid.js' */
/** @import { Verdict } from '../state/verdicts.js' */

const ACCEPT =
  'One test per drafted token. The bar is the acceptance probability, the line is the draw u. ' +
  'A line inside the bar accepts the token.';
const AGREE =
  'One test per drafted token. At temperature 0 the target has one token at each position: a ' +
  'drafted token is accepted if it is the same.';

/** One acceptance test.
 *  @param {{verdict: Verdict, outcome: boolean, pinned: boolean, attributes: object}} props
 *  `outcome`: the target’s own token */
const Test = ({ verdict, outcome, pinned, attributes }) => {
  const { kind, title, mark = '', words = '', height = 0, draw = null, figures = '' } = verdict;
  const names = classes(
    `sd-test sd-test-${kind}`,
    outcome && 'sd-grid-outcome',
    pinned && 'sd-pinned',
  );
  return html`
    <div class=${names} role="cell" title=${title} ...${attributes}>
        <span class="sd-test-track" aria-hidden="true">
          <i class="sd-test-fill" style="transform: scaleY(${height})"></i>
          ${draw !== null &&
            html`<u class="sd-test-tick" style="bottom: ${(100 * draw).toFixed(2)}%"></u>`}</span>
        <span class="sd-test-verdict"><span class="sd-test-glyph">${mark}</span>
          <span class="sd-grid-word">${words}</span></span>
        <span class="sd-test-probs">${figures}</span></div>
  `;
};

/** The table of a round.
 *  @extends {View<{lane: Lane, round: PartialRound, moment: string, all: boolean, pinned: string,
 *  pin: Study['pin']}, {stop: string}>} */
export class Grid extends View {
  /** @override */ state = { stop: '' }; // the cell at which the Tab key stops

  /** @override */ keys = ['moment', 'all', 'pinned', 'lane'];

  /** If there is no room for all positions, scroll to the one where something happens. @override */
  drawn() {
    const { base, props: { round } } = this;
    base.dataset.narrow = String(base.scrollWidth > base.clientWidth + 1);
    if (base.dataset.narrow === 'false') return;
    const revealed = round.tree ? [] : round.passes.at(-1)?.revealed ?? [];
    const position = round.judged < Infinity
      ? round.judged
      : round.verified
      ? round.verified.accepted
      : revealed.length
      ? Math.min(...revealed)
      : 0;
    const tests = /** @type {NodeListOf<HTMLElement>} */ (base.querySelectorAll('.sd-test'));
    const target = tests[Math.max(0, Math.min(position, tests.length - 2))];
    base.scrollLeft = Math.max(0, target.offsetLeft - base.clientWidth * 0.6);
  }

  /** The cells that the arrow keys move between: a tree's nodes, and below them the tests. */
  get stops() {
    const rows = [...this.base.querySelectorAll('.sd-steps .sd-grid-row, .sd-grid-tests')].map((
      row,
    ) =>
      /** @type {HTMLElement[]} */ ([...row.querySelectorAll('.sd-cell, .sd-test')]).map((
        element,
      ) => element.dataset.stop ? element : null)
    );
    return rows.filter((row) => row.some(Boolean));
  }

  /** @param {EventTarget | null} target a cell of the table */
  choose(target) {
    const found = target instanceof Element ? target.closest('.sd-cell, .sd-test') : null;
    if (!(found instanceof HTMLElement)) return;
    const { round, lane, pin } = this.props;
    const [kind, number] = [found.dataset.stop?.[0] ?? '', Number(found.dataset.stop?.slice(1))];
    const place = kind === 'n'
      ? { node: number }
      : kind === 't'
      ? placeAt(round, number)
      : round.tree
      ? null
      : Number(found.dataset.position);
    if (place === null) return;
    this.setState({ stop: found.dataset.stop || `t${place}` });
    pin(lane, round, place);
  }

  keyed(event) {
    const { stops } = this;
    const focused = stops.flat().find((stop) => stop !== null && stop === event.target) ?? null;
    const to = focused && towards(stops, focused, event.key);
    if (focused && event.key === 'Enter') this.choose(focused);
    else if (!to) return;
    else {
      to.focus();
      this.setState({ stop: to.dataset.stop ?? '' });
    }
    event.preventDefault();
  }

  /** @param {Grid['props']} props @param {{stop: string}} state @override */
  render({ lane, round, all, pinned }, { stop }) {
    const { size } = round;
    const greedy = isGreedy(lane);
    const rows = gridOf(round, lane, all ? Infinity : MOST_ROWS);
    const verdicts = verdictsOf(round, lane);
    const nodes = rows.flatMap(({ cells }) =>
      cells.flatMap(({ node }) => node === undefined ? [] : [`n${node}`])
    );
    const stops = [...nodes, ...verdicts.map((_, i) => `t${i}`)];
    const tabStop = stops.includes(stop) ? stop : stops[0];
    const anchor = piece(lane, round.anchor);
    const at = (name) => ({ 'data-stop': name, tabindex: name === tabStop ? 0 : -1 });
    const step = (/** @type {Cell} */ { kind, words, title, heat = 0, node }, i) => {
      const attributes = node === undefined ? {} : at(`n${node}`);
      return html`
        <div class=${classes('sd-cell', kind, pinned === `n${node}` && 'sd-pinned')} role="cell"
          title=${title} data-heat=${heat} data-position=${i} ...${attributes}>${words}</div>
      `;
    };
    const test = (verdict, i) => {
      const [outcome, attributes] = [i === size, at(`t${i}`)];
      return html`<${Test} ...${{ verdict, outcome, pinned: pinned === `t${i}`, attributes }} />`;
    };
    const spoken = `anchor: the last committed token, ${JSON.stringify(anchor)}`;
    const [asks, how] = greedy ? ['agree?', AGREE] : ['accept?', ACCEPT];
    const tall = String(rows.length > MOST_ROWS);
    const style = { '--columns': size, '--rows': all ? 0 : Math.min(mostRows(lane), MOST_ROWS) };
    return html`
      <div class="sd-grid-scroll" data-tall=${tall} tabindex="0" role="region"
        aria-label="Draft window, scrollable">
        <div class="sd-grid" role="table"
          aria-label="Denoising steps by position, then the acceptance tests" style=${style}
          onclick=${(event) => this.choose(event.target)} onkeydown=${(event) => this.keyed(event)}>
          <div class="sd-grid-row sd-grid-head" role="row">
                <div class="sd-grid-label" role="columnheader">anchor</div>
                <div class="sd-grid-anchor" role="cell" title=${spoken}>${cell(anchor)}</div>
                ${verdicts.map((_, i) =>
                  i < size
                    ? html`<div class="sd-grid-column" role="columnheader">${i + 1}</div>`
                    : html`
                      <div class="sd-grid-column sd-grid-outcome" role="columnheader" title=${EXTRA}>extra</div>
                    `
                )}
              </div>
          <div class="sd-steps" role="rowgroup">${rows.map(({ label, title, chosen, cells }) =>
            html`
              <div class="sd-grid-row" role="row">
                <div class=${classes('sd-grid-label', chosen && 'sd-grid-chosen')} role="rowheader"
                  title=${title}>${label}</div><div class="sd-grid-blank" role="cell"></div>
                ${cells.map(step)}
                <div class="sd-grid-blank sd-grid-outcome" role="cell"></div></div>
            `
          )}</div>
          <div class="sd-grid-row sd-grid-tests" role="row">
            <div class="sd-grid-label" role="rowheader" title=${how}>${asks}</div>
            <div class="sd-grid-blank" role="cell"></div>${verdicts.map(test)}</div>
        </div>
      </div>
    `;
  }
}
