// A tour of the Live tab: six steps that point at the real thing, on the recording that is on the stage. Offered once.
// @ts-check

import { h, text } from './dom.js';

const KEPT = 'specdiff-tour';

/** @typedef {{area: string, event: string | null, title: string, words: string}} Step `area`: what it points at; `event`: where the playhead stands */
/** @type {Step[]} */
const STEPS = [
  { area: '.sd-window .sd-gridwrap', event: 'DenoiseStep', title: 'Draft', words: 'The small model fills a window of masks with guesses, all at once. Each row is one pass of it; darker cells are guesses it is sure of.' },
  { area: '.sd-window .sd-phases', event: 'TargetScored', title: 'Score', words: 'The large model, the target, reads all guesses in one pass. Reading eight tokens costs it hardly more than reading one: that is the whole trick.' },
  { area: '.sd-window .sd-gridwrap', event: 'Verified', title: 'Verify', words: 'From left to right each guess is tested. ✓ stays; the first ✕ ends the round, and the target writes its own token there. Press a cell to see the numbers.' },
  { area: '[data-area=lanes]', event: 'Committed', title: 'Commit', words: 'What was accepted becomes text. Colour and glyph say where each token came from: guessed, corrected, or added by the target. The other lane is the target alone.' },
  { area: '.sd-lane-list .sd-lane', event: 'Committed', title: 'Clock', words: 'Both lanes were measured one after the other on the same engine, and are replayed here in slow motion. The clock stands still while this page draws.' },
  { area: '[data-area=hero]', event: 'Committed', title: 'The number', words: 'How many times as fast the drafted lane was. The text follows the target’s own distribution; below it stands how exactly. Now press Run, or change γ and T.' },
];

export class Tour {
  /**
   * @param {HTMLElement} root of the player @param {(event: string) => void} stand puts the playhead on the second stop of a kind
   */
  constructor(root, stand) {
    this.root = root;
    this.stand = stand;
    this.at = -1;
    this.place = h('span', { class: 'sd-sub' });
    this.title = h('b', {});
    this.words = h('p', { 'aria-live': 'polite' });
    this.back = h('button', { type: 'button', class: 'sd-b', onclick: () => this.go(this.at - 1) }, 'Back');
    this.next = h('button', { type: 'button', class: 'sd-b sd-tour-next', onclick: () => this.go(this.at + 1) }, 'Next');
    this.card = h('div', { class: 'sd-tour', role: 'dialog', 'aria-label': 'Tour', hidden: true },
      h('header', {}, this.title, this.place), this.words, h('div', { class: 'sd-tour-buttons' }, h('button', { type: 'button', class: 'sd-link', onclick: () => this.end() }, 'End the tour'), this.back, this.next));
    this.card.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
      if (event.key === 'Escape') this.end();
    });
    this.offer = h('p', { class: 'sd-tour-offer', hidden: true }, 'First time here? ', h('button', { type: 'button', class: 'sd-link', onclick: () => this.go(0) }, 'Take the tour, one minute'),
      ' ', h('button', { type: 'button', class: 'sd-b', 'aria-label': 'No tour', onclick: () => this.remember() }, '✕'));
    try { this.offer.hidden = localStorage.getItem(KEPT) !== null; } catch { /* a browser that keeps nothing is not asked every time */ }
  }

  /** Offered once. */
  remember() {
    this.offer.hidden = true;
    try { localStorage.setItem(KEPT, 'seen'); } catch (error) { console.info('the tour will be offered again', error); }
  }

  /** @param {number} at */
  go(at) {
    this.remember();
    this.point(null);
    if (at < 0 || at >= STEPS.length) {
      this.end();
      return;
    }
    this.at = at;
    const { area, event, title, words } = STEPS[at];
    if (event) this.stand(event);
    text(this.title, title);
    text(this.place, `${at + 1} of ${STEPS.length}`);
    text(this.words, words);
    text(this.next, at === STEPS.length - 1 ? 'Done' : 'Next');
    this.back.disabled = at === 0;
    this.card.hidden = false;
    const target = this.root.querySelector(area);
    this.point(target);
    target?.scrollIntoView({ block: 'center' });
    this.next.focus({ preventScroll: true });
  }

  /** Dim all but one thing. @param {Element | null} target */
  point(target) {
    for (const one of this.root.querySelectorAll('.sd-tour-here')) one.classList.remove('sd-tour-here');
    target?.classList.add('sd-tour-here');
  }

  end() {
    this.at = -1;
    this.card.hidden = true;
    this.point(null);
    this.remember();
  }
}
