// The lanes of a race: their heads (place, name, clock, numbers) and their texts. Two lanes stand side by side, each with
// its text; more are rows of which one is selected, and its text stands below.
// @ts-check

import { attribute, h, move, text } from './dom.js';
import { TextView } from './text.js';
import { gloss } from './glossary.js';
import { isVanilla } from '../state/lane.js';
import { dash, quotedTau, rate, ratio, reasonWords, seconds, settingsWords, slowWords, times } from '../state/format.js';
/** @import { Actions } from '../app.js' */
/** @import { Lane, State, Window } from '../state/lane.js' */
/** @import { Named } from '../state/marks.js' */
/** @import { Lanes } from '../state/race.js' */

/** @typedef {NonNullable<ReturnType<typeof import('../state/race.js').rowAt>>} Row */

/** @type {[string, string, string][]} */
const COLUMNS = [
  ['place', 'Place', 'By the clock, among the lanes that wrote as many tokens as the longest.'],
  ['who', 'Lane', 'A method, and its settings.'],
  ['progress', 'Tokens so far', 'Share of the longest text of this race. All lanes share one axis of decode time.'],
  ['clock', 'Decode time, s', 'Seconds on the lane’s own decode clock: prefill, drafting, scoring, verification.'],
  ['rate', 'Tokens/s', 'Tokens per second of decode time, so far.'],
  ['speed', 'Speed-up', 'Tokens per second over those of vanilla, both measured in this race, at this moment of the race.'],
  ['tau', 'τ', ''], // the glossary says it
];
const TITLES = Object.fromEntries(COLUMNS.map(([key, , title]) => [key, title]));
const FEWER = 'No place: it wrote fewer tokens than the longest text of this race. Compare tokens per second, not the clock.';
const span = (/** @type {string} */ name, /** @type {(Node | string)[]} */ ...children) => h('span', { class: `sd-lane-${name}` }, ...children);

class LaneView {
  /** @param {string} name @param {Named} named @param {string} prefix @param {Actions} actions */
  constructor(name, named, prefix, actions) {
    this.named = named;
    this.place = span('place');
    this.sub = span('sub');
    this.fill = h('i', { class: 'sd-fill' });
    this.tokens = span('tokens');
    this.slow = h('span', { class: 'sd-slow', title: 'Playback only: all lanes are slowed by the same factor. Every time shown is real decode time.' });
    /** @type {Record<string, HTMLElement>} */
    this.cells = Object.fromEntries(['clock', 'rate', 'speed', 'tau'].map((key) => [key, h('b')]));
    const number = (/** @type {string} */ key, /** @type {string} */ unit) => h('span', { class: `sd-lane-number sd-lane-${key}`, title: TITLES[key] || null, 'data-symbol': key === 'tau' ? 'τ' : null }, this.cells[key], h('small', {}, unit));
    this.clock = number('clock', ' s');
    attribute(this.clock, 'role', 'timer');
    attribute(this.clock, 'aria-label', `${named.label}: decode time in seconds`);
    this.speed = number('speed', '');
    this.head = h('div', { class: 'sd-lane', id: `${prefix}-lane-${name}`, onclick: () => actions.select(name) },
      this.place,
      span('who', span('name', h('span', { class: 'sd-lane-glyph', 'aria-hidden': 'true' }, named.glyph), h('b', { title: named.label }, named.label)), this.sub),
      span('progress', span('track', this.fill), this.tokens),
      this.clock, number('rate', ' tokens/s'), this.speed, number('tau', ' τ'), this.slow);
    this.body = new TextView(`${named.label}: text`, (token, byKey) => actions.token(name, token, byKey));
    this.note = h('p', { class: 'sd-lane-note' });
    this.title = h('button', { type: 'button', class: 'sd-lane-title', onclick: () => actions.select(name) }, h('span', { class: 'sd-lane-glyph', 'aria-hidden': 'true' }, named.glyph), ` ${named.label}`);
    this.card = h('article', { class: 'sd-lane-text' }, this.title, this.body.element, this.note);
    for (const element of [this.head, this.card]) element.style.setProperty('--lane', `var(--sd-${named.colour})`);
    /** @type {Lane | null | undefined} */
    this.lane = undefined;
    this.busy = '';
  }

