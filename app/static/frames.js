// When Live or Race draws: at most one animation frame is requested at a time, and none while nothing
// changes, because the browser may be on the machine that decodes.

const LONGEST = 250; // milliseconds that the playhead moves at most between two pictures

export class Frames {
  /** @param {{tick: (milliseconds: number) => boolean, draw: () => void, gap: () => number}} on
   *  `tick` moves the playhead, and says whether it plays on; `gap`: milliseconds between two
   *  pictures, at least */
  constructor(on) {
    this.on = on;
    this.dirty = true; // something is to be drawn
    this.awake = false; // on the screen
    this.requested = 0; // id of the requested frame
    this.last = 0; // time of the frame before; 0: nothing moved
    this.drawn = 0; // when the last picture was drawn
  }

  /** Draw soon. */
  requestDraw() {
    this.dirty = true;
    this.wake();
  }

  wake() {
    if (!this.requested && this.awake) {
      this.requested = requestAnimationFrame((now) => this.frame(now));
    }
  }

  /** Begin or stop drawing, as the tab is opened or left. @param {boolean} awake */
  setAwake(awake) {
    this.awake = awake;
    this.wake();
  }

  frame(now) {
    this.requested = 0;
    if (!this.awake) {
      this.last = 0;
      return;
    }
    if (now - this.drawn < this.on.gap()) return this.wake();
    this.drawn = now;
    const plays = this.on.tick(this.last ? Math.min(LONGEST, now - this.last) : 0);
    this.last = now;
    if (this.dirty && !document.hidden) {
      this.dirty = false;
      this.on.draw();
    }
    if (this.dirty || plays) this.wake();
    else this.last = 0; // the next frame measures its time anew
  }
}
