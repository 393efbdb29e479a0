// The stage: lanes of a trace or of a race under way, and their states at a time. Pure.

import { buildLane, extend, isOver } from './lane.js';
import { stateAt } from './progress.js';
import { busyWords, ratio } from './format.js';
import { nameLanes } from './marks.js';
import { passesOf, waiting } from './metrics.js';
import { baselineOf, choose, ranksOf, rowAt, standings } from './race.js';
import { passed, stopsOf } from './stops.js';
import { sharePieces } from './detokenize.js';
/** @import { Event } from './events.d.ts' */
/** @import { Lane } from './lane.js' */
/** @import { State, PartialRound } from './progress.js' */
/** @import { Looks } from './marks.js' */
/** @import { Playhead } from './playhead.js' */
/** @import { Lanes } from './race.js' */
/** @import { Clock } from './metrics.js' */

/** @typedef {Record<string, {label: string, method?: string}>} Labels that came with a recording */
/** @typedef {{round: PartialRound | null, older: string}} ShownRound a round; `older`: why an earlier
 *  one is shown, otherwise '' */
/** @typedef {ReturnType<Stage['scene']>} Scene what the views and the figures show */
/** @template T @typedef {{drafted: T | null, vanilla: T | null}} Pair selected lane, baseline */

export class Stage {
  /** @param {string[]} names @param {Lanes} lanes null where a lane has no events
   *  @param {Looks & {crowded: number}} options `crowded`: threads that waited for a processor, on
   *  average, from which a time cannot be trusted
   *  @param {{labels?: Labels, left?: number, before?: Stage}} [more] `left`: lanes that are not
   *  shown; `before`: the stage of the same lanes when they had fewer events */
  constructor(names, lanes, options, { labels = {}, left = 0, before } = {}) {
    this.names = names;
    this.lanes = lanes;
    this.left = left;
    this.crowded = options.crowded;
    this.present = names.filter((name) => lanes[name]);
    this.baseline = baselineOf(lanes, names);
    this.named = nameLanes(names, lanes, this.baseline, options, labels);
    this.ends = standings(lanes, names, options.crowded);
    const built = this.present.map((name) => /** @type {Lane} */ (lanes[name]));
    this.total = Math.max(1, ...built.map((lane) => lane.texts.length)); // of the longest text
    this.duration = Math.max(0, ...built.map((lane) => lane.duration));
    /** @type {Record<string, State | null>} */
    this.states = before?.states ??
      Object.fromEntries(names.map((name) => [name, null])); // a name may be __proto__
  }

  /** The lanes of a trace. @param {Record<string, Event[]>} events by lane
   *  @param {Looks & {crowded: number}} options @param {Labels} labels */
  static of(events, requested, options, labels) {
    const { names, left } = choose(events, requested);
    if (!names.length) throw new TypeError('a race without lanes');
    const lanes = Object.fromEntries(
      names.map((name) => [name, events[name].length ? buildLane(events[name]) : null]),
    );
    sharePieces(Object.values(lanes).filter((lane) => lane !== null));
    return new Stage(names, lanes, options, { labels, left });
  }

  /** The stage after some more events. @param {Record<string, Event[]>} events by lane, all so far
   *  @param {Looks & {crowded: number}} options */
  grown(events, options) {
    for (const name of this.names) {
      const lane = this.lanes[name];
      if (lane) extend(lane, events[name].slice(lane.events.length));
      else if (events[name].length) this.lanes[name] = buildLane(events[name]);
    }
    sharePieces(Object.values(this.lanes).filter((lane) => lane !== null));
    return new Stage(this.names, this.lanes, options, { before: this });
  }

  /** Up to which time all lanes have decoded, of those under way. */
  get edge() {
    const racing = this.names.filter((name) => !isOver(this.lanes[name]));
    const ends = racing.map((name) => this.lanes[name]?.duration ?? 0);
    return racing.length ? Math.min(...ends) : this.duration;
  }

  /** The last lane that has events. */
  get latest() {
    return this.present.at(-1) ?? this.names.at(-1) ?? null;
  }