  /** What it is, before a clock runs. @param {Lane | null} lane @param {string} absent @param {Set<string>} noSteps */
  reset(lane, absent, noSteps) {
    this.give(lane);
    const header = lane ? lane.header : null;
    const told = lane?.finished ? quotedTau(lane.finished.quoted) : '';
    const served = `an attached server${told ? `, says ${told}` : ''}`;
    text(this.sub, header ? (header.server ? served : settingsWords(header.config, noSteps)) : this.named.about);
    gloss(this.sub);
    attribute(this.sub, 'title', this.named.about);
    for (const cell of Object.values(this.cells)) text(cell, dash);
    this.mark('', '');
    this.fill.style.transform = 'scaleX(0)';
    this.say(lane ? '' : absent);
    this.head.classList.toggle('sd-absent', !lane);
    this.card.classList.toggle('sd-absent', !lane);
    this.doubt('');
  }

  /** Another state of the lane, or one that has begun. @param {Lane | null} lane */
  give(lane) {
    if (this.lane === lane) return;
    this.lane = lane;
    this.body.reset(lane);
    this.head.classList.toggle('sd-vanilla', isVanilla(lane));
  }

  /** @param {string} place @param {string} kind */
  mark(place, kind) {
    text(this.place, place);
    attribute(this.head, 'data-state', kind);
  }

  /** @param {string} words @param {string} [title] */
  say(words, title = '') {
    text(this.tokens, words);
    attribute(this.tokens, 'title', title);
  }

  /** Threads waited for a processor while this lane or the baseline was measured: its speed-up says nothing. @param {string} words */
  doubt(words) {
    attribute(this.head, 'data-busy', String(Boolean(words)));
    attribute(this.speed, 'title', words || TITLES.speed);
  }

  /** @param {Row} row @param {{place: number | null, short: boolean, done: boolean}} end how it ends, see state/race.js */
  draw(row, end) {
    const lane = /** @type {Lane} */ (this.lane);
    text(this.cells.clock, seconds(row.clock.seconds));
    text(this.cells.rate, rate(row.clock.rate));
    text(this.cells.speed, times(row.speedup));
    attribute(this.cells.speed, 'data-known', String(row.speedup !== null));
    text(this.cells.tau, ratio(row.tau));
    this.fill.style.transform = `scaleX(${row.share})`;
    const over = row.clock.done;
    const failed = over && lane.failed ? `${lane.failed.message} ${lane.failed.hint}` : '';
    const short = over && end.short;
    const reason = over && lane.finished ? reasonWords(lane.finished.reason) : '';
    const count = `${row.tokens} ${row.tokens === 1 ? 'token' : 'tokens'}`;
    if (failed) this.say(`${row.tokens ? `After ${count}: ` : ''}${failed}`, failed);
    else this.say(`${count}${reason ? ` · ${reason}` : ''}`, short ? FEWER : '');
    if (failed) this.mark('✕', 'failed');
    else if (short) this.mark('∎', 'short');
    else if (over && end.done) this.mark(String(end.place), end.place === 1 ? 'first' : 'done');
    else this.mark(over ? '■' : '', over ? 'stopped' : '');
    attribute(this.place, 'title', short ? FEWER : over && end.done ? `place ${end.place} by the clock` : '');
    text(this.note, failed);
  }
}

