// The position inspector: one position of a round pinned, with p and q as bars, its test, and what could have been.
// @ts-check

import { gloss } from './glossary.js';
import { again, inspected, residual, rules } from '../state/inspect.js';
import { cell, dash, exact, plural, quoted, ratio, short } from '../state/format.js';
import { h, text } from './dom.js';
import { isVanilla } from '../state/lane.js';
import { piece } from '../state/detokenize.js';
/** @import { Inspected, Place } from '../state/inspect.js' */
/** @import { Lane, Window } from '../state/lane.js' */

const DRAWS = 100;
const OTHERS = 'all others';
const SOURCES = /** @type {Record<string, string>} */ ({ residual: '↻', target: '↻', bonus: '+' }); // as the legend marks them

export class InspectorView {
  /** @param {() => void} closed hears that it was closed @param {(by: number) => void} [walk] shows the position before or after; without it there are no buttons for that */
  constructor(closed, walk) {
    this.title = h('h3', {});
    this.bars = h('div', { class: 'sd-pq', role: 'table', 'aria-label': 'The likeliest tokens: p of the target, q of the drafter' });
    this.words = h('p', {});
    this.others = h('p', { class: 'sd-sub' });
    this.u = h('input', { type: 'range', min: 0, max: 1, step: 0.01, 'aria-label': 'u, the draw', oninput: () => this.whatIf() });
    this.then = h('span', { 'aria-live': 'polite' });
    this.draw = h('button', { type: 'button', class: 'sd-link', onclick: () => this.roll() }, `Draw ${DRAWS} times`);
    this.drawn = h('p', { class: 'sd-sub', 'aria-live': 'polite' });
    this.slide = h('label', {}, 'u ', this.u);
    this.chance = h('div', { class: 'sd-whatif' }, h('b', {}, 'What if?'), this.slide, this.then, this.draw);
    const button = (/** @type {string} */ words, /** @type {string} */ glyph, /** @type {() => void} */ does) => h('button', { type: 'button', class: 'sd-b', 'aria-label': words, title: words, onclick: does }, glyph);
    this.element = h('section', { class: 'sd-inspector', 'aria-label': 'One position', tabindex: '-1', hidden: true },
      h('header', {}, this.title, ...(walk ? [button('The position before', '‹', () => walk(-1)), button('The position after', '›', () => walk(1))] : []), button('Close', '✕', () => { this.hide(); closed(); })),
      this.bars, this.words, this.others, this.chance, this.drawn);
    this.element.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === 'Escape') {
        this.hide();
        closed();
      } else if (by && walk && event.target !== this.u) {
        event.preventDefault();
        walk(by);
      }
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

  /** Pin a place. @param {Window} view @param {Lane} lane @param {Place} place @param {string} [who] whose it is, where several lanes are on the screen */
  show(view, lane, place, who = '') {
    const greedy = lane.header?.config.temperature === 0;
    const what = inspected(view, place, greedy);
    Object.assign(this, { what, lane });
    const alone = isVanilla(lane);
    const where = alone ? `${who ? 'p' : 'P'}ass ${what.round + 1} of the target` : `${who ? 'r' : 'R'}ound ${what.round + 1}, position ${what.position + 1}${what.node === null || typeof place === 'number' ? '' : `, node ${what.node + 1}`}`;
    text(this.title, `${who ? `${who}, ` : ''}${where}${what.drafted === null ? (what.extra === null ? '' : `: ${this.word(what.extra)}`) : `: ${this.word(what.drafted)}`}`);
    const rest = greedy || what.certain || what.tree || !what.options.length ? null : residual(what.rows);
    const mark = (/** @type {number | null} */ id) => (id === null || alone ? '' : id === what.extra ? `${SOURCES[what.source] ?? ''} ` : what.tree && what.options.includes(id) ? '└ ' : '');
    this.bars.replaceChildren(
      h('div', { class: 'sd-pq-row sd-pq-head', role: 'row' }, ...['token', 'p, target', 'q, drafter', rest ? 'left of p' : ''].map((words) => h('span', { role: 'columnheader' }, words))),
      ...what.rows.map(({ id, p, q }, i) => h('div', { class: `sd-pq-row${id !== null && id === what.drafted ? ' sd-pq-drafted' : ''}`, role: 'row' },
        h('span', { role: 'rowheader', title: `${this.word(id)}${id !== null && what.tree && what.options.includes(id) ? ', drafted here' : ''}` }, id === null ? OTHERS : `${mark(id)}${cell(piece(lane, id))}`),
        bar('p', p, q), bar('q', q, p), h('span', { role: 'cell', class: 'sd-pq-rest' }, rest ? short(rest[i]) : ''))));
    this.bars.hidden = !what.rows.length;
    this.say(what, greedy, Boolean(view.verified));
    this.drawn.textContent = '';
    this.element.hidden = false;
  }

  /** @param {Inspected} what @param {boolean} greedy @param {boolean} judged whether the verdict of the round is there */
  say(what, greedy, judged) {
    const { test, rows } = what;
    const row = rows.find(({ id }) => id !== null && id === what.drafted);
    const walks = test?.kind === 'tree';
    this.chance.hidden = !test || greedy || !['ratio', 'delta', 'tree'].includes(test.kind) || (walks && what.holds === 'none');
    this.slide.hidden = walks;
    this.threshold = test ? test.threshold : 0;
    if (!rows.length && !test && what.extra === null) {
      text(this.words, judged && what.tree ? 'It was not tested: the way that the target took ended before it.' : 'Nothing is recorded of this position yet: step on, or choose a round that is drawn whole.');
      text(this.others, '');
      return;
    }
    text(this.words, this.story(what, greedy, judged));
    gloss(this.words);
    const known = row && row.p !== null && !walks && (test || !what.tree) ? rules(row.p, what.certain ? 1 : row.q ?? 1) : null;
    const softmax = what.holds === 'all' ? 'Shown are the probabilities at temperature 1, from which the target takes the largest. Every rule decides alike at temperature 0.' : '';
    const odds = known ? `Each rule would accept this token with: ratio ${ratio(known.ratio)}, delta ${ratio(known.delta)}, match ${ratio(known.match)} (if the shared noise says the same)${what.certain ? '. The draft is a point mass: q counts as 1, and shown is the drafter’s confidence' : ''}.` : '';
    text(this.others, [greedy ? softmax : odds, judged ? missing(what, greedy) : ''].filter(Boolean).join(' '));
    if (test && test.draw !== null) this.u.value = String(test.draw);
    this.whatIf();
  }

