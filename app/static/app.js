// The player of the page, for any number of lanes. It holds one trace, which may still be growing,
// and moves the playhead over it. The Live and the Race tab each have one.

import { Job, listen, lostCard } from './job.js';
import { Player } from './views/player.js';
import { Playhead } from './state/playhead.js';
import { isOpen, isShown, keepRuns, mark, openTab, REFUSAL, register, visit } from './page.js';
import { Stage } from './state/stage.js';
import { arrowTabs, html, isFree, render } from './views/ui.js';
import { besides } from './state/grid.js';
import { buildLane, isVanilla } from './state/lane.js';
import { times } from './state/format.js';
import { download } from './views/dom.js';
import { fetchTrace, GrowingTrace, gzip, serialise } from './state/trace.js';
import { address, fits, giveLink, say } from './views/link.js';
import { know } from './views/glossary.js';
import {
  isRun,
  linkOf,
  momentAt,
  momentQuery,
  readMoment,
  runQuery,
  stopOf,
} from './state/moment.js';
import { keepRun } from './state/history.js';
import { passed } from './state/race.js';
import { predictedWords } from './state/predicted.js';
import { recall } from './storage.js';
import { runOf } from './state/findings.js';
import { tokenOf } from './state/inspect.js';
import { Verifier } from './state/verifier.js';
import { wordsOf } from './views/inspector.js';
import { sentenceOf } from './views/window.js';
/** @import { Labels } from './state/stage.js' */
/** @import { Lane, PartialRound } from './state/lane.js' */
/** @import { Looks } from './state/marks.js' */
/** @import { Moment, Settings } from './state/moment.js' */
/** @import { Place } from './state/inspect.js' */
/** @import { Trace } from './state/trace.js' */

/** @typedef {PlayerOptions & Looks} Options what the server says about the page (app/page.py) */
/**
 * @typedef {object} PlayerOptions
 * @property {'live' | 'race'} kind
 * @property {string} plotly @property {number} crowded
 * @property {Record<string, string>} exactness what is claimed about a text, by a run's exactness
 * @property {number} patience seconds the server takes for a stopped run's last frame
 * @property {string[]} noSteps drafters that don't denoise
 * @property {{title: string, url: string, settings: Settings}[]} recordings the first opens the page
 * @property {import('./views/glossary.js').Symbols} symbols the glossary
 * @property {number} kept seconds that the server keeps a run
 * @property {string} prefix with which the ids of its controls begin
 * @property {import('./state/predicted.js').Predictions} predictions by pair and drafter
 * @property {import('./state/predicted.js').Measured[]} typical measured ranges of similar settings
 * @property {string} empty shown before there is a race
 */

/** @typedef {{run: string, file: GrowingTrace, before: object | null}} Race under way; `before`: what
 *  was on the stage, once the race has taken it */
/** @typedef {{name: string, token: number, lane: Lane, view: PartialRound, place: Place,
 *  who: string}} Pinned a position; `token`: of the text, or −1 */

