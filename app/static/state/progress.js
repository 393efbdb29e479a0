// How far a lane has come at a moment of the decode clock: the fold of its first events, and the round
// that they end in. Pure. Sums are defined in specdiff_core/schema/metrics.py; a test compares the two.

/** @import { Committed, DenoiseStep, DraftReady, Event, RoundStarted, TargetScored, Test,
 *  Verified } from './events.d.ts' */
/** @import { Lane, Round } from './lane.js' */

/** @typedef {ReturnType<typeof windowOf>} PartialRound a round as far as the playhead has come */
/** @typedef {{id: number, source: string, round: number, test: Test | null}} Token */
/** @typedef {ReturnType<typeof emptyState>} State of a lane after its first n events */

const EPSILON = 1e-9;
const SERVER = 'server';

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
