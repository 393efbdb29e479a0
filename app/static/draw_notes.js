// What surrounds the race: where it comes from, how it was measured, what went wrong. Text nodes only.

import { attribute, h, text } from './dom.js';
import { waiting } from './fold.js';
import { milliseconds, ratio, seconds } from './words.js';

export class SourceView {
  /** @param {{title: string, url: string}[]} recordings that ship with the page @param {(url: string) => void} replay @param {string} everyone who races, in words */
  constructor(recordings, replay, everyone = 'both lanes') {
    this.everyone = everyone;
    this.more = h('select', { class: 'sd-pick sd-more', 'aria-label': 'Another recording' },
      h('option', { value: '' }, 'Another recording…'), ...recordings.map(({ title, url }) => h('option', { value: url }, title)));
    this.more.addEventListener('change', () => {
      if (this.more.value) replay(this.more.value);
      this.more.value = '';
    });
    this.chip = h('span', { class: 'sd-chip' });
    this.words = h('span', { class: 'sd-source-words' });
    this.open = h('button', { type: 'button', class: 'sd-link', 'aria-haspopup': 'dialog', onclick: () => this.dialog.showModal() }, 'How this was measured');
    this.settings = h('a', { class: 'sd-link', title: 'Opens this page with the prompt and the settings of this race' }, 'Use its settings');
    this.title = h('h2', {}, 'How this was measured');
    this.body = h('div');
    this.dialog = h('dialog', { class: 'sd-dialog', 'aria-label': 'How this was measured' },
      h('form', { method: 'dialog' }, this.title, h('button', { class: 'sd-b', 'aria-label': 'Close' }, '✕')), this.body);
    this.dialog.addEventListener('click', (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    this.element = h('div', { class: 'sd-source' }, this.chip, this.words, this.open, this.settings, this.more, this.dialog);
  }

  /** While the server measures: what is on the stage is no longer the race before. */
  measuring() {
    text(this.chip, '● Measuring');
    this.chip.dataset.kind = 'run';
    text(this.words, `your run, on this clock; the numbers follow when ${this.everyone} are done`);
    for (const element of [this.open, this.settings, this.more]) element.hidden = true;
  }

  /** @param {string} kind recording, run, measured (by the Compare tab), file, stopped, failed */
  reset(kind, race, title) {
    const lane = race.lanes.drafted || race.lanes.vanilla || Object.values(race.lanes).find((one) => one && one.header);
    const header = lane ? lane.header : null;
    const names = { recording: '◉ Recording', run: '● Your run', measured: '● Measured here', file: '◎ Opened file', stopped: '■ Stopped run', failed: '! Run that failed' };
    text(this.chip, names[kind] || kind);
    this.chip.dataset.kind = kind;
    text(this.words, header ? `${dateOf(header.started_at)} · ${placeOf(header)}${kind === 'recording' ? ' · press Run for your own' : ''}` : '');
    this.open.hidden = !header;
    this.settings.hidden = !header || kind === 'run' || this.everyone !== 'both lanes'; // they are those of one lane
    this.more.hidden = kind !== 'recording' || this.more.options.length < 3;
    if (header) attribute(this.settings, 'href', linkTo(header));
    this.body.textContent = '';
    if (header) this.body.append(...report(race, header, title));
  }
}

/** This page with the prompt and the settings of a run, as the Share button writes it. */
function linkTo(header) {
  const query = new URLSearchParams({ prompt: header.prompt });
  for (const [name, value] of Object.entries(header.config)) if (value !== null) query.set(name, value);
  return `?${query}`;
}

const dateOf = (iso) => {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? 'date unknown' : date.toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric' });
};
const placeOf = (header) => `${header.device}, ${header.dtype}, ${header.threads} thread${header.threads === 1 ? '' : 's'}`;
const GRAINS = {
  step: 'every denoising step (on a GPU the clock waits for it at both ends)',
  total: 'the whole run only',
};

/** In which order the lanes ran, from when they began. */
function orderOf({ lanes }) {
  const begun = Object.entries(lanes).filter(([, lane]) => lane && lane.header).map(([name, lane]) => [lane.header.started_at, name]).sort();
  if (begun.length < 2) return 'Only this lane was measured.';
  const first = begun[0][0] && begun[0][0] !== begun[1][0] ? `, ${begun[0][1]} first,` : '';
  return `The lanes were measured one after the other${first} so that none disturbs another. The player animates them together on one time axis.`;
}

/** Whether the threads of each lane had to wait. */
function processorOf({ lanes }) {
  const known = Object.entries(lanes).map(([name, lane]) => [name, waiting(lane)]).filter(([, wait]) => wait !== null);
  if (!known.length) return 'Whether threads had to wait for a processor was not measured.';
  return `Threads that waited for a processor, on average: ${known.map(([name, wait]) => `${name} ${ratio(wait)}`).join(', ')}. On a quiet machine it is about 0.`;
}

function report(race, header, title) {
  const versions = Object.entries(header.versions).map(([name, version]) => `${name} ${version}`).join(', ');
  const headers = Object.entries(race.lanes).filter(([, lane]) => lane && lane.header).map(([name, lane]) => [name, lane.header]);
  const drafters = headers.filter(([, { models: { drafter } }]) => drafter && drafter !== 'none').map(([name, { models }]) => [name === 'drafted' ? 'drafter' : name, models.drafter]);
  const models = [['target', header.models.target || 'unknown'], ...drafters].map(([role, name]) => `${role}: ${name}`).join('; ');
  const all = (config) => Object.entries(config).map(([name, value]) => `${name} ${value === null ? '–' : value}`).join(', ');
  const own = headers.filter(([name]) => name !== 'vanilla'); // vanilla has those of the others, but for its drafter
  const config = own.length > 1 ? own.map(([name, one]) => `${name}: ${all(one.config)}`).join('; ') : all(header.config);
  const facts = [
    ['Order', orderOf(race)],
    ['Clock', 'Decode time: prefill, drafting, scoring, verification and the loop between them. Narration, the network and this page do not count; model loading does not count, nor does a warm-up where there was one.'],
    ['Slow motion', 'Playback stretches all lanes by the same factor. All times shown are real decode times.'],
    ['Timed', GRAINS[header.grain] || header.grain],
    ['Device', `${placeOf(header)} (${header.reason})`],
    ['Processor', processorOf(race)],
    ['Models', models],
    ['Versions', versions],
    ['Settings', config],
    ['Started', header.started_at || 'unknown'],
    ['Trace', title || 'untitled'],
  ];
  const list = h('dl', { class: 'sd-facts' }, ...facts.flatMap(([name, words]) => [h('dt', {}, name), h('dd', {}, words)]));
  return [list, ...table(race)];
}

const PHASES = ['prefill', 'draft', 'score', 'verify', 'other'];

function table(race) {
  const lanes = Object.entries(race.lanes).filter(([, lane]) => lane && lane.finished);
  if (!lanes.length) return [];
  const row = (tag, cells) => h('tr', {}, ...cells.map((words, i) => h(i ? tag : 'th', i ? {} : { scope: 'row' }, words)));
  return [h('table', { class: 'sd-table', tabindex: '0' }, h('caption', {}, 'Where the decode time went'),
    h('thead', {}, h('tr', {}, ...['lane', ...PHASES, 'total'].map((words) => h('th', { scope: 'col' }, words)))),
    h('tbody', {}, ...lanes.map(([name, lane]) => row('td', [name,
      ...PHASES.map((phase) => milliseconds((lane.finished.seconds_by || {})[phase] || 0)), `${seconds(lane.finished.seconds)} s`]))))];
}

export class CardView {
  /** @param {string} prefix with which the ids of the player's own controls begin */
  constructor(prefix = 'set') {
    this.prefix = prefix;
    this.title = h('strong');
    this.message = h('p');
    this.hint = h('p', { class: 'sd-hint' });
    this.element = h('div', { class: 'sd-card', role: 'alert', hidden: true },
      h('span', { class: 'sd-card-glyph', 'aria-hidden': 'true' }, '!'),
      h('div', {}, this.title, this.message, this.hint),
      h('button', { type: 'button', class: 'sd-b', 'aria-label': 'Dismiss', onclick: () => this.hide() }, '✕'));
  }

  show({ title, message, hint, field }) {
    text(this.title, title);
    text(this.message, message);
    text(this.hint, hint);
    this.element.hidden = false;
    this.mark(field);
    this.element.scrollIntoView({ block: 'nearest' });
  }

  hide() {
    this.element.hidden = true;
    this.mark('');
  }

  /** Outline the control that the card is about. */
  mark(field) {
    document.querySelectorAll('.sd-invalid').forEach((element) => element.classList.remove('sd-invalid'));
    const control = field ? document.getElementById(`${this.prefix}-${field}`) : null;
    if (control) control.classList.add('sd-invalid');
  }
}

/** The line that says what the server is doing. Its mark turns with each news and never by itself: an endless animation
 *  would take a core from the decode that is being measured. */
export class StatusView {
  constructor() {
    this.words = h('span');
    this.mark = h('i', { 'aria-hidden': 'true' });
    this.news = 0;
    this.element = h('div', { class: 'sd-status', role: 'status', hidden: true }, this.mark, this.words);
  }

  show(words) {
    text(this.words, words);
    this.element.hidden = !words;
    if (words) this.mark.style.rotate = `${45 * (this.news += 1)}deg`;
  }
}
