// Where stepping through a race stops, how long a person's pace stays there, and the round that it
// stages. Pure.

import { EARLY } from './declared.js';
import { countAt } from './progress.js';
import { roundSeconds } from './playhead.js';
/** @import { Event } from './events.d.ts' */
/** @import { Lane } from './lane.js' */
/** @import { Playhead } from './playhead.js' */
/** @import { Lanes } from './race.js' */

/** @typedef {{t: number, lane: string, n: number, dwell: number}} Stop `dwell`: seconds for which a
 *  person's pace stays there */

const BRIEF = 1 / 60; // seconds; shorter stays are not seen

/** Where stepping stops: every step of the selected lane, then those of longer lanes: the end of
 *  each, or, if there is only one other lane, each of its commits. @param {Lanes} lanes
 *  @param {string[]} names @param {string | null} selected
 *  @param {boolean} [growing] more events may come: only its own steps @returns {Stop[]} */
export function stopsOf(lanes, names, selected, growing = false) {
  const laneOf = (name) => /** @type {Lane} */ (lanes[name]);
  const stop = (name, index, dwell = 0) => (
    { t: laneOf(name).times[index], lane: name, n: index + 1, dwell }
  );
  const lane = lanes[selected ?? ''] ?? null;
  const after = lane ? lane.duration : -1;
  const others = names.filter((name) =>
    !growing && name !== selected && (lanes[name]?.duration ?? -1) > after
  );
  const later = others.flatMap((name) => {
    const { events, stops, times } = laneOf(name);
    if (others.length > 1) return [stop(name, events.length - 1)];
    return stops.filter((index) => events[index].kind === 'Committed' && times[index] > after)
      .map((index) => stop(name, index));
  });
  const dwells = lane ? dwellsOf(lane) : new Map();
  const stops = lane?.stops.map((index) => stop(selected, index, dwells.get(index))) ?? [];
  return [...stops, ...later.sort((a, b) => a.t - b.t)];
}

/** How long a person's pace stays at each stop of the staged round: it is to be read. In seconds.
 *  @param {Event} event @param {number} steps of denoising */
function stagedSeconds(event, steps) {
  if (event.kind === 'RoundStarted') return 3.5;
  if (event.kind === 'DenoiseStep') return Math.min(2.5, 8 / steps);
  if (event.kind === 'Verified') return 2.4 + 0.8 * event.accepted;
  return event.kind === 'TargetScored' ? 2 : 3;
}

/** The round that is staged, of those with a draft: not the first, which shows at once how fast it
 *  goes, but the first early one behind it of which at least two guesses were right and one wrong;
 *  else the second. @param {Pick<Lane, 'rounds'>} lane @returns {number} −1 if it has none */
export function stagedRound({ rounds }) {
  const [first, ...others] = rounds.filter(({ size }) => size);
  const mixed = others.slice(0, EARLY).find(({ accepted, drafted }) =>
    accepted > 1 && accepted < drafted
  );
  return (mixed ?? others[0] ?? first)?.round ?? -1;
}

/** How long a person's pace stays at each stop of a lane: the rounds with a draft, from the staged
 *  one on, but never the first. @param {Lane} lane @returns {Map<number, number>} */
function dwellsOf(lane) {
  const { events, rounds, stops } = lane;
  const staged = stagedRound(lane);
  const drafting = rounds.filter(({ size }) => size).slice(1).filter(({ round }) =>
    round >= staged
  );
  const order = new Map(drafting.map(({ round }, i) => [round, i]));
  const roundAt = (index) => {
    const event = events[index];
    return 'round' in event ? order.get(event.round) : undefined;
  };
  const counts = drafting.map(() => 0);
  for (const index of stops) {
    const round = roundAt(index);
    if (round !== undefined) counts[round] += 1;
  }
  return new Map(stops.flatMap((index) => {
    const round = roundAt(index);
    if (round === 0) return [[index, stagedSeconds(events[index], drafting[0].steps || 1)]];
    const seconds = round === undefined ? 0 : roundSeconds(round - 1) / Math.max(4, counts[round]);
    return seconds > BRIEF ? [[index, seconds]] : [];
  }));
}

/** How many events the playhead has passed. @param {Lane} lane @param {Playhead} playhead */
export function passed(lane, name, playhead) {
  const stop = playhead.stop >= 0 ? playhead.stops[playhead.stop] : null;
  return stop && stop.lane === name ? stop.n : countAt(lane, playhead.t);
}
