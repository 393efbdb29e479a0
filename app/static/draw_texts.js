// The texts of a race: that of the selected lane, or of all lanes side by side. Knows texts, no clock.

import { attribute, h, text } from './dom.js';
import { TextView } from './draw_text.js';

export class TextsView {
  /** @param {(round: number) => void} onRound @param {(name: string) => void} onSelect @param {() => void} redraw */
  constructor(onRound, onSelect, redraw) {
    Object.assign(this, { onRound, onSelect, redraw, all: false, cards: new Map(), selected: null });
    this.toggle = h('button', { type: 'button', class: 'sd-link', 'aria-pressed': 'false', onclick: () => this.turn() }, 'All texts');
    this.title = h('h2', {}, 'Text');
    this.sub = h('span', { class: 'sd-sub' });
    this.grid = h('div', { class: 'race-texts' });
    this.element = h('section', { class: 'sd-panel race-words', 'aria-label': 'Text' }, h('header', {}, this.title, this.sub, this.toggle), this.grid);
  }

  turn() {
    this.all = !this.all;
    text(this.toggle, this.all ? 'Only the selected lane' : 'All texts');
    attribute(this.toggle, 'aria-pressed', String(this.all));
    this.place();
    this.redraw();
  }

  reset(names, lanes, labels, styles) {
    this.grid.textContent = '';
    this.labels = labels;
    this.cards = new Map(names.map((name) => {
      const plain = !lanes[name] || !lanes[name].header || lanes[name].header.config.drafter === 'none';
      const view = new TextView(`${labels[name]}: text`, plain, this.onRound);
      const title = h('button', { type: 'button', class: 'race-card-name', onclick: () => this.onSelect(name) },
        h('span', { class: 'race-glyph', 'aria-hidden': 'true' }, styles[name].glyph), ` ${labels[name]}`);
      const note = h('p', { class: 'race-failed' });
      const element = h('article', { class: 'race-card' }, title, note, view.element);
      element.style.setProperty('--lane', `var(--sd-${styles[name].role})`);
      return [name, { view, note, element, lane: undefined }];
    }));
    this.grid.append(...[...this.cards.values()].map((card) => card.element));
    for (const [name, lane] of Object.entries(lanes)) this.give(name, lane);
    this.place();
  }

  /** Another state of a lane, or one that has begun. */
  give(name, lane) {
    const card = this.cards.get(name);
    if (!card || card.lane === lane) return;
    card.lane = lane;
    const plain = !lane || !lane.header || lane.header.config.drafter === 'none';
    card.view.reset(lane, plain);
  }

  select(name) {
    this.selected = name;
    this.place();
  }

  place() {
    attribute(this.grid, 'data-all', String(this.all));
    attribute(this.grid, 'data-even', String([1, 2, 4].includes(this.cards.size))); // two columns, or three
    text(this.sub, this.all ? `${this.cards.size} lanes` : this.selected && this.labels ? this.labels[this.selected] : '');
    for (const [name, card] of this.cards) {
      card.element.hidden = !this.all && name !== this.selected;
      card.element.classList.toggle('race-selected', name === this.selected);
    }
  }

  /** @param {object} states @param {object|null} view the window on screen, of the selected lane */
  draw(lanes, states, view, absent) {
    for (const [name, card] of this.cards) {
      if (card.element.hidden) continue;
      const [lane, state] = [lanes[name], states[name]];
      this.give(name, lane);
      if (lane && state) card.view.draw(state, name === this.selected ? view : null);
      const failed = lane && lane.failed && state && state.ended ? `✕ ${lane.failed.message} ${lane.failed.hint}` : '';
      text(card.note, failed || (lane ? '' : absent));
    }
  }
}
