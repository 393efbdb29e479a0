// Guides through the page step by step: which step is shown, what it points at, and the answers. The
// lessons of the Learn tab use it. A question must be answered before the next step. In a
// presentation, explanations and verdicts are hidden until they are revealed (presenter.js).

import { Card } from './views/guide.js';
import { html, render } from './views/ui.js';
import { make } from './views/dom.js';
/** @import { Child } from './vendor/preact.d.ts' */
/** @import { Step } from './views/guide.js' */

/** @typedef {object} Calls
 * @property {(at: number, option: number) => void} answered @property {(at: number) => void} moves to
 *  a step @property {(at: number) => void} moved when what it points at is shown
 * @property {(onward: boolean) => void} ended with whether to go on to the next lesson */

export class Guide {
  /** @param {Calls} call */
  constructor(call) {
    this.call = call;
    this.onward = ''; // the last button's label if something follows
    /** @type {Step[]} */
    this.steps = [];
    this.at = -1; // the step; −1: closed
    /** @type {Record<number, number | undefined>} the option chosen at each step; −1: skipped */
    this.chosen = {};
    this.room = false; // whether it is shown to a room
    this.led = false; // whether a projector decides which step it shows, and when to reveal it
    this.once = false; // whether an answer cannot be changed
    this.note = ''; // why the room that this page joined didn't count an answer
    this.about = () => /** @type {Child} */ (null); // the room, above the step
    this.open = true; // whether the step hides nothing
    /** @type {number[] | null} votes of the room for each option */
    this.votes = null;
    this.present = 0; // pages in the room
    /** @type {Element | null} the element that it points at */
    this.spot = null;
    /** @type {Element | null} the latest one, which the steps after it are about */
    this.subject = null;
    const shape = { className: 'sd sd-guide', role: 'dialog', tabIndex: -1, hidden: true };
    this.card = make('div', shape, document.body);
    document.addEventListener('keydown', (event) => {
      if (event.key === 'Escape' && this.at >= 0 && !this.room) this.end();
    });
    document.addEventListener('focusin', ({ target }) => { // traps the focus
      if (
        this.at < 0 || this.room || !(target instanceof Element) || target.closest('dialog[open]')
      ) return;
      if (!this.card.contains(target) && !this.spot?.contains(target)) {
        this.card.focus({ preventScroll: true });
      }
    });
  }

  /** @param {Step[]} steps @param {number} [at] the first step to show
   *  @param {Record<number, number | undefined>} [chosen] */
  start(name, steps, at = 0, chosen = {}) {
    Object.assign(this, { steps, chosen, subject: null });
    this.card.setAttribute('aria-label', name);
    return this.go(at);
  }

  async go(at) {
    this.point(null);
    if (at < 0 || at >= this.steps.length) {
      this.end(at >= 0 && Boolean(this.onward));
      return;
    }
    Object.assign(this, { at, open: !this.room && !this.led, votes: null });
    this.card.hidden = false;
    this.draw();
    this.card.scrollTop = 0;
    this.call.moves(at);
    const next = /** @type {HTMLButtonElement | null} */ (
      this.card.querySelector('.sd-guide-next:enabled')
    );
    ((!this.room && next) || this.card).focus({ preventScroll: true });
    const target = (await this.steps[at].show?.()) ?? null;
    if (this.at !== at) return;
    this.point(target);
    this.subject = target ?? this.subject;
    this.look();
    this.call.moved(at);
  }

  /** Scroll what the step is about into the space above the card; what is too high for it, from its
   *  tiles or its plot on. */
  look() {
    const { card } = this;
    const subject = this.room ? this.spot : this.subject; // elsewhere the room's card covers all
    if (!subject) return;
    const { top } = card.getBoundingClientRect();
    const high = subject.getBoundingClientRect().height > top;
    const part = high ? subject.querySelector('.sd-stage-prompt, .sd-plot') : null;
    const { style } = document.documentElement;
    style.scrollPadding = `8px 0 ${Math.max(0, window.innerHeight - top + 8)}px`;
    (part ?? subject).scrollIntoView({ block: high ? 'start' : 'center' });
    style.scrollPadding = '';
  }

  /** Draw the step, without what is still hidden. */
  draw() {
    if (this.at >= 0) render(html`<${Card} guide=${this} act=${this} />`, this.card);
  }

  /** Leave the question unanswered. */
  skip() {
    this.chosen[this.at] = -1;
    this.call.answered(this.at, -1);
    this.go(this.at + 1);
  }

  /** Whether the answer to the step's question cannot be changed. */
  get fixed() {
    return this.once && this.chosen[this.at] !== undefined && !this.note;
  }

  /** Answer the step's question. @param {number} option */
  choose(option) {
    if (this.fixed) return;
    this.chosen[this.at] = option;
    this.call.answered(this.at, option);
    this.draw();
    this.card.querySelector('.sd-guide-verdict')?.scrollIntoView({ block: 'nearest' });
  }

  /** Whether the step hides something. */
  get hides() {
    const { instead, extra, options = [] } = this.steps[this.at] ?? {};
    const judged = options.some(({ right }) => right !== undefined);
    return !this.open && Boolean(instead || extra?.() || this.votes?.length || judged);
  }

  /** @param {boolean} [open] or hide it again */
  reveal(open = true) {
    this.open = open;
    this.draw();
  }

  /** Dim the page except one element. */
  point(target) {
    this.spot?.classList.remove('sd-guide-here');
    document.body.classList.toggle('sd-guided', Boolean(target));
    target?.classList.add('sd-guide-here');
    this.spot = target;
  }

  close() {
    this.at = -1;
    this.card.hidden = true;
    this.point(null);
  }

  end(onward = false) {
    this.close();
    this.call.ended(onward);
  }
}
