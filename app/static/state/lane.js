// One lane of a race: its events, and its state at any moment of the decode clock. Pure: no DOM, no
// timer. Times are seconds. Sums and ratios are defined in specdiff_core/schema/metrics.py; a test
// compares the two.

import { spell } from './detokenize.js';
import { treeOf } from './tree.js';
/** @import { Committed, Decided, DenoiseStep, DraftReady, Event, Failed, Finished, RoundStarted,
 *  RunStarted, TargetScored, Test, Verified } from './events.d.ts' */
/** @import { Tree } from './tree.js' */

/** @typedef {ReturnType<typeof roundOf>} Round a round of a complete lane */
/** @typedef {ReturnType<typeof windowOf>} PartialRound a round as far as the playhead has come */
/** @typedef {{id: number, source: string, round: number, test: Test | null}} Token */
/** @typedef {ReturnType<typeof emptyState>} State of a lane after its first n events */
/** @typedef {ReturnType<typeof buildLane>} Lane */

const EPSILON = 1e-9;
const SERVER = 'server';
const STOPS = new Set(['RoundStarted', 'DenoiseStep', 'TargetScored', 'Verified', 'Committed']);

/** @param {Event} event @returns {number} its time; `last` if it has none of its own */
function eventTime(event, last) {
  if (event.kind === 'Committed') return Math.max(last, event.at);
  if (event.kind === 'Finished') return Math.max(last, event.seconds);
  return 'span' in event ? Math.max(last, event.span.start + event.span.seconds) : last;
}

/** A round without events so far. */
const roundOf = (round) => ({
  round,
  size: 0, // columns that its window needs
  steps: 0, // recorded drafter passes
  drafted: 0, // tokens of its draft; for a tree, its depth
  accepted: 0,
  extra: false, // whether the target added a token
  tree: /** @type {Tree | null} */ (null),
  copied: false, // without any drafter pass
  unrecorded: false, // whether its drafter passes are not in the trace
  decided: /** @type {Decided | null} */ (null),
  draft: /** @type {DraftReady | null} */ (null),
  verified: /** @type {Verified | null} */ (null),
  committed: /** @type {Committed | null} */ (null),
  first: 0, // place of its first token in the text
  ends: /** @type {Record<string, number>} */ ({}), // by kind: events up to its last
});

/** A lane without events so far. */
const emptyLane = () => ({
  events: /** @type {Event[]} */ ([]),
  times: /** @type {number[]} the time of each event */ ([]),
  pieces: /** @type {Record<number, string>} */ ({}),
  header: /** @type {RunStarted | null} */ (null),
  finished: /** @type {Finished | null} */ (null),
  failed: /** @type {Failed | null} */ (null),
  rounds: /** @type {Round[]} */ ([]),
  stops: /** @type {number[]} indices of events at which stepping stops */ ([]),
  ids: /** @type {number[]} */ ([]),
  texts: /** @type {string[]} the readable text of each id */ ([]),
  duration: 0,
  wordless: false, // whether the trace holds no piece of its text
  unheard: roundOf(-1), // reduced event streams start no round: events of one are dropped
});

/** @param {Event[]} events */
export const buildLane = (events) => extend(emptyLane(), events);

/** Add events to a lane, in place. @param {ReturnType<typeof emptyLane>} lane
 *  @param {Event[]} events */
export function extend(lane, events) {
  let round = lane.rounds.at(-1) ?? lane.unheard;
  for (const event of events) {
    const index = lane.events.push(event) - 1;
    lane.duration = eventTime(event, lane.duration);
    lane.times.push(lane.duration);
    if (STOPS.has(event.kind)) lane.stops.push(index);
    if (event.kind === 'RoundStarted') {
      round = roundOf(event.round);
      lane.rounds.push(round);
    }
    round.ends[event.kind] = index + 1;
    switch (event.kind) {
      case 'RunStarted':
        lane.header = event;
        break;
      case 'PiecesSeen':
        Object.assign(lane.pieces, event.pieces);
        break;
      case 'Finished':
        lane.finished = event;
        break;
      case 'Failed':
        lane.failed = event;
        break;
      case 'Decided':
        round.decided = event;
        break;
      case 'DenoiseStep':
        round.steps += 1;
        round.size = event.ids.length;
        break;
      case 'DraftReady':
        round.draft = event;
        round.tree = event.parents.length
          ? { ...treeOf(event.parents), branches: event.branches }
          : null;
        // fewer if the text ends
        round.drafted = round.tree ? round.tree.deepest : event.ids.length;
        round.size = round.tree ? round.drafted : Math.max(round.size, round.drafted);
        round.copied = !event.nfe && event.ids.length > 0;
        round.unrecorded = event.nfe > 0 && event.ids.length > 0 && !round.steps && !round.tree;
        break;
      case 'Verified':
        Object.assign(round, { verified: event, accepted: event.accepted });
        if (round.tree) Object.assign(round.tree, { path: event.path, chosen: event.chosen });
        break;
      case 'Committed':
        Object.assign(round, { committed: event, first: lane.ids.length });
        lane.ids.push(...event.ids);
        round.extra = event.ids.length > round.accepted;
        break;
      default:
    }
  }
  spell(lane);
  return lane;
}

/** Note in a window what is known of its whole round in advance. @param {PartialRound} window
 *  @param {Lane} lane */
