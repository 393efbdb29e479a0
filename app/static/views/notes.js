// Messages of a job: a card for errors, and a status line for the server's progress.

import { html, render } from './ui.js';
import { make } from './dom.js';
import { seated } from '../room.js';

/** @typedef {{title: string, message: string, hint: string, field?: string}} Card of a field */

export class CardView {
  /** @param {string} prefix with which the ids of the job's own controls begin */
  constructor(prefix) {
    this.prefix = prefix;
    this.element = make('div', { className: 'sd-card', role: 'alert', hidden: true });
  }

  /** @param {Card} card */
  show({ title, message, hint, field = '' }) {
    render(
      html`
        <span class="sd-card-glyph" aria-hidden="true">!</span>
        <div><strong>${title}</strong><p>${message}</p><p class="sd-card-hint">${hint}</p></div>
        <button type="button" class="sd-button" aria-label="Dismiss" onclick=${() =>
          this.hide()}>✕</button>
      `,
      this.element,
    );
    this.element.hidden = false;
    this.mark(field);
    this.element.scrollIntoView({ block: 'nearest' });
  }

  hide() {
    this.element.hidden = true;
    this.mark('');
  }

  /** Outline the control that the card refers to. */
  mark(field) {
    document.querySelectorAll('.sd-invalid').forEach((one) => one.classList.remove('sd-invalid'));
    const control = field ? document.getElementById(`${this.prefix}-${field}`) : null;
    control?.classList.add('sd-invalid');
    for (const fold of document.querySelectorAll('details')) fold.open ||= fold.contains(control);
  }
}

/** Why a page of a room starts no run, and the way out; hidden when the room is closed. */
export const RoomNotice = () =>
  seated && html`
    <p class="sd-sub sd-seat">While the room is open, nobody can start a run on this page. <a
      class="sd-link" href="?">Leave the room</a></p>
  `;

/** The status line. Its mark turns with each message: an animation would take a core. */
export class StatusView {
  constructor() {
    this.count = 0;
    this.element = make('div', { className: 'sd-status', role: 'status', hidden: true });
  }

  /** @param {string} words @param {boolean} [runs] whether something is under way */
  show(words, runs = true) {
    this.element.hidden = !words;
    if (words) this.count += 1;
    const mark = html`<i aria-hidden="true" style="rotate: ${45 * this.count}deg"></i>`;
    render(html`${runs && mark}<span>${words}</span>`, this.element);
  }
}
