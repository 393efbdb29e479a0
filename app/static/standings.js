// A race of any number of lanes: who is in it, who is ahead, who came in when, and where stepping stops. Pure.

import { clockOf, stateAt } from './fold.js';

export const MOST_LANES = 8; // of a foreign trace: more could not be told apart
const EPSILON = 1e-9;

/** The lanes of a trace to show: those wanted, in that order, or all; at most MOST_LANES. {names, left} */
export function choose(lanes, wanted = null) {
  const there = wanted ? wanted.filter((name) => Object.hasOwn(lanes, name)) : Object.keys(lanes);
  return { names: there.slice(0, MOST_LANES), left: Math.max(0, there.length - MOST_LANES) };
}

/** The lane that speed-ups refer to: vanilla, or whichever has no drafter. null where there is none. */
export function baselineOf(lanes, names) {
  const plain = (name) => lanes[name] && lanes[name].header && lanes[name].header.config.drafter === 'none';
  return names.includes('vanilla') ? 'vanilla' : names.find(plain) ?? null;
}

/** Whether a lane wrote all it was asked for: neither stopped nor failed. */
export const complete = (lane) => Boolean(lane && lane.finished && lane.finished.reason !== 'stopped');

/**
 * How the race ends, by lane: {place, tokens, short, done}. Places go by the clock at the end, among the lanes that wrote as
 * many tokens as the longest of those that came in; equal clocks share a place. `short`: it came in with fewer tokens, so its
 * clock says nothing beside theirs and it has no place.
 */
export function standings(lanes, names) {
  const done = names.filter((name) => complete(lanes[name]));
  const tokens = (name) => (lanes[name] ? lanes[name].shown.length : 0);
  const most = Math.max(0, ...done.map(tokens));
  const full = done.filter((name) => tokens(name) === most);
  return Object.fromEntries(names.map((name) => {
    const at = lanes[name] ? lanes[name].duration : 0;
    const ahead = full.filter((other) => lanes[other].duration < at - EPSILON).length;
    const came = done.includes(name);
    return [name, { place: full.includes(name) ? ahead + 1 : null, tokens: tokens(name), short: came && tokens(name) < most, done: came }];
  }));
}

/** What a row shows at time t: clock, tokens, share of the longest text, speed-up over the baseline, τ. */
export function rowAt(lanes, states, name, baseline, t, total) {
  const lane = lanes[name];
  const state = states[name];
  if (!lane || !state) return null;
  const clock = clockOf(lane, state, t);
  const base = baseline && lanes[baseline] && states[baseline] ? clockOf(lanes[baseline], states[baseline], t) : null;
  const { sums } = state;
  return {
    clock,
    tokens: state.tokens.length,
    share: total ? Math.min(1, state.tokens.length / total) : 0,
    speedup: base && base.rate && clock.rate ? clock.rate / base.rate : null,
    tau: sums.rounds ? sums.committed / sums.rounds : null,
  };
}

/**
 * Where stepping stops: every step of the selected lane, and where another lane ends after it. [{t, lane, n}], by time.
 */
export function raceStops(lanes, names, selected) {
  const own = lanes[selected];
  const stops = own ? own.stops.map((index) => ({ t: own.times[index], lane: selected, n: index + 1 })) : [];
  const last = own ? own.duration : -1;
  const others = names.filter((name) => name !== selected && lanes[name] && lanes[name].events.length && lanes[name].duration > last);
  const ends = others.map((name) => ({ t: lanes[name].duration, lane: name, n: lanes[name].events.length }));
  return [...stops, ...ends.sort((a, b) => a.t - b.t)];
}

/** The state of every lane at its end. */
export const finalStates = (lanes, names) => Object.fromEntries(names.map((name) => [name, lanes[name] ? stateAt(lanes[name], lanes[name].events.length) : null]));

/** A lane's short name: its label, or its own name in words. */
export const shortName = (name, labels = {}) => (Object.hasOwn(labels, name) && labels[name]) || name.replaceAll('_', ' ');

/**
 * Heights of the labels of lines that end at `ends` = [{x, y, done}], in units of y, on an axis up to `most`. Lines under
 * way keep their own height, pushed apart by `gap`; those that came in are stacked above the field, the first highest, so
 * that no leader crosses a label.
 */
export function labelHeights(ends, most, gap) {
  const heights = ends.map((end) => end.y);
  const running = ends.map((_, i) => i).filter((i) => !ends[i].done).sort((a, b) => ends[a].y - ends[b].y);
  running.forEach((i, k) => { if (k) heights[i] = Math.max(heights[i], heights[running[k - 1]] + gap); });
  const over = running.length ? heights[running[running.length - 1]] - most : 0;
  if (over > 0) for (const i of running) heights[i] -= over; // what was pushed up comes down again, all together
  const finished = ends.map((_, i) => i).filter((i) => ends[i].done).sort((a, b) => ends[a].x - ends[b].x || a - b);
  finished.forEach((i, k) => { heights[i] = most + gap * (finished.length - k); });
  return heights;
}