const NOT_RUN = 'The form’s settings haven’t been run yet.';
const NOTHING = 'Stopped. Nothing was measured.';
const WORDS = {
  waits: 'Waiting in the queue…',
  alone: 'Races run one at a time, so that nothing disturbs the clock.',
  stops: 'Stopping…',
};
const UNREADABLE = {
  title: 'This trace cannot be shown',
  message: 'The file was read, but its events are inconsistent.',
  hint: 'Try another file, or run again.',
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
const KEPT = ' The page shows what arrived before that.';

const BETWEEN = 80; // milliseconds between two pictures of a race under way, at least

const wantsStillness = () => window.matchMedia('(prefers-reduced-motion: reduce)').matches;

/** The name of a recording's file, which is also its name in a link. */
const fileOf = (url) => decodeURIComponent(url.split('/').slice(-1)[0]);

/** @extends {Job<Race>} */
export class App extends Job {
  /** @param {Options} options */
  constructor(root, options) {
    super(root, options.prefix, options.patience, WORDS);
    this.options = options;
    this.recordings = options.recordings.map((recording) => ({
      ...recording,
      settings: linkOf(recording.settings),
    }));
    this.noSteps = new Set(options.noSteps);
    this.stage = new Stage([], {}, options);
    /** @type {string | null} the lane whose window and numbers are shown */
    this.selected = null;
    this.player = new Playhead();
    /** @type {Trace | null} */
    this.trace = null;
    this.source = ''; // where the trace comes from
    this.settings = ''; // of the trace, as a link's query
    /** @type {any} the race on the stage, as `open` takes it; null if it cannot be opened again */
    this.place = null;
    this.file = ''; // the name in a link of a recording, or of a run that the server keeps
    this.formSettings = ''; // of the controls
    this.runSettings = ''; // of the latest run; the controls may have changed since
    this.chosen = false; // the visitor or a link chose a race
    /** @type {number | null} threads for the next run */
    this.threads = null;
    this.calls = 0; // requests; late answers to earlier ones are dropped
    /** @type {Pinned | null} */
    this.pinned = null;
    /** @type {Verifier | null} while the visitor is the verifier */
    this.game = null;
    this.stale = ''; // a note that the controls do not match the stage
    this.voice = ''; // what assistive technology reads out
    this.speaks = false; // whether the next drawing is read out
    this.dirty = true;
    this.frameAsked = 0; // id of the requested animation frame; 0 while nothing moves
    this.last = 0;
    this.drawn = 0; // when the last picture was drawn
    this.asleep = true; // another tab of the page is open
    this.draw();
    this.content = /** @type {HTMLElement} */ (root.querySelector('.sd-main'));
    document.addEventListener('keydown', (event) => this.keys(event));
    document.addEventListener('input', ({ target }) => {
      if (target instanceof Element && target.closest('.sd-invalid')) this.card.hide();
    });
    // Fires when the tab is shown or hidden: the size changes from or to zero.
    new ResizeObserver(() => this.turn()).observe(
      /** @type {Element} */ (root.querySelector('.sd-voice')),
    );
    this.turn();
  }

  /** Whether the race on the stage is under way. */
  get growing() {
    return this.player.growing;
  }

  get names() {
    return this.stage.names;
  }

  get lanes() {
    return this.stage.lanes;
  }

  /** Whether another model is on the stage than the form's, which the page describes. */
  get foreign() {
    const pair = new URLSearchParams(this.formSettings).get('pair');
    const lane = Object.values(this.stage.lanes).find((one) => one?.header);
    return Boolean(pair && lane && lane.header?.config.pair !== pair);
  }

  // ---- messages of the server ----

  /** @override */ async receive(message) {
    const { card } = this;
    if (message.source === 'file') {
      if (this.live) {
        if (message.trace || !this.asleep) card.show(REFUSAL);
        return;
      }
      if (message.card && this.asleep) { // only the open tab shows it
        if (this.options.kind === 'race' || isOpen('race')) return;
        openTab('live');
      }
      this.calls += 1;
    }
    if (!message.finished) {
      this.begin(message);
      this.status.show(message.phase === 'loading' ? `${message.message || 'Loading'}…` : '');
      return;
    }
    const { live } = this;
    let trace;
    try {
      trace = await this.traceOf(message);
    } catch (error) {
      await this.finishLocally(live);
      throw error;
    }
    const source = message.phase === 'stopped' ? 'stopped' : message.source;
    if (this.state !== 'waiting') this.over(); // a file may be opened while a run waits
    card.hide();
    if (trace && live?.run === message.run && this.growing) this.settle(trace, source);
    else if (trace) {
      this.show(trace, source, {
        file: typeof message.trace === 'string' ? fileOf(message.trace) : '',
      });
      if (message.source === 'file') openTab(this.options.kind);
    } else this.giveBack(live);
    if (message.card) card.show(message.card);
    else if (!trace) this.status.show(NOTHING, false);
  }

  /**
   * The trace of a final message: the race that was followed, a file that the server read, or, in
   * an export, a file that this page read. @param {any} message @returns {Promise<Trace | null>}
   */
  async traceOf({ run, trace, size }) {
    if (typeof trace !== 'string') return trace ?? null;
    const file = this.live?.run === run ? this.live?.file : null;
    return (file ?? new GrowingTrace(trace)).upTo(size);
  }

  /** Follow a race that the server runs. @param {{run: string, trace: string}} message */
  begin({ run, trace }) {
    if (!trace || this.live?.run === run) return;
    const file = new GrowingTrace(trace);
    this.live = { run, file, before: null };
    this.calls += 1;
    file.follow(() => this.grow(run, file));
  }

  /** Show what has arrived of a race under way; its first event clears the stage for it.
   *  @param {string} run @param {GrowingTrace} file */
  grow(run, file) {
    if (this.live?.run !== run || !Object.values(file.lanes).some((events) => events.length)) {
      return;
    }
    if (!this.live.before) this.enterRace(file);
    this.stage = this.stage.grown(file.lanes, this.options);
    this.player.grow(this.stage.edge, true);
    this.player.stops = this.stage.stops(this.selected, true);
    this.redraw();
  }

  /** Clear the stage for a race that begins. @param {GrowingTrace} file */
  enterRace(file) {
    const { trace, stage, source, settings, place, file: before, player, selected } = this;
    const names = Object.keys(file.lanes);
    /** @type {Race} */ (this.live).before = {
      trace,
      stage,
      source,
      settings,
      place,
      file: before,
      player,
      selected,
    };
    Object.assign(this, {
      trace: { title: '', lanes: file.lanes },
      stage: new Stage(
        names,
        Object.fromEntries(names.map((name) => [name, null])),
        this.options,
      ),
      source: 'run',
      settings: this.runSettings,
      place: null,
      file: fileOf(file.url),
      stale: '',
      pinned: null,
      game: null,
      player: new Playhead({ growing: true }),
    });
    if (!names.includes(this.selected ?? '')) {
      this.selected = names.find((name) => name !== 'vanilla') ?? names[0];
    }
    this.player.still = wantsStillness();
    this.player.play();
    this.linkRun();
    if (!this.asleep && window.matchMedia('(max-width: 700px)').matches) {
      this.draw();
      this.root.querySelector('.sd-lanes')?.scrollIntoView({ block: 'start' });
    }
  }

  /** Show again what was there before a race of which nothing was measured.
   *  @param {Race | null} live */
  giveBack(live) {
    if (live) live.file.left = true;
    Object.assign(this, live?.before);
    if (live?.before) address(this.query());
    this.restage();
  }

  /** The race on the stage is over: keep it, where the visitor has come to.
   *  @param {Trace} trace @param {string} source */
  settle(trace, source) {
    Object.assign(this, {
      trace,
      source,
      stage: Stage.of(trace.lanes, null, this.options, {}),
    });
    this.player.grow(this.stage.duration, false);
    this.speaks ||= !this.player.playing;
    this.player.stops = this.stage.stops(this.selected);
    this.kept();
    this.compare();
  }

  /**
   * Show a trace that the server offers as a file.
   * @param {{url: string, lanes?: string[] | null, title?: string, labels?: Labels,
   *   source?: string, settings?: string}} race
   * @param {boolean} [chosen] by the visitor or a link, not by the controls or the opening page
   */
  async open(race, chosen = true) {
    const { url, lanes = null, title = '', labels = {}, source = 'recording', settings = '' } =
      race;
    if (this.live) {
      this.card.show(REFUSAL);
      return;
    }
    const call = (this.calls += 1);
    this.chosen ||= chosen;
    this.place = race;
    if (chosen) this.card.hide(); // not what is wrong with the link that opened the page
    try {
      const trace = await fetchTrace(url);
      if (call !== this.calls || this.live) return;
      const recording = this.recordings.find((one) => one.url === url);
      this.show({ ...trace, title: title || trace.title }, source, {
        lanes,
        labels,
        settings: recording ? recording.settings : settings,
        file: recording || isRun(fileOf(url)) ? fileOf(url) : '',
      });
    } catch (error) {
      if (call !== this.calls) return;
      const [opening] = this.recordings;
      if (isRun(fileOf(url)) && !this.trace && opening) await this.open({ url: opening.url });
      const { hint, ...refused } = isRun(fileOf(url)) ? NOT_KEPT : NO_RECORDING;
      this.card.show({ ...refused, hint: hint + this.pressWords });
      console.warn('recording not shown:', error);
    }
  }

  /** Show a recording that the visitor chose from the list. @param {{url: string}} recording */
  choose(recording) {
    this.open(recording);
    const file = encodeURIComponent(fileOf(recording.url));
    if (!this.live) visit(`tab=${this.options.kind}&trace=${file}`);
  }

  // ---- the stage ----

  /** Put a trace on the stage and play it. @param {Trace} trace @param {string} source
   *  @param {{lanes?: string[] | null, labels?: Labels, settings?: string | null, file?: string}}
   *  [more] `file`: its name in a link */
  show(trace, source, { lanes = null, labels = {}, settings = null, file = '' } = {}) {
    const stage = Stage.of(trace.lanes, lanes, this.options, labels);
    const ran = ['run', 'failed', 'stopped'].includes(source); // no recording or file
    Object.assign(this, {
      trace,
      file,
      stage,
      source,
      settings: settings ?? (ran ? this.runSettings : ''),
    });
    if (lanes) this.selected = null; // the first of these lanes
    this.player = new Playhead({ duration: stage.duration });
    this.restage();
    if (settings === null) {
      if (isRun(file) && ran) this.linkRun();
      this.kept();
    } else mark();
    if (wantsStillness()) this.player.seek(stage.duration);
    else this.player.play();
    this.redraw();
  }

  /** Note where the race on the stage can be found again; of the visitor's own, its numbers too. */
  kept() {
    const { file, source, settings, stage: { names, baseline } } = this;
    const ran = ['run', 'failed', 'stopped'].includes(source); // no recording or file
    const again = { url: `runs/${file}`, source: ran ? 'kept' : source, settings };
    this.place = isRun(file) ? again : null;
    if (ran && file) this.remember();
    mark();
    if (ran) {
      keepRuns(names.flatMap((name) => name === baseline ? [] : this.numbersOf(name) ?? []));
    }
  }

  /** Put a link to the visitor's own run into the address, as soon as it begins: a reload finds it
   *  again, and the browser's Back button the one before. */
  linkRun() {
    const query = runQuery(this.options.kind, this.file, this.settings);
    if (fits(query) && !new URLSearchParams(location.search).has('lesson')) visit(query); // keeps a lesson's
  }

  /** Note the visitor's own run in the list of runs. */
  remember() {
    const query = runQuery(this.options.kind, this.file, this.settings);
    if (!fits(query)) return;
    const run = this.numbersOf(this.stage.first ?? '');
    const speed = run?.quiet ? run.speedup : null;
    const prompt = new URLSearchParams(this.settings).get('prompt') ?? '';
    keepRun({
      query,
      at: Date.now(),
      title: [speed === null ? '' : times(speed), prompt.slice(0, 48)].filter(Boolean).join(' · '),
    });
  }

  /** A lane compared with the baseline of the race, in numbers that lessons quote. */
  numbersOf(name) {
    const { lanes, baseline } = this.stage;
    const quiet = !this.stage.disturbed(name).length;
    return runOf(lanes[name], lanes[baseline ?? ''], this.noSteps, quiet);
  }

  /** The numbers of a shipped recording; null if there is none. */
  async numbersOfRecording(file) {
    const recording = this.recordings.find(({ url }) => fileOf(url) === file);
    if (!recording) return null;
    const { title, lanes } = await fetchTrace(recording.url);
    const [drafted, vanilla] = [lanes.drafted ?? [], lanes.vanilla ?? []].map(buildLane);
    const run = runOf(drafted, vanilla, this.noSteps);
    return run && { title, run };
  }

  /** Show the trace, with a lane of it selected. */
  restage() {
    const { present, first, latest } = this.stage;
    if (!present.includes(this.selected ?? '')) this.selected = first ?? latest;
    this.point();
    this.compare();
  }

  /** Select the lane whose text, window and numbers are shown. The playhead stays where it is. */
  select(name) {
    if (this.selected === name || this.stage.names.length <= 2) return;
    this.selected = name;
    if (this.player.stop >= 0) this.player.seek(this.player.t);
    this.point();
    this.speaks = !this.player.playing;
  }

  /** Step through the selected lane. */
  point() {
    this.player.stops = this.stage.stops(this.selected, this.growing);
    this.pinned = null;
    this.game = null;
    this.redraw();
  }

  get absent() {
    return this.growing ? 'Not started yet.' : 'This lane didn’t run.';
  }

  // ---- one position ----

  /** Inspect a place of the round. @param {Lane} lane @param {PartialRound} view
   *  @param {Place} place */
  pin(lane, view, place) {
    if (this.game) return; // the inspector would reveal the answer
    this.pinned = { name: this.selected ?? '', token: -1, lane, view, place, who: '' };
    this.draw();
  }

  /** Inspect a token of a text; in a lane that drafts, its round is shown, too.
   *  @param {string} name of the lane @param {number} token its place among the new ones
   *  @param {boolean} byKey the focus follows */
  pinToken(name, token, byKey) {
    const lane = this.lanes[name];
    const origin = lane && tokenOf(lane, token);
    if (!lane || !origin) return;
    this.select(name);
    const { view, place } = origin;
    if (name === this.selected && !isVanilla(lane)) this.jump(view.round);
    const who = name === this.selected && this.names.length <= 2
      ? ''
      : this.stage.named[name].label;
    this.pinned = { name, token, lane, view, place, who };
    this.draw();
    const inspector = /** @type {HTMLElement} */ (this.root.querySelector('.sd-inspector'));
    if (byKey) inspector.focus({ preventScroll: true });
    inspector.scrollIntoView({ block: 'nearest' });
  }

  /** Inspect the position before or after. */
  walk(by) {
    const { name, token, lane, view, place } = /** @type {Pinned} */ (this.pinned);
    const next = token < 0 ? besides(view, place, by) : null;
    if (next !== null) this.pin(lane, view, next);
    else if (token >= 0) this.pinToken(name, token + by, false);
  }

  unpin() {
    const marked = this.root.querySelector('.sd-t.sd-pinned') ??
      this.root.querySelector('.sd-grid .sd-pinned');
    if (marked instanceof HTMLElement) marked.focus({ preventScroll: true });
    this.pinned = null;
    this.draw();
  }

  // ---- the visitor as the verifier ----

  /** Let the visitor judge the round on the stage, or the next if its verdict is shown. */
  verify() {
    const [lane, view] = [
      this.lanes[this.selected ?? ''],
      this.stage.scene(this.player, this.selected).view,
    ];
    if (!lane) return;
    this.pinned = null;
    this.deal(new Verifier(lane, view ? view.round + Number(Boolean(view.verified)) : 0));
  }

  /** Move the playhead to the end of the round's draft. @param {Verifier} game */
  deal(game) {
    this.act((player) => player.rest(game.time));
    this.game = game;
  }

  judge(accept) {
    this.game?.judge(accept);
    this.speaks = true;
    this.redraw();
  }

  judgeNext() {
    const { game } = this;
    if (game?.next()) this.deal(game);
    this.speaks = true;
    this.redraw();
  }

  /** Leave the game, and show the verdict of its round. */
  judged() {
    const round = this.game?.view.round ?? 0;
    this.jump(round);
    this.draw();
    /** @type {HTMLElement | null} */ (this.root.querySelector('[name=verify]'))?.focus({
      preventScroll: true,
    });
  }

  // ---- actions of the visitor ----

  /** Show the recording that matches changed controls. @param {Settings} values */
  controls(values) {
    const before = this.formSettings;
    const settings = linkOf(values);
    this.formSettings = settings;
    if (this.live || this.busy) return;
    const unchanged = settings === this.settings || (before ? settings === before : this.chosen);
    const match = unchanged ? null : this.recordings.find((one) => one.settings === settings);
    if (match && ['recording', ''].includes(this.source)) this.open({ url: match.url }, false);
    else this.compare();
  }

  /** Note whether the controls match the stage. */
  compare() {
    const differs = this.trace && this.formSettings && this.formSettings !== this.settings &&
      !['measured', 'file'].includes(this.source);
    const drafter = new URLSearchParams(this.formSettings).get('drafter') ?? '';
    const { predictions, typical } = this.options;
    const denoises = !this.noSteps.has(drafter);
    this.stale = differs
      ? `${NOT_RUN}${this.pressWords} ${
        predictedWords(predictions, typical, this.formSettings, denoises)
      }`
      : '';
    this.redraw();
  }

  /** Called by Gradio for each run (app/scripts.py). Returns its threads, if they are chosen.
   *  @param {Settings} values */
  began(values) {
    const { threads } = this;
    this.runSettings = linkOf(values);
    if (this.state === 'idle') this.pressedRun(); // by a key
    this.threads = null;
    return threads;
  }

  /** Run again on one thread, which other programs disturb less. */
  runQuietly() {
    this.threads = 1;
    this.press('run');
  }

  /** @override */ refused() {
    this.finishLocally(this.live);
  }

  /** @override */ over() {
    super.over();
    this.threads = null;
  }

  /** Keep the events that have arrived, and the settings. @override */
  async lost(stopped) {
    const kept = this.growing ? KEPT : '';
    await this.finishLocally(this.live);
    if (stopped) {
      if (kept) {
        this.card.show({
          title: 'The result didn’t arrive in time',
          message: `The server hasn’t confirmed that it stopped.${kept}`,
          hint: 'Run again.',
        });
      }
      return;
    }
    if (this.formSettings && fits(this.formSettings)) {
      history.replaceState(null, '', `${location.pathname}?${this.formSettings}`); // Gradio reloads it
    }
    const keeps = kept && ' Download it if you want to keep it.';
    this.card.show(lostCard(kept + keeps, 'your prompt and settings'));
  }

  /** Show the events that arrived of a race that ended without its final message.
   *  @param {Race | null} live */
  async finishLocally(live) {
    this.over();
    if (!live || !this.growing) return this.giveBack(live);
    live.file.left = true;
    this.settle(await live.file.trace(), 'stopped');
  }

  /** @param {(player: Playhead) => void} change of the playhead */
  act(change) {
    this.game = null;
    change(this.player);
    this.speaks ||= !this.player.playing;
    this.redraw();
  }

  toggle() {
    this.act((player) => player.toggle());
  }

  /** Back to what happens now. */
  toEdge() {
    this.act((player) => player.toEdge());
  }

  step(count) {
    this.act((player) => player.step(count));
  }

  /** @param {number} share of the race */
  seek(share) {
    this.act((player) => player.rest(share * player.duration));
  }

  /** Move the playhead to the verdict of a round of the selected lane. */
  jump(round) {
    this.standAt({ lane: this.selected ?? '', round: round + 1, at: 'commit' });
  }

  /** Move the playhead to the verdict of a round, and scroll to the window. */
  look(round) {
    this.jump(round);
    const panel = /** @type {HTMLElement} */ (this.root.querySelector('.sd-window'));
    panel.focus({ preventScroll: true });
    panel.scrollIntoView({ block: 'center' });
  }

  /** Move the playhead to a phase of a round with accepted and rejected tokens, as a link names it;
   *  `draft`: to its last step; `end`: to the end; `start`: play from the start. */
  stand(at) {
    if (at === 'end') return this.seek(1);
    if (at === 'start') {
      return this.act((player) => {
        player.seek(0);
        player.play();
      });
    }
    const lane = this.selected ?? '';
    const later = this.lanes[lane]?.rounds.filter(({ round }) => round >= 1) ?? []; // not the first
    const round = later.find(({ accepted, drafted }) => accepted > 0 && accepted < drafted) ??
      later[0];
    if (!round) return;
    this.standAt({ lane, round: round.round + 1, at: at === 'draft' ? `step${round.steps}` : at });
  }

  keys(event) {
    const { target } = event;
    if (event.defaultPrevented || this.asleep || !isFree(event)) return;
    if (
      target.closest(
        'dialog, [role=tablist]:not([aria-orientation=vertical]), [role=listbox], ' +
          'input:not(.sd-scrub)',
      )
    ) return;
    if (this.game) {
      const key = event.key.toLowerCase();
      if (key === 'a' || key === 'r') this.judge(key === 'a');
      else if (key === 'arrowright') this.judgeNext();
      else if (key === 'escape') this.judged();
      else return;
      event.preventDefault();
      return;
    }
    const grid = target.closest('.sd-gridwrap');
    if (grid && grid.scrollWidth > grid.clientWidth) return; // arrows scroll it
    if (event.key === ' ' && !target.closest('button, a, summary, [role=tab]')) this.toggle();
    else if (event.key === 'ArrowRight') this.step(event.shiftKey ? 10 : 1);
    else if (event.key === 'ArrowLeft') this.step(event.shiftKey ? -10 : -1);
    else return;
    event.preventDefault();
  }

  // ---- links and files ----

  /** The moment on the stage as a link's query; empty if it has none. */
  momentQuery() {
    const [name, lane] = [this.selected ?? '', this.lanes[this.selected ?? '']];
    const moment = this.file && lane ? momentAt(lane, passed(lane, name, this.player)) : null;
    const { file: trace, settings, options: { kind: tab } } = this;
    return moment ? momentQuery({ tab, trace, lane: name, settings, ...moment }) : '';
  }

  /** The query of a link to what the tab shows: the visitor's run, or else the controls; without
   *  controls, in an export, the moment. */
  query() {
    if (isRun(this.file)) return runQuery(this.options.kind, this.file, this.settings);
    return this.formSettings || this.momentQuery();
  }

  /** A link to what is on the stage, paused. @param {HTMLElement} button that was pressed */
  keepMoment(button) {
    const query = this.momentQuery();
    if (!query) {
      say(button, 'Nothing to link to');
      return;
    }
    this.act((player) => player.pause());
    giveLink(button, query);
  }

  /** Show a recording, or a run that is kept, at one of its moments. @param {Moment} moment
   *  @returns {Promise<boolean>} whether there is such a recording */
  async openMoment(moment) {
    const race = this.recordings.find(({ url }) => fileOf(url) === moment.trace) ??
      (isRun(moment.trace)
        ? { url: `runs/${moment.trace}`, source: 'kept', settings: moment.settings }
        : null);
    if (!race) return false;
    if (this.file !== moment.trace) await this.open(race);
    if (this.file === moment.trace && !moment.whole) this.standAt(moment); // still wanted
    return true;
  }

  /** Move the playhead to a moment. @param {Pick<Moment, 'lane' | 'round' | 'at'>} moment */
  standAt(moment) {
    if (this.lanes[moment.lane]) this.select(moment.lane);
    const lane = this.lanes[this.selected ?? ''];
    const index = lane ? stopOf(this.player.stops, lane, this.selected ?? '', moment) : -1;
    this.act((player) => index < 0 ? player.pause() : player.stand(index));
  }

  /** Download the trace: the server's bytes, or the same format after a stopped run. */
  async save() {
    if (!this.trace) return;
    const bytes = this.trace.bytes || (await gzip(new TextEncoder().encode(serialise(this.trace))));
    const header = Object.values(this.lanes).find((lane) => lane?.header)?.header;
    const stamp = header ? header.started_at.slice(0, 19).replace(/[^0-9]/g, '') : '';
    download(
      /** @type {BlobPart} */ (bytes),
      'application/gzip',
      `specdiff-${stamp || 'trace'}.jsonl.gz`,
    );
  }

  // ---- frames ----

  /** Draw what is on the stage now. */
  draw() {
    const scene = this.stage.scene(this.player, this.selected);
    if (this.speaks) {
      this.voice = this.game?.words(wordsOf(this.game.lane)) ?? sentenceOf(scene, this.absent);
    }
    this.speaks = false;
    this.root.classList.toggle('sd-none', !scene.names.length);
    document.getElementById(`${this.prefix}-about`)?.toggleAttribute('hidden', this.foreign);
    render(html`<${Player} app=${this} scene=${scene} />`, this.root);
  }

  /** Follow the tab being opened or left: a hidden player draws nothing and stands still. */
  turn() {
    this.asleep = !isShown(this.root);
    if (!this.asleep) this.wake();
  }

  redraw() {
    this.dirty = true;
    this.wake();
  }

  /** Request one animation frame. While nothing changes none is requested: the browser may be on the
   *  machine that decodes. */
  wake() {
    if (!this.frameAsked && !this.asleep) {
      this.frameAsked = requestAnimationFrame((now) => this.frame(now));
    }
  }

  frame(now) {
    this.frameAsked = 0;
    if (!this.root.isConnected) return;
    if (this.asleep) {
      this.last = 0;
      return;
    }
    if (this.growing && now - this.drawn < BETWEEN) return this.wake();
    this.drawn = now;
    const elapsed = this.last ? Math.min(250, now - this.last) : 0;
    this.last = now;
    const wasPlaying = this.player.playing;
    if (this.player.tick(elapsed)) this.dirty = true;
    if (this.dirty && !document.hidden) {
      this.speaks ||= wasPlaying && !this.player.playing;
      try {
        this.draw();
      } catch (error) { // an export opens files without checking that their events are consistent
        this.player.pause();
        this.card.show(UNREADABLE);
        console.error('not drawn:', error);
      }
      this.dirty = false;
    }
    if (this.dirty || this.player.playing) this.wake();
    else this.last = 0; // the next frame measures its time anew
  }
}

/** Called by each player's component (app/page.py) once per page. @param {Options} options */
export function mount(element, props, watch, options) {
  if (options.kind === 'live') {
    const theme = recall('specdiff-theme'); // of the Theme button (app/scripts.py)
    if (theme) document.body.classList.toggle('dark', theme === 'dark');
    arrowTabs();
  }
  know(options.symbols);
  const app = new App(/** @type {HTMLElement} */ (element.querySelector('.sd')), options);
  register(options.kind, app); // which may open a race that was asked for
  listen(app, props, watch, UNREADABLE);
  const values = /** @type {any} */ (window).specdiffControls?.[options.kind] ?? {}; // app/scripts.py
  if (app.calls) app.formSettings = linkOf(values);
  else app.controls(values);
  const moment = readMoment(location.search);
  const opensHere = moment &&
    (isRun(moment.trace)
      ? moment.tab === options.kind
      : options.recordings.some(({ url }) => fileOf(url) === moment.trace));
  const [opening] = options.recordings;
  if (moment && opensHere) app.openMoment(moment);
  else if (opening && !app.trace && !app.live && !app.calls) app.open({ url: opening.url }, false);
}
