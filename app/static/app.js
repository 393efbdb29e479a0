// The player of the page, for any number of lanes. It holds one trace, which may still be growing,
// and moves the playhead over it. The Live and the Race tab each have one.

import { Job, listen, lostCard } from './job.js';
import { Frames } from './frames.js';
import { Player } from './views/player.js';
import { isOpen, isShown, keepRuns, mark, openTab, REFUSAL, register, visit } from './page.js';
import { arrowTabs, html, isFree, render } from './views/ui.js';
import { readBlock } from './state/block.js';
import { times } from './state/format.js';
import { download } from './views/dom.js';
import { fetchTrace, GrowingTrace, gzip, serialise } from './state/trace.js';
import { address, fits, giveLink, say } from './views/link.js';
import { know } from './views/glossary.js';
import { isRun, linkOf, readMoment } from './state/moment.js';
import { keepRun } from './state/history.js';
import { Playhead } from './state/playhead.js';
import { predictedWords } from './state/predicted.js';
import { recall } from './storage.js';
import { Shown } from './state/shown.js';
import { Stage } from './state/stage.js';
import { Study } from './study.js';
import { wordsOf } from './views/inspector.js';
import { leadOf } from './views/source.js';
import { sentenceOf } from './views/window.js';
/** @import { Labels } from './state/stage.js' */
/** @import { Looks } from './state/marks.js' */
/** @import { Moment, Settings } from './state/moment.js' */
/** @import { Trace } from './state/trace.js' */

/** @typedef {PlayerOptions & Looks} Options what the server says about the page (app/page.py) */
/**
 * @typedef {object} PlayerOptions
 * @property {'live' | 'race'} kind
 * @property {string} plotly @property {number} crowded
 * @property {Record<string, string>} exactness what is claimed about a text, by a run's exactness
 * @property {number} patience seconds the server takes for a stopped run's last frame
 * @property {string[]} noSteps drafters that don't denoise
 * @property {Record<string, Record<string, string>>} drafters what they are called, by pair
 * @property {{title: string, url: string, settings: Settings, block?: string}[]} recordings the first
 *  opens the page; `block`: its staged round with other windows and steps
 * @property {import('./views/glossary.js').Symbols} symbols the glossary
 * @property {number} kept seconds that the server keeps a run
 * @property {string} prefix with which the ids of its controls begin
 * @property {import('./state/predicted.js').Predictions} predictions by pair and drafter
 * @property {import('./state/predicted.js').Measured[]} typical measured ranges of similar settings
 * @property {string} empty shown before there is a race
 */

/** @typedef {{run: string, file: GrowingTrace, before: {shown: Shown, place: any} | null}} Race
 *  under way; `before`: what was on the stage, once the race has taken it */

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
const UNCONFIRMED = {
  title: 'The result didn’t arrive in time',
  message: `The server hasn’t confirmed that it stopped.${KEPT}`,
  hint: 'Run again.',
};

const BETWEEN = 80; // milliseconds between two pictures of a race under way, at least

const wantsStillness = () => window.matchMedia('(prefers-reduced-motion: reduce)').matches;

