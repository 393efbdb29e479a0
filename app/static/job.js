// Shared by the players of Live, Race, Explore and Compare: a run of the server that waits in the
// queue, is followed, stopped, or lost; and the component that carries the server's messages.

import { CardView, StatusView } from './views/notes.js';
import { Watchdog } from './watchdog.js';
import { canRun, guard } from './page.js';
import { queueWords } from './state/format.js';

/** The card for a server that is gone. @param {string} kept @param {string} back with the page */
export const lostCard = (kept, back) => ({
  title: 'The connection was lost',
  message: `The server has stopped responding.${kept}`,
  hint: `When it is back, the page reloads itself with ${back}.`,
});

/** @template {{run: string, warming: boolean}} Run what is known of a run under way;
 *  frame_throttle.js asks whether it is `warming` */
export class Job {
  /**
   * @param {HTMLElement} root @param {string} prefix with which the ids of its controls begin
   * @param {number} patience seconds the server takes for a stopped run's last frame
   * @param {{waits: string, alone: string, stops: string}} words `alone`: the reason for waiting
   */
  constructor(root, prefix, patience, words) {
    this.root = root;
    this.content = root; // the part of the page that a run changes
    this.prefix = prefix;
    this.patience = 1000 * patience + 500; // milliseconds
    this.statusWords = words;
    this.card = new CardView(prefix);
    this.status = new StatusView();
    this.waiting = false; // in the queue
    this.clicked = false; // on Run, which Gradio has not passed on yet
    this.queuedUp = false; // Gradio has it in the queue
    this.dropped = false; // Stop was pressed while it waited, perhaps before Gradio had it in the queue
    this.cancelled = false; // Gradio was asked to take it out of the queue
    this.leaving = 0; // the timer that ends the wait for a stopped run
    /** @type {Run | null} */
    this.measured = null;
    const queue = document.getElementById(`${prefix}-queue`);
    if (queue) {
      new MutationObserver(() => this.queued(queue)).observe(queue, {
        childList: true,
        characterData: true,
        subtree: true,
      });
    }
    this.watchdog = new Watchdog(() => this.waiting || this.busy, () => this.lost(false));
    document.addEventListener('click', ({ target }) => { // drawers create buttons later
      if (!(target instanceof Element)) return;
      if (target.closest(`#${prefix}-run`) && !this.busy) { // as Gradio does
        this.clicked = true;
        this.pressedRun();
      }
      if (target.closest(`#${prefix}-stop`)) this.pressedStop();
    });
  }

  /** The run that is prepared or measured, or null. Its end releases animation frames. */
  get live() {
    return this.measured;
  }

  set live(run) {
    const over = this.measured && !run;
    this.measured = run;
    if (over) window.dispatchEvent(new Event('specdiff:measured'));
    guard();
  }

  get busy() {
    return this.root.classList.contains('sd-busy');
  }

  set busy(on) {
    if (on === this.busy) return; // each update sets it, and a style that changes is computed again
    this.root.classList.toggle('sd-busy', on);
    this.content.setAttribute('aria-busy', String(on)); // not on the status line
    guard();
  }

  /** Which button starts a run, if the page has one. */
  get pressWords() {
    const name = document.getElementById(`${this.prefix}-run`)?.textContent?.trim();
    return canRun(this.prefix) ? ` Press ${name}.` : '';
  }

  pressedRun() {
    this.card.hide();
    this.waiting = true;
    this.dropped = false;
    this.queuedUp = false;
    this.cancelled = false;
    this.watchdog.restart();
    this.status.show(this.statusWords.waits);
    this.status.element.scrollIntoView({ block: 'nearest' });
  }

  /** Repeat in words the queue position that Gradio writes into its own status. */
  queued(element) {
    const position = queueWords(element.textContent ?? '');
    if (!position) return;
    if (!this.queuedUp && this.dropped) this.cancel();
    this.queuedUp = true;
    if (this.waiting && !this.dropped) {
      this.status.show(`${this.statusWords.alone} ${position}`);
    }
  }

  /** Remove a waiting run from the queue; give a measured one time for its final message. */
  pressedStop() {
    if (this.waiting && !this.dropped) {
      this.dropped = true;
      if (this.queuedUp) this.cancel();
      this.busy = true; // until Gradio's event ends, which may still give the run its turn
    }
    if (!this.busy) return;
    this.status.show(this.statusWords.stops);
    clearTimeout(this.leaving);
    this.leaving = setTimeout(() => this.dropped ? this.over() : this.lost(true), this.patience);
  }

  /** Take the run out of Gradio's queue, once: what cancels it would also hit the next run. */
  cancel() {
    this.cancelled = true;
    this.press('cancel');
  }

  /** Called when Gradio's event has ended (app/controls.py). One that is cancelled ends first, and
   *  fails when Gradio has finished cancelling; until then it would forget the next one. */
  ended(failed) {
    if (this.dropped && this.busy && (failed || !this.cancelled)) this.over();
  }

  /** Press a button of Gradio's. @param {string} id */
  press(id) {
    document.getElementById(`${this.prefix}-${id}`)?.click();
  }

  /** Reset after the run has ended or was cancelled. */
  over() {
    clearTimeout(this.leaving);
    this.waiting = false;
    this.live = null;
    this.busy = false;
    this.status.show('');
  }

  /** Called when the server stops responding, or does not react to Stop. */
  lost(stopped) {}

  /** Handle a message of the server. */
  receive(message) {
    this.waiting = false;
    this.watchdog.restart();
  }
}

/** Pass the messages of a component to its player; an unchanged value is ignored.
 *  @param {Job<any>} player @param {{value: string}} props @param {(name: string, callback: () => void) => void} watch
 *  @param {{title: string, message: string, hint: string}} unreadable shown on an error */
export function listen(player, props, watch, unreadable) {
  const first = props.value ? JSON.parse(props.value) : {};
  let last = first.card && first.source === 'file' ? props.value : ''; // shown by the open tab
  let turn = Promise.resolve(); // keeps messages in order although unpacking takes a moment
  const take = () => {
    const { value } = props;
    if (!value || value === last) return;
    last = value;
    const message = JSON.parse(value);
    if (player.dropped && message.source !== 'file') { // its turn came before it was cancelled
      if (!message.finished) player.press('stop');
      return;
    }
    turn = turn.then(() => player.receive(message)).catch((error) => {
      player.card.show(unreadable);
      console.warn('not shown:', error);
    });
  };
  watch('value', take);
  take();
}
