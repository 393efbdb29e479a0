// The leaderboard of the Compare tab: a table whose bars open races.
// @ts-nocheck: it reads no event

import { axisEnd, degrees, exactness, intervalWords, leaderboard, megabytes, raceOf } from '../state/comparison.js';
import { h } from './dom.js';
import { means } from './glossary.js';
import { ratio } from '../state/format.js';

const COLUMNS = [ // head, meaning, the head where room is short, and symbols that the glossary explains
  ['Method', 'A drafter and how it is used, with its fastest settings.', '', ['γ', 'T', 'B', 'K']],
  ['Speed-up over vanilla', 'Vanilla’s decode seconds per token over the method’s, on the same prompts in the same sweep, prefill included. The whisker is a 95 % bootstrap interval over prompts; “Mean” is over flavours. A bar opens the recorded race behind it.'],
  ['τ', '', '', ['τ']],
  ['drafter passes per round', 'Passes of the drafter (NFE) per round, over all flavours.', 'draft / round'],
  ['target passes per 100 tokens', 'Passes of the target for 100 new tokens. Vanilla needs 100.', 'target / 100 tokens'],
  ['peak memory', 'Peak memory. On a CPU: the largest resident set of the whole process so far, all models loaded, so rows measured later cannot show less.', 'memory'],
  ['exactness', 'What the verification rule claims, and, where texts can be compared, in how many prompts the text was vanilla’s, token for token.'],
];

/** What a column means, and the symbols that its cells use. */
const meaningOf = ([, meaning, , used = []]) => [meaning, ...used.map(means)].join(' ').trim();

/** A mark as it stands before a name; the colour repeats what the glyph says. */
export function glyph(mark) {
  return h('span', { class: 'sd-cmp-glyph', style: `--mark: var(--sd-${mark.role})`, 'aria-hidden': 'true' }, mark.glyph);
}

export class Board {
  /** @param {(found: object) => void} open is given what raceOf found */
  constructor(open) {
    this.open = open;
    this.body = h('tbody');
    const heads = COLUMNS.map((column) => h('th', { scope: 'col', title: meaningOf(column) }, column[0]));
    this.element = h('table', { class: 'sd-cmp-table' }, h('caption', { class: 'sd-voice' }, 'Methods by speed-up, fastest first'), h('thead', {}, h('tr', {}, ...heads)), this.body);
  }

  /** `doubts`: keys of cells whose speed-ups are struck out. */
  draw(table, flavour, marks, doubts) {
    const rows = leaderboard(table, flavour);
    const end = axisEnd(rows);
    this.body.replaceChildren(...rows.map((row) => this.row(row, table, flavour, marks.get(row.cell.group), end, doubts.has(row.cell.key))));
  }

  row(row, table, flavour, mark, end, doubt) {
    const { cell } = row;
    const [claim, why] = exactness(table, cell);
    const data = (index, words, title = meaningOf(COLUMNS[index])) => h('td', { 'data-is': COLUMNS[index][2] || COLUMNS[index][0], title }, words);
    return h('tr', { class: cell.drafter === 'none' ? 'sd-cmp-baseline' : '', 'data-busy': doubt ? 'true' : null },
      h('th', { scope: 'row' }, h('div', { class: 'sd-cmp-who' }, glyph(mark), h('span', { class: 'sd-cmp-name' }, h('b', {}, cell.label), h('span', { class: 'sd-sub' }, cell.words || 'baseline')))),
      h('td', { class: 'sd-cmp-speed' }, this.bar(row, table, flavour, mark, end)),
      data(2, ratio(row.tau)), data(3, ratio(row.drafterPasses)), data(4, ratio(row.passes, 1)), data(5, megabytes(cell.peak_bytes)), data(6, claim, why));
  }

  bar(row, table, flavour, mark, end) {
    const { cell } = row;
    const share = (value) => `${((100 * Math.max(0, value)) / end).toFixed(3)}%`;
    const fill = h('span', { class: 'sd-cmp-fill', style: `--mark: var(--sd-${mark.role})`, 'data-pattern': mark.pattern || 'plain' });
    fill.style.width = share(row.value);
    const one = h('span', { class: 'sd-cmp-one' });
    one.style.left = share(1);
    const parts = [fill, one];
    if (row.low !== null && row.low !== undefined) {
      const whisker = h('span', { class: 'sd-cmp-whisker' });
      whisker.style.left = share(row.low);
      whisker.style.width = share(row.high - row.low);
      parts.push(whisker);
    }
    const found = raceOf(table, cell, flavour);
    const numbers = `${ratio(row.value)}×, ${intervalWords(row, cell)}`;
    const action = found ? `Open the recorded race: ${found.flavour}, temperature ${degrees(table.temperature)}.` : 'No race was recorded for this bar.';
    return h('button', { type: 'button', class: 'sd-cmp-bar', disabled: !found, 'data-key': cell.key, title: `${numbers}. ${action}`, 'aria-label': `${cell.label}: speed-up ${numbers}. ${action}`, onclick: () => this.open(found) },
      h('span', { class: 'sd-cmp-track', 'aria-hidden': 'true' }, ...parts),
      h('span', { class: 'sd-cmp-value' }, h('b', {}, `${ratio(row.value)}×`), h('span', { class: 'sd-sub' }, row.low === null || row.low === undefined ? '' : `${ratio(row.low)}–${ratio(row.high)}`)));
  }
}
