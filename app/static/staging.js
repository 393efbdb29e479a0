// Puts a race on the stage of Live or Race: one that is run, a recording, a file, or one from a link.

import { fetchTrace } from './files.js';
import { isRun } from './state/moment.js';
import { addRuns, updateEntry } from './page.js';
import { linkRun, listRun } from './run_links.js';
import { readBlock } from './state/block.js';
import { ShownRace } from './state/shown_race.js';
/** @import { Labels } from './state/stage.js' */
/** @import { Moment } from './state/moment.js' */
/** @import { PlayerOptions as Options, State } from './tabs.d.ts' */
/** @import { PlayerTab } from './player_tab.js' */
/** @import { LiveRace } from './race_job.js' */
/** @import { Trace } from './state/trace.js' */

/** The card shown instead of a recording or a file. */
export const REFUSAL = {
  title: 'A race is under way',
  message: 'It wasn’t opened, because your race is still running.',
  hint: 'Open it when the race is over, or press Stop.',
};
const NO_RECORDING = {
  title: 'This recording could not be shown',
  message: 'The download was incomplete, or it has none of the requested lanes.',
  hint: 'Reload the page.',
};
const NOT_KEPT = {
  title: 'This run is no longer available',
  message: 'The server deletes runs after some days, and when it restarts.',
  hint: 'Its prompt and settings are in the form.',
};

const wantsStillness = () => window.matchMedia('(prefers-reduced-motion: reduce)').matches;

/** The name of a recording's file, which is also its name in a link; an export reads files itself. */
export const fileOf = (url) =>
  typeof url === 'string' ? decodeURIComponent(url.split('/').slice(-1)[0]) : '';

export class Staging {
  /** @param {State} state @param {Options} options
   *  @param {Pick<PlayerTab, 'job' | 'playback'>} tab
   *  @param {() => void} changed called when another race is shown */
  constructor(state, options, { job, playback }, changed) {
    this.state = state;
    this.options = options;
    this.job = job;
    this.playback = playback;
    this.changed = changed;
    this.chosen = false; // the visitor or a link chose a race
  }

  /** Whether more of the race on the stage may come. */
  get growing() {
    return this.state.shown.growing;
  }

  /** Show what has arrived of a race; its first event clears the stage for it.
   *  @param {LiveRace} live @returns {boolean} whether it has begun just now */
  grow(live) {
    const { state, options } = this;
    const begins = !live.before;
    if (begins) {
      const { shown, place, runSettings: settings } = state;
      const origin = { source: 'run', settings, file: fileOf(live.file.url) };
      live.before = { shown, place };
      const begun = ShownRace.begun(live.file, options, origin, shown.selected);
      begun.playhead.still = wantsStillness();
      begun.playhead.play();
      Object.assign(state, { shown: begun, place: null, stale: '' });
      this.playback.study.leave();
      linkRun(begun, options.tabName, options.noSteps);
    }
    state.shown.grow(live.file.lanes, options);
    this.playback.frames.requestDraw();
    return begins;
  }

  /** Show again what was there before a race of which nothing was measured.
   *  @param {LiveRace | null} live @returns {boolean} whether the race had taken the stage */
  restore(live) {
    if (live) live.file.left = true;
    if (live?.before) {
      Object.assign(this.state, live.before);
      this.playback.study.leave();
    }
    this.changed();
    return Boolean(live?.before);
  }

  /** The race on the stage is over: keep it, where the visitor has come to.
   *  @param {Trace} trace @param {string} source */
  keepRace(trace, source) {
    const { shown } = this.state;
    shown.end(trace, source, this.options);
    this.playback.speaks ||= !shown.playhead.playing;
    this.noteOrigin();
    this.changed();
  }

