// What the players of Live, Race and Compare have in common: a run of the server that waits for its place, is followed,
// stopped, or lost; and the component through which the server speaks.
// @ts-check

import { CardView, StatusView } from './views/notes.js';
import { Watchdog } from './watchdog.js';
import { guard } from './page.js';
import { queueWords } from './state/format.js';

/** @template {{run: string, warming: boolean}} Run what is known of a run under way; frame_throttle.js asks whether it is `warming` */
export class Job {
  /**
   * @param {HTMLElement} root @param {string} prefix with which the ids of its controls begin
   * @param {number} patience seconds the server takes for a stopped run's last frame
   * @param {{waits: string, alone: string, stops: string}} words for the status line; `alone`: why it waits
   */
  constructor(root, prefix, patience, words) {
    this.root = root;
    this.content = root; // what a run will change
    this.prefix = prefix;
    this.patience = 1000 * patience + 500; // milliseconds
    this.told = words;
    this.card = new CardView(prefix);
    this.status = new StatusView();
    this.waiting = false; // for a place in the queue
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
    document.addEventListener('click', ({ target }) => { // a drawer makes its buttons when it is opened
      if (!(target instanceof Element)) return;
      if (target.closest(`#${prefix}-run`) && !this.busy) this.pressedRun(); // Gradio does not hear it either while it is busy
      if (target.closest(`#${prefix}-stop`)) this.pressedStop();
    });
  }

  /** What the server prepares or measures, or null. Its end frees the animation frames (frame_throttle.js). */
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
    this.root.classList.toggle('sd-busy', on);
    this.content.setAttribute('aria-busy', String(on)); // not what speaks: the status line
    guard();
  }

  /** @param {string} words about what goes on */
  tell(words) {
    this.status.show(words);
  }

  pressedRun() {
    this.card.hide();
    this.waiting = true;
    this.watchdog.heard();
    this.tell(this.told.waits);
    this.status.element.scrollIntoView({ block: 'nearest' });
  }

  /** Gradio writes the place in the queue into its own status; the player repeats it in words. @param {Element} element */
  queued(element) {
    const place = queueWords(element.textContent ?? '');
    if (place && this.waiting) this.tell(`${this.told.alone} ${place}`);
  }

  /** A run that waits in the queue leaves it; one that is measured has a moment for its last frame. */
  pressedStop() {
    if (this.waiting) {
      this.cancel();
      this.over();
    }
    if (!this.busy) return;
    const run = this.live?.run;
    this.tell(this.told.stops);
    setTimeout(() => {
      if (this.busy && this.live?.run === run) this.lost(true);
    }, this.patience);
  }

  /** Gradio drops its event. */
  cancel() {
    document.getElementById(`${this.prefix}-cancel`)?.click();
  }

  /** Nothing runs for this visitor any more. */
  over() {
    this.waiting = false;
    this.live = null;
    this.busy = false;
    this.status.show('');
  }

  /** The server does not answer any more, or not to Stop. @param {boolean} stopped */
  lost(stopped) {}

  /** A message of the server. @param {any} message @returns {void | Promise<void>} */
  receive(message) {
    this.waiting = false;
    this.watchdog.heard();
  }
}

/**
 * Let a player hear its component: an equal value is a heartbeat, and fires nothing.
 * @param {Job<any>} player @param {{value: string}} props @param {(name: string, callback: () => void) => void} watch
 * @param {{title: string, message: string, hint: string}} unreadable what to say of a message that cannot be shown
 */
export function listen(player, props, watch, unreadable) {
  const first = props.value ? JSON.parse(props.value) : {};
  let last = first.card && first.source === 'file' ? props.value : ''; // it was shown where the visitor looked
  let turn = Promise.resolve(); // messages are shown in the order they came, though unpacking takes a moment
  const take = () => {
    const { value } = props;
    if (!value || value === last) return;
    last = value;
    turn = turn.then(() => player.receive(JSON.parse(value))).catch((error) => {
      player.card.show(unreadable);
      console.warn('not shown:', error);
    });
  };
  watch('value', take);
  take();
}
