// The draft window: rows are denoising steps, columns are positions; below them the acceptance tests. DOM, no canvas,
// so that every number can be hovered and read aloud.
// @ts-check

import { attribute, h, text } from './dom.js';
import { decisive, linesShown } from '../state/lane.js';
import { piece } from '../state/detokenize.js';
import { cell, decisionWords, exact, milliseconds, short, testFigures, testWords } from '../state/format.js';

/** @typedef {import('../state/lane.js').Lane} Lane */
/** @typedef {import('../state/lane.js').Window} Window */
/** @typedef {import('../state/lane.js').Tree} Tree */
/** @typedef {'draft' | 'score' | 'verify' | 'commit'} Phase */

/** @type {[Phase, string, string][]} */
const PHASES = [
  ['draft', 'Draft', 'The drafter fills the window of masks, one pass of its network per denoising step. Milliseconds on the decode clock.'],
  ['score', 'Score', 'One pass of the target reads the anchor and all drafted tokens. Milliseconds on the decode clock.'],
  ['verify', 'Verify', 'The acceptance tests, from left to right, and the target’s own token. Milliseconds on the decode clock.'],
  ['commit', 'Commit', 'Accepted tokens and the target’s own become part of the text; what came after the first refusal is forgotten.'],
];
const MOST_ROWS = 8; // denoising steps or branches, until somebody asks for all
const ACCEPT = 'One test per drafted token: bar, the probability to accept it; line, the draw u. Below the bar it passes.';
const AGREE = 'One test per drafted token. At temperature 0 the target has one token at each position: the draft is kept while it is the same.';
const EXTRA = 'The token that the target itself adds: a correction after a refusal, a bonus after a full window.';

export class WindowView {
  constructor() {
    this.round = h('span', { class: 'sd-sub' });
    this.phases = Object.fromEntries(PHASES.map(([key]) => [key, h('span', { class: 'sd-phase-time' })]));
    this.pills = Object.fromEntries(PHASES.map(([key, name, title], i) =>
      [key, h('li', { class: 'sd-phase', title }, h('b', {}, String(i + 1)), ` ${name} `, this.phases[key])]));
    this.table = h('div', { class: 'sd-grid', role: 'table', 'aria-label': 'Denoising steps by position, then the acceptance tests' });
    this.scroll = h('div', { class: 'sd-gridwrap', tabindex: '0', role: 'region', 'aria-label': 'Draft window, scrollable' }, this.table);
    this.say = h('p', { class: 'sd-say' });
    this.all = false; // whether every row is drawn
    this.more = h('button', { type: 'button', class: 'sd-link sd-lines', 'aria-expanded': 'false', hidden: true, onclick: () => this.expand() });
    this.note = h('span', { class: 'sd-fallback' });
    this.rounds = h('div', { class: 'sd-rounds', role: 'group', 'aria-label': 'Rounds: accepted tokens, click to jump' });
    this.element = h('section', { class: 'sd-panel sd-window', 'aria-label': 'Draft window' },
      h('header', {}, h('h2', {}, 'Draft window'), this.round,
        h('ol', { class: 'sd-phases', 'aria-label': 'Phases of a round' }, ...Object.values(this.pills))),
      this.rounds, this.scroll, this.more, h('div', { class: 'sd-foot' }, this.say, KEY()), this.note);
    this.shape = '';
    this.tallest = 0; // pixels of the grid in this trace so far
    /** @type {string | null} */
    this.drawn = null;
    /** @type {Parameters<WindowView['draw']>[0] | null} */
    this.scene = null;
    this.greedy = false;
    /** @type {boolean | null} */
    this.narrow = null;
    this.scrolled = -1;
    /** @type {HTMLElement[][]} */
    this.cells = [];
    /** @type {HTMLElement[]} */
    this.labels = [];
    /** @type {ReturnType<typeof testCell>[]} */
    this.tests = [];
    /** @type {string[]} */
    this.rows = [];
    this.anchor = h('div', { class: 'sd-anchor', role: 'cell' });
    window.addEventListener('resize', () => { this.narrow = null; });
  }

  /** Forget the round on screen; `words` say why there is none. */
  reset(words = '') {
    this.drawn = null;
    this.shape = '';
    this.tallest = 0;
    this.scene = null;
    this.offer(0, 0, '');
    this.table.style.minHeight = '';
    this.table.textContent = '';
    text(this.round, '');
    text(this.say, words);
    this.silence();
  }

