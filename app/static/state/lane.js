// One lane of a race: its events, and what was known of it at any moment of the decode clock. Pure: no DOM, no timer.
// Times are seconds. Sums and ratios are defined in specdiff_core/schema/metrics.py; a test compares the two.
// @ts-check

import { spell } from './detokenize.js';

/** @typedef {import('./events.d.ts').Event} Event */
/** @typedef {import('./events.d.ts').Test} Test */

/**
 * @typedef {object} Tree a draft tree, or several drafts that share their beginnings
 * @property {number[]} depths of each node
 * @property {number[]} lines on which each node is drawn
 * @property {number} count of lines
 * @property {number} deepest how many tokens its longest text has
 * @property {number[][]} branches of several drafts, the nodes of each
 * @property {number[]} path the nodes that survived
 * @property {number | null} chosen the draft that the target selected
 */
/**
 * @typedef {object} Round what is known of a round once the whole lane is
 * @property {number} round
 * @property {number} size columns that its window needs
 * @property {number} steps drafter passes that were recorded
 * @property {number} drafted tokens of its draft; of a tree, the depth
 * @property {number} accepted
 * @property {boolean} extra whether the target added a token
 * @property {Tree | null} tree
 * @property {boolean} copied without any drafter pass
 * @property {boolean} unrecorded whether it was drafted by passes that the trace does not hold
 * @property {import('./events.d.ts').Decided | null} decided
 */
/**
 * @typedef {Round & {
 *   length: number, anchor: number, passes: import('./events.d.ts').DenoiseStep[],
 *   draft: import('./events.d.ts').DraftReady | null, scored: import('./events.d.ts').TargetScored | null,
 *   verified: import('./events.d.ts').Verified | null, committed: import('./events.d.ts').Committed | null,
 * }} Window a round as far as the playhead has come
 */
/** @typedef {{id: number, source: string, round: number, test: Test | null}} Token */
/**
 * @typedef {object} Sums
 * @property {number} rounds
 * @property {number} committed
 * @property {number} drafted
 * @property {number} tested
 * @property {number} accepted
 * @property {number} nfe drafter passes
 * @property {number} calls target passes
 * @property {number[]} testedAt
 * @property {number[]} acceptedAt
 */
/**
 * @typedef {object} State of a lane after its first n events
 * @property {number} n
 * @property {Token[]} tokens
 * @property {Window | null} window
 * @property {Window | null} last the last round with a draft that was verified
 * @property {boolean} ended
 * @property {{t: number, total: number}[]} points
 * @property {Sums} sums
 */
/**
 * @typedef {object} Lane
 * @property {Event[]} events
 * @property {number[]} times when each event was known
 * @property {Record<number, string>} pieces
 * @property {import('./events.d.ts').RunStarted | null} header
 * @property {import('./events.d.ts').Finished | null} finished
 * @property {import('./events.d.ts').Failed | null} failed
 * @property {Round[]} rounds
 * @property {number[]} stops indices of events at which stepping stops
 * @property {number[]} ids
 * @property {string[]} shown the text of each id, as people read it
 * @property {number} duration
 * @property {boolean} wordless whether the trace holds no piece of its text
 */

const EPSILON = 1e-9;
const STOPS = new Set(['RoundStarted', 'DenoiseStep', 'TargetScored', 'Verified', 'Committed']);

/** @param {Event} event @param {number} last @returns {number} when it was known; `last` if it carries no time of its own */
export function eventTime(event, last) {
  if (event.kind === 'Committed') return Math.max(last, event.at);
  if (event.kind === 'Finished') return Math.max(last, event.seconds);
  return 'span' in event ? Math.max(last, event.span.start + event.span.seconds) : last;
}

/** @param {number[]} parents @returns {number[]} how many drafted tokens come before each node in its text */
export function depthsOf(parents) {
  /** @type {number[]} */
  const found = [];
  for (const parent of parents) found.push(parent < 0 ? 0 : found[parent] + 1);
  return found;
}

