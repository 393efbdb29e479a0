// A tour of the Live tab: six steps that point at the real thing, on the recording that is on the stage. Offered once.
// @ts-check

import { Guide } from './guide.js';
import { h } from './dom.js';

const KEPT = 'specdiff-tour';

/** @type {[string, string, string, string][]} what it points at, where the playhead stands, title, words */
const STEPS = [
  ['.sd-window .sd-gridwrap', 'DenoiseStep', 'Draft', 'The small model fills a window of masks with guesses, all at once. Each row is one pass of it; darker cells are guesses it is sure of.'],
  ['.sd-window .sd-phases', 'TargetScored', 'Score', 'The large model, the target, reads all guesses in one pass. Reading eight tokens costs it hardly more than reading one: that is the whole trick.'],
  ['.sd-window .sd-gridwrap', 'Verified', 'Verify', 'From left to right each guess is tested. ✓ stays; the first ✕ ends the round, and the target writes its own token there. Press a cell to see the numbers.'],
  ['[data-area=lanes]', 'Committed', 'Commit', 'What was accepted becomes text. Colour and glyph say where each token came from: guessed, corrected, or added by the target. The other lane is the target alone.'],
  ['.sd-lane-list .sd-lane', 'Committed', 'Clock', 'Both lanes were measured one after the other on the same engine, and are replayed here in slow motion. The clock stands still while this page draws.'],
  ['[data-area=hero]', 'Committed', 'The number', 'How many times as fast the drafted lane was. The text follows the target’s own distribution; below it stands how exactly.'],
];

/** What to do next: an export has nothing to press. */
const farewell = () => (document.getElementById('live-run') ? 'Now press Run, or change γ and T.' : 'To race a prompt of your own, start the lab.');

export class Tour {
  /** @param {HTMLElement} root of the player @param {(event: string) => void} stand puts the playhead on an event of a kind */
  constructor(root, stand) {
    this.guide = new Guide(() => {});
    const steps = () => STEPS.map(([area, event, title, words], i) => ({
      title, words: [words, ...(i === STEPS.length - 1 ? [farewell()] : [])], show: () => {
        stand(event);
        return root.querySelector(area);
      } }));
    this.offer = h('p', { class: 'sd-tour-offer', hidden: true }, 'First time here? ',
      h('button', { type: 'button', class: 'sd-link', onclick: () => { this.remember(); this.guide.start('Tour', steps()); } }, 'Take the tour, one minute'),
      ' ', h('button', { type: 'button', class: 'sd-b', 'aria-label': 'No tour', onclick: () => this.remember() }, '✕'));
    try { this.offer.hidden = localStorage.getItem(KEPT) !== null; } catch { /* a browser that keeps nothing is not asked every time */ }
  }

  /** Offered once. */
  remember() {
    this.offer.hidden = true;
    try { localStorage.setItem(KEPT, 'seen'); } catch (error) { console.info('the tour will be offered again', error); }
  }
}