  /** Draw every row, or the few that matter again. */
  expand() {
    this.all = !this.all;
    this.drawn = null;
    this.tallest = 0;
    this.table.style.minHeight = '';
    if (this.scene) this.draw(this.scene);
  }

  /** Say how many rows stay undrawn, and the way to them. @param {number} shown @param {number} count @param {string} what */
  offer(shown, count, what) {
    this.more.hidden = count <= MOST_ROWS;
    if (this.more.hidden) return;
    text(this.more, this.all ? `Show ${MOST_ROWS} of ${count} ${what}` : `Show all ${count} ${what}`);
    attribute(this.more, 'aria-expanded', String(this.all));
    attribute(this.more, 'title', what === 'steps' ? `Drawn are ${shown} steps, evenly spaced from the first to the last.`
      : 'Drawn are the first branch, those on which the target walked, the draft that it chose, and the longest.');
  }

  /** No round with a draft is on screen: no time and no note of another one stays. */
  silence() {
    for (const [key] of PHASES) {
      this.pills[key].classList.remove('sd-on');
      text(this.phases[key], '');
    }
    text(this.note, '');
  }

  /**
   * Draw one round. `lane` knows the words; `older` says that the round on screen is an earlier one, and why.
   * @param {{view: Window | null, lane: Lane | null, sentence: string, phase?: Phase, older?: string}} scene
   */
  draw(scene) {
    const { view, lane, sentence, phase = 'draft', older = '' } = scene;
    this.scene = scene;
    text(this.say, sentence);
    const key = view && `${view.round}/${view.passes.length}/${!!view.draft}/${!!view.scored}/${!!view.verified}/${phase}/${older}`;
    if (key !== null && key === this.drawn) return;
    this.drawn = key;
    if (!view || !lane || !view.size) {
      text(this.round, view ? `round ${view.round + 1}` : '');
      this.silence();
      this.offer(0, 0, '');
      this.build(0, [], '');
      return;
    }
    this.greedy = Boolean(lane.header && lane.header.config.temperature === 0);
    const { tree } = view;
    const single = view.copied || view.unrecorded;
    const count = tree ? tree.count : single ? 1 : Math.max(view.steps, view.passes.length);
    const most = this.all ? Infinity : MOST_ROWS;
    const shown = tree ? linesShown(tree, most) : spaced(count, most);
    this.offer(shown.length, single ? 0 : count, tree ? `branches${tree.branches.length ? ` of ${tree.branches.length} drafts` : ''}` : 'steps');
    this.build(view.size, shown, tree ? (tree.branches.length ? 'drafts' : 'tree') : view.copied ? 'copy' : view.unrecorded ? 'draft' : 'step');
    text(this.round, `round ${view.round + 1} of ${lane.rounds.length}${older ? `, ${older}` : ''}`);
    for (const [name] of PHASES) this.pills[name].classList.toggle('sd-on', name === phase);
    text(this.phases.draft, view.draft ? milliseconds(view.draft.span.seconds) : '');
    text(this.phases.score, view.scored ? milliseconds(view.scored.span.seconds) : '');
    text(this.phases.verify, view.verified ? milliseconds(view.verified.span.seconds) : '');
    this.element.classList.toggle('sd-older', Boolean(older));
    this.anchor.textContent = cell(piece(lane, view.anchor));
    attribute(this.anchor, 'title', `anchor: the last committed token, ${JSON.stringify(piece(lane, view.anchor))}`);
    shown.forEach((number, place) => {
      if (tree) this.line(view, lane, place, number);
      else if (single) this.copy(view, lane);
      else this.step(view, lane, place, number);
    });
    const tests = decisive(view.verified ? view.verified.tests : []);
    for (let position = 0; position <= view.size; position += 1) this.test(view, lane, position, tests.get(position));
    const ids = view.draft ? view.draft.ids : [];
    text(this.note, noteOf(view, ids.length ? piece(lane, ids[ids.length - 1]) : ''));
    if (view.verified) this.reveal(view.verified.accepted);
    else if (this.narrow && view.round !== this.scrolled) this.scroll.scrollLeft = 0;
    this.scrolled = view.round;
  }

