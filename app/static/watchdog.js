// Detects that the server is gone: a job that waits too long asks whether it is there. Gradio only
// reports that the connection was lost and does not end the run.

/** @typedef {{quiet: number, patience: number, again: number}} Times milliseconds: `quiet`: without
 *  a message until the server is asked; `patience`: for its answer; `again`: before the next try */

// the server sends a message every 1.5 seconds, in the queue every 5 (app/run/job.py: BEAT);
// a laptop that wakes up needs a moment
const TIMES = { quiet: 8000, patience: 10000, again: 3000 };
const TRIES = 2;

/** Calls `lost` when messages are overdue and the server does not respond. */
export class Watchdog {
  /** @param {() => boolean} waits whether messages are expected
   *  @param {() => void} lost called if the server does not respond */
  constructor(waits, lost) {
    this.waits = waits;
    this.lost = lost;
    this.timer = 0;
    /** @type {Times} */
    this.times = { ...TIMES, ...(/** @type {any} */ (window).specdiffTimes) }; // shorter in tests
  }

  /** Start the timer again: a message arrived, or a request was sent. */
  restart() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), this.times.quiet);
  }

  async ask() {
    const { timer } = this;
    if (!this.waits()) return;
    const responds = await this.answers();
    if (timer !== this.timer || !this.waits()) return; // a message arrived meanwhile
    if (responds) this.restart();
    else this.lost();
  }

  async answers() {
    for (let i = 0; i < TRIES; i += 1) {
      if (i) {
        await new Promise((later) => setTimeout(later, this.times.again));
      }
      try {
        const answer = await fetch(new URL('healthz', document.baseURI), {
          method: 'HEAD',
          cache: 'no-store',
          signal: AbortSignal.timeout(this.times.patience),
        });
        if (answer.status < 500) return true; // 5xx: a proxy answers for a server that is gone
      } catch (error) {
        console.info('the server does not answer:', error);
      }
    }
    return false;
  }
}
