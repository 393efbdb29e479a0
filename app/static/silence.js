// Notices that the server is gone. A player that waits for it and hears nothing asks for one small file; Gradio says
// that the connection was lost, and leaves the run as it was. Knows no player and draws nothing.

const QUIET = 8000; // milliseconds without a word, after which the server is asked; while a lane runs it speaks each second
const PATIENCE = 10000; // for its answer
const AGAIN = 3000; // a laptop that wakes up needs a moment
const TRIES = 2;

async function answers() {
  for (let i = 0; i < TRIES; i += 1) {
    if (i) await new Promise((later) => { setTimeout(later, AGAIN); });
    try {
      const answer = await fetch(import.meta.url, { method: 'HEAD', cache: 'no-store', signal: AbortSignal.timeout(PATIENCE) });
      if (answer.status < 500) return true; // a proxy speaks for a server that is gone
    } catch (error) {
      console.info('the server does not answer:', error);
    }
  }
  return false;
}

/** Told of every word of the server, it says when no more will come. */
export class Silence {
  /**
   * @param {() => boolean} waits whether the server should speak
   * @param {() => void} lost it does not answer
   */
  constructor(waits, lost) {
    this.waits = waits;
    this.lost = lost;
    this.timer = 0;
  }

  /** The server spoke, or was asked for something. */
  broken() {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.ask(), QUIET);
  }

  async ask() {
    const { timer } = this;
    if (!this.waits()) return;
    const there = await answers();
    if (timer !== this.timer || !this.waits()) return; // it spoke meanwhile
    if (there) this.broken();
    else this.lost();
  }
}