/**
 * A draft tree as a picture. A node's first child stays on its line, so the first line is the most probable window and
 * every other child begins a branch of its own.
 * @param {number[]} parents @returns {Tree}
 */
export function treeOf(parents) {
  const depths = depthsOf(parents);
  /** @type {number[][]} */
  const children = parents.map(() => []);
  /** @type {number[]} */
  const roots = [];
  parents.forEach((parent, node) => (parent < 0 ? roots : children[parent]).push(node));
  const lines = parents.map(() => 0);
  let count = 0;
  /** @type {[number, boolean][]} */
  const waiting = roots.slice().reverse().map((node) => [node, true]);
  while (waiting.length) { // depth first, without recursion
    const [node, branch] = /** @type {[number, boolean]} */ (waiting.pop());
    if (branch) count += 1;
    lines[node] = count - 1;
    children[node].slice().reverse().forEach((child, i, all) => waiting.push([child, i < all.length - 1]));
  }
  return { depths, lines, count, deepest: Math.max(-1, ...depths) + 1, branches: [], path: [], chosen: null };
}

/**
 * Which lines of a tree to draw where there is room for `most`, in their order: the first (the most probable window),
 * those on which the target walked, that of the draft it chose, then the longest.
 * @param {Tree} tree @param {number} most @returns {number[]}
 */
export function linesShown(tree, most) {
  if (tree.count <= most) return Array.from({ length: tree.count }, (_, line) => line);
  const { lines, depths, path, branches, chosen } = tree;
  const reach = Array.from({ length: tree.count }, () => -1);
  lines.forEach((line, node) => { reach[line] = Math.max(reach[line], depths[node]); });
  const longest = reach.map((_, line) => line).sort((a, b) => reach[b] - reach[a] || a - b);
  const best = chosen === null ? [] : branches[chosen];
  const wanted = new Set([0, ...path.map((node) => lines[node]), ...best.map((node) => lines[node]), ...longest]);
  return [...wanted].slice(0, most).sort((a, b) => a - b);
}

/** @param {Event[]} events @returns {Lane} */
export function buildLane(events) {
  /** @type {Lane} */
  const lane = {
    events, times: [], pieces: {}, header: null, finished: null, failed: null, rounds: [], stops: [], ids: [], shown: [],
    duration: 0, wordless: false,
  };
  let last = 0;
  /** @type {Round | null} */
  let round = null;
  events.forEach((event, index) => {
    last = eventTime(event, last);
    lane.times.push(last);
    if (STOPS.has(event.kind)) lane.stops.push(index);
    if (event.kind === 'RoundStarted') {
      round = { round: event.round, size: 0, steps: 0, drafted: 0, accepted: 0, extra: false, tree: null, copied: false, unrecorded: false, decided: null };
      lane.rounds.push(round);
    }
    announce(lane, round, event);
  });
  lane.duration = last;
  spell(lane);
  return lane;
}

/** What an event says about its lane and its round as a whole. @param {Lane} lane @param {Round | null} round @param {Event} event */
function announce(lane, round, event) {
  switch (event.kind) {
    case 'RunStarted': lane.header = event; break;
    case 'PiecesSeen': Object.assign(lane.pieces, event.pieces); break;
    case 'Finished': lane.finished = event; break;
    case 'Failed': lane.failed = event; break;
    case 'Committed':
      lane.ids.push(...event.ids); // also in slim news, where no round is announced
      if (round) round.extra = event.ids.length > round.accepted;
      break;
    default:
  }
  if (!round) return;
  switch (event.kind) {
    case 'Decided': round.decided = event; break;
    case 'DenoiseStep':
      round.steps += 1;
      round.size = event.ids.length;
      break;
    case 'DraftReady':
      round.tree = event.parents.length ? { ...treeOf(event.parents), branches: event.branches } : null;
      round.drafted = round.tree ? round.tree.deepest : event.ids.length; // fewer than the window if the text ends in it
      round.size = Math.max(round.size, round.drafted);
      round.copied = !event.nfe && event.ids.length > 0;
      round.unrecorded = event.nfe > 0 && event.ids.length > 0 && !round.steps && !round.tree;
      break;
    case 'Verified':
      round.accepted = event.accepted;
      if (round.tree) Object.assign(round.tree, { path: event.path, chosen: event.chosen });
      break;
    default:
  }
}