export class LanesView {
  /** @param {Actions} actions @param {string} prefix @param {string[]} noSteps drafters that denoise nothing */
  constructor(actions, prefix, noSteps) {
    this.actions = actions;
    this.prefix = prefix;
    this.noSteps = new Set(noSteps);
    /** @type {Map<string, LaneView>} */
    this.views = new Map();
    this.columns = true; // lanes side by side, each with its text; otherwise rows
    this.all = false; // of rows: whether every text is shown
    /** @type {string | null} */
    this.selected = null;
    this.list = h('div', { class: 'sd-lane-list' });
    this.list.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => this.keys(event));
    this.heads = h('div', { class: 'sd-lane-columns', 'aria-hidden': 'true' }, ...COLUMNS.map(([key, words, title]) => h('span', { class: `sd-h-${key}`, title: title || null, 'data-symbol': title ? null : words }, words)));
    this.toggle = h('button', { type: 'button', class: 'sd-link', 'aria-pressed': 'false', onclick: () => this.turn() }, 'All texts');
    this.sub = h('span', { class: 'sd-sub' });
    this.title = h('header', {}, h('h2', {}, 'Text'), this.sub, this.toggle);
    this.texts = h('div', { class: 'sd-lane-texts' });
    this.element = h('section', { class: 'sd-panel sd-lanes', 'aria-label': 'Race' }, this.heads, this.list, this.title, this.texts);
  }

  turn() {
    this.all = !this.all;
    text(this.toggle, this.all ? 'Only the selected lane' : 'All texts');
    attribute(this.toggle, 'aria-pressed', String(this.all));
    this.place();
    this.actions.redraw();
  }

  /** @param {string[]} names @param {Lanes} lanes @param {Record<string, Named>} named @param {string} absent */
  reset(names, lanes, named, absent) {
    const same = names.length === this.views.size && names.every((name) => {
      const known = this.views.get(name);
      return known && known.named.label === named[name].label && known.named.colour === named[name].colour;
    });
    if (!same) {
      this.views = new Map(names.map((name) => [name, new LaneView(name, named[name], this.prefix, this.actions)]));
      this.list.replaceChildren(...[...this.views.values()].map((view) => view.head));
      this.texts.replaceChildren(...[...this.views.values()].map((view) => view.card));
    }
    this.columns = names.length <= 2;
    this.element.dataset.layout = this.columns ? 'columns' : 'rows';
    this.element.dataset.even = String([1, 2, 4].includes(names.length));
    const tabs = { role: 'tablist', 'aria-orientation': 'vertical', 'aria-label': 'Lanes: select one to see its window' };
    const tab = { role: 'tab', 'aria-selected': 'false', 'aria-controls': `${this.prefix}-panel`, tabindex: '-1' };
    for (const [kind, value] of Object.entries(tabs)) attribute(this.list, kind, this.columns ? null : value);
    for (const [name, view] of this.views) {
      for (const [kind, value] of Object.entries(tab)) attribute(view.head, kind, this.columns ? null : value);
      view.reset(lanes[name] ?? null, absent, this.noSteps);
    }
    this.place();
  }

  /** @param {string | null} name */
  select(name) {
    this.selected = name;
    this.place();
  }

  place() {
    const own = this.selected ? this.views.get(this.selected) : null;
    text(this.sub, this.all ? `${this.views.size} lanes` : own ? own.named.label : '');
    attribute(this.texts, 'data-all', String(this.columns || this.all));
    for (const [name, { head, card }] of this.views) {
      const here = name === this.selected;
      head.classList.toggle('sd-selected', here);
      card.classList.toggle('sd-selected', here);
      card.hidden = !this.columns && !this.all && !here;
      if (this.columns) continue;
      attribute(head, 'aria-selected', String(here));
      head.tabIndex = here ? 0 : -1;
    }
  }

  /** @param {number} slow the factor of playback */
  slow(slow) {
    for (const view of this.views.values()) text(view.slow, slow === 1 ? '' : slowWords(slow));
  }

  /** The texts, as far as the playhead has come. @param {Record<string, State | null>} states @param {Window | null} view the window on screen, of the selected lane */
  draw(states, view) {
    for (const [name, own] of this.views) {
      const state = states[name];
      if (!own.card.hidden && own.lane && state) own.body.draw(state, name === this.selected ? view : null);
    }
  }

  /** @param {KeyboardEvent} event */
  keys(event) {
    if (this.columns) return;
    const heads = [...this.views.values()].map((view) => view.head);
    const to = move(event, heads, { ArrowDown: 1, ArrowUp: -1, Home: -Infinity, End: Infinity, Enter: 0, ' ': 0 });
    if (to >= 0) this.actions.select([...this.views.keys()][to]);
  }
}
