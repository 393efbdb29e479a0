// A card that guides through the page step by step, with words, answers to choose from, and an
// element that it points at. The lessons of the Learn tab use it. A
// question must be answered before the next step. In a presentation, explanations and verdicts are
// hidden until they are revealed (views/presenter.js).

import { glossed, html, render } from './ui.js';
import { make } from './dom.js';
/** @import { Child } from '../vendor/preact.d.ts' */

/** @typedef {{words: string, right?: boolean, why?: string}} Option without `right`: no verdict */
/**
 * @typedef {object} Step
 * @property {string} title @property {string[]} words
 * @property {string} [instead] shown to a room until the words are revealed
 * @property {Option[]} [options] @property {boolean} [skips] whether its question can be skipped
 * @property {() => Child} [scene] before its words
 * @property {() => Child} [extra] after them; both hidden from a room until it is revealed
 * @property {() => Child} [proof] shown with the verdict
 * @property {() => Element | null | Promise<Element | null>} [show] opens what it points at
 */

/** @type {Guide | null} the last that started: it ends before another one starts */
let current = null;

export class Guide {
  /** @param {(onward: boolean) => void} ended called with whether to go on to the next lesson
   *  @param {(at: number, option: number) => void} [answered]
   *  @param {(at: number) => void} [moved] called when a step is shown */
  constructor(ended, answered = () => {}, moved = () => {}) {
    this.ended = ended;
    this.answered = answered;
    this.moved = moved;
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
    if (current !== this && current && current.at >= 0) current.end();
    current = this;
    Object.assign(this, { steps, chosen });
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
    const next = /** @type {HTMLButtonElement | null} */ (
      this.card.querySelector('.sd-guide-next:enabled')
    );
    ((!this.room && next) || this.card).focus({ preventScroll: true });
    const target = (await this.steps[at].show?.()) ?? null;
    if (this.at !== at) return;
    this.point(target);
    this.look();
    this.moved(at);
  }

  /** Scroll the element that the step points at into the space above the card. */
  look() {
    const { spot, card } = this;
    if (!spot) return;
    const { top } = card.getBoundingClientRect();
    const { style } = document.documentElement;
    style.scrollPaddingBottom = `${Math.max(0, window.innerHeight - top + 8)}px`;
    spot.scrollIntoView({ block: spot.getBoundingClientRect().height < top ? 'center' : 'start' });
    style.scrollPaddingBottom = '';
  }

  /** Draw the step, without what is still hidden. */
  draw() {
    if (this.at < 0) return;
    const { at, steps, open } = this;
    const { title, words, instead, options = [], skips = false, scene, extra } = steps[at];
    const said = open || !instead ? words : [instead];
    const waits = options.length > 0 && this.chosen[at] === undefined;
    const many = steps.length > 1;
    const last = at === steps.length - 1;
    const skip = () => {
      this.chosen[at] = -1;
      this.answered(at, -1);
      this.go(at + 1);
    };
    const paragraphs = said.map((sentence) => html`<p>${glossed(sentence)}</p>`);
    render(
      html`
        ${this.about()}<header><b>${title}</b><span class="sd-sub">${many &&
          `${at + 1} of ${steps.length}`}</span></header>
        <div class="sd-guide-body" aria-live="polite" key=${at}>${open && scene?.()}${paragraphs}
                  ${open && extra?.()}${options.length > 0 && this.answers(options)}
                  <p class="sd-guide-note" role="status">${this.note}</p></div>
        <div
          class="sd-guide-buttons"><button type="button" class="sd-link" onclick=${() =>
            this.end()}>${last && this.onward && !waits ? 'Done' : 'End here'}</button>
                  ${this.led ? null : html`
                    ${skips && waits &&
                      html`<button type="button" class="sd-link" onclick=${skip}>Skip</button>`}
                    <button type="button" class="sd-b" disabled=${at === 0} onclick=${() =>
                      this.go(at - 1)}>Back</button>
                    <button type="button" class="sd-b sd-guide-next" disabled=${waits}
                      onclick=${() => this.go(at + 1)}>${last
                        ? this.onward || 'Done'
                        : 'Next'}</button>
                  `}</div>
      `,
      this.card,
    );
  }

  /** Whether the answer to the step's question cannot be changed. */
  get fixed() {
    return this.once && this.chosen[this.at] !== undefined && !this.note;
  }

  /** Answer the step's question. @param {number} option */
  choose(option) {
    if (this.fixed) return;
    this.chosen[this.at] = option;
    this.answered(this.at, option);
    this.draw();
  }

  /** @param {Option[]} options */
  answers(options) {
    const { at, room, open, votes, present } = this;
    const hides = room || this.led; // until it is revealed
    const total = votes?.reduce((sum, count) => sum + count, 0) ?? 0;
    const chosen = this.chosen[at] ?? -1;
    const mark = (/** @type {Option} */ { right, why }) => `${right ? '✓' : '✕'} ${why}`;
    const judged = (/** @type {Option} */ { right }, i) =>
      right !== undefined && (hides ? open : i === chosen);
    const picked = options[chosen];
    const judges = picked?.right !== undefined && (!hides || open);
    const noted = this.note ? '' : this.led ? 'Noted.' : 'Noted. Now watch.';
    const verdict = room || !picked ? '' : judges ? mark(picked) : noted;
    const proof = (hides ? open : picked) && this.steps[at].proof;
    const choice = (/** @type {Option} */ option, i) => {
      const right = judged(option, i);
      const count = votes?.[i] ?? 0;
      return html`
        <button type="button" class="sd-guide-option" aria-pressed=${String(i === chosen)}
          aria-disabled=${this.fixed ? 'true' : null} data-right=${right
            ? String(option.right)
            : null} onclick=${() => this.choose(i)}>
          ${option.words}${room && right && html`<small>${mark(option)}</small>`}
          ${room && open && total > 0 &&
            html`<span class="sd-guide-votes" style="--share: ${
              count / total
            }">${count}</span>`}</button>
      `;
    };
    return html`
      <div class="sd-guide-options" role="group" aria-label="Answers">${options.map(choice)}</div>
      <p class="sd-guide-verdict" role="status">${verdict}</p>
      ${room && present > 0 && html`<p class="sd-sub">${total} of ${present} answered</p>`}
      ${proof && html`<div class="sd-guide-proof">${proof()}</div>`}
    `;
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

  end(onward = false) {
    this.at = -1;
    this.card.hidden = true;
    this.point(null);
    this.ended(onward);
  }
}
