// One bar per round: how many drafted tokens survived. Each bar is a button that jumps to its verdict.
// @ts-check

import { attribute, h, move, rove } from './dom.js';
/** @import { Lane, State, Window } from '../state/lane.js' */

export class RoundsView {
  /** @param {HTMLElement} element @param {(round: number) => void} onRound */
  constructor(element, onRound) {
    this.element = element;
    this.onRound = onRound;
    /** @type {HTMLButtonElement[]} by round */
    this.buttons = [];
    this.element.addEventListener('keydown', (event) => {
      const round = move(event, this.buttons, { ArrowRight: 1, ArrowLeft: -1 });
      if (round >= 0) this.onRound(round);
    });
  }

  /** @param {Lane | null} lane */
  reset(lane) {
    this.element.textContent = '';
    this.buttons = [];
    if (!lane || !lane.rounds.some((round) => round.size)) return;
    const tallest = Math.max(1, ...lane.rounds.map((round) => round.size));
    for (const round of lane.rounds) {
      const full = round.accepted > 0 && round.accepted === round.drafted;
      const words = round.size ? `round ${round.round + 1}: ${round.accepted} of ${round.drafted} accepted${full && round.extra ? ', and a bonus token' : ''}`
        : `round ${round.round + 1}: nothing drafted, one token by the target`;
      const share = round.size ? (100 * round.accepted) / round.size : 0;
      const button = /** @type {HTMLButtonElement} */ (h('button', { type: 'button', class: `sd-rd${full ? ' sd-rd-full' : ''}`, title: words, 'aria-label': words, tabindex: '-1', onclick: () => this.onRound(round.round) },
        h('i', { style: `height:${(100 * Math.max(round.size, 0.4)) / tallest}%` }, h('b', { style: `height:${share}%` }))));
      this.buttons.push(button);
      this.element.append(button);
    }
    this.buttons[0].tabIndex = 0;
  }

  /** Mark what has happened, and the round on screen. @param {State} state @param {Window | null} view */
  draw(state, view) {
    this.buttons.forEach((button, round) => {
      button.classList.toggle('sd-past', round < state.sums.rounds);
      const here = Boolean(view && view.round === round);
      attribute(button, 'aria-current', String(here));
      if (here && !this.element.contains(document.activeElement)) rove(this.buttons, button);
    });
  }
}
