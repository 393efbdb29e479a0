// The position inspector: one position of a round pinned, with p and q as bars, its test, and what could have been.
// @ts-check

import { gloss } from './glossary.js';
import { again, inspected, residual, rules } from '../state/inspect.js';
import { cell, dash, exact, quoted, ratio, short } from '../state/format.js';
import { h, text } from './dom.js';
import { piece } from '../state/detokenize.js';
/** @import { Inspected } from '../state/inspect.js' */
/** @import { Lane, Window } from '../state/lane.js' */

const DRAWS = 100;
const OTHERS = 'all others';

export class InspectorView {
  /** @param {() => void} closed hears that it was closed */
  constructor(closed) {
    this.title = h('h3', {});
    this.bars = h('div', { class: 'sd-pq', role: 'table', 'aria-label': 'The likeliest tokens: p of the target, q of the drafter' });
    this.words = h('p', {});
    this.others = h('p', { class: 'sd-sub' });
    this.u = h('input', { type: 'range', min: 0, max: 1, step: 0.01, 'aria-label': 'u, the draw', oninput: () => this.whatIf() });
    this.then = h('span', { 'aria-live': 'polite' });
    this.draw = h('button', { type: 'button', class: 'sd-link', onclick: () => this.roll() }, `Draw ${DRAWS} times`);
    this.drawn = h('p', { class: 'sd-sub', 'aria-live': 'polite' });
    this.chance = h('div', { class: 'sd-whatif' }, h('b', {}, 'What if?'), h('label', {}, 'u ', this.u), this.then, this.draw);
    this.element = h('section', { class: 'sd-inspector', 'aria-label': 'One position', tabindex: '-1', hidden: true },
      h('header', {}, this.title, h('button', { type: 'button', class: 'sd-b', 'aria-label': 'Close', onclick: () => { this.hide(); closed(); } }, '✕')),
      this.bars, this.words, this.others, this.chance, this.drawn);
    this.element.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
      if (event.key !== 'Escape') return;
      this.hide();
      closed();
    });
    this.seed = 0;
    this.threshold = 0;
    /** @type {Inspected | null} */
    this.what = null;
    /** @type {Lane | null} */
    this.lane = null;
  }

  hide() {
    this.element.hidden = true;
    this.what = null;
  }

  /** @param {number | null} id */
  word(id) {
    return id === null || !this.lane ? OTHERS : quoted(piece(this.lane, id));
  }

  /** Pin a position. @param {Window} view @param {Lane} lane @param {number} position */
  show(view, lane, position) {
    const what = inspected(view, position);
    const greedy = lane.header?.config.temperature === 0;
    Object.assign(this, { what, lane });
    text(this.title, `Round ${what.round + 1}, position ${position + 1}${what.drafted === null ? '' : `: ${this.word(what.drafted)}`}`);
    const rest = greedy || what.certain ? null : residual(what.rows);
    this.bars.replaceChildren(
      h('div', { class: 'sd-pq-row sd-pq-head', role: 'row' }, ...['token', 'p, target', 'q, drafter', rest ? 'left of p' : ''].map((words) => h('span', { role: 'columnheader' }, words))),
      ...what.rows.map(({ id, p, q }, i) => h('div', { class: `sd-pq-row${id !== null && id === what.drafted ? ' sd-pq-drafted' : ''}`, role: 'row' },
        h('span', { role: 'rowheader', title: this.word(id) }, id === null ? OTHERS : cell(piece(lane, id))),
        bar('p', p, q), bar('q', q, p), h('span', { role: 'cell', class: 'sd-pq-rest' }, rest ? short(rest[i]) : ''))));
    this.say(what, greedy);
    this.drawn.textContent = '';
    this.element.hidden = false;
  }

  /** @param {Inspected} what @param {boolean} greedy */
  say(what, greedy) {
    const { test, extra, rows } = what;
    const row = rows.find(({ id }) => id !== null && id === what.drafted);
    this.chance.hidden = !test || greedy || !['ratio', 'delta'].includes(test.kind);
    if (!rows.length) {
      text(this.words, 'Nothing is recorded of this position yet: step on, or choose a round that is drawn whole.');
      text(this.others, '');
      return;
    }
    const instead = extra === null || !test || test.accepted ? '' : ` The target wrote ${this.word(extra)} instead.`;
    if (!test) text(this.words, 'It was not tested: an earlier token was refused, or the test is still to come.');
    else if (greedy) text(this.words, `${test.accepted ? '✓ Accepted' : '✕ Refused'}: at temperature 0 the target takes its likeliest token, and the draft is kept while it is the same.${instead}`);
    else text(this.words, `${test.accepted ? '✓ Accepted' : '✕ Refused'}: p = ${exact(test.p)}, q = ${exact(test.q)}, accepted with probability ${exact(test.threshold)}${test.draw === null ? '' : `; drawn u = ${exact(test.draw)}`}.${instead}`);
    gloss(this.words);
    this.threshold = test ? test.threshold : 0;
    const known = row && row.p !== null ? rules(row.p, what.certain ? 1 : row.q ?? 1) : null;
    text(this.others, greedy ? 'Shown are the probabilities at temperature 1, from which the target takes the largest. Every rule decides alike at temperature 0.'
      : known ? `Each rule would accept this token with: ratio ${ratio(known.ratio)}, delta ${ratio(known.delta)}, match ${ratio(known.match)} (if the shared noise says the same)${what.certain ? '. The draft is a point mass: q counts as 1, and shown is the drafter’s confidence' : ''}.` : '');
    if (test && test.draw !== null) this.u.value = String(test.draw);
    this.whatIf();
  }

  /** Another u. */
  whatIf() {
    const u = Number(this.u.value);
    text(this.then, ` ${u.toFixed(2)}: ${u < this.threshold ? 'accepted' : 'refused'} (below ${ratio(this.threshold)} it passes)`);
  }

  /** The same test with other draws: a simulation on the recorded numbers. */
  roll() {
    if (!this.what) return;
    this.seed += 1;
    const { accepted, counts } = again(this.what, this.threshold, DRAWS, this.seed);
    const others = this.what.rows.map((row, i) => [row, counts[i]]).filter(([row, count]) => count && /** @type {any} */ (row).id !== this.what?.drafted)
      .map(([row, count]) => `${this.word(/** @type {any} */ (row).id)} ${count}`).join(', ');
    text(this.drawn, `Simulated, not decoded: ${accepted} of ${DRAWS} draws accept it${others ? `; instead came ${others}` : ''}.`);
  }
}

/** A probability as a bar; the part that p and q share is solid. @param {'p' | 'q'} kind @param {number | null} value @param {number | null} other */
function bar(kind, value, other) {
  if (value === null) return h('span', { role: 'cell', class: 'sd-pq-none', title: 'not among the tokens that were recorded' }, dash);
  const both = Math.min(value, other ?? 0);
  return h('span', { role: 'cell', class: `sd-pq-bar sd-pq-${kind}` },
    h('i', { 'aria-hidden': 'true' }, h('u', { style: `width: ${(100 * value).toFixed(1)}%` }), h('b', { style: `width: ${(100 * both).toFixed(1)}%` })), h('span', {}, short(value)));
}
