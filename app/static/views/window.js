// The draft window: rows are denoising steps, columns are positions; below them the acceptance tests. DOM, no canvas,
// so that every number can be hovered and read aloud.
// @ts-check

import { InspectorView } from './inspector.js';
import { attribute, h, rove, text, towards } from './dom.js';
import { decisive, linesShown } from '../state/lane.js';
import { piece } from '../state/detokenize.js';
import { cell, decisionWords, exact, milliseconds, short, testFigures, testWords } from '../state/format.js';
/** @import { Test } from '../state/events.d.ts' */
/** @import { Place } from '../state/inspect.js' */
/** @import { Lane, Round, Tree, Window } from '../state/lane.js' */

/** @typedef {'draft' | 'score' | 'verify' | 'commit'} Phase */
/** @typedef {{kind: string, words: string, title: string, heat?: number, node?: number}} Cell what a cell of the grid shows; `heat`: 0 to 5; `node` of a tree */
/** @typedef {{element: HTMLElement | null, walk: (by: number) => void, away?: () => void, place?: Place, round?: number}} Pinned what is marked, what the buttons of the inspector show next, who hears that another is pinned or none; `place` and `round` of a cell of the grid */

/** @type {[Phase, string, string][]} */
const PHASES = [
  ['draft', 'Draft', 'The drafter fills the window of masks, one pass of its network per denoising step. Milliseconds on the decode clock.'],
  ['score', 'Score', 'One pass of the target reads the anchor and all drafted tokens. Milliseconds on the decode clock.'],
  ['verify', 'Verify', 'The acceptance tests, from left to right, and the target’s own token. Milliseconds on the decode clock.'],
  ['commit', 'Commit', 'Accepted tokens and the target’s own become part of the text; what came after the first refusal is forgotten.'],
];
const MOST_ROWS = 8; // of denoising steps or branches, until somebody asks for all
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
    this.inspector = new InspectorView(() => {
      this.pinned?.element?.focus({ preventScroll: true });
      this.unpin();
    }, (by) => this.pinned?.walk(by));
    this.table.addEventListener('click', (/** @type {MouseEvent} */ event) => this.pressed(event.target));
    this.table.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => this.keyed(event));
    /** @type {Pinned | null} */
    this.pinned = null;
    this.element = h('section', { class: 'sd-panel sd-window', 'aria-label': 'Draft window' },
      h('header', {}, h('h2', {}, 'Draft window'), this.round,
        h('ol', { class: 'sd-phases', 'aria-label': 'Phases of a round' }, ...Object.values(this.pills))),
      this.rounds, this.say, this.scroll, this.more, this.inspector.element, h('div', { class: 'sd-foot' }, this.note, KEY()));
    this.shape = '';
    this.tallest = 0; // pixels of the grid in this trace so far
    /** @type {Lane | null} whose rounds have their room */
    this.roomy = null;
    /** @type {string | null} */
    this.drawn = null;
    /** @type {Parameters<WindowView['draw']>[0] | null} */
    this.scene = null;
    this.greedy = false;
    /** @type {boolean | null} */
    this.narrow = null;
    /** @type {HTMLElement[][]} */
    this.cells = [];
    /** @type {HTMLElement[]} */
    this.labels = [];
    /** @type {ReturnType<typeof testCell>[]} */
    this.tests = [];
    /** @type {string[]} */
    this.rows = [];
    /** @type {number[]} the first step of each row */
    this.froms = [];
    this.anchor = h('div', { class: 'sd-anchor', role: 'cell' });
    window.addEventListener('resize', () => { this.narrow = null; });
  }

  /** Forget the round on screen; `words` say why there is none. */
  reset(words = '') {
    this.scene = null;
    this.inspector.hide();
    this.unpin();
    this.clear();
    this.shrink();
    text(this.round, '');
    text(this.say, words);
  }

  /** Pin the place of a cell. @param {EventTarget | null} target */
  pressed(target) {
    const found = target instanceof Element ? target.closest('.sd-c, .sd-v') : null;
    if (found instanceof HTMLElement) this.chooseAt(found);
  }

  /** @param {HTMLElement} cell */
  chooseAt(cell) {
    const place = this.scene?.view ? this.placeOf(cell, this.scene.view) : null;
    if (place !== null) this.choose(place);
  }

  /** The place that a cell of the grid stands for; null where it stands for none. @param {HTMLElement} cell @param {Window} view @returns {Place | null} */
  placeOf(cell, view) {
    const test = this.tests.findIndex(({ element }) => element === cell);
    if (test === view.size) return view.verified && view.extra ? view.verified.accepted : null;
    if (test >= 0) return test;
    if (cell.dataset.node) return { node: Number(cell.dataset.node) };
    const position = view.tree ? -1 : this.cells.map((row) => row.indexOf(cell)).find((at) => at >= 0) ?? -1;
    return position >= 0 && position < view.size ? position : null;
  }

  /** Pin a place of the round on the screen. @param {Place} place */
  choose(place) {
    const { view, lane } = this.scene ?? {};
    if (!view || !lane) return;
    const [from, last] = typeof place === 'number' ? [place, Math.max(view.drafted, view.verified && view.extra ? view.verified.accepted + 1 : 0)] : [place.node, view.draft?.ids.length ?? 0];
    const walk = (/** @type {number} */ by) => {
      const to = from + by;
      if (to >= 0 && to < last && this.scene?.view?.round === view.round) this.choose(typeof place === 'number' ? to : { node: to });
    };
    const element = this.cellOf(place, view);
    if (element) rove(this.stops.flat().filter((one) => one !== null), element);
    this.pin(view, lane, place, { element, walk, place, round: view.round });
  }

  /** Where a place is drawn: a bonus token has the last column. @param {Place} place @param {Window} view @returns {HTMLElement | null} */
  cellOf(place, view) {
    if (typeof place !== 'number') return this.cells.flat().find((cell) => cell.dataset.node === String(place.node)) ?? null;
    return this.tests[view.verified?.source === 'bonus' && place === view.verified.accepted ? view.size : place]?.element ?? null;
  }

  /** Look closely at a place, which may be of another lane than the one on the screen. @param {Window} view @param {Lane} lane @param {Place} place @param {Pinned} pinned @param {string} [who] whose it is */
  pin(view, lane, place, pinned, who = '') {
    this.unpin();
    this.pinned = pinned;
    pinned.element?.classList.add('sd-pinned');
    this.inspector.show(view, lane, place, who);
  }

  unpin() {
    this.pinned?.element?.classList.remove('sd-pinned');
    this.pinned?.away?.();
    this.pinned = null;
  }

  /** What the arrows walk over: the nodes of a tree as they are drawn, and below them the tests. @returns {(HTMLElement | null)[][]} */
  get stops() {
    const tests = this.tests.map(({ element }) => element);
    return [...(this.scene?.view?.tree ? this.cells.map((row) => row.map((cell) => (cell.dataset.node ? cell : null))) : []), tests];
  }

  /** Arrows walk along the nodes and the tests, Enter pins one. @param {KeyboardEvent} event */
  keyed(event) {
    const { stops } = this;
    const here = stops.flat().find((one) => one !== null && one === event.target) ?? null;
    const to = here && towards(stops, here, event.key);
    if (here && event.key === 'Enter') this.chooseAt(here);
    else if (!to) return;
    else {
      rove(stops.flat().filter((one) => one !== null), to);
      to.focus();
    }
    event.preventDefault();
  }

  /** The mark of a pinned cell stays with its round. @param {Window} view */
  mind(view) {
    const { pinned } = this;
    if (pinned?.place === undefined) return;
    pinned.element?.classList.remove('sd-pinned');
    pinned.element = view.round === pinned.round ? this.cellOf(pinned.place, view) : null;
    pinned.element?.classList.add('sd-pinned');
  }

  /** One of the cells is in the tab order: the one that was, if it is still there. */
  rest() {
    const all = this.stops.flat().filter((one) => one !== null);
    for (const cell of this.cells.flat()) if (!all.includes(cell)) cell.removeAttribute('tabindex');
    if (all.length) rove(all, all.find((one) => one.tabIndex === 0) ?? all[0]);
  }

  /** No row, no time and no note of another round stays. */
  clear() {
    this.mark(null, null);
    text(this.note, '');
    this.offer(0, 0, '');
    this.build(0, [], '');
  }

  /** The next round is drawn anew, however small it is. */
  shrink() {
    this.drawn = null;
    this.tallest = 0;
    this.table.style.setProperty('--tallest', '0px');
    this.roomy = null;
  }

  /** Room for the largest round of a lane, so that nothing below the window moves while it plays. @param {Lane} lane */
  reserve(lane) {
    if (this.roomy === lane) return;
    this.roomy = lane;
    const rows = Math.max(0, ...lane.rounds.map(rowsOf));
    this.table.style.setProperty('--rows', String(this.all ? 0 : Math.min(rows, MOST_ROWS)));
    this.element.classList.toggle('sd-folds', rows > MOST_ROWS);
    this.element.classList.toggle('sd-noted', lane.events.some((event) => event.kind === 'Decided' || (event.kind === 'Verified' && Boolean(event.fallback || event.scores.length || !event.lossless))));
  }

  /** Draw every row, or the few that matter again. */
  expand() {
    this.all = !this.all;
    this.shrink();
    if (this.scene) this.draw(this.scene);
  }

  /** Say how many rows stay undrawn, and the way to them. @param {number} shown @param {number} count @param {string} what */
  offer(shown, count, what) {
    this.more.hidden = count <= MOST_ROWS;
    if (this.more.hidden) return;
    text(this.more, this.all ? `Show ${MOST_ROWS} of ${count} ${what}` : `Show all ${count} ${what}`);
    attribute(this.more, 'aria-expanded', String(this.all));
    attribute(this.more, 'title', what === 'steps' ? `Drawn are ${shown} rows; each shows what all of its steps revealed.`
      : 'Drawn are the first branch, those on which the target walked, the draft that it chose, and the longest.');
  }

  /** The times of a round, and which phase it is in; null: no round with a draft is on screen. @param {Window | null} view @param {Phase | null} phase */
  mark(view, phase) {
    const done = { draft: view?.draft, score: view?.scored, verify: view?.verified, commit: null };
    for (const [name] of PHASES) {
      this.pills[name].classList.toggle('sd-on', name === phase);
      text(this.phases[name], done[name] ? milliseconds(done[name].span.seconds) : '');
    }
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
      this.clear();
      return;
    }
    this.greedy = Boolean(lane.header && lane.header.config.temperature === 0);
    const { tree } = view;
    const count = rowsOf(view);
    const most = this.all ? Infinity : MOST_ROWS;
    this.reserve(lane);
    const shown = tree ? linesShown(tree, most) : spaced(count, most);
    this.offer(shown.length, count, tree ? `branches${tree.branches.length ? ` of ${tree.branches.length} drafts` : ''}` : 'steps');
    this.build(view.size, shown, tree ? (tree.branches.length ? 'drafts' : 'tree') : view.copied ? 'copy' : view.unrecorded ? 'draft' : 'step');
    text(this.round, `round ${view.round + 1} of ${lane.rounds.length}${older ? ` (${older})` : ''}`);
    this.mark(view, phase);
    this.element.classList.toggle('sd-older', Boolean(older));
    this.anchor.textContent = cell(piece(lane, view.anchor));
    attribute(this.anchor, 'title', `anchor: the last committed token, ${JSON.stringify(piece(lane, view.anchor))}`);
    shown.forEach((number, place) => this.row(view, lane, place, number));
    const tests = decisive(view.verified ? view.verified.tests : []);
    for (let position = 0; position <= view.size; position += 1) this.test(view, lane, position, tests.get(position));
    this.rest();
    this.mind(view);
    const ids = view.draft ? view.draft.ids : [];
    text(this.note, noteOf(view, ids.length ? piece(lane, ids[ids.length - 1]) : ''));
    const revealed = tree ? [] : view.passes.at(-1)?.revealed ?? [];
    this.reveal(view.verified ? view.verified.accepted : revealed.length ? Math.min(...revealed) : 0);
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
    this.table.style.setProperty('--tallest', `${this.tallest}px`);
    this.table.textContent = '';
    if (!size) return;
    this.table.style.setProperty('--columns', String(size));
    const lines = kind === 'tree' || kind === 'drafts';
    this.table.dataset.wide = String(size > 16);
    this.table.dataset.dense = lines ? '0' : shown.length > 16 ? '2' : shown.length > MOST_ROWS ? '1' : '0'; // each node is pressed for itself
    this.scroll.classList.toggle('sd-tall', lines && shown.length > MOST_ROWS);
    this.anchor = h('div', { class: 'sd-anchor', role: 'cell' });
    const head = row('sd-head', h('div', { class: 'sd-label', role: 'columnheader' }, 'anchor'), this.anchor);
    for (let i = 0; i < size; i += 1) head.append(h('div', { class: 'sd-col', role: 'columnheader' }, String(i + 1)));
    head.append(h('div', { class: 'sd-col sd-outcome', role: 'columnheader', title: EXTRA }, 'extra'));
    this.table.append(head);
    const body = h('div', { class: 'sd-steps', role: 'rowgroup' });
    this.froms = shown.map((_, place) => (shown[place - 1] ?? -1) + 1);
    shown.forEach((number, place) => {
      const from = this.froms[place] + 1;
      const cells = Array.from({ length: size }, () => h('div', { class: 'sd-c', role: 'cell' }));
      this.cells.push(cells);
      this.labels.push(kind !== 'step' ? label(place ? '' : kind) : from > number ? label(`step ${number + 1}`) : label(`${from}–${number + 1}`, `steps ${from} to ${number + 1}`));
      body.append(row('', this.labels[place], blank(), ...cells, blank('sd-outcome')));
    });
    this.table.append(body);
    for (let i = 0; i <= size; i += 1) this.tests.push(testCell(i === size));
    this.table.append(row('sd-tests', label(this.greedy ? 'agree?' : 'accept?', this.greedy ? AGREE : ACCEPT), blank(), ...this.tests.map((test) => test.element)));
  }

  /** One row of cells; it changes only when what it shows has happened. @param {Window} view @param {Lane} lane @param {number} place @param {number} number of its line, or of its last step */
  row(view, lane, place, number) {
    const { draft, verified, tree, copied, unrecorded } = view;
    const key = `${view.round}/${tree || copied || unrecorded ? Boolean(draft) : Math.min(view.passes.length, number + 1)}/${Boolean(tree && verified)}/${number}`;
    if (this.rows[place] === key) return;
    this.rows[place] = key;
    if (tree) this.name(place, number, view);
    const known = tree ? this.line(view, tree, lane, number) : copied || unrecorded ? this.copy(view, lane) : this.step(view, lane, this.froms[place], number);
    this.cells[place].forEach((element, position) => {
      const { kind, words, title, heat = 0, node } = known(position);
      element.className = `sd-c ${kind}`;
      element.dataset.heat = String(heat);
      element.dataset.node = node === undefined ? '' : String(node);
      element.textContent = words;
      attribute(element, 'title', title);
    });
  }

  /** A few denoising steps in a row: what they say of each position. @param {Window} view @param {Lane} lane @param {number} from @param {number} to @returns {(position: number) => Cell} */
  step(view, lane, from, to) {
    const events = view.passes.slice(from, to + 1);
    const last = events.at(-1);
    return (position) => {
      if (!last) return { kind: 'sd-mask sd-later', words: '', title: 'still masked' };
      const event = events.find(({ revealed }) => revealed.includes(position)) ?? last;
      const id = event.ids[position];
      const fresh = event.revealed.includes(position);
      const confidence = event.confidence[position];
      const best = event.candidates[position]
        .map((candidate) => `${JSON.stringify(piece(lane, candidate.id))} ${exact(candidate.prob)}`).join(', ');
      const what = id === null ? 'masked' : `${fresh ? 'revealed' : 'known'} ${JSON.stringify(piece(lane, id))}`;
      return {
        kind: id === null ? 'sd-mask' : fresh ? 'sd-fresh' : 'sd-kept',
        heat: fresh ? Math.max(1, Math.ceil(confidence * 5)) : 0,
        words: id === null ? '' : cell(piece(lane, id)),
        title: `position ${position + 1}, step ${event.step + 1}: ${what}; confidence ${exact(confidence)}${best ? `; best: ${best}` : ''}`,
      };
    };
  }

  /** Tokens that were copied from the text, without a drafter pass, or whose passes were not recorded. @param {Window} view @param {Lane} lane @returns {(position: number) => Cell} */
  copy(view, lane) {
    const how = view.copied ? 'copied' : 'drafted';
    return (position) => {
      const id = view.draft?.ids[position];
      if (id === undefined) return { kind: 'sd-nothing', words: '', title: `nothing ${how}` };
      const word = piece(lane, id);
      return { kind: 'sd-kept', words: cell(word), title: `position ${position + 1}: ${how} ${JSON.stringify(word)}${view.copied ? '' : '; the passes of the drafter were not recorded'}` };
    };
  }

  /** One line of a draft tree: a branch, from where it leaves another one. @param {Window} view @param {Tree} tree @param {Lane} lane @param {number} line @returns {(depth: number) => Cell} */
  line({ draft, verified, scored }, tree, lane, line) {
    return (depth) => {
      const node = tree.lines.findIndex((own, i) => own === line && tree.depths[i] === depth);
      if (!draft) return { kind: line ? 'sd-nothing' : 'sd-mask sd-later', words: '', title: 'still masked' };
      if (node < 0) return { kind: 'sd-nothing', words: '', title: 'no node' };
      const parent = draft.parents[node];
      const branch = parent >= 0 ? tree.lines[parent] !== line : line > 0;
      const walked = verified?.path.includes(node);
      const word = piece(lane, draft.ids[node]);
      const after = parent >= 0 ? `after ${JSON.stringify(piece(lane, draft.ids[parent]))}` : 'after the anchor';
      const score = scored ? `; the target gives p = ${exact(scored.p[node])}` : '';
      return {
        kind: walked ? 'sd-fresh' : 'sd-node',
        heat: walked ? 5 : 2,
        node,
        words: `${walked ? '✓ ' : branch ? '└ ' : ''}${cell(word)}`,
        title: `node ${node + 1}, position ${depth + 1}, ${after}: ${JSON.stringify(word)}${score}${walked ? '; the target’s own draw' : ''}`,
      };
    };
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

  /** One acceptance test; the last column is the token that the target adds. @param {Window} view @param {Lane} lane @param {number} position @param {Test} [test] that decided it */
  test(view, lane, position, test) {
    const { element, bar, tick, glyph, word, numbers } = this.tests[position];
    const { kind, mark = '', shown = '', title, height = 0, draw = null, figures = '' } = this.verdict(view, lane, position, test);
    element.className = `sd-v sd-v-${kind}${position === view.size ? ' sd-outcome' : ''}`;
    glyph.textContent = mark;
    word.textContent = shown;
    numbers.textContent = figures;
    attribute(element, 'title', title);
    bar.style.transform = `scaleY(${height})`;
    tick.hidden = draw === null || this.greedy;
    if (draw !== null) tick.style.bottom = `${(100 * draw).toFixed(2)}%`;
  }

  /** @param {Window} view @param {Lane} lane @param {number} position @param {Test} [test] @returns {{kind: string, title: string, mark?: string, shown?: string, height?: number, draw?: number | null, figures?: string}} */
  verdict(view, lane, position, test) {
    const { greedy } = this;
    const { verified, scored, size, drafted } = view;
    const extra = verified ? piece(lane, verified.extra) : '';
    if (position === size) {
      if (!verified) return { kind: 'none', title: EXTRA };
      if (!view.extra) return { kind: 'none', title: 'nothing is added: an accepted token ended the text' };
      if (verified.source === 'bonus') return { kind: 'bonus', mark: '+', shown: cell(extra), title: `bonus token ${JSON.stringify(extra)}, drawn from the target`, figures: 'bonus' };
      return { kind: 'fix', mark: '↻', shown: cell(extra), title: `the target writes ${JSON.stringify(extra)} instead`, figures: 'instead' };
    }
    if (!verified) {
      if (!scored || position >= drafted || view.tree) return { kind: 'none', title: 'not scored yet' };
      return { kind: 'scored', title: `the target gives p = ${exact(scored.p[position])}`, height: scored.p[position], figures: `p ${short(scored.p[position])}` };
    }
    if (!test) {
      const why = view.tree ? 'the walk ended before it' : position < drafted ? 'because an earlier token was refused' : 'because the text ends before it';
      return { kind: 'cut', title: `never tested: ${why}`, figures: size > 12 ? '' : 'not tested' };
    }
    const word = piece(lane, test.id);
    const told = { shown: cell(word), height: test.threshold, draw: test.draw, figures: testFigures(test, greedy) };
    if (test.accepted) return { kind: 'ok', mark: '✓', title: testWords(test, greedy), ...told };
    return { kind: 'no', mark: '✕', title: `${JSON.stringify(word)} refused: ${testWords(test, greedy)}; the target ${greedy ? 'says' : 'writes'} ${JSON.stringify(extra)}`, ...told };
  }

  /** Where there is no room for all positions, bring the one that something happens at into view. @param {number} position */
  reveal(position) {
    const { scroll } = this;
    if (this.narrow === null) {
      this.narrow = scroll.scrollWidth > scroll.clientWidth + 1; // measured once per shape: reading it costs a layout
      scroll.classList.toggle('sd-narrow', this.narrow);
    }
    if (!this.narrow) return;
    const target = this.tests[Math.max(0, Math.min(position, this.tests.length - 2))].element; // the last is always in view
    scroll.scrollLeft = Math.max(0, target.offsetLeft - scroll.clientWidth * 0.6);
  }
}

/** How many rows a round has: its denoising steps, or the branches of its tree. @param {Round} round */
const rowsOf = (round) => (round.tree ? round.tree.count : round.copied || round.unrecorded ? 1 : round.steps);

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

const KEY = () => h('p', { class: 'sd-key' }, ...[['sd-fresh', 'revealed now, shade: confidence'], ['sd-kept', 'known'], ['sd-mask', 'mask or cut']].map(([kind, words]) =>
  h('span', {}, h('span', { class: `sd-c ${kind}`, 'data-heat': '4', 'aria-hidden': 'true' }), words)));

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
