// A card that leads through the page, step by step: what it says, what can be answered, and what it points at. The tour
// of the Live tab and the lessons of the Learn tab are such walks. Before a room, explanations and verdicts wait until
// they are revealed (views/presenter.js).
// @ts-check

import { h, text } from './dom.js';
import { gloss } from './glossary.js';

/** @typedef {{words: string, right?: boolean, why?: string}} Option `right` left out: nothing is judged */
/** @typedef {{title: string, words: string[], instead?: string, options?: Option[], extra?: Node | null, proof?: Node, show?: () => (Element | null | Promise<Element | null>)}} Step `show` places what is pointed at; `extra` waits before a room until it is revealed, and so do the words where something stands `instead`; `proof` comes with the verdict */

export class Guide {
  /** @param {(done: boolean, chosen: Record<number, number>) => void} ended hears whether the last step was reached, and what was chosen by step */
  constructor(ended) {
    this.ended = ended;
    /** @type {Step[]} */
    this.steps = [];
    this.at = -1;
    /** @type {Record<number, number>} */
    this.chosen = {};
    this.room = false; // whether a room looks on
    this.open = true; // whether the step hides nothing
    /** @type {Element | null} */
    this.here = null;
    this.place = h('span', { class: 'sd-sub' });
    this.title = h('b', {});
    this.body = h('div', { class: 'sd-guide-body', 'aria-live': 'polite' });
    this.back = h('button', { type: 'button', class: 'sd-b', onclick: () => this.go(this.at - 1) }, 'Back');
    this.next = h('button', { type: 'button', class: 'sd-b sd-guide-next', onclick: () => this.go(this.at + 1) }, 'Next');
    this.card = h('div', { class: 'sd sd-guide', role: 'dialog', 'aria-label': 'Guide', tabindex: '-1', hidden: true },
      h('header', {}, this.title, this.place), this.body,
      h('div', { class: 'sd-guide-buttons' }, h('button', { type: 'button', class: 'sd-link', onclick: () => this.end(false) }, 'End here'), this.back, this.next));
    this.card.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
      if (event.key === 'Escape') this.end(false);
    });
    document.body.append(this.card);
  }

  /** @param {string} name @param {Step[]} steps @param {number} [at] the first step to show */
  start(name, steps, at = 0) {
    Object.assign(this, { steps, chosen: {} });
    this.card.setAttribute('aria-label', name);
    return this.go(at);
  }

  /** @param {number} at */
  async go(at) {
    this.point(null);
    if (at < 0 || at >= this.steps.length) {
      this.end(at >= this.steps.length);
      return;
    }
    this.at = at;
    this.open = !this.room;
    const { title, show } = this.steps[at];
    text(this.title, title);
    text(this.place, `${at + 1} of ${this.steps.length}`);
    this.fill();
    text(this.next, at === this.steps.length - 1 ? 'Done' : 'Next');
    this.back.disabled = at === 0;
    this.card.hidden = false;
    (this.room ? this.card : this.next).focus({ preventScroll: true });
    const target = show ? await show() : null;
    if (this.at !== at) return;
    this.point(target);
    this.look();
  }

  /** Scroll what the step points at into the room above the card. */
  look() {
    const { here, card } = this;
    if (!here) return;
    const { top } = card.getBoundingClientRect();
    document.documentElement.style.scrollPaddingBottom = `${Math.max(0, window.innerHeight - top + 8)}px`;
    here.scrollIntoView({ block: here.getBoundingClientRect().height < top ? 'center' : 'start' });
    document.documentElement.style.scrollPaddingBottom = '';
  }

  /** What the step says, as far as it is open. */
  fill() {
    const { words, instead, options = [], extra = null, proof } = this.steps[this.at];
    const told = this.open || !instead;
    this.body.replaceChildren(...(told ? words : [instead]).map((one) => h('p', {}, one)), ...(this.open && extra ? [extra] : []), ...this.choices(options, this.at, proof));
    gloss(this.body);
  }

  /** Whether something waits to be revealed. */
  get hides() {
    const { instead, extra, options = [] } = this.steps[this.at] ?? {};
    return !this.open && Boolean(instead || extra?.textContent || options.some(({ right }) => right !== undefined));
  }

  reveal() {
    this.open = true;
    this.fill();
  }

  /** @param {Option[]} options @param {number} at @param {Node} [proof] */
  choices(options, at, proof) {
    if (!options.length) return [];
    const proven = h('div', { class: 'sd-guide-proof', hidden: !(this.room && this.open) }, proof ?? null);
    const verdict = h('p', { class: 'sd-guide-verdict', role: 'status' });
    const mark = (/** @type {Option} */ { right, why }) => `${right ? '✓' : '✕'} ${why}`;
    const judged = (/** @type {Option} */ { right }) => this.room && this.open && right !== undefined;
    const buttons = options.map((option, i) => h('button', { type: 'button', class: 'sd-guide-option', 'aria-pressed': String(this.chosen[at] === i), 'data-right': judged(option) ? String(option.right) : null, onclick: () => choose(i) },
      option.words, judged(option) ? h('small', {}, mark(option)) : null));
    const choose = (/** @type {number} */ i) => {
      this.chosen[at] = i;
      buttons.forEach((button, j) => button.setAttribute('aria-pressed', String(i === j)));
      if (this.room) return; // a show of hands; the verdicts come for all at once
      const { right } = options[i];
      buttons[i].dataset.right = right === undefined ? '' : String(right);
      text(verdict, right === undefined ? 'Remembered. Now see.' : mark(options[i]));
      proven.hidden = false;
    };
    return [h('div', { class: 'sd-guide-options', role: 'group', 'aria-label': 'Answers' }, ...buttons), verdict, proven];
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
