// A card that leads through the page, step by step: what it says, what can be answered, and what it points at. The tour
// of the Live tab and the lessons of the Learn tab are such walks.
// @ts-check

import { h, text } from './dom.js';

/** @typedef {{words: string, right?: boolean, why?: string}} Option `right` left out: nothing is judged */
/** @typedef {{title: string, words: string[], options?: Option[], extra?: Node | null, show?: () => (Element | null | Promise<Element | null>)}} Step `show` places what is pointed at */

export class Guide {
  /** @param {(done: boolean, chosen: Record<number, number>) => void} ended hears whether the last step was reached, and what was chosen by step */
  constructor(ended) {
    this.ended = ended;
    /** @type {Step[]} */
    this.steps = [];
    this.at = -1;
    /** @type {Record<number, number>} */
    this.chosen = {};
    /** @type {Element | null} */
    this.here = null;
    this.place = h('span', { class: 'sd-sub' });
    this.title = h('b', {});
    this.body = h('div', { class: 'sd-guide-body', 'aria-live': 'polite' });
    this.back = h('button', { type: 'button', class: 'sd-b', onclick: () => this.go(this.at - 1) }, 'Back');
    this.next = h('button', { type: 'button', class: 'sd-b sd-guide-next', onclick: () => this.go(this.at + 1) }, 'Next');
    this.card = h('div', { class: 'sd sd-guide', role: 'dialog', 'aria-label': 'Guide', hidden: true },
      h('header', {}, this.title, this.place), this.body,
      h('div', { class: 'sd-guide-buttons' }, h('button', { type: 'button', class: 'sd-link', onclick: () => this.end(false) }, 'End here'), this.back, this.next));
    this.card.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
      if (event.key === 'Escape') this.end(false);
    });
    document.body.append(this.card);
  }

  /** @param {string} name @param {Step[]} steps */
  start(name, steps) {
    Object.assign(this, { steps, chosen: {} });
    this.card.setAttribute('aria-label', name);
    this.go(0);
  }

  /** @param {number} at */
  async go(at) {
    this.point(null);
    if (at < 0 || at >= this.steps.length) {
      this.end(at >= this.steps.length);
      return;
    }
    this.at = at;
    const { title, words, options = [], extra = null, show } = this.steps[at];
    text(this.title, title);
    text(this.place, `${at + 1} of ${this.steps.length}`);
    this.body.replaceChildren(...words.map((one) => h('p', {}, one)), ...(extra ? [extra] : []), ...this.choices(options, at));
    text(this.next, at === this.steps.length - 1 ? 'Done' : 'Next');
    this.back.disabled = at === 0;
    this.card.hidden = false;
    this.next.focus({ preventScroll: true });
    const target = show ? await show() : null;
    if (this.at === at) this.point(target);
    target?.scrollIntoView({ block: 'center' });
  }

  /** @param {Option[]} options @param {number} at */
  choices(options, at) {
    if (!options.length) return [];
    const verdict = h('p', { class: 'sd-guide-verdict', role: 'status' });
    const buttons = options.map((option, i) => h('button', { type: 'button', class: 'sd-guide-option', 'aria-pressed': String(this.chosen[at] === i), onclick: () => choose(i) }, option.words));
    const choose = (/** @type {number} */ i) => {
      this.chosen[at] = i;
      buttons.forEach((button, j) => button.setAttribute('aria-pressed', String(i === j)));
      const { right, why } = options[i];
      buttons[i].dataset.right = right === undefined ? '' : String(right);
      text(verdict, right === undefined ? 'Remembered. Now see.' : `${right ? '✓' : '✕'} ${why}`);
    };
    return [h('div', { class: 'sd-guide-options', role: 'group', 'aria-label': 'Answers' }, ...buttons), verdict];
  }

  /** Dim all but one thing. @param {Element | null} target */
  point(target) {
    this.here?.classList.remove('sd-guide-here');
    document.body.classList.toggle('sd-guided', Boolean(target));
    target?.classList.add('sd-guide-here');
    this.here = target;
  }

  /** @param {boolean} done */
  end(done) {
    this.at = -1;
    this.card.hidden = true;
    this.point(null);
    this.ended(done, this.chosen);
  }
}
