// A race that the server runs: its trace is followed while it grows, and what arrived is kept.

import { address } from './views/link.js';
import { fileOf, REFUSAL } from './staging.js';
import { GrowingTrace } from './files.js';
import { isOpen, openTab } from './page.js';
import { Job, lostCard } from './job.js';
/** @import { Gradio, Outcome } from './job.js' */
/** @import { PlayerTab } from './player_tab.js' */
/** @import { ShownRace } from './state/shown_race.js' */
/** @import { TabName } from './state/events.d.ts' */
/** @import { Trace } from './state/trace.js' */

/** @typedef {{run: string, file: GrowingTrace, before: {shown: ShownRace, place: any} | null}} LiveRace
 *  under way; `before`: what was on the stage, once the race has taken it */

const WORDS = {
  waits: 'Waiting in the queue…',
  alone: 'Races run one at a time, so that nothing disturbs the clock.',
  stops: 'Stopping…',
};
const NOTHING = 'Stopped. Nothing was measured.';
const KEPT = ' The page shows what arrived before that.';
const UNCONFIRMED = {
  title: 'The result didn’t arrive in time',
  message: `The server hasn’t confirmed that it stopped.${KEPT}`,
  hint: 'Run again.',
};

/** @extends {Job<LiveRace>} */
export class RaceJob extends Job {
  /** @param {HTMLElement} root @param {{tabName: TabName, patience: number}} options
   *  @param {Pick<PlayerTab, 'form' | 'staging' | 'query' | 'raceBegan'>} tab that shows it
   *  @param {Gradio['trigger']} trigger */
  constructor(root, { tabName, patience }, tab, trigger) {
    super(root, tabName, patience, WORDS, trigger);
    this.tab = tab;
    this.requests = 0; // for traces; late answers to earlier ones are dropped
    /** @type {number | null} threads for the next run */
    this.threads = null;
    document.addEventListener('input', ({ target }) => {
      if (target instanceof Element && target.closest('.sd-invalid')) this.card.hide();
    });
  }

  /** Begin a request for a trace. @returns {() => boolean} whether it is still the latest */
  newRequest() {
    const request = this.requests += 1;
    return () => request === this.requests;
  }

  /** @override */ progress({ run, trace, phase, message }) {
    if (trace && this.live?.run !== run) this.follow(run, trace);
    this.status.show(phase === 'loading' ? `${message || 'Loading'}…` : '');
  }

  /** @param {string} run @param {string} trace its address */
  follow(run, trace) {
    const file = new GrowingTrace(trace);
    const live = { run, file, before: null };
    this.live = live;
    this.newRequest();
    file.follow(() => {
      this.watchdog.restart();
      const begun = Object.values(file.lanes).some((events) => events.length);
      if (this.live === live && begun && this.tab.staging.grow(live)) this.tab.raceBegan();
    });
  }

  /** Show a file that the server read, or, in an export, this page. */
  async openFile(message) {
    const { card, source, trace: url } = message;
    const awake = isOpen(this.tabName);
    if (this.live) {
      if (url || awake) this.card.show(REFUSAL);
      return;
    }
    if (card && !awake) { // only the open tab shows it
      if (this.tabName === 'race' || isOpen('race')) return;
      openTab('live');
    }
    this.newRequest();
    const trace = await this.fetchResult(message);
    this.card.hide();
    if (trace) {
      this.tab.staging.showTrace(trace, source, { file: fileOf(url) });
      openTab(this.tabName);
    }
    if (card) this.card.show(card);
  }

  /** The trace of the race that was followed, or of a file. @override @param {any} message
   *  @returns {Promise<Trace | null>} */
  async fetchResult({ run, trace, size }) {
    if (typeof trace !== 'string') return trace ?? null;
    const file = this.live?.run === run ? this.live?.file : null;
    return (file ?? new GrowingTrace(trace)).upTo(size);
  }

  /** @override @param {Outcome} outcome @param {any} [message] @param {Trace | null} [trace] */
  async end(outcome, message = null, trace = null) {
    const { live } = this;
    super.end(outcome);
    this.threads = null;
    if (outcome === 'finished') {
      this.tab.form.offerPairs(); // it may have fetched a model
      this.card.hide();
      this.show(live, message, trace);
      if (message.card) this.card.show(message.card);
      else if (!trace) this.status.show(NOTHING, false);
      return;
    }
    const kept = await this.keep(live);
    if (outcome === 'unconfirmed' && kept) this.card.show(UNCONFIRMED);
    if (outcome !== 'lost') return;
    this.tab.form.writeAddress(); // Gradio reloads the page
    const words = kept ? `${KEPT} Download it if you want to keep it.` : '';
    this.card.show(lostCard(words, 'your prompt and settings'));
  }

  /** Show the race that has ended, or again what was there before.
   *  @param {LiveRace | null} live @param {any} message @param {Trace | null} trace */
  show(live, { phase, run, source: origin, trace: url }, trace) {
    const { staging } = this.tab;
    const source = phase === 'stopped' ? phase : origin;
    if (!trace) this.restore(live);
    else if (live?.run === run && staging.growing) staging.keepRace(trace, source);
    else staging.showTrace(trace, source, { file: fileOf(url) });
  }

  /** Keep what has arrived without a final message. Returns whether anything has.
   *  @param {LiveRace | null} live */
  async keep(live) {
    const { staging } = this.tab;
    if (!live || !staging.growing) {
      this.restore(live);
      return false;
    }
    live.file.left = true;
    staging.keepRace(await live.file.trace(), 'stopped');
    return true;
  }

  /** @param {LiveRace | null} live */
  restore(live) {
    if (this.tab.staging.restore(live)) address(this.tab.query());
  }

  /** Run again on one thread, which other programs disturb less. */
  runQuietly() {
    this.threads = 1;
    this.press('run');
  }

  /** The form's values, and the threads of the run if they are chosen. @override */
  request() {
    return { ...this.tab.form.settings.values(), threads: this.threads };
  }

  /** @override */ pressedRun() {
    super.pressedRun();
    this.tab.form.noteRun();
  }

  /** @override */ enter(state) {
    super.enter(state);
    this.tab.form.draw();
  }
}