/** The name of a recording's file, which is also its name in a link. */
const fileOf = (url) =>
  typeof url === 'string' ? decodeURIComponent(url.split('/').slice(-1)[0]) : ''; // read by an export

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
    /** @type {{shown: Shown, part: number, parts: number} | null} whose block the server drafts now,
     *  and how many of its sizes it has begun */
    this.redrafting = null;
    this.noSteps = new Set(options.noSteps);
    this.shown = new Shown(new Stage([], {}, options), new Playhead());
    /** @type {any} the race on the stage, as `restore` takes it; null if it cannot be opened again */
    this.place = null;
    this.formSettings = ''; // of the controls
    this.runSettings = ''; // of the latest run; the controls may have changed since
    this.chosen = false; // the visitor or a link chose a race
    /** @type {number | null} threads for the next run */
    this.threads = null;
    this.calls = 0; // requests; late answers to earlier ones are dropped
    this.stale = ''; // a note that the controls do not match the stage
    this.voice = ''; // what assistive technology reads out
    this.speaks = false; // whether the next drawing is read out
    this.study = new Study(root, {
      shown: () => this.shown,
      selectLane: (name) => this.selectLane(name),
      goToRound: (round) => this.goToRound(round),
      pauseAt: (seconds) => this.act((player) => player.pauseAt(seconds)),
      draw: () => this.draw(),
      speak: () => this.speak(),
      query: () => this.momentQuery() || this.query(),
    });
    this.frames = new Frames({
      tick: (milliseconds) => this.tick(milliseconds),
      draw: () => this.drawOrSay(),
      gap: () => this.shown.growing ? BETWEEN : 0,
    });
    this.draw();
    this.content = /** @type {HTMLElement} */ (root.querySelector('.sd-main'));
    document.addEventListener('keydown', (event) => this.keys(event));
    document.addEventListener('input', ({ target }) => {
      if (target instanceof Element && target.closest('.sd-invalid')) this.card.hide();
    });
    // Fires when the tab is shown or hidden: the size changes from or to zero.
    new ResizeObserver(() => this.frames.setAwake(isShown(this.root))).observe(
      /** @type {Element} */ (root.querySelector('.sd-voice')),
    );
    this.frames.setAwake(isShown(this.root));
  }

  get job() {
    return this;
  }

  // ---- messages of the server ----

  /** Show a file that the server read, or, in an export, this page. @override */
  async openFile(message) {
    const { card } = this;
    if (this.live) {
      if (message.trace || this.frames.awake) card.show(REFUSAL);
      return;
    }
    if (message.card && !this.frames.awake) { // only the open tab shows it
      if (this.options.kind === 'race' || isOpen('race')) return;
      openTab('live');
    }
    this.calls += 1;
    const trace = await this.fetchResult(message);
    card.hide();
    if (trace) {
      this.showTrace(trace, message.source, { file: fileOf(message.trace) });
      openTab(this.options.kind);
    }
    if (message.card) card.show(message.card);
  }

  /** Follow a race that the server runs. @override */
  progress({ run, trace, phase, message }) {
    if (trace && this.live?.run !== run) this.follow(run, trace);
    this.status.show(phase === 'loading' ? `${message || 'Loading'}…` : '');
  }

  /** The trace of the race that was followed, or of a file. @override @param {any} message
   *  @returns {Promise<Trace | null>} */
  async fetchResult({ run, trace, size }) {
    if (typeof trace !== 'string') return trace ?? null;
    const file = this.live?.run === run ? this.live?.file : null;
    return (file ?? new GrowingTrace(trace)).upTo(size);
  }

  /** @override @param {import('./job.js').Ending} ending @param {Race | null} live
   *  @param {any} message @param {Trace | null} trace */
  async ended(ending, live, message, trace) {
    this.threads = null;
    if (ending !== 'finished') return this.endEarly(ending, live);
    const source = message.phase === 'stopped' ? 'stopped' : message.source;
    this.card.hide();
    if (!trace) this.restoreStage(live);
    else if (live?.run === message.run && this.shown.growing) this.keepRace(trace, source);
    else this.showTrace(trace, source, { file: fileOf(message.trace) });
    if (message.card) this.card.show(message.card);
    else if (!trace) this.status.show(NOTHING, false);
  }

  /** Keep the events that have arrived of a race without a final message, and the settings.
   *  @param {string} ending @param {Race | null} live */
  async endEarly(ending, live) {
    const kept = this.shown.growing ? KEPT : '';
    if (live && kept) {
      live.file.left = true;
      this.keepRace(await live.file.trace(), 'stopped');
    } else this.restoreStage(live);
    if (ending === 'unconfirmed' && kept) this.card.show(UNCONFIRMED);
    if (ending !== 'lost') return;
    if (this.formSettings && fits(this.formSettings)) {
      history.replaceState(null, '', `${location.pathname}?${this.formSettings}`); // Gradio reloads it
    }
    const keeps = kept && ' Download it if you want to keep it.';
    this.card.show(lostCard(kept + keeps, 'your prompt and settings'));
  }

  /** @param {string} run @param {string} trace its address */
  follow(run, trace) {
    const file = new GrowingTrace(trace);
    this.live = { run, file, before: null };
    this.calls += 1;
    file.follow(() => {
      this.watchdog.restart();
      this.grow(run, file);
    });
  }

  /** Show what has arrived of a race under way; its first event clears the stage for it.
   *  @param {string} run @param {GrowingTrace} file */
  grow(run, file) {
    if (this.live?.run !== run || !Object.values(file.lanes).some((events) => events.length)) {
      return;
    }
    if (!this.live.before) this.clearStage(this.live);
    this.shown.grow(file.lanes, this.options);
    this.frames.requestDraw();
  }

  /** Clear the stage for a race that begins. @param {Race} live */
  clearStage(live) {
    const { shown, place, runSettings: settings, options } = this;
    const { file } = live;
    const origin = { source: 'run', settings, file: fileOf(file.url) };
    live.before = { shown, place };
    this.shown = Shown.begun(file, options, origin, shown.selected);
    this.shown.player.still = wantsStillness();
    this.shown.player.play();
    Object.assign(this, { place: null, stale: '' });
    this.study.leave();
    this.linkRun();
    if (this.frames.awake && window.matchMedia('(max-width: 700px)').matches) {
      this.draw();
      this.root.querySelector('.sd-lanes')?.scrollIntoView({ block: 'start' });
    }
  }

  /** Show again what was there before a race of which nothing was measured.
   *  @param {Race | null} live */
  restoreStage(live) {
    if (live) live.file.left = true;
    if (live?.before) {
      Object.assign(this, live.before);
      this.study.leave();
      address(this.query());
    }
    this.compareControls();
  }

  /** The race on the stage is over: keep it, where the visitor has come to.
   *  @param {Trace} trace @param {string} source */
  keepRace(trace, source) {
    this.shown.end(trace, source, this.options);
    this.speaks ||= !this.shown.player.playing;
    this.noteOrigin();
    this.compareControls();
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
      this.showTrace({ ...trace, title: title || trace.title }, source, {
        lanes,
        labels,
        settings: recording ? recording.settings : settings,
        file: recording || isRun(fileOf(url)) ? fileOf(url) : '',
      });
      if (recording?.block) await this.fetchBlock(recording.block, this.shown);
    } catch (error) {
      if (call !== this.calls) return;
      const [opening] = this.recordings;
      if (isRun(fileOf(url)) && !this.shown.trace && opening) {
        await this.showRecording({ url: opening.url });
      }
      const { hint, ...refused } = isRun(fileOf(url)) ? NOT_KEPT : NO_RECORDING;
      this.card.show({ ...refused, hint: hint + this.pressWords });
      console.warn('recording not shown:', error);
    }
  }

  /** Add the staged round with other windows and steps. @param {string} url @param {Shown} shown */
  async fetchBlock(url, shown) {
    shown.block = readBlock((await fetchTrace(url)).lanes);
    this.frames.requestDraw();
  }

  /** Have the staged round of the visitor's run drafted again with other windows and steps. */
  redraft() {
    this.redrafting = { shown: this.shown, part: 0, parts: 0 };
    this.press('redraft');
    this.frames.requestDraw();
  }

  stopRedraft() {
    this.press('redraft-stop');
  }

  /** The server drafts it, has drafted it, or couldn't (app/page.py). @param {string} words its last
   *  message; empty if it broke off */
  async redrafted(words) {
    const { redrafting } = this;
    const { finished = !words, phase, trace, card, parts = [0, 0] } = JSON.parse(words || '{}');
    if (!redrafting) return;
    [redrafting.part, redrafting.parts] = parts;
    if (finished) this.redrafting = null;
    this.frames.requestDraw();
    if (card) this.card.show(card);
    else if (finished && phase === 'finished') await this.fetchBlock(trace, redrafting.shown);
  }

  /** Show a recording that the visitor chose from the list. @param {{url: string}} recording */
  async chooseRecording(recording) {
    const shown = this.showRecording(recording);
    const file = encodeURIComponent(fileOf(recording.url));
    if (!this.live) visit(`tab=${this.options.kind}&trace=${file}`);
    await shown;
    if (this.shown.settings) this.press('fill'); // the form gets its model, prompt and settings
  }

  // ---- the stage ----

  /** Put a trace on the stage and play it. @param {Trace} trace @param {string} source
   *  @param {{lanes?: string[] | null, labels?: Labels, settings?: string | null, file?: string}}
   *  [more] `file`: its name in a link; `settings`: of a recording */
  showTrace(trace, source, { lanes = null, labels = {}, settings = null, file = '' } = {}) {
    const origin = { source, file, settings: settings ?? '' };
    const selected = lanes ? null : this.shown.selected;
    const shown = Shown.of(trace, this.options, origin, { lanes, labels, selected });
    if (settings === null && shown.ran) shown.settings = this.runSettings;
    this.shown = shown;
    this.study.leave();
    if (settings === null) {
      if (shown.ran) this.linkRun();
      this.noteOrigin();
    } else mark();
    if (wantsStillness()) shown.player.seek(shown.player.duration);
    else shown.player.play();
    this.compareControls();
  }

  /** Note where the race on the stage can be found again; of the visitor's own, its numbers too. */
  noteOrigin() {
    const { shown } = this;
    const { file, ran, settings } = shown;
    const source = ran ? 'kept' : shown.source;
    this.place = isRun(file) ? { url: `runs/${file}`, source, settings } : null;
    if (ran && file) this.remember();
    mark();
    if (ran) keepRuns(shown.runs(this.noSteps));
  }

  /** Put a link to the visitor's own run into the address and the list of runs, as soon as it begins:
   *  a reload finds it again, and the browser's Back button the one before. */
  linkRun() {
    const query = this.shown.link(this.options.kind);
    if (!query || !fits(query)) return;
    this.remember();
    const lesson = new URLSearchParams(location.search).has('lesson'); // keeps its own address
    if (!lesson) visit(query);
  }

  /** Note the visitor's own run in the list of runs: what ran, and what came out. */
  remember() {
    const { shown } = this;
    const query = shown.link(this.options.kind);
    if (!fits(query)) return;
    const run = shown.growing ? null : shown.run(shown.stage.first ?? '', this.noSteps);
    const settings = new URLSearchParams(shown.settings);
    const [gamma, steps] = [settings.get('gamma'), settings.get('steps')];
    const title = [
      new Date().toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }),
      run?.quiet && run.speedup ? times(run.speedup) : '',
      gamma && `γ ${gamma}, T ${steps}`,
      (settings.get('prompt') ?? '').slice(0, 40),
    ];
    keepRun({ query, at: Date.now(), title: title.filter(Boolean).join(' · ') });
  }

  /** Select the lane whose text, window and numbers are shown. @param {string} name */
  selectLane(name) {
    if (!this.shown.select(name)) return;
    this.study.leave();
    this.speaks = !this.shown.player.playing;
    this.frames.requestDraw();
  }

  // ---- actions of the visitor ----

  /** Show the recording that matches changed controls. @param {Settings} values */
  controlsChanged(values) {
    const before = this.formSettings;
    const settings = linkOf(values);
    this.formSettings = settings;
    if (this.live || this.busy) return;
    const unchanged = settings === this.shown.settings ||
      (before ? settings === before : this.chosen);
    const match = unchanged ? null : this.recordings.find((one) => one.settings === settings);
    if (match && ['recording', ''].includes(this.shown.source)) {
      this.showRecording({ url: match.url }, false);
    } else this.compareControls();
  }

  /** Note whether the controls match the stage. */
  compareControls() {
    const { trace, settings, source } = this.shown;
    const runs = this.state !== 'idle' && this.formSettings === this.runSettings;
    const differs = trace && this.formSettings && this.formSettings !== settings && !runs &&
      !['measured', 'file'].includes(source);
    const drafter = new URLSearchParams(this.formSettings).get('drafter') ?? '';
    const { predictions, typical } = this.options;
    const denoises = !this.noSteps.has(drafter);
    this.stale = differs
      ? `${NOT_RUN}${this.pressWords} ${
        predictedWords(predictions, typical, this.formSettings, denoises)
      }`
      : '';
    this.frames.requestDraw();
  }

  /** Called by Gradio for each run (app/scripts.py). Returns its threads, if they are chosen.
   *  @param {Settings} values */
  runSubmitted(values) {
    const { threads } = this;
    this.runSettings = linkOf(values);
    this.compareControls();
    if (this.state === 'idle') this.pressedRun(); // by a key
    this.threads = null;
    return threads;
  }

  /** Run again on one thread, which other programs disturb less. */
  runQuietly() {
    this.threads = 1;
    this.press('run');
  }

  /** @param {(player: Playhead) => void} change of the playhead */
  act(change) {
    this.study.game = null;
    change(this.shown.player);
    this.speaks ||= !this.shown.player.playing;
    this.frames.requestDraw();
  }

  toggle() {
    this.act((player) => player.toggle());
  }

  /** Play the staged round from its beginning. */
  playStaged() {
    this.act((player) => player.playStaged());
  }

  /** Let the visitor type a prompt. */
  askForPrompt() {
    const box = document.querySelector(`#${this.prefix}-prompt textarea`);
    if (box instanceof HTMLTextAreaElement) {
      box.focus(); // which scrolls there
      box.select();
    }
  }

  /** Leave slow motion. */
  skip() {
    this.act((player) => player.skip());
  }

  /** Back to what happens now. */
  toEdge() {
    this.study.leave();
    this.act((player) => player.toEdge());
  }

  step(count) {
    this.act((player) => player.step(count));
  }

  /** @param {number} share of the race */
  seek(share) {
    this.act((player) => player.pauseAt(share * player.duration));
  }

  /** @param {number | 'auto'} slow wall seconds per decode second */
  pace(slow) {
    this.act((player) => Object.assign(player, { slow }));
  }

  /** Move the playhead to the verdict of a round of the selected lane. */
  goToRound(round) {
    this.goTo({ lane: this.shown.selected ?? '', round: round + 1, at: 'commit' });
  }

  /** Move the playhead to the verdict of a round, and scroll to the window. */
  scrollToRound(round) {
    this.goToRound(round);
    const panel = /** @type {HTMLElement} */ (this.root.querySelector('.sd-window'));
    panel.focus({ preventScroll: true });
    panel.scrollIntoView({ block: 'center' });
  }

  keys(event) {
    const { target } = event;
    if (event.defaultPrevented || !this.frames.awake || !isFree(event)) return;
    if (
      target.closest(
        'dialog, [role=tablist]:not([aria-orientation=vertical]), [role=listbox], ' +
          'input:not(.sd-scrub)',
      )
    ) return;
    if (this.study.game) {
      if (this.study.key(event)) event.preventDefault();
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
    return this.shown.moment(this.options.kind);
  }

  /** The query of a link to what the tab shows: the visitor's run, or else the controls; without
   *  controls, in an export, the moment. */
  query() {
    return this.shown.link(this.options.kind) || this.formSettings || this.momentQuery();
  }

  /** Copy a challenge, with a link to the visitor's own run. @param {HTMLElement} button that was
   *  pressed @param {string} number its speed-up */
  challenge(button, number) {
    giveLink(
      button,
      this.query(),
      `The small model got ${number} out of my prompt. Find one that it can’t guess:`,
    );
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
    if (this.shown.file !== moment.trace) await this.showRecording(race);
    if (this.shown.file === moment.trace && !moment.whole) this.goTo(moment); // still wanted
    return true;
  }

  /** Move the playhead to a moment. @param {Pick<Moment, 'lane' | 'round' | 'at'>} moment */
  goTo(moment) {
    if (this.shown.lanes[moment.lane]) this.selectLane(moment.lane);
    this.act(() => this.shown.goTo(moment));
  }

  /** Download the trace: the server's bytes, or the same format after a stopped run. */
  async save() {
    const { trace, lanes } = this.shown;
    if (!trace) return;
    const bytes = trace.bytes || (await gzip(new TextEncoder().encode(serialise(trace))));
    const header = Object.values(lanes).find((lane) => lane?.header)?.header;
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
    const { shown, study, formSettings } = this;
    const scene = shown.scene();
    if (this.speaks) {
      const result = scene.over ? Object.values(leadOf(scene)).join('') : '';
      this.voice = study.game?.words(wordsOf(study.game.lane)) ??
        [sentenceOf(scene), result].filter(Boolean).join(' ');
    }
    this.speaks = false;
    this.root.classList.toggle('sd-none', !scene.names.length);
    const pair = new URLSearchParams(formSettings).get('pair');
    const foreign = Boolean(pair && shown.pair && shown.pair !== pair); // not what the page describes
    document.getElementById(`${this.prefix}-about`)?.toggleAttribute('hidden', foreign);
    render(
      html`
        <${Player} scene=${scene} shown=${shown} options=${this.options} noSteps=${this.noSteps}
          recordings=${this.recordings} card=${this.card.element} status=${this.status.element}
          stale=${this.stale} voice=${this.voice} study=${study} act=${this} />
      `,
      this.root,
    );
  }

  /** An export opens files without checking that their events are consistent. */
  drawOrSay() {
    try {
      this.draw();
    } catch (error) {
      this.shown.player.pause();
      this.card.show(UNREADABLE);
      console.error('not drawn:', error);
    }
  }

  /** Read the next drawing out. */
  speak() {
    this.speaks = true;
    this.frames.requestDraw();
  }

  /** Wall milliseconds passed. Returns whether the playhead plays on. */
  tick(milliseconds) {
    const { player } = this.shown;
    const wasPlaying = player.playing;
    if (player.tick(milliseconds)) this.frames.dirty = true;
    this.speaks ||= wasPlaying && !player.playing;
    return player.playing;
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
  else app.controlsChanged(values);
  const moment = readMoment(location.search);
  const opensHere = moment &&
    (isRun(moment.trace)
      ? moment.tab === options.kind
      : options.recordings.some(({ url }) => fileOf(url) === moment.trace));
  const [opening] = options.recordings;
  if (moment && opensHere) app.openMoment(moment);
  else if (opening && !app.shown.trace && !app.live && !app.calls) {
    app.showRecording({ url: opening.url }, false);
  }
}