  /** Put a trace on the stage and play it. @param {Trace} trace @param {string} source
   *  @param {{lanes?: string[] | null, labels?: Labels, settings?: string | null, file?: string}}
   *  [more] `file`: its name in a link; `settings`: of a recording */
  showTrace(trace, source, { lanes = null, labels = {}, settings = null, file = '' } = {}) {
    const { options, state } = this;
    const origin = { source, file, settings: settings ?? '' };
    const selected = lanes ? null : state.shown.selected;
    const shown = ShownRace.of(trace, options, origin, { lanes, labels, selected });
    if (settings === null && shown.ran) shown.settings = state.runSettings;
    state.shown = shown;
    this.playback.study.leave();
    if (settings === null) {
      if (shown.ran) linkRun(shown, options.tabName, options.noSteps);
      this.noteOrigin();
    } else updateEntry();
    if (wantsStillness()) shown.playhead.seek(shown.playhead.duration);
    else shown.playhead.play();
    this.changed();
  }

  /** Note where the race on the stage can be found again; of the visitor's own, its numbers too. */
  noteOrigin() {
    const { options: { tabName, noSteps }, state, state: { shown } } = this;
    const { file, ran, settings } = shown;
    const source = ran ? 'kept' : shown.source;
    state.place = isRun(file) ? { url: `runs/${file}`, source, settings } : null;
    if (ran && file) listRun(shown, tabName, noSteps);
    updateEntry();
    if (ran) addRuns(shown.runs(noSteps));
  }

  /**
   * Show a trace that the server offers as a file.
   * @param {{url: string, lanes?: string[] | null, title?: string, labels?: Labels,
   *   source?: string, settings?: string}} race
   * @param {boolean} [chosen] by the visitor or a link, not by the controls or the opening page
   */
  async showRecording(race, chosen = true) {
    const { url, lanes = null, title = '', labels = {}, source = 'recording', settings = '' } =
      race;
    const { job, state } = this;
    if (job.live) {
      job.card.show(REFUSAL);
      return;
    }
    const isLatest = job.newRequest();
    this.chosen ||= chosen;
    state.place = race;
    try {
      const trace = await fetchTrace(url);
      if (!isLatest() || job.live) return;
      const recording = this.options.recordings.find((one) => one.url === url);
      this.showTrace({ ...trace, title: title || trace.title }, source, {
        lanes,
        labels,
        settings: recording ? recording.settings : settings,
        file: recording || isRun(fileOf(url)) ? fileOf(url) : '',
      });
      if (chosen) job.card.hide(); // not what is wrong with the link that opened the page
      if (recording?.block) await this.fetchBlock(recording.block, state.shown);
    } catch (error) {
      if (!isLatest()) return;
      const [opening] = this.options.recordings;
      if (isRun(fileOf(url)) && !state.shown.trace && opening) {
        await this.showRecording({ url: opening.url });
      }
      const { hint, ...refused } = isRun(fileOf(url)) ? NOT_KEPT : NO_RECORDING;
      job.card.show({ ...refused, hint: hint + job.pressWords });
      console.warn('recording not shown:', error);
    }
  }

  /** Add the staged round with other windows and steps. @param {string} url @param {ShownRace} shown */
  async fetchBlock(url, shown) {
    shown.block = readBlock((await fetchTrace(url)).lanes);
    this.playback.frames.requestDraw();
  }

  /** Show a recording, or a run that is kept, at one of its moments. @param {Moment} moment
   *  @returns {Promise<boolean>} whether there is such a recording */
  async openMoment(moment) {
    const { state } = this;
    const race = this.options.recordings.find(({ url }) => fileOf(url) === moment.trace) ??
      (isRun(moment.trace)
        ? { url: `runs/${moment.trace}`, source: 'kept', settings: moment.settings }
        : null);
    if (!race) return false;
    if (state.shown.file !== moment.trace) await this.showRecording(race);
    const there = state.shown.file === moment.trace; // still wanted
    if (there && !moment.whole) this.playback.goTo(moment);
    return true;
  }
}
