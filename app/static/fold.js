// Events -> what was known at a moment of the decode clock. Pure: no DOM, no timer. Times are seconds.
// Definitions of the sums (tested, accepted, rounds, ...) are those of specdiff_core/schema/metrics.py.

import { spell } from './pieces.js';

export { joinPieces, piece, sharePieces } from './pieces.js';

const EPSILON = 1e-9;
const end = (span) => span.start + span.seconds;

/** When an event was known, on the decode clock; `last` for those that carry no time of their own. */
export function eventTime(event, last) {
  if (event.kind === 'Committed') return Math.max(last, event.at);
  if (event.kind === 'Finished') return Math.max(last, event.seconds);
  return event.span ? Math.max(last, end(event.span)) : last;
}

/**
 * A draft tree as a picture: each node's depth, and its line. A node's first child stays on its line, so the first line
 * is the most probable window and every other child begins a branch of its own.
 */
export function treeOf(parents) {
  const depths = parents.map(() => 0);
  const children = parents.map(() => []);
  const roots = [];
  parents.forEach((parent, node) => {
    if (parent >= 0) depths[node] = depths[parent] + 1;
    (parent < 0 ? roots : children[parent]).push(node);
  });
  const lines = parents.map(() => 0);
  let count = 0;
  const waiting = roots.slice().reverse().map((node) => [node, true]);
  while (waiting.length) { // depth first, without recursion
    const [node, branch] = waiting.pop();
    if (branch) count += 1;
    lines[node] = count - 1;
    children[node].slice().reverse().forEach((child, i, all) => waiting.push([child, i < all.length - 1]));
  }
  return { depths, lines, count, deepest: Math.max(-1, ...depths) + 1 };
}

/**
 * Which lines of a tree to draw where there is room for `most`, in their order: the first (the most probable window),
 * those on which the target walked, that of the draft it chose, then the longest.
 */
export function linesShown(tree, most) {
  if (tree.count <= most) return Array.from({ length: tree.count }, (_, line) => line);
  const { lines, depths, path, branches, chosen } = tree;
  const reach = Array.from({ length: tree.count }, () => -1);
  lines.forEach((line, node) => { reach[line] = Math.max(reach[line], depths[node]); });
  const longest = reach.map((_, line) => line).sort((a, b) => reach[b] - reach[a] || a - b);
  const best = chosen !== null && branches[chosen] ? branches[chosen] : [];
  const wanted = new Set([0, ...path.map((node) => lines[node]), ...best.map((node) => lines[node]), ...longest]);
  return [...wanted].slice(0, most).sort((a, b) => a - b);
}

/** Index one lane once: times, words, rounds, places where stepping stops. */
export function buildLane(events) {
  const lane = {
    events, times: [], pieces: {}, header: null, finished: null, failed: null, rounds: [], stops: [], ids: [], shown: [],
    duration: 0, wordless: false,
  };
  let last = 0;
  let current = null;
  const { ids } = lane;
  events.forEach((event, index) => {
    last = eventTime(event, last);
    lane.times.push(last);
    if (event.kind === 'RunStarted') lane.header = event;
    if (event.kind === 'PiecesSeen') Object.assign(lane.pieces, event.pieces);
    if (event.kind === 'Finished') lane.finished = event;
    if (event.kind === 'Failed') lane.failed = event;
    if (event.kind === 'RoundStarted') {
      current = { round: event.round, size: 0, steps: 0, drafted: 0, accepted: 0, extra: false, tree: null, copied: false, untold: false, decided: null };
      lane.rounds.push(current);
    }
    if (event.kind === 'Committed') ids.push(...event.ids); // also in slim news, where no round is announced
    if (!current) return;
    if (event.kind === 'Decided') current.decided = event;
    if (event.kind === 'DenoiseStep') {
      current.steps += 1;
      current.size = event.ids.length;
    }
    if (event.kind === 'DraftReady') {
      const tree = event.parents && event.parents.length ? treeOf(event.parents) : null;
      if (tree) Object.assign(tree, { branches: event.branches || [], path: [], chosen: null });
      if (tree) tree.name = tree.branches.length ? 'drafts' : 'tree';
      current.tree = tree;
      current.drafted = tree ? tree.deepest : event.ids.length; // fewer than the window where the text ends in it
      current.size = Math.max(current.size, current.drafted);
      current.copied = !event.nfe && event.ids.length > 0;
      current.untold = event.nfe > 0 && event.ids.length > 0 && !current.steps && !tree; // its passes were not recorded
    }
    if (event.kind === 'Verified') {
      current.accepted = event.accepted;
      if (current.tree) Object.assign(current.tree, { path: event.path || [], chosen: event.chosen ?? null });
    }
    if (event.kind === 'Committed') current.extra = event.ids.length > current.accepted;
  });
  events.forEach((event, index) => {
    if (['RoundStarted', 'DenoiseStep', 'TargetScored', 'Committed'].includes(event.kind)) lane.stops.push(index);
  });
  lane.duration = last;
  spell(lane);
  return lane;
}

