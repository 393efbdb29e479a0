// Shared by Live, Race, Explore and Compare: a run of the server that waits in the queue, is followed,
// stopped, or lost. It ends with its final message, or, if none comes, with Gradio's event.

import { CardView, StatusView } from './views/notes.js';
import { Watchdog } from './watchdog.js';
import { attribute, until } from './views/dom.js';
import { canRun } from './room.js';
import { queueWords } from './state/format.js';
/** @import { TabName } from './state/events.d.ts' */

/** The card for a server that is gone. @param {string} kept @param {string} back with the page */
export const lostCard = (kept, back) => ({
  title: 'The connection was lost',
  message: `The server has stopped responding.${kept}`,
  hint: `When it is back, the page reloads itself with ${back}.`,
});

const GRACE = 2500; // milliseconds between the final message and the end of Gradio's event, at most

/** @typedef {'idle' | 'waiting' | 'running' | 'finishing'} State `waiting`: in the queue, or for the
 *  server's first message; `finishing`: the final message has come, but is not handled yet */
/** @typedef {'finished' | 'unreadable' | 'refused' | 'unconfirmed' | 'lost'} Outcome `finished`: its
 *  final message came, `unreadable`: and refers to a damaged file; `refused`: by the server, without
 *  one; `unconfirmed`: none came in time after Stop; `lost`: the server doesn't respond */

/** @typedef {object} Gradio what it gives the script of a component (app/scripts.py: mount)
 * @property {{value: string}} props @property {(name: string, callback: () => void) => void} watch
 * @property {(event: 'run' | 'stop' | 'get_model' | 'stop_model' | 'redraft' | 'stop_redraft',
 *  data?: object) => void} trigger starts an event of the component
 * @property {Record<string, (argument: any) => Promise<any>>} server functions in Python */

/** @template {{run: string}} Run what is known of a run under way */
export class Job {
  /**
   * @param {HTMLElement} root @param {TabName} tabName the ids of its controls begin with it
   * @param {number} patience seconds the server takes for a stopped run's last frame
   * @param {{waits: string, alone: string, stops: string}} words `alone`: the reason for waiting
   * @param {Gradio['trigger']} trigger
   */
  constructor(root, tabName, patience, words, trigger) {
    this.trigger = trigger;
    this.content = root; // the part of the page that a run changes
    this.tabName = tabName;
    this.patience = 1000 * patience + 500; // milliseconds
    this.statusWords = words;
    this.card = new CardView(tabName);
    this.status = new StatusView();
    /** @type {State} */
    this.state = 'idle';
    this.stopped = false; // whether Stop was pressed, until the next run
    this.gradioBusy = false; // with the event of a press: it takes no other
    this.stopTimer = 0; // ends the wait for a stopped run
    /** @type {Run | null} the run that is prepared or measured */
    this.live = null;
    this.watchdog = new Watchdog(
      () => this.expects,
      () => this.end('lost'),
    );
  }

  /** Whether messages of a run are still to come. */
  get expects() {
    return this.state === 'waiting' || this.state === 'running';
  }

  /** Whether a run takes up the stage; one that waits in the queue leaves it to the visitor. */
  get busy() {
    return this.state === 'waiting' ? this.stopped : this.state !== 'idle';
  }

  /** What the status line says, and whether the run is over. */
  get progressNow() {
    return { words: this.status.element.textContent ?? '', over: this.state === 'idle' };
  }

  /** @param {State} state */
  enter(state) {
    this.state = state;
    attribute(this.content, 'aria-busy', String(this.busy)); // not on the status line
  }

  /** Which button starts a run, if the page has one. */
  get pressWords() {
    const name = document.getElementById(`${this.tabName}-run`)?.textContent?.trim();
    return canRun() ? ` Press ${name}.` : '';
  }

  pressedRun() {
    this.card.hide();
    this.stopped = false;
    this.enter('waiting');
    this.gradioBusy = true;
    this.watchdog.restart();
    this.status.show(this.statusWords.waits);
    this.status.element.scrollIntoView({ block: 'nearest' });
  }

  /** Give a run time for its final message; one that waits in the queue sends it at once. */
  pressedStop() {
    if (this.state === 'idle') return;
    this.stopped = true;
    this.enter(this.state);
    this.status.show(this.statusWords.stops);
    clearTimeout(this.stopTimer);
    this.stopTimer = setTimeout(() => this.expects && this.end('unconfirmed'), this.patience);
  }

  /** Called after Gradio's event (app/controls.py): no final message comes any more. */
  gradioDone() {
    this.gradioBusy = false;
    const waits = () => !this.gradioBusy && this.expects;
    if (!waits()) return;
    setTimeout(async () => {
      const responds = waits() && (await this.watchdog.answers());
      if (waits()) this.end(responds ? 'refused' : 'lost');
    }, GRACE);
  }

  /** Have the server run or stop, as a visitor's press does. @param {'run' | 'stop'} act */
  press(act) {
    if (act === 'stop') this.pressedStop();
    else if (!canRun()) return;
    else if (this.state === 'idle') this.pressedRun();
    this.trigger(act, { request: this.request() });
  }

  /** What the server is sent. @returns {unknown} */
  request() {
    return '';
  }

  /** The one way a run ends: reset; each kind of job then shows what is left of it.
   *  @param {Outcome} outcome @param {any} [message] the final one @param {any} [result] of it
   *  @returns {void | Promise<void>} */
  end(outcome, message, result) {
    clearTimeout(this.stopTimer);
    this.live = null;
    this.enter('idle');
    this.status.show('');
  }

  /** Note a message of the run, and handle it; the final one when Gradio takes a press again. */
  async receive(message) {
    const { state, stopped } = this;
    const queued = message.phase === 'queued';
    this.enter(message.finished ? 'finishing' : queued ? 'waiting' : 'running');
    this.watchdog.restart();
    if (!message.finished) {
      if (state === 'idle') this.card.hide(); // the connection was given up and is back
      if (stopped && state !== 'running') this.press('stop'); // perhaps the server hadn't the run
      return queued ? this.queued(message) : this.progress(message);
    }
    await until(() => !this.gradioBusy, GRACE / 100);
    let result;
    try {
      result = await this.fetchResult(message);
    } catch (error) {
      await this.end('unreadable');
      throw error;
    }
    await this.end('finished', message, result);
  }

  /** Show the place in the queue. */
  queued({ place }) {
    if (place && !this.stopped) {
      this.status.show(`${this.statusWords.alone} ${queueWords(place)}`);
    }
  }

  /** Handle a message of a run under way. */
  progress(message) {}

  /** What the final message refers to. @returns {Promise<unknown>} */
  async fetchResult(message) {
    return null;
  }
}
