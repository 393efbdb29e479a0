// A race of any number of lanes: its lanes, their places, and how it ends. Pure.

import { BASELINE } from './declared.js';
import { isServed, isVanilla } from './lane.js';
import { clockOf, speedUpSoFar, tau, waiting } from './metrics.js';
import { plural, reasonWords } from './format.js';
/** @import { Lane } from './lane.js' */
/** @import { State } from './progress.js' */

/** @typedef {Record<string, Lane | null>} Lanes */
/** @typedef {{place: number | null, tokens: number, unequal: boolean, done: boolean,
 *  busy: boolean}} End */

export const MOST_LANES = 8; // of a foreign trace; more would be hard to distinguish
const EPSILON = 1e-9;

/**
 * The lanes of a trace to show: those named, in that order, or all; at most MOST_LANES.
 * @param {Record<string, unknown>} lanes @param {string[] | null} [names]
 * @returns {{names: string[], left: number}}
 */
export function choose(lanes, names = null) {
  const present = names ? names.filter((name) => Object.hasOwn(lanes, name)) : Object.keys(lanes);
  return { names: present.slice(0, MOST_LANES), left: Math.max(0, present.length - MOST_LANES) };
}

/** The lane that speed-ups refer to: vanilla, or whichever has no drafter. @param {Lanes} lanes */
export function baselineOf(lanes, names) {
  return names.includes(BASELINE) ? BASELINE : names.find((name) => isVanilla(lanes[name])) ?? null;
}

/** @param {Lane | null} lane @returns {boolean} whether it finished: neither stopped nor failed */
export const complete = (lane) =>
  Boolean(lane && lane.finished && lane.finished.reason !== 'stopped');

/**
 * How the race ends, by lane. Finished lanes with as many tokens as the longest of them are ranked
 * by their clocks; equal clocks share a place. `unequal`: the lane finished with fewer tokens, or
 * is a server's with another number than ours, so its clock cannot be compared and it has no place.
 * `busy`: threads of a ranked lane had to wait for a processor, so no clock of the race can be
 * trusted and no lane has a place.
 * @param {Lanes} lanes @param {string[]} names @param {number} [crowded] threads that waited, on
 * average, from which a time cannot be trusted @returns {Record<string, End>}
 */
export function standings(lanes, names, crowded = Infinity) {
  const length = (name) => lanes[name]?.texts.length ?? 0;
  const duration = (name) => lanes[name]?.duration ?? 0;
  const done = names.filter((name) => complete(lanes[name]));
  const ours = done.filter((name) => !isServed(lanes[name])); // a server may write another text
  const most = Math.max(0, ...(ours.length ? ours : done).map(length));
  const full = done.filter((name) => length(name) === most);
  const busy = full.some((name) => (waiting(lanes[name]) ?? 0) >= crowded);
  return Object.fromEntries(names.map((name) => {
    const ahead = full.filter((rival) => duration(rival) < duration(name) - EPSILON).length;
    const finished = done.includes(name);
    return [name, {
      place: full.includes(name) && !busy ? ahead + 1 : null,
      tokens: length(name),
      unequal: finished && length(name) !== most,
      done: finished,
      busy: busy && full.includes(name),
    }];
  }));
}

/** A lane at time t: clock, tokens, share of the longest text, speed-up over the baseline, τ.
 *  @param {Lanes} lanes @param {Record<string, State | null>} states @param {string} name
 *  @param {string | null} baseline
 *  @param {number} t @param {number} total */
export function rowAt(lanes, states, name, baseline, t, total) {
  const [lane, state] = [lanes[name], states[name]];
  if (!lane || !state) return null;
  const clock = clockOf(lane, state, t);
  const [slow, slowState] = baseline ? [lanes[baseline], states[baseline]] : [null, null];
  return {
    clock,
    tokens: state.tokens.length,
    share: total ? Math.min(1, state.tokens.length / total) : 0,
    speedup: lane.failed && clock.done
      ? null
      : speedUpSoFar(clock, slow && slowState ? clockOf(slow, slowState, t) : null),
    tau: tau(state),
  };
}

/**
 * Heights of labels beside a plot, near the ends of their lines and at least `gap` apart; of lines that
 * end equally high, the one that got there first has the highest label.
 * @param {{x: number, y: number}[]} ends @param {number} gap
 */
export function labelHeights(ends, gap) {
  const order = ends.map((_, i) => i).sort((a, b) =>
    ends[b].y - ends[a].y || ends[a].x - ends[b].x
  );
  const heights = ends.map(({ y }) => y);
  order.forEach((i, k) => {
    heights[i] = Math.min(heights[i], k ? heights[order[k - 1]] - gap : Infinity);
  });
  order.reverse().forEach((i, k) => { // up again, from below the axis
    heights[i] = Math.max(heights[i], k * gap);
  });
  return heights;
}

const UNEQUAL =
  'Not ranked: it didn’t write as many tokens as the longest text of this race’s own lanes. ' +
  'Compare tokens per second, not the clock.';

const BUSY =
  'Not ranked: other programs disturbed the clock of this race. Compare passes, not times.';

/** The places of the lanes so far, by their tokens; none at the start or for a single lane.
 *  @param {Record<string, ReturnType<typeof rowAt>>} rows @returns {Record<string, number | null>} */
export function ranksOf(rows) {
  const counts = Object.values(rows).map((row) => row?.tokens ?? 0);
  const spread = counts.length > 1 && new Set(counts).size > 1;
  return Object.fromEntries(
    Object.entries(rows).map(([name, row]) => [
      name,
      spread && row ? 1 + counts.filter((count) => count > row.tokens).length : null,
    ]),
  );
}

/** The head of a lane besides its numbers: its place, a kind for its style, and its progress.
 *  @param {Lane | null} lane @param {ReturnType<typeof rowAt>} row @param {End | undefined} end
 *  @param {number | null} rank so far, while it runs
 *  @param {string} absent shown for a lane without events
 *  @returns {{place: string, kind: string, words: string, title?: string, placeTitle?: string}} */
export function markOf(lane, row, end, rank, absent) {
  if (!lane || !row) return { place: '', kind: '', words: absent };
  const over = row.clock.done;
  const count = plural(row.tokens, 'token');
  if (over && lane.failed) {
    const words = `${lane.failed.message} ${lane.failed.hint}`;
    return {
      place: '✕',
      kind: 'failed',
      words: row.tokens ? `After ${count}: ${words}` : words,
      title: words,
    };
  }
  const words = over && lane.finished ? `${count} · ${reasonWords(lane.finished.reason)}` : count;
  if (!over || !end) {
    const place = rank ? `${rank}` : '';
    return { place, kind: 'now', words, placeTitle: rank ? `place ${rank} by tokens, so far` : '' };
  }
  if (end.unequal) {
    return { place: '∎', kind: 'unequal', words, title: UNEQUAL, placeTitle: UNEQUAL };
  }
  if (!end.done) return { place: '■', kind: 'stopped', words };
  if (end.busy) return { place: '–', kind: 'done', words, title: BUSY, placeTitle: BUSY };
  return {
    place: String(end.place),
    kind: end.place === 1 ? 'first' : 'done',
    words,
    placeTitle: `place ${end.place} by the clock`,
  };
}