/**
 * Whether the events of a lane fit together, for traces of unknown origin: every field that drawing reads is there and
 * of the right size. Throws a TypeError otherwise.
 */
export function check(lane) {
  const need = (true_, words) => { if (!true_) throw new TypeError(words); };
  let size = null;
  let tree = false;
  let several = false;
  for (const event of lane.events) {
    if (event.kind === 'RoundStarted') [size, tree, several] = [null, false, false];
    if (event.kind === 'DenoiseStep') {
      need([event.confidence, event.candidates].every((list) => list.length === event.ids.length), 'a step of two sizes');
      need(size === null || size === event.ids.length, 'a window that changes its size');
      size = event.ids.length;
    }
    if (event.kind === 'DraftReady') {
      size = event.ids.length;
      tree = Boolean(event.parents && event.parents.length);
      several = Boolean(event.branches && event.branches.length);
    }
    if (event.kind === 'TargetScored') need(event.p.length === (size ?? 0), 'scores for another draft');
    if (event.kind === 'Verified') {
      const positions = reached(event.tests).length;
      need(several || positions === event.tests.length, 'two tests of one token');
      need(positions <= (size ?? 0) && event.accepted <= positions, 'tests of another draft');
      need(positions === event.accepted + 1 || (positions === event.accepted && (tree || event.accepted === (size ?? 0))), 'no test that ended the run');
      need((event.path || []).every((node) => node >= 0 && node < (size ?? 0)), 'a path outside its tree');
      need(event.tests.every((test) => ['match', 'tree'].includes(test.kind) || Number.isFinite(test.draw)), 'a test without its draw');
      need(event.tests.every((test) => Number.isFinite(test.threshold)), 'a test without its threshold');
    }
    if (event.kind === 'Committed') need(event.sources.length === event.ids.length, 'tokens without an origin');
  }
  stateAt(lane, lane.events.length);
}

export function emptyState() {
  return {
    n: 0, tokens: [], window: null, previous: null, ended: false, points: [{ t: 0, total: 0 }],
    sums: { rounds: 0, committed: 0, drafted: 0, tested: 0, accepted: 0, nfe: 0, calls: 0, testedAt: [], acceptedAt: [] },
  };
}

/** Position by position, whether one of its tests was passed: several drafts may be tested at one position. */
export function reached(tests) {
  const found = new Map();
  for (const test of tests) found.set(test.position, Boolean(found.get(test.position)) || test.accepted);
  return [...found.values()];
}

/** Take one more event into the state (in place). */
function apply(state, lane, event, time) {
  const { sums } = state;
  switch (event.kind) {
    case 'RoundStarted': {
      const known = lane.rounds[event.round] || { size: 0, steps: 0, drafted: 0, extra: false, tree: null };
      if (state.window && state.window.verified) state.previous = state.window;
      state.window = {
        round: event.round, length: event.length, anchor: event.anchor, size: known.size, total: known.steps,
        drafted: known.drafted, extra: known.extra, tree: known.tree || null, copied: Boolean(known.copied), untold: Boolean(known.untold),
        decided: known.decided || null, steps: [], draft: null, scored: null, verified: null, committed: null,
      };
      break;
    }
    case 'DenoiseStep':
      state.window.steps.push(event);
      break;
    case 'DraftReady':
      sums.drafted += event.ids.length;
      sums.nfe += event.nfe;
      if (state.window) state.window.draft = event;
      break;
    case 'TargetScored':
      sums.calls += 1;
      if (state.window) state.window.scored = event;
      break;
    case 'Verified':
      sums.accepted += event.accepted;
      reached(event.tests).forEach((accepted, i) => {
        sums.tested += 1;
        sums.testedAt[i] = (sums.testedAt[i] || 0) + 1;
        sums.acceptedAt[i] = (sums.acceptedAt[i] || 0) + Number(accepted);
      });
      if (state.window) state.window.verified = event;
      break;
    case 'Committed': {
      const tests = state.window && state.window.verified ? state.window.verified.tests : [];
      event.ids.forEach((id, i) => {
        const source = event.sources[i];
        state.tokens.push({ id, source, round: event.round, test: tests[i] || null });
      });
      sums.rounds += 1;
      sums.committed += event.ids.length;
      state.points.push({ t: time, total: event.total });
      if (state.window) state.window.committed = event;
      break;
    }
    case 'Finished':
    case 'Failed':
      state.ended = true;
      break;
    default:
  }
}

