// The numbers of a race, with the definitions of specdiff_core/schema/metrics.py; a test compares
// the two on every trace.

import { ENOUGH } from './declared.js';
import { stateAt } from './progress.js';
/** @import { Lane } from './lane.js' */
/** @import { State } from './progress.js' */

/** @typedef {{seconds: number, tokens: number, rate: number | null, done: boolean,
 *  whole: boolean}} Clock of a lane at a moment; `rate`: tokens
 *  per second so far; `whole`: the lane ended by itself */

const ratioOf = (above, below) => below ? above / below : null;

/** τ, tokens per round. @param {State} state */
export const tau = ({ sums }) => ratioOf(sums.committed, sums.rounds);

/** α, accepted of tested. @param {State} state */
export const alpha = ({ sums }) => ratioOf(sums.accepted, sums.tested);

/** A lane's decode clock at race time t: seconds, tokens per second so far (null before the first
 *  token), and whether it is over. @param {Lane} lane @param {State} state @param {number} t */
export function clockOf(lane, state, t) {
  const seconds = Math.min(t, lane.duration);
  const tokens = state.tokens.length;
  const rate = tokens && seconds > 0 ? tokens / seconds : null;
  const whole = state.ended && lane.finished?.reason !== 'stopped';
  return { seconds, tokens, rate, done: state.ended, whole };
}

/** Tokens per second over those of the baseline. @param {{rate: number | null} | null} fast
 *  @param {{rate: number | null} | null} slow */
export const speedUp = (fast, slow) =>
  fast && slow && fast.rate && slow.rate ? fast.rate / slow.rate : null;

/** The speed-up of a lane under way: null before both lanes have written enough.
 *  @param {Clock | null | undefined} fast @param {Clock | null | undefined} slow */
export const speedUpSoFar = (fast, slow) =>
  fast && slow && (fast.whole && slow.whole || Math.min(fast.tokens, slow.tokens) >= ENOUGH)
    ? speedUp(fast, slow)
    : null;

/** Tokens per second of a whole lane. @param {Lane} lane */
export const pace = (lane) => ({ rate: lane.texts.length / lane.duration });

/** Passes of a whole lane. @param {Lane} lane */
export function passesOf(lane) {
  const { calls, nfe } = stateAt(lane, lane.events.length).sums;
  return { target: calls, drafter: nfe };
}

/** Average threads that waited for a processor; null if not measured. @param {Lane | null} lane */
export function waiting(lane) {
  const finished = lane && lane.finished;
  return finished && finished.waited_seconds !== null && finished.seconds > 0
    ? finished.waited_seconds / finished.seconds
    : null;
}

/** τ / (v + c · NFE per round): the speed-up if only passes cost time, at their cost in these runs.
 *  A prediction, never shown as a measurement; null if undefined. @param {Lane | null} drafted
 *  @param {Lane | null} vanilla */
export function predicted(drafted, vanilla) {
  if (!drafted || !vanilla || !drafted.finished || !vanilla.finished) return null;
  const [by, base] = [drafted.finished.seconds_by, vanilla.finished.seconds_by];
  const { sums } = stateAt(drafted, Infinity);
  const { target: calls } = passesOf(vanilla);
  if (!sums.rounds || !sums.nfe || !sums.calls || !calls || !base.score || !by.draft || !by.score) {
    return null;
  }
  const pass = base.score / calls;
  const [cost, verify] = [by.draft / sums.nfe / pass, by.score / sums.calls / pass];
  const [perRound, passes] = [sums.committed, sums.nfe].map((count) => count / sums.rounds);
  return { tau: perRound, passes, cost, verify, value: perRound / (verify + cost * passes) };
}

/** Compare two token lists. @returns {number} the first difference, or −1 */
export function firstDifference(a, b) {
  const length = Math.min(a.length, b.length);
  for (let i = 0; i < length; i += 1) if (a[i] !== b[i]) return i;
  return a.length === b.length ? -1 : length;
}
