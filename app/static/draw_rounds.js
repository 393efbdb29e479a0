// One bar per round: how many drafted tokens survived. Each bar is a button that jumps to its verdict.

import { attribute, h } from './dom.js';

export class RoundsView {
  /** @param {HTMLElement} element @param {(round: number) => void} onRound */
  constructor(element, onRound) {
    this.element = element;
    this.onRound = onRound;
    this.buttons = [];
    this.element.addEventListener('keydown', (event) => this.keys(event));
  }

  reset(lane) {
    this.element.textContent = '';
    this.buttons = [];
    this.lane = lane;
    if (!lane) return;
    const tallest = Math.max(1, ...lane.rounds.map((round) => round.size));
    for (const round of lane.rounds) {
      if (!round.size) continue;
      const full = round.accepted > 0 && round.accepted === round.drafted;
      const words = `round ${round.round + 1}: ${round.accepted} of ${round.drafted} accepted${full && round.extra ? ', and a bonus token' : ''}`;
      const button = h('button', { type: 'button', class: `sd-rd${full ? ' sd-rd-full' : ''}`, title: words, 'aria-label': words, tabindex: '-1',
        onclick: () => this.onRound(round.round) },
      h('i', { style: `height:${(100 * round.size) / tallest}%` }, h('b', { style: `height:${(100 * round.accepted) / round.size}%` })));
      this.buttons.push({ round: round.round, button });
      this.element.append(button);
    }
    if (this.buttons.length) this.buttons[0].button.tabIndex = 0;
  }

  /** Mark what has happened, and the round on screen. */
  draw(state, view) {
    const done = state.sums.rounds;
    for (const { round, button } of this.buttons) {
      button.classList.toggle('sd-past', round < done);
      const here = Boolean(view && view.round === round);
      attribute(button, 'aria-current', String(here));
      if (here && !this.element.contains(document.activeElement)) this.roving(button);
    }
  }

  roving(button) {
    for (const item of this.buttons) item.button.tabIndex = item.button === button ? 0 : -1;
  }

  keys(event) {
    const move = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    const index = this.buttons.findIndex((item) => item.button === document.activeElement);
    if (!move || index < 0) return;
    event.preventDefault();
    event.stopPropagation();
    const next = this.buttons[Math.max(0, Math.min(this.buttons.length - 1, index + move))];
    this.roving(next.button);
    next.button.focus();
    this.onRound(next.round);
  }
}