/** The state after the first n events; reuses `state` when it lies before n. */
export function stateAt(lane, n, state = null) {
  let known = state && state.n <= n ? state : emptyState();
  while (known.n < Math.min(n, lane.events.length)) {
    apply(known, lane, lane.events[known.n], lane.times[known.n]);
    known.n += 1;
  }
  return known;
}

/** How many events were known at time t. */
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

/** Where stepping stops: every step of the drafted lane, then what vanilla still has to say. [{t, lane, n}] */
export function stopsOf(lanes) {
  const [first, second] = lanes.drafted ? [lanes.drafted, lanes.vanilla] : [lanes.vanilla, null];
  if (!first) return [];
  const name = lanes.drafted ? 'drafted' : 'vanilla';
  const stops = first.stops.map((index) => ({ t: first.times[index], lane: name, n: index + 1 }));
  if (second) {
    for (const index of second.stops) {
      if (second.events[index].kind === 'Committed' && second.times[index] > first.duration) {
        stops.push({ t: second.times[index], lane: 'vanilla', n: index + 1 });
      }
    }
  }
  return stops;
}

/** Decode time of a lane at race time t, and its tokens per second so far (null before the first token). */
export function clockOf(lane, state, t) {
  const seconds = Math.min(t, lane.duration);
  const rate = state.tokens.length && seconds > 0 ? state.tokens.length / seconds : null;
  return { seconds, rate, done: state.ended };
}

/**
 * Threads that waited for a processor, on average over a finished lane (specdiff_core/schema/metrics.py): about 0 on a quiet
 * machine. null where it was not measured.
 */
export function waiting(lane) {
  const { finished } = lane || {};
  return finished && Number.isFinite(finished.waited_seconds) && finished.seconds > 0 ? finished.waited_seconds / finished.seconds : null;
}

/** Measured speed-up so far: tokens per second of drafted over vanilla. */
export function speedup(drafted, vanilla) {
  return drafted && vanilla && drafted.rate && vanilla.rate ? drafted.rate / vanilla.rate : null;
}

/** Compare two token lists: {same, first} with the index of the first difference, or -1. */
export function compare(one, other) {
  const length = Math.min(one.length, other.length);
  for (let i = 0; i < length; i += 1) if (one[i] !== other[i]) return { same: false, first: i };
  return { same: one.length === other.length, first: one.length === other.length ? -1 : length };
}

/**
 * τ / (v + c · NFE per round): what τ would give if a verifying pass cost v and a drafter pass c of vanilla's passes,
 * as they did in this run, and nothing else cost time. A prediction, never shown as a measurement. null where it is
 * not defined.
 */
export function predicted(drafted, vanilla) {
  const by = drafted && drafted.finished ? drafted.finished.seconds_by || {} : {};
  const base = vanilla && vanilla.finished ? vanilla.finished.seconds_by || {} : {};
  const sums = drafted ? stateAt(drafted, drafted.events.length).sums : null;
  const calls = vanilla ? stateAt(vanilla, vanilla.events.length).sums.calls : 0;
  if (!sums || !sums.rounds || !sums.nfe || !calls || !base.score || !by.draft || !by.score || !sums.calls) return null;
  const pass = base.score / calls;
  const cost = by.draft / sums.nfe / pass;
  const verify = by.score / sums.calls / pass;
  const tau = sums.committed / sums.rounds;
  return { cost, verify, value: tau / (verify + cost * (sums.nfe / sums.rounds)) };
}