  /** Make the cells for γ columns, once per shape. @param {number} size @param {number[]} shown @param {string} kind */
  build(size, shown, kind) {
    const shape = `${size} ${kind} ${kind === 'step' ? shown : shown.length}`;
    if (shape === this.shape) return;
    this.shape = shape;
    this.cells = [];
    this.labels = [];
    this.tests = [];
    this.rows = [];
    this.narrow = null;
    this.tallest = Math.max(this.tallest, this.table.offsetHeight); // what stands below does not jump at a short round
    this.table.style.minHeight = `${this.tallest}px`;
    this.table.textContent = '';
    if (!size) return;
    this.table.style.setProperty('--columns', String(size));
    const lines = kind === 'tree' || kind === 'drafts';
    this.table.dataset.dense = shown.length > 16 && !lines ? '2' : shown.length > 8 ? '1' : '0';
    this.scroll.classList.toggle('sd-tall', lines && shown.length > MOST_ROWS);
    this.anchor = h('div', { class: 'sd-anchor', role: 'cell' });
    const head = row('sd-head', h('div', { class: 'sd-label', role: 'columnheader' }, 'anchor'), this.anchor);
    for (let i = 0; i < size; i += 1) head.append(h('div', { class: 'sd-col', role: 'columnheader' }, String(i + 1)));
    head.append(h('div', { class: 'sd-col sd-outcome', role: 'columnheader', title: EXTRA }, 'extra'));
    this.table.append(head);
    const body = h('div', { class: 'sd-steps', role: 'rowgroup' });
    shown.forEach((number, place) => {
      const cells = Array.from({ length: size }, () => h('div', { class: 'sd-c', role: 'cell' }));
      this.cells.push(cells);
      this.labels.push(label(kind === 'step' ? `step ${number + 1}` : place ? '' : kind));
      body.append(row('', this.labels[place], blank(), ...cells, blank('sd-outcome')));
    });
    this.table.append(body);
    for (let i = 0; i <= size; i += 1) this.tests.push(testCell(i === size));
    this.table.append(row('sd-tests', label(this.greedy ? 'agree?' : 'accept?', this.greedy ? AGREE : ACCEPT), blank(), ...this.tests.map((test) => test.element)));
  }

  /** One row; it changes once per round, when its step has happened. @param {Window} view @param {Lane} lane @param {number} place @param {number} step */
  step(view, lane, place, step) {
    const event = view.passes[step];
    const key = `${view.round}/${Boolean(event)}`;
    if (this.rows[place] === key) return;
    this.rows[place] = key;
    this.cells[place].forEach((element, position) => {
      if (!event) {
        element.className = 'sd-c sd-mask sd-later';
        element.dataset.heat = '0';
        element.textContent = '';
        attribute(element, 'title', 'still masked');
        return;
      }
      const id = event.ids[position];
      const fresh = event.revealed.includes(position);
      const confidence = event.confidence[position];
      element.className = `sd-c ${id === null ? 'sd-mask' : fresh ? 'sd-fresh' : 'sd-kept'}`;
      element.dataset.heat = fresh ? String(Math.max(1, Math.ceil(confidence * 5))) : '0';
      element.textContent = id === null ? '' : cell(piece(lane, id));
      const best = event.candidates[position]
        .map((candidate) => `${JSON.stringify(piece(lane, candidate.id))} ${exact(candidate.prob)}`).join(', ');
      const what = id === null ? 'masked' : fresh ? `revealed ${JSON.stringify(piece(lane, id))}` : `known ${JSON.stringify(piece(lane, id))}`;
      attribute(element, 'title', `position ${position + 1}, step ${step + 1}: ${what}; confidence ${exact(confidence)}${best ? `; best: ${best}` : ''}`);
    });
  }

  /** Tokens that were copied from the text, without a drafter pass, or whose passes were not recorded. @param {Window} view @param {Lane} lane */
  copy(view, lane) {
    const key = `copy/${view.round}/${Boolean(view.draft)}`;
    if (this.rows[0] === key) return;
    this.rows[0] = key;
    this.cells[0].forEach((element, position) => {
      const id = view.draft ? view.draft.ids[position] : undefined;
      element.className = `sd-c ${id === undefined ? 'sd-nothing' : 'sd-kept'}`;
      element.dataset.heat = '0';
      element.textContent = id === undefined ? '' : cell(piece(lane, id));
      const how = view.copied ? 'copied' : 'drafted';
      attribute(element, 'title', id === undefined ? `nothing ${how}` : `position ${position + 1}: ${how} ${JSON.stringify(piece(lane, id))}${view.copied ? '' : '; the passes of the drafter were not recorded'}`);
    });
  }

