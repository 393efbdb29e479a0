// The measurement of a question, which goes on over a reload of the page.

import { canRun, code } from './room.js';
import { Job, lostCard } from './job.js';
import { keep, recall } from './storage.js';
import { progressWords } from './state/exploration.js';
import { updateEntry } from './page.js';
/** @import { Gradio, Outcome } from './job.js' */
/** @import { TabName } from './state/events.d.ts' */

const WORDS = {
  waits: 'Waiting in the queue…',
  alone: 'Up to two questions are measured at a time, in turns.',
  stops: 'Stopping; results so far are kept…',
};
const EARLY = {
  title: 'The measurement ended early',
  hint: 'Results so far are kept. Measure again; if the server is busy, wait a little.',
};
const WITHOUT_RESULT = {
  refused: 'The server refused the measurement.',
  unconfirmed: 'The server hasn’t confirmed that it stopped.',
};

/** @typedef {{run: string, name: string}} Run */
/** @typedef {object} MeasuringTab
 * @property {() => {name: string, settings: Record<string, any>}} request its question and settings
 * @property {() => void} started @property {(message: any) => void} received
 * @property {(message: any) => void} ended @property {() => void} changed
 * @property {() => boolean} keeps whether it shows results that would be lost
 */

/** @extends {Job<Run>} */
export class Measurement extends Job {
  /** @param {HTMLElement} root @param {{tabName: TabName, patience: number}} options @param {MeasuringTab} tab
   *  @param {Gradio['trigger']} trigger */
  constructor(root, { tabName, patience }, tab, trigger) {
    super(root, tabName, patience, WORDS, trigger);
    this.tab = tab;
    this.storageKey = `specdiff-exploring-${tabName}`; // where the token is kept for a reload
    this.token = recall(this.storageKey, 'sessionStorage') ?? '';
    this.follows = Boolean(this.token); // a measurement from before a reload
    /** @type {Record<string, any> | null} settings of the branch that is measured, instead of the
     *  form's: until it is complete, nothing that is shown changes */
    this.branch = null;
    /** @type {{max: number, value: number} | null} */
    this.bar = null;
    this.status.element.removeAttribute('role'); // it changes every second
    if (this.follows) this.trigger('run', { request: this.request() });
  }

  /** The form cannot be sent while a measurement waits, either. @override */
  get busy() {
    return this.state !== 'idle';
  }

  /** Whether a measurement may begin. */
  get free() {
    return !this.busy && canRun();
  }

  /** The arguments of a run, a stop or a reload. @override */
  request() {
    const { token } = this;
    if (this.follows) return JSON.stringify({ token });
    const { name, settings } = this.tab.request();
    return JSON.stringify({ token, explore: name, settings: { ...settings, ...this.branch } });
  }

  /** Measure a branch of the answer that is shown. Returns whether it began.
   *  @param {Record<string, any>} settings */
  measureBranch(settings) {
    if (!this.free) return false;
    this.branch = settings;
    this.press('run');
    return true;
  }

  /** @override */ pressedRun() {
    this.token = code(12); // of this tab
    this.follows = false;
    keep(this.storageKey, this.token, 'sessionStorage');
    super.pressedRun();
    this.tab.started();
  }

  /** @override */ queued(message) {
    super.queued(message);
    this.tab.changed(); // after a reload the form shows it now
  }

  /** @override */ progress(message) {
    this.tab.received(message);
    this.live = { run: message.run, name: message.explore };
    this.bar = message.total ? { max: message.total, value: message.done } : null;
    this.status.show(progressWords(message));
    this.tab.changed();
  }

  /** @override */ async fetchResult(message) {
    this.tab.received(message);
  }

  /** @override @param {Outcome} outcome @param {any} [message] */
  end(outcome, message = null) {
    const { branch } = this;
    super.end(outcome);
    Object.assign(this, { branch: null, bar: null });
    updateEntry();
    keep(this.storageKey, null, 'sessionStorage');
    if (outcome === 'lost') {
      const kept = this.tab.keeps() ? ' Download the results that you want to keep.' : '';
      this.card.show(lostCard(kept, 'your question. Then measure again'));
    } else if (outcome in WITHOUT_RESULT) {
      this.card.show({ ...EARLY, message: WITHOUT_RESULT[outcome] });
    } else if (message?.card) { // of a branch the form doesn't have the value
      this.card.show(branch ? { ...message.card, field: '' } : message.card);
    }
    this.tab.ended(message);
  }
}
