// What a link to a race holds: the settings, or one moment of a recorded one: the recording or run,
// the lane, the round, and the phase. Pure.

import { RUN_NAME } from './declared.js';
/** @import { Lane } from './lane.js' */
/** @import { Stop } from './stops.js' */

/** @typedef {{tab: string, trace: string, lane: string, round: number, at: string, whole?: boolean,
 *  settings: string}} Moment `trace`: the file's name; `at`: start, step1, step2, …, score, verify,
 *  commit; `whole`: the link names no moment; `settings`: the settings in a run's link */

/** @typedef {Record<string, string | number | boolean | null>} Settings settings, and the prompt;
 *  empty ones are null or '' */

/** Settings as a link's query. @param {Settings} settings */
export const linkOf = (settings) =>
  new URLSearchParams(
    Object.entries(settings).flatMap(([name, value]) =>
      (value ?? '') === '' ? [] : [[name, String(value)]]
    ),
  ).toString();

/** @type {Record<string, string>} event at which stepping stops -> its name in a link */
const PHASES = {
  RoundStarted: 'start',
  TargetScored: 'score',
  Verified: 'verify',
  Committed: 'commit',
};

/** The name of an event in a link; empty if stepping does not stop there. @param {any} event */
const nameOf = ({ kind, step }) => kind === 'DenoiseStep' ? `step${step + 1}` : PHASES[kind] ?? '';

/**
 * The position of the playhead in a lane: the last stop that it has passed.
 * @param {Lane} lane @param {number} n events that were passed
 * @returns {{round: number, at: string} | null}
 */
export function momentAt(lane, n) {
  const event = /** @type {any} */ (lane.events.slice(0, n).findLast(nameOf));
  return event ? { round: event.round + 1, at: nameOf(event) } : null;
}

/**
 * The stop that a link names; else the last of its round; −1 if the lane lacks that round.
 * @param {Stop[]} stops @param {Lane} lane @param {string} name of the lane
 * @param {{round: number, at: string}} moment
 */
export function stopOf(stops, lane, name, { round, at }) {
  const eventOf = (i) => /** @type {any} */ (lane.events[stops[i].n - 1]);
  const roundStops = stops.flatMap((stop, i) =>
    stop.lane === name && eventOf(i).round === round - 1 ? [i] : []
  );
  return roundStops.find((i) => nameOf(eventOf(i)) === at) ?? roundStops.at(-1) ?? -1;
}

/** Whether a file is of a run that the server keeps (app/run/kept.py), not a recording. */
export const isRun = (name) => new RegExp(`^${RUN_NAME}\\.jsonl$`).test(name);

/** The query of a link to a whole run; it includes the settings, which still work when the run is
 *  gone. @param {string} run the file's name
 *  @param {string} settings the settings as a link holds them */
export const runQuery = (tab, run, settings) =>
  [new URLSearchParams({ tab, run }), settings].filter(String).join('&');

/** @param {Moment} moment */
export const momentQuery = ({ tab, trace, lane, round, at, settings }) => {
  const moment = new URLSearchParams({ lane, round: String(round), at });
  return isRun(trace)
    ? `${runQuery(tab, trace, settings)}&${moment}`
    : `${new URLSearchParams({ tab, trace })}&${moment}`;
};

/** The moment named in an address, or null. */
export function readMoment(search) {
  const query = new URLSearchParams(search);
  const round = Number(query.get('round') ?? 1);
  const moment = {
    tab: query.get('tab') ?? 'live',
    trace: query.get('trace') ?? query.get('run') ?? '',
    lane: query.get('lane') ?? '',
    round: Number.isInteger(round) && round > 0 ? round : 1,
    at: query.get('at') ?? 'commit',
    whole: !query.has('round'),
  };
  for (const name of ['tab', 'open', 'trace', 'run', 'lane', 'round', 'at']) query.delete(name);
  return moment.trace ? { ...moment, settings: query.toString() } : null;
}
