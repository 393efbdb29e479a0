// Notices that the server is gone. A player that waits for it in vain asks for one small file; Gradio only says
// that the connection was lost, and leaves the run as it was.
// @ts-check

/** @typedef {{quiet: number, patience: number, again: number}} Times milliseconds: without a word, after which the server is asked; for its answer; before it is asked again */

const TIMES = { quiet: 8000, patience: 10000, again: 3000 }; // while a lane runs the server speaks each second; a laptop that wakes up needs a moment
const TRIES = 2;

/** Told of every word of the server, it says when no more will come. */
export class Watchdog {
  /** @param {() => boolean} waits whether the server should speak @param {() => void} lost it does not answer */
  constructor(waits, lost) {
    this.waits = waits;
    this.lost = lost;
    /** @type {any} */
    this.timer = 0;
    /** @type {Times} */
    this.times = { ...TIMES, ...(/** @type {any} */ (window).specdiffTimes) }; // tests do not wait as long
  }

  /** The server spoke, or was asked for something. */
  heard() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), this.times.quiet);
  }

  async ask() {
    const { timer } = this;
    if (!this.waits()) return;
    const there = await this.answers();
    if (timer !== this.timer || !this.waits()) return; // it spoke meanwhile
    if (there) this.heard();
    else this.lost();
  }

  async answers() {
    for (let i = 0; i < TRIES; i += 1) {
      if (i) {
        await new Promise((later) => {
          setTimeout(later, this.times.again);
        });
      }
      try {
        const answer = await fetch(import.meta.url, {
          method: 'HEAD',
          cache: 'no-store',
          signal: AbortSignal.timeout(this.times.patience),
        });
        if (answer.status < 500) return true; // a proxy speaks for a server that is gone
      } catch (error) {
        console.info('the server does not answer:', error);
      }
    }
    return false;
  }
}