  /** One line of a draft tree: a branch, from where it leaves another one. It changes when the target has walked. @param {Window} view @param {Lane} lane @param {number} place @param {number} line */
  line(view, lane, place, line) {
    const { draft, verified } = view;
    const tree = /** @type {Tree} */ (view.tree);
    const key = `tree/${view.round}/${Boolean(draft)}/${Boolean(verified)}/${line}`;
    if (this.rows[place] === key) return;
    this.rows[place] = key;
    this.name(place, line, view);
    const path = new Set(verified ? verified.path : []);
    const nodes = new Map();
    if (draft) tree.lines.forEach((own, node) => { if (own === line) nodes.set(tree.depths[node], node); });
    this.cells[place].forEach((element, depth) => {
      const node = nodes.get(depth);
      element.dataset.heat = '0';
      if (node === undefined || !draft) {
        element.className = draft || line ? 'sd-c sd-nothing' : 'sd-c sd-mask sd-later';
        element.textContent = '';
        attribute(element, 'title', draft ? 'no node' : 'still masked');
        return;
      }
      const parent = draft.parents[node];
      const branch = parent >= 0 ? tree.lines[parent] !== line : line > 0;
      const walked = path.has(node);
      const word = piece(lane, draft.ids[node]);
      element.className = `sd-c ${walked ? 'sd-fresh' : 'sd-node'}`;
      element.dataset.heat = walked ? '5' : '2';
      element.textContent = `${walked ? '✓ ' : branch ? '└ ' : ''}${cell(word)}`;
      const after = parent >= 0 ? `after ${JSON.stringify(piece(lane, draft.ids[parent]))}` : 'after the anchor';
      const score = view.scored ? `; the target gives p = ${exact(view.scored.p[node])}` : '';
      attribute(element, 'title', `node ${node + 1}, position ${depth + 1}, ${after}: ${JSON.stringify(word)}${score}${walked ? '; the target’s own draw' : ''}`);
    });
  }

  /** Which drafts end on a line, in the title of its label, and a star at the one that was chosen. @param {number} place @param {number} line @param {Window} view */
  name(place, line, { draft, verified, ...view }) {
    const tree = /** @type {Tree} */ (view.tree);
    const label = this.labels[place];
    const own = draft ? tree.branches.map((nodes, k) => [k, nodes[nodes.length - 1]]).filter(([, node]) => node !== undefined && tree.lines[node] === line) : [];
    const scores = verified ? verified.scores : [];
    label.classList.toggle('sd-chosen', verified !== null && own.some(([k]) => k === verified.chosen));
    attribute(label, 'title', own.map(([k]) => `draft ${k + 1}${scores[k] === undefined ? '' : `: S = ${exact(scores[k])}, the run it is expected to survive`}`).join('; '));
  }

  /** One acceptance test; the last column is the token that the target adds. @param {Window} view @param {Lane} lane @param {number} position @param {import('../state/events.d.ts').Test} [test] that decided it */
  test(view, lane, position, test) {
    const { greedy } = this;
    const { element, bar, tick, glyph, word, numbers } = this.tests[position];
    const { verified, scored, size, drafted } = view;
    const set = (/** @type {string} */ kind, /** @type {string} */ mark, /** @type {string} */ shown, /** @type {string} */ title, /** @type {number | null} */ height = null, /** @type {number | null} */ draw = null, figures = '') => {
      element.className = `sd-v sd-v-${kind}${position === size ? ' sd-outcome' : ''}`;
      glyph.textContent = mark;
      word.textContent = shown;
      numbers.textContent = figures;
      attribute(element, 'title', title);
      bar.style.transform = `scaleY(${height ?? 0})`;
      tick.hidden = draw === null || greedy;
      if (draw !== null) tick.style.bottom = `${(100 * draw).toFixed(2)}%`;
    };
    if (position === size) {
      const extra = verified ? piece(lane, verified.extra) : '';
      if (!verified) set('none', '', '', EXTRA, null, null);
      else if (!view.extra) set('none', '', '', 'nothing is added: an accepted token ended the text', null, null);
      else if (verified.source === 'bonus') set('bonus', '+', cell(extra), `bonus token ${JSON.stringify(extra)}, drawn from the target`, null, null, 'bonus');
      else set('fix', '↻', cell(extra), `the target writes ${JSON.stringify(extra)} instead`, null, null, 'instead');
      return;
    }
    if (!verified) {
      if (scored && position < drafted && !view.tree) set('scored', '', '', `the target gives p = ${exact(scored.p[position])}`, scored.p[position], null, `p ${short(scored.p[position])}`);
      else set('none', '', '', 'not scored yet', 0, null);
      return;
    }
    if (!test) {
      const why = view.tree ? 'the walk ended before it' : position < drafted ? 'because an earlier token was refused' : 'because the text ends before it';
      set('cut', '', '', `never tested: ${why}`, 0, null, size > 12 ? '' : 'not tested');
    } else if (test.accepted) {
      set('ok', '✓', cell(piece(lane, test.id)), testWords(test, greedy), test.threshold, test.draw, testFigures(test, greedy));
    } else {
      set('no', '✕', cell(piece(lane, test.id)), `${JSON.stringify(piece(lane, test.id))} refused: ${testWords(test, greedy)}; the target ${greedy ? 'says' : 'writes'} ${JSON.stringify(piece(lane, verified.extra))}`, test.threshold, test.draw, testFigures(test, greedy));
    }
  }