  /** What happened here, in a sentence or two. @param {Inspected} what @param {boolean} greedy @param {boolean} judged */
  story({ test, extra, source, tree, options, drafted, reached, rows }, greedy, judged) {
    if (!test) {
      const p = rows.find(({ id }) => id === extra)?.p ?? null;
      if (extra !== null) return `The target wrote ${this.word(extra)}${p === null ? '' : `, p = ${exact(p)}`}: ${source === 'bonus' && !options.length ? 'nothing was drafted here, so the token is its own' : 'it is the target’s own token'}.`;
      if (tree && judged) return reached ? 'It was not tested: another draft was chosen, or accepted here before it.' : 'It was not tested: the way that the target took does not come here.';
      return 'It was not tested: an earlier token was refused, or the test is still to come.';
    }
    if (test.kind === 'tree') {
      const wanted = this.word(test.wanted);
      const other = test.accepted && drafted !== null && drafted !== test.wanted ? `, not ${this.word(drafted)}` : '';
      const one = options.length === 1;
      const then = test.accepted ? 'it is drafted here, so the walk goes on behind it' : `${one ? 'another is drafted here' : 'none of the tokens drafted here is that one'}, so the walk ends and the target writes it`;
      const verdict = test.accepted && !other ? '✓ Accepted' : '✕ Refused';
      if (greedy) return `${verdict}: at temperature 0 the target takes its likeliest token, ${wanted}${other}; ${then}.`;
      return `${verdict}: the ${one ? 'token' : plural(options.length, 'token')} drafted here ${one ? 'has' : 'have together'} p = ${exact(test.threshold)}. The target drew ${wanted}${other}; ${then}.`;
    }
    const instead = extra === null || test.accepted ? '' : ` The target wrote ${this.word(extra)} instead.`;
    const verdict = test.accepted ? '✓ Accepted' : '✕ Refused';
    if (greedy) return `${verdict}: at temperature 0 the target takes its likeliest token, and the draft is kept while it is the same.${instead}`;
    if (test.kind === 'match') return `${verdict}: p = ${exact(test.p)}; with the same noise as vanilla the target draws ${this.word(test.wanted)}.${instead}`;
    return `${verdict}: p = ${exact(test.p)}, q = ${exact(test.q)}, accepted with probability ${exact(test.threshold)}${test.draw === null ? '' : `; drawn u = ${exact(test.draw)}`}.${instead}`;
  }

  /** Another u. */
  whatIf() {
    const u = Number(this.u.value);
    text(this.then, this.slide.hidden ? '' : ` ${u.toFixed(2)}: ${u < this.threshold ? 'accepted' : 'refused'} (below ${ratio(this.threshold)} it passes)`);
  }

  /** The same test with other draws: a simulation on the recorded numbers. */
  roll() {
    const { what } = this;
    if (!what) return;
    this.seed += 1;
    const { accepted, counts } = again(what, this.threshold, DRAWS, this.seed);
    const walks = what.test?.kind === 'tree';
    const came = what.rows.map((row, i) => /** @type {[number | null, number]} */ ([row.id, counts[i]])).filter(([id, count]) => count && (walks || id !== what.drafted))
      .map(([id, count]) => `${this.word(id)} ${count}`).join(', ');
    text(this.drawn, `Simulated, not decoded: ${accepted} of ${DRAWS} draws ${walks ? 'go on in the tree' : 'accept it'}${came ? `; ${walks ? '' : 'instead '}came ${came}` : ''}.`);
  }
}

/** What the trace does not hold of a place, where one would look for it. @param {Inspected} what @param {boolean} greedy */
function missing({ tree, holds, rows, options, reached, test }, greedy) {
  if (!tree || !options.length) return holds === 'none' && (reached || test) && rows.length ? 'This trace holds no p of the target’s likeliest tokens here.' : '';
  const q = rows.some((row) => row.id !== null && row.q !== null) ? '' : ', and no q of the drafter';
  if (holds === 'all') return q && 'This trace holds no q of the nodes of its trees.';
  return holds === 'drafted' ? `This trace holds p of the drafted tokens only${q}.` : `This trace holds no p of the nodes of its trees${greedy ? ' at temperature 0' : ''}${q}: only which token the target wanted.`;
}

/** A probability as a bar; the part that p and q share is solid. @param {'p' | 'q'} kind @param {number | null} value @param {number | null} other */
function bar(kind, value, other) {
  if (value === null) return h('span', { role: 'cell', class: 'sd-pq-none', title: 'not among the tokens that were recorded' }, dash);
  const both = Math.min(value, other ?? 0);
  return h('span', { role: 'cell', class: `sd-pq-bar sd-pq-${kind}` },
    h('i', { 'aria-hidden': 'true' }, h('u', { style: `width: ${(100 * value).toFixed(1)}%` }), h('b', { style: `width: ${(100 * both).toFixed(1)}%` })), h('span', {}, short(value)));
}
