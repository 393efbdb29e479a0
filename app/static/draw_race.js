// The lanes of a race as a list: one row each, with place, clock, progress and numbers. Knows rows, no playhead.
// The rows are tabs: whoever selects one sees its text and its window.

import { attribute, h, text } from './dom.js';
import { laneSubtitle, reasonWords } from './draw_lanes.js';
import { rate, ratio, seconds, times } from './words.js';

const COLUMNS = [
  ['', '', ''],
  ['lane', 'Lane', 'A method, and its settings.'],
  ['progress', 'Tokens so far', 'Share of the longest text of this race. All lanes share one axis of decode time.'],
  ['clock', 'Decode time, s', 'Seconds on the lane’s own decode clock: prefill, drafting, scoring, verification.'],
  ['rate', 'Tokens/s', 'Tokens per second of decode time, so far.'],
  ['speed', 'Speed-up', 'Tokens per second over those of vanilla, both measured in this race, at this moment of the race.'],
  ['tau', 'τ', 'Block efficiency, tokens per round: those committed in a round, the target’s own included.'],
];
const FEWER = 'No place: it wrote fewer tokens than the longest text of this race. Compare tokens per second, not the clock.';
const span = (name, ...children) => h('span', { class: `race-${name}` }, ...children);

class Row {
  constructor(name, label, style, select) {
    this.name = name;
    this.place = span('place');
    this.sub = span('sub');
    this.fill = h('i', { class: 'race-fill' });
    this.tokens = span('tokens');
    this.cells = Object.fromEntries(['clock', 'rate', 'speed', 'tau'].map((key) => [key, h('b')]));
    const number = (key, unit) => h('span', { class: `race-number race-${key}`, title: COLUMNS.find(([one]) => one === key)[2] }, this.cells[key], h('small', {}, unit));
    this.element = h('button', { type: 'button', class: 'race-row', role: 'tab', tabindex: '-1', 'aria-selected': 'false', 'aria-controls': 'race-panel', onclick: () => select(name) },
      this.place,
      span('name', span('label', h('span', { class: 'race-glyph', 'aria-hidden': 'true' }, style.glyph), h('b', { title: label }, label)), this.sub),
      span('progress', span('track', this.fill), this.tokens),
      number('clock', ' s'), number('rate', ' tokens/s'), number('speed', ''), number('tau', ' τ'));
    this.element.style.setProperty('--lane', `var(--sd-${style.role})`);
  }

  /** What it is, before a clock runs. */
  reset(lane, about) {
    this.heard = false;
    const header = lane ? lane.header : null;
    const plain = header && header.config.drafter === 'none';
    const words = header ? laneSubtitle(plain ? 'vanilla' : this.name, header) : '';
    text(this.sub, words || about || '');
    attribute(this.sub, 'title', about || '');
    for (const cell of Object.values(this.cells)) text(cell, '–');
    this.mark('', '');
    this.fill.style.transform = 'scaleX(0)';
    text(this.tokens, '');
  }

  mark(place, kind) {
    text(this.place, place);
    attribute(this.element, 'data-state', kind);
  }

  say(words) {
    text(this.tokens, words);
  }

  /** Threads waited for a processor while this lane or the baseline was measured: its speed-up says nothing. */
  doubt(words) {
    attribute(this.element, 'data-busy', String(Boolean(words)));
    attribute(this.cells.speed.parentElement, 'title', words || COLUMNS.find(([key]) => key === 'speed')[2]);
  }

  /** @param {object} row of standings.rowAt @param {object} end of standings.standings */
  draw(lane, row, end) {
    text(this.cells.clock, seconds(row.clock.seconds));
    text(this.cells.rate, rate(row.clock.rate));
    text(this.cells.speed, times(row.speedup));
    text(this.cells.tau, ratio(row.tau));
    this.fill.style.transform = `scaleX(${row.share})`;
    const over = row.clock.done;
    const stopped = over && lane.finished && lane.finished.reason === 'stopped';
    const short = over && end.short;
    const after = row.tokens ? `After ${row.tokens} tokens: ` : '';
    this.say(lane.failed && over ? `${after}${lane.failed.message} ${lane.failed.hint}` : short ? `${reasonWords(lane.finished.reason)} at ${row.tokens}` : `${row.tokens} tokens${stopped ? ', stopped' : ''}`);
    attribute(this.tokens, 'title', lane.failed && over ? `${lane.failed.message} ${lane.failed.hint}` : short ? FEWER : '');
    if (lane.failed && over) this.mark('✕', 'failed');
    else if (short) this.mark('∎', 'short');
    else if (over && end.done) this.mark(String(end.place), end.place === 1 ? 'first' : 'done');
    else this.mark(over ? '■' : '', over ? 'stopped' : '');
    attribute(this.place, 'title', short ? FEWER : over && end.done ? `place ${end.place} by the clock` : '');
  }
}

export class RaceList {
  /** @param {(name: string) => void} onSelect */
  constructor(onSelect) {
    this.onSelect = onSelect;
    this.rows = new Map();
    this.list = h('div', { class: 'race-list', role: 'tablist', 'aria-orientation': 'vertical', 'aria-label': 'Lanes: select one to see its window' });
    this.list.addEventListener('keydown', (event) => this.keys(event));
    this.element = h('section', { class: 'sd-panel race-lanes', 'aria-label': 'Race' },
      h('div', { class: 'race-head', 'aria-hidden': 'true' }, ...COLUMNS.map(([key, words, title]) => h('span', { class: `race-h-${key}`, title }, words))), this.list);
  }

  /** @param {string[]} names @param {object} lanes @param {object} labels @param {object} abouts @param {object} styles */
  reset(names, lanes, labels, abouts, styles) {
    const same = names.length === this.rows.size && names.every((name) => this.rows.has(name) && this.rows.get(name).label === labels[name]);
    if (!same) {
      this.list.textContent = '';
      this.rows = new Map(names.map((name) => [name, Object.assign(new Row(name, labels[name], styles[name], this.onSelect), { label: labels[name] })]));
      this.list.append(...[...this.rows.values()].map((row) => row.element));
    }
    for (const [name, row] of this.rows) row.reset(lanes[name], abouts[name]);
  }

  select(name) {
    for (const [own, { element }] of this.rows) {
      attribute(element, 'aria-selected', String(own === name));
      element.tabIndex = own === name ? 0 : -1;
    }
  }

  keys(event) {
    const names = [...this.rows.keys()];
    const here = names.findIndex((name) => this.rows.get(name).element === document.activeElement);
    const to = { ArrowDown: here + 1, ArrowUp: here - 1, Home: 0, End: names.length - 1 }[event.key];
    if (to === undefined || here < 0) return;
    event.preventDefault();
    const name = names[Math.max(0, Math.min(names.length - 1, to))];
    this.rows.get(name).element.focus();
    this.onSelect(name);
  }
}