  /** The fastest lane besides the baseline; on a disturbed clock the one with the fewest target
   *  passes. */
  get first() {
    if (this.names.length <= 2) return this.latest === this.baseline ? null : this.latest;
    const others = this.names.filter((name) => name !== this.baseline);
    const passes = (name) => passesOf(/** @type {Lane} */ (this.lanes[name])).target;
    const counted = others.filter((name) => this.ends[name].busy)
      .sort((a, b) => passes(a) - passes(b));
    return others.find((name) => this.ends[name].place === 1) ?? counted[0] ?? null;
  }

  /** This lane and the baseline, if their threads had to wait. @returns {[string, number][]} */
  disturbed(name) {
    return [...new Set([name, this.baseline])].flatMap((lane) => {
      const wait = lane && this.lanes[lane] ? waiting(this.lanes[lane]) : null;
      return lane && wait !== null && wait >= this.crowded ? [[this.named[lane].label, wait]] : [];
    });
  }

  /** Why the speed-up of a lane cannot be trusted, if so. */
  doubt(name) {
    const waits = this.disturbed(name).map(([lane, wait]) => `${lane} ${ratio(wait)}`);
    return waits.length ? busyWords('these times', `: ${waits.join(', ')}`) : '';
  }

  /** @template T @param {Record<string, T | null>} of */
  pair(of, selected) {
    const drafts = selected !== null && selected !== this.baseline;
    return {
      drafted: drafts ? of[selected] ?? null : null,
      vanilla: this.baseline ? of[this.baseline] ?? null : null,
    };
  }

  /** Where stepping stops while a lane is selected; `growing`: more events may come. */
  stops(selected, growing = false) {
    return stopsOf(this.lanes, this.names, selected, growing);
  }

  /** Everything that is shown at a moment.
   *  @param {Playhead} playhead
   *  @param {string | null} selected the lane whose window and numbers are shown */
  scene(playhead, selected) {
    const { lanes, names, named, states, baseline } = this;
    const { growing, t } = playhead;
    const total = growing
      ? Math.max(
        this.total,
        ...names.map((name) => Number(lanes[name]?.header?.config.max_new_tokens ?? 1)),
      )
      : this.total;
    for (const name of this.present) {
      const lane = /** @type {Lane} */ (lanes[name]);
      states[name] = stateAt(lane, passed(lane, name, playhead), states[name]);
    }
    const rows = Object.fromEntries(
      names.map((name) => [name, rowAt(lanes, states, name, baseline, t, total)]),
    );
    /** @type {Record<string, Clock | null>} */
    const clocks = Object.fromEntries(names.map((name) => [name, rows[name] && rows[name].clock]));
    const lane = this.pair(lanes, selected).drafted;
    const state = this.pair(states, selected).drafted;
    const shown = roundOf(state, playhead.stop >= 0);
    const ended = names.every((name) => !lanes[name] || clocks[name]?.done);
    return {
      stage: this,
      names,
      named,
      lanes,
      states: { ...states },
      rows,
      ranks: ranksOf(rows),
      clocks,
      duration: this.duration,
      total,
      baseline,
      selected,
      lane,
      state,
      shown,
      view: shown.round,
      moment: [state?.n, shown.round?.round, shown.round?.phase].join(), // changes with every event
      over: !growing && ended,
      growing, // more events may come
      share: playhead.share, // of the time on the stop that has passed
      isSlow: playhead.isSlow && playhead.playing,
      absent: growing ? 'Not started yet.' : 'This lane didn’t run.', // of a lane without events
    };
  }
}

/** The round of a lane to show: between two rounds the last one stays.
 *  @param {State | null} state @param {boolean} stands on a stop @returns {ShownRound} */
function roundOf(state, stands) {
  const round = state?.window ?? null;
  if (!state?.last || !round) return { round, older: '' };
  if (!round.size && round.phase !== 'draft') {
    const older = `This round drafts nothing; the window shows round ${state.last.round + 1}.`;
    return { round: state.last, older };
  }
  const begun = round.phase !== 'draft' || round.passes.length > 0;
  return { round: begun || stands ? round : state.last, older: '' };
}