function foresee(window, { rounds }) {
  const { draft, verified, committed, ends, ...known } = rounds[window.round];
  Object.assign(window, known);
}

/** A round before its first event. @param {Round} round
 *  @param {RoundStarted} event that began it */
const windowOf = (round, { length, anchor }) => ({
  ...round,
  length,
  anchor,
  passes: /** @type {DenoiseStep[]} */ ([]),
  draft: /** @type {DraftReady | null} */ (null),
  scored: /** @type {TargetScored | null} */ (null),
  verified: /** @type {Verified | null} */ (null),
  committed: /** @type {Committed | null} */ (null),
  phase: /** @type {'draft' | 'score' | 'verify' | 'commit'} */ ('draft'),
  judged: Infinity, // positions whose verdict may be shown
});

const emptyState = () => ({
  n: 0,
  tokens: /** @type {Token[]} */ ([]),
  window: /** @type {PartialRound | null} */ (null),
  last: /** @type {PartialRound | null} the last round with a draft that was verified */ (null),
  ended: false,
  points: [{ t: 0, total: 0 }],
  sums: { // nfe: drafter passes; calls: target passes
    rounds: 0,
    committed: 0,
    drafted: 0,
    tested: 0,
    accepted: 0,
    nfe: 0,
    calls: 0,
    testedAt: /** @type {number[]} */ ([]),
    acceptedAt: /** @type {number[]} */ ([]),
  },
});

/** For each tested position, whether one of its tests accepted. @param {Test[]} tests */
export function reached(tests) {
  /** @type {Map<number, boolean>} */
  const accepted = new Map();
  for (const test of tests) {
    accepted.set(test.position, Boolean(accepted.get(test.position)) || test.accepted);
  }
  return [...accepted.values()];
}

/** The test that rejected a drafted token, or null.
 *  @param {Verified | null | undefined} verified */
export function rejectedOf(verified) {
  const last = verified?.tests.at(-1);
  return last && !last.accepted ? last : null;
}

/** The test that decided each position: the last of several drafts'. @param {Test[]} tests */
export const decisive = (tests) => new Map(tests.map((test) => [test.position, test]));

/** Apply one more event in place. @param {State} state @param {Lane} lane @param {Event} event */
function apply(state, lane, event, time) {
  const { sums, window } = state;
  switch (event.kind) {
    case 'RoundStarted':
      if (window) foresee(window, lane);
      if (window && window.verified && window.size) state.last = window;
      state.window = windowOf(lane.rounds[event.round], event);
      break;
    case 'DenoiseStep':
      window?.passes.push(event);
      break;
    case 'DraftReady':
      sums.drafted += event.ids.length;
      sums.nfe += event.nfe;
      if (window) Object.assign(window, { draft: event, phase: 'score' });
      break;
    case 'TargetScored':
      sums.calls += 1;
      if (window) Object.assign(window, { scored: event, phase: 'score' });
      break;
    case 'Verified':
      sums.accepted += event.accepted;
      reached(event.tests).forEach((accepted, i) => {
        sums.tested += 1;
        sums.testedAt[i] = (sums.testedAt[i] || 0) + 1;
        sums.acceptedAt[i] = (sums.acceptedAt[i] || 0) + Number(accepted);
      });
      if (window) Object.assign(window, { verified: event, phase: 'verify' });
      break;
    case 'Committed': {
      const tests = decisive(window && window.verified ? window.verified.tests : []);
      event.ids.forEach((id, i) =>
        state.tokens.push({
          id,
          source: event.sources[i],
          round: event.round,
          test: tests.get(i) ?? null,
        })
      );
      sums.rounds += event.sources.includes(SERVER) ? 0 : 1; // a server's chunks aren't
      sums.committed += event.ids.length;
      state.points.push({ t: time, total: event.total });
      if (window) Object.assign(window, { committed: event, phase: 'commit' });
      break;
    }
    case 'Finished':
    case 'Failed':
      state.ended = true;
      break;
    default:
  }
}

/** The state after n events; continues an earlier `state`. @param {Lane} lane
 *  @param {State | null} [state] */
export function stateAt(lane, n, state = null) {
  const current = state && state.n <= n ? state : emptyState();
  while (current.n < Math.min(n, lane.events.length)) {
    apply(current, lane, lane.events[current.n], lane.times[current.n]);
    current.n += 1;
  }
  // The round is known further than the state has come; in a growing lane, further than before.
  if (current.window) foresee(current.window, lane);
  return current;
}

/** @param {Lane} lane @returns {number} how many events happened by time t */
export const countAt = (lane, t) => lane.times.findLastIndex((time) => time <= t + EPSILON) + 1;

/** @param {Lane | null} lane @returns {boolean} whether an attached server ran it */
export const isServed = (lane) => Boolean(lane && lane.header && lane.header.server);

/** @param {Lane} lane @returns {boolean} whether it is greedy, so that nothing is drawn */
export const isGreedy = (lane) => lane.header?.config.temperature === 0;

/** @param {Lane | null} lane @returns {boolean} whether no more events come */
export const isOver = (lane) => Boolean(lane && (lane.finished || lane.failed));

/** @param {Lane | null} lane @returns {boolean} whether it drafts nothing */
export const isVanilla = (lane) =>
  Boolean(lane && lane.header && lane.header.config.drafter === 'none');