  /** Bring a rejection into view on a narrow screen. @param {number} accepted */
  reveal(accepted) {
    const { scroll } = this;
    this.narrow ??= scroll.scrollWidth > scroll.clientWidth + 1; // measured once per shape: reading it costs a layout
    if (!this.narrow) return;
    const target = this.tests[Math.min(accepted, this.tests.length - 1)].element;
    scroll.scrollLeft = Math.max(0, target.offsetLeft - scroll.clientWidth * 0.6);
  }
}

/** At most `most` of the numbers 0 … count − 1, evenly spaced, the first and the last among them. @param {number} count @param {number} most */
function spaced(count, most) {
  if (count <= most) return Array.from({ length: count }, (_, i) => i);
  return Array.from({ length: most }, (_, i) => Math.round((i * (count - 1)) / (most - 1)));
}

/** @param {Window} view @param {string} last */
function noteOf(view, last) {
  if (view.decided && (!view.verified || (view.verified.lossless && !view.verified.fallback))) return decisionWords(view.decided, view.draft, last);
  if (!view.verified) return '';
  const { scores, chosen } = view.verified;
  if (scores.length) {
    const all = scores.map((score, k) => `${k === chosen ? '★ ' : ''}${score.toFixed(2)}`).join(', ');
    const why = chosen === null ? 'all drafts stand in one tree' : `draft ${chosen + 1} has the largest and was tested`;
    return `S, the expected run of each of the ${scores.length} drafts: ${all}; ${why}. ${view.verified.fallback}`;
  }
  if (!view.verified.lossless) return '⚠ Not lossless: with several steps this rule can change the distribution of the text.';
  return view.verified.fallback ? `Note: ${view.verified.fallback}` : '';
}

const KEY = () => h('p', { class: 'sd-key' },
  h('span', { class: 'sd-c sd-fresh', 'data-heat': '4', 'aria-hidden': 'true' }), 'revealed now, shade: confidence',
  h('span', { class: 'sd-c sd-kept', 'aria-hidden': 'true' }), 'known', h('span', { class: 'sd-c sd-mask', 'aria-hidden': 'true' }), 'mask or cut');

const row = (/** @type {string} */ kind, /** @type {HTMLElement[]} */ ...cells) => h('div', { class: `sd-row ${kind}`, role: 'row' }, ...cells);
const label = (/** @type {string} */ words, title = '') => h('div', { class: 'sd-label', role: 'rowheader', title }, words);
const blank = (kind = '') => h('div', { class: `sd-blank ${kind}`, role: 'cell' });

/** @param {boolean} outcome whether it is the target's own token */
function testCell(outcome) {
  const bar = h('i', { class: 'sd-bar-fill' });
  const tick = h('u', { class: 'sd-bar-tick', hidden: true });
  const glyph = h('span', { class: 'sd-glyph' });
  const word = h('span', { class: 'sd-word' });
  const numbers = h('span', { class: 'sd-figures' });
  const element = h('div', { class: `sd-v sd-v-none${outcome ? ' sd-outcome' : ''}`, role: 'cell' },
    h('span', { class: 'sd-bar-track', 'aria-hidden': 'true' }, bar, tick), h('span', { class: 'sd-verdict' }, glyph, word), numbers);
  return { element, bar, tick, glyph, word, numbers };
}
