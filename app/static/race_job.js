// A race that the server runs: its trace is followed while it grows, and what arrived is kept.

import { GrowingTrace } from './state/trace.js';
import { isOpen, openTab, REFUSAL } from './page.js';
import { Job, lostCard } from './job.js';
/** @import { Ending } from './job.js' */
/** @import { Shown } from './state/shown.js' */
/** @import { Trace } from './state/trace.js' */

/** @typedef {{run: string, file: GrowingTrace, before: {shown: Shown, place: any} | null}} Race
 *  under way; `before`: what was on the stage, once the race has taken it */
/** @typedef {object} Tab that shows it
 * @property {(live: Race) => void} grow shows what has arrived
 * @property {(live: Race | null, message: any, trace: Trace | null) => void} finish shows the whole
 * @property {(live: Race | null) => Promise<boolean>} breakOff keeps what has arrived without a final
 *  message, if anything has
 * @property {(trace: Trace, source: string, url: string) => void} showFile
 * @property {() => void} keepForm puts the form's settings into the address: Gradio reloads the page
 */

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

/** @extends {Job<Race>} */
export class RaceJob extends Job {
  /** @param {HTMLElement} root @param {{prefix: string, patience: number}} options @param {Tab} tab */
  constructor(root, { prefix, patience }, tab) {
    super(root, prefix, patience, WORDS);
    this.tab = tab;
    this.calls = 0; // requests; late answers to earlier ones are dropped
    /** @type {number | null} threads for the next run */
    this.threads = null;
    document.addEventListener('input', ({ target }) => {
      if (target instanceof Element && target.closest('.sd-invalid')) this.card.hide();
    });
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
    this.calls += 1;
    file.follow(() => {
      this.watchdog.restart();
      const begun = Object.values(file.lanes).some((events) => events.length);
      if (this.live === live && begun) this.tab.grow(live);
    });
  }

  /** Show a file that the server read, or, in an export, this page. */
  async openFile(message) {
    const { card, source, trace: url } = message;
    const awake = isOpen(this.prefix);
    if (this.live) {
      if (url || awake) this.card.show(REFUSAL);
      return;
    }
    if (card && !awake) { // only the open tab shows it
      if (this.prefix === 'race' || isOpen('race')) return;
      openTab('live');
    }
    this.calls += 1;
    const trace = await this.fetchResult(message);
    this.card.hide();
    if (trace) {
      this.tab.showFile(trace, source, url);
      openTab(this.prefix);
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

  /** @override @param {Ending} ending @param {Race | null} live @param {any} message
   *  @param {Trace | null} trace */
  async ended(ending, live, message, trace) {
    this.threads = null;
    if (ending === 'finished') {
      this.card.hide();
      this.tab.finish(live, message, trace);
      if (message.card) this.card.show(message.card);
      else if (!trace) this.status.show(NOTHING, false);
      return;
    }
    const kept = await this.tab.breakOff(live);
    if (ending === 'unconfirmed' && kept) this.card.show(UNCONFIRMED);
    if (ending !== 'lost') return;
    this.tab.keepForm();
    const words = kept ? `${KEPT} Download it if you want to keep it.` : '';
    this.card.show(lostCard(words, 'your prompt and settings'));
  }

  /** Run again on one thread, which other programs disturb less. */
  runQuietly() {
    this.threads = 1;
    this.press('run');
  }

  /** The threads of the run that begins, if they are chosen. */
  takeThreads() {
    const { threads } = this;
    if (this.state === 'idle') this.pressedRun(); // by a key
    this.threads = null;
    return threads;
  }
}
