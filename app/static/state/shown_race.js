// What is on the stage of Live or Race: a trace, where it comes from, the playhead over it, and the lane
// whose text, window and numbers are shown. Changes only itself.

import { isRun, momentAt, momentQuery, runQuery, stopOf } from './moment.js';
import { passed } from './stops.js';
import { Playhead } from './playhead.js';
import { runOf } from './findings.js';
import { Stage } from './stage.js';
/** @import { Block } from './block.js' */
/** @import { Event } from './events.d.ts' */
/** @import { Labels } from './stage.js' */
/** @import { Looks } from './marks.js' */
/** @import { Moment } from './moment.js' */
/** @import { Trace } from './trace.js' */

/** @typedef {Looks & {crowded: number}} Drawing */
/** @typedef {{source: string, settings: string, file: string}} Origin `source`: the kind of its
 *  chip; `settings`: as a link's query; `file`: the name in a link of a recording, or of a run that
 *  the server keeps */

export class ShownRace {
  /** @param {Stage} stage @param {Playhead} playhead @param {Trace | null} trace
   *  @param {Partial<Origin>} origin @param {string | null} selected the lane, if the stage has it */
  constructor(stage, playhead, trace = null, origin = {}, selected = null) {
    this.stage = stage;
    this.playhead = playhead;
    this.trace = trace;
    this.source = origin.source ?? '';
    this.settings = origin.settings ?? '';
    this.file = origin.file ?? '';
    /** @type {Block | null} the staged round with other windows and steps */
    this.block = null;
    this.selected = stage.names.includes(selected ?? '') ? selected : this.preferred;
    this.point();
  }

  /** A whole trace. @param {Trace} trace @param {Drawing} drawing @param {Origin} origin
   *  @param {{lanes?: string[] | null, labels?: Labels, selected?: string | null}} [more] */
  static of(trace, drawing, origin, { lanes = null, labels = {}, selected = null } = {}) {
    const stage = Stage.of(trace.lanes, lanes, drawing, labels);
    const kept = stage.present.includes(selected ?? '') ? selected : null;
    return new ShownRace(stage, new Playhead({ duration: stage.duration }), trace, origin, kept);
  }

  /** A race that begins. @param {Pick<Trace, 'lanes'>} file @param {Drawing} drawing
   *  @param {Origin} origin @param {string | null} selected */
  static begun(file, drawing, origin, selected) {
    const names = Object.keys(file.lanes);
    const stage = new Stage(names, Object.fromEntries(names.map((name) => [name, null])), drawing);
    const playhead = new Playhead({ growing: true });
    return new ShownRace(stage, playhead, { title: '', lanes: file.lanes }, origin, selected);
  }

  /** The lane that is shown first: the fastest, of a race that begins the first that drafts. */
  get preferred() {
    const { present, first, latest, names, baseline } = this.stage;
    if (present.length) return first ?? latest;
    return names.find((name) => name !== baseline) ?? names[0] ?? null;
  }

  /** Whether more events may come. */
  get growing() {
    return this.playhead.growing;
  }

  /** Whether it is a run of the visitor's, no recording or file. */
  get ran() {
    return ['run', 'failed', 'stopped'].includes(this.source);
  }

  get lanes() {
    return this.stage.lanes;
  }

  /** The selected lane. */
  get lane() {
    return this.lanes[this.selected ?? ''] ?? null;
  }

  /** Which pair of models ran; undefined before its first event. */
  get pair() {
    return Object.values(this.lanes).find((lane) => lane?.header)?.header?.config.pair;
  }

  scene() {
    return this.stage.scene(this.playhead, this.selected);
  }

  /** Step through the selected lane. */
  point() {
    this.playhead.stops = this.stage.stops(this.selected, this.growing);
  }

  /** Select a lane; the playhead stays where it is. Returns whether another was selected. */
  select(name) {
    if (this.selected === name || this.stage.names.length <= 2) return false;
    this.selected = name;
    if (this.playhead.stop >= 0) this.playhead.seek(this.playhead.t);
    this.point();
    return true;
  }

  /** More of the race has arrived. @param {Record<string, Event[]>} events by lane, all so far
   *  @param {Drawing} drawing */
  grow(events, drawing) {
    this.stage = this.stage.grown(events, drawing);
    this.playhead.grow(this.stage.edge, true);
    this.point();
  }

  /** The race is over; the playhead stays where it is. @param {Trace} trace
   *  @param {string} source @param {Drawing} drawing */
  end(trace, source, drawing) {
    Object.assign(this, { trace, source });
    this.stage = this.stage.grown(trace.lanes, drawing);
    this.playhead.grow(this.stage.duration, false);
    this.point();
  }

  /** A lane compared with the baseline of the race, in numbers that lessons quote.
   *  @param {string} name @param {string[]} noSteps drafters that don't denoise */
  run(name, noSteps) {
    const { lanes, baseline } = this.stage;
    return runOf(lanes[name], lanes[baseline ?? ''], noSteps, !this.stage.disturbed(name).length);
  }

  /** All lanes compared with the baseline. @param {string[]} noSteps */
  runs(noSteps) {
    const { names, baseline } = this.stage;
    return names.flatMap((name) => name === baseline ? [] : this.run(name, noSteps) ?? []);
  }

  /** The moment on the stage as a link's query; empty if it has none. @param {string} tab */
  moment(tab) {
    const { file, lane, settings, selected, playhead } = this;
    const moment = file && lane ? momentAt(lane, passed(lane, selected ?? '', playhead)) : null;
    if (!moment) return '';
    return momentQuery({ tab, trace: file, lane: selected ?? '', settings, ...moment });
  }

  /** The query of a link to a run that the server keeps; empty if it keeps none. */
  link(tab) {
    return isRun(this.file) ? runQuery(tab, this.file, this.settings) : '';
  }

  /** Move the playhead to a moment of the selected lane.
   *  @param {Pick<Moment, 'lane' | 'round' | 'at'>} moment */
  goTo(moment) {
    const { lane, playhead, selected } = this;
    const index = lane ? stopOf(playhead.stops, lane, selected ?? '', moment) : -1;
    if (index < 0) playhead.pause();
    else playhead.goToStop(index);
  }
}