/** @returns {State} */
export function emptyState() {
  return {
    n: 0, tokens: [], window: null, last: null, ended: false, points: [{ t: 0, total: 0 }],
    sums: { rounds: 0, committed: 0, drafted: 0, tested: 0, accepted: 0, nfe: 0, calls: 0, testedAt: [], acceptedAt: [] },
  };
}

/** Of each position that the verifier reached, whether one of its tests was passed. @param {Test[]} tests @returns {boolean[]} */
export function reached(tests) {
  /** @type {Map<number, boolean>} */
  const found = new Map();
  for (const test of tests) found.set(test.position, Boolean(found.get(test.position)) || test.accepted);
  return [...found.values()];
}

/** The test that decided each position: of several drafts that were tested there, the last. @param {Test[]} tests */
export const decisive = (tests) => new Map(tests.map((test) => [test.position, test]));

/** Take one more event into the state (in place). @param {State} state @param {Lane} lane @param {Event} event @param {number} time */
function apply(state, lane, event, time) {
  const { sums, window } = state;
  switch (event.kind) {
    case 'RoundStarted':
      if (window && window.verified && window.size) state.last = window;
      state.window = { ...lane.rounds[event.round], length: event.length, anchor: event.anchor, passes: [], draft: null, scored: null, verified: null, committed: null };
      break;
    case 'DenoiseStep':
      if (window) window.passes.push(event);
      break;
    case 'DraftReady':
      sums.drafted += event.ids.length;
      sums.nfe += event.nfe;
      if (window) window.draft = event;
      break;
    case 'TargetScored':
      sums.calls += 1;
      if (window) window.scored = event;
      break;
    case 'Verified':
      sums.accepted += event.accepted;
      reached(event.tests).forEach((accepted, i) => {
        sums.tested += 1;
        sums.testedAt[i] = (sums.testedAt[i] || 0) + 1;
        sums.acceptedAt[i] = (sums.acceptedAt[i] || 0) + Number(accepted);
      });
      if (window) window.verified = event;
      break;
    case 'Committed': {
      const tests = decisive(window && window.verified ? window.verified.tests : []);
      event.ids.forEach((id, i) => state.tokens.push({ id, source: event.sources[i], round: event.round, test: tests.get(i) ?? null }));
      sums.rounds += 1;
      sums.committed += event.ids.length;
      state.points.push({ t: time, total: event.total });
      if (window) window.committed = event;
      break;
    }
    case 'Finished':
    case 'Failed':
      state.ended = true;
      break;
    default:
  }
}

/** The state after the first n events; reuses `state` when it lies before n. @param {Lane} lane @param {number} n @param {State | null} [state] @returns {State} */
export function stateAt(lane, n, state = null) {
  const known = state && state.n <= n ? state : emptyState();
  while (known.n < Math.min(n, lane.events.length)) {
    apply(known, lane, lane.events[known.n], lane.times[known.n]);
    known.n += 1;
  }
  return known;
}

/** @param {Lane} lane @param {number} t @returns {number} how many events were known at time t */
export function countAt(lane, t) {
  let low = 0;
  let high = lane.times.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (lane.times[middle] <= t + EPSILON) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** @param {Lane | null} lane @returns {boolean} whether it drafts nothing */
export const isVanilla = (lane) => Boolean(lane && lane.header && lane.header.config.drafter === 'none');
