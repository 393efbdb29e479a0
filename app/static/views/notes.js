// What surrounds the race: where it comes from, how it was measured, what went wrong. Text nodes only.
// @ts-check

import { attribute, h, text } from './dom.js';
import { isServed } from '../state/lane.js';
import { waiting } from '../state/metrics.js';
import { milliseconds, quotedWords, ratio, seconds } from '../state/format.js';
/** @import { Lanes } from '../state/race.js' */
/** @import { RunStarted } from '../state/events.d.ts' */

/** @type {Record<string, string>} */
const KINDS = { recording: '◉ Recording', run: '● Your run', measured: '● Measured here', file: '◎ Opened file', stopped: '■ Stopped run', failed: '! Run that failed' };

export class SourceView {
  /** @param {{title: string, url: string}[]} recordings that ship with the page @param {(url: string) => void} replay @param {(button: HTMLElement) => void} keep gives a link to this moment */
  constructor(recordings, replay, keep) {
    const more = /** @type {HTMLSelectElement} */ (h('select', { class: 'sd-pick sd-more', 'aria-label': 'Another recording' },
      h('option', { value: '' }, 'Another recording…'), ...recordings.map(({ title, url }) => h('option', { value: url }, title))));
    more.addEventListener('change', () => {
      if (more.value) replay(more.value);
      more.value = '';
    });
    this.more = more;
    this.lead = h('p', { class: 'sd-lead-words' });
    this.chip = h('span', { class: 'sd-chip' });
    this.words = h('span', { class: 'sd-source-words' });
    this.open = h('button', { type: 'button', class: 'sd-link', 'aria-haspopup': 'dialog', onclick: () => this.dialog.showModal() }, 'How this was measured');
    this.settings = h('a', { class: 'sd-link', title: 'Opens this page with the prompt and the settings of this race' }, 'Use its settings');
    this.moment = h('button', { type: 'button', class: 'sd-link', hidden: true, onclick: () => keep(this.moment), title: 'A link that opens this recording, paused at this very step' }, 'Link to this moment');
    this.title = h('h2', {}, 'How this was measured');
    this.body = h('div');
    this.dialog = /** @type {HTMLDialogElement} */ (h('dialog', { class: 'sd-dialog', 'aria-label': 'How this was measured' },
      h('form', { method: 'dialog' }, this.title, h('button', { class: 'sd-b', 'aria-label': 'Close' }, '✕')), this.body));
    this.dialog.addEventListener('click', (event) => {
      if (event.target === this.dialog) this.dialog.close();
    });
    this.stale = h('p', { class: 'sd-stale', role: 'status', hidden: true });
    this.element = h('div', { class: 'sd-source' }, this.chip, this.words, this.open, this.settings, this.moment, this.more, this.dialog);
  }

  /** While the server measures, nothing on the stage is of the race before. */
  measuring() {
    text(this.lead, 'A drafter guesses ahead, and the target model checks its guesses in one pass: how much sooner the text is there is being measured.');
    text(this.chip, '● Measuring');
    this.chip.dataset.kind = 'run';
    text(this.words, 'your run, on this clock; the numbers follow when all lanes are done');
    for (const element of [this.open, this.settings, this.moment, this.more]) element.hidden = true;
  }

  /** @param {string} kind of {@link KINDS} @param {Lanes} lanes @param {string} title @param {{lead: string, own: string | null, note: string, keepable: boolean}} words `keepable`: a link can bring this recording back */
  reset(kind, lanes, title, { lead, own, note, keepable }) {
    const headers = headersOf(lanes).map(({ own: one }) => one);
    const header = headers.filter((one) => !one.server).at(-1) ?? headers.at(-1); // of a server little is known
    text(this.lead, lead);
    text(this.chip, KINDS[kind] || kind);
    this.chip.dataset.kind = kind;
    text(this.words, header ? `${dateOf(header.started_at)} · ${placeOf(header)}${note}` : note);
    this.open.hidden = !header;
    this.settings.hidden = own === null || kind === 'run';
    if (own !== null) attribute(this.settings, 'href', own);
    this.moment.hidden = !keepable;
    this.more.hidden = this.more.options.length < 3;
    this.body.textContent = '';
    if (header) this.body.append(...report(lanes, header, title));
  }

  /** Say that what stands in the controls has not run; empty words: it has. @param {string} words */
  differs(words) {
    text(this.stale, words);
    this.stale.hidden = !words;
  }
}

/** This page with the prompt and the settings of a run, as the Share button writes it. @param {RunStarted} header */
export function linkTo(header) {
  const query = new URLSearchParams({ prompt: header.prompt });
  for (const [name, value] of Object.entries(header.config)) if (value !== null) query.set(name, String(value));
  return `?${query}`;
}

const dateOf = (/** @type {string} */ iso) => {
  const date = new Date(iso);
  return Number.isNaN(date.getTime()) ? 'date unknown' : date.toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric' });
};
const placeOf = (/** @type {RunStarted} */ header) => `${header.device}, ${header.dtype}${header.server ? '' : `, ${header.threads} thread${header.threads === 1 ? '' : 's'}`}`;
/** @type {Record<string, string>} */
const GRAINS = {
  step: 'every denoising step (on a GPU the clock waits for it at both ends)',
  total: 'the whole run only',
  chunk: 'each piece of the server’s stream, when it arrived here',
};

/** @param {Lanes} lanes @returns {{name: string, own: RunStarted}[]} the lanes that began */
const headersOf = (lanes) => Object.entries(lanes).flatMap(([name, lane]) => (lane?.header ? [{ name, own: lane.header }] : []));

/** In which order the lanes ran, from when they began. @param {Lanes} lanes */
function orderOf(lanes) {
  const begun = headersOf(lanes).map(({ name, own }) => [own.started_at, name]).sort();
  if (begun.length < 2) return 'Only this lane was measured.';
  const first = begun[0][0] && begun[0][0] !== begun[1][0] ? `, ${begun[0][1]} first,` : '';
  return `The lanes were measured one after the other${first} so that none disturbs another. The player animates them together on one time axis.`;
}

/** Whether the threads of each lane had to wait. @param {Lanes} lanes */
function processorOf(lanes) {
  const known = Object.entries(lanes).filter(([, lane]) => waiting(lane) !== null).map(([name, lane]) => `${name} ${ratio(waiting(lane))}`);
  if (!known.length) return 'Whether threads had to wait for a processor was not measured.';
  return `Threads that waited for a processor, on average: ${known.join(', ')}. On a quiet machine it is about 0.`;
}

/** Of each lane that an attached server ran: what was measured, what is only quoted, and what nobody looked at. @param {Lanes} lanes */
function serversOf(lanes) {
  return Object.entries(lanes).flatMap(([name, lane]) => (lane && isServed(lane) ? [[name, 'Measured here: its tokens, and when they arrived, '
    + `network included. It says itself: ${quotedWords(lane.finished && lane.finished.quoted)}. Not checked: its distribution, what else it was doing, and whether `
    + 'it has the model, the tokenizer and the machine of the other lanes.']] : []));
}

/** @param {Lanes} lanes @param {RunStarted} header @param {string} title */
function report(lanes, header, title) {
  const versions = Object.entries(header.versions).map(([name, version]) => `${name} ${version}`).join(', ');
  const drafted = headersOf(lanes).filter(({ own }) => own.config.drafter !== 'none');
  const models = [`target: ${header.models.target || 'unknown'}`, ...drafted.map(({ name, own }) => `${drafted.length > 1 || own.server ? name : 'drafter'}: ${own.server ? own.models.target : own.models.drafter}`)].join('; ');
  const all = (/** @type {RunStarted['config']} */ config) => Object.entries(config).map(([name, value]) => `${name} ${value === null ? '–' : value}`).join(', ');
  const config = drafted.length > 1 ? drafted.map(({ name, own }) => `${name}: ${all(own.config)}`).join('; ') : all(header.config);
  const facts = [
    ['Order', orderOf(lanes)],
    ['Clock', 'Decode time: prefill, drafting, scoring, verification and the loop between them. Events, the network and this page do not count; model loading does not count, nor does a warm-up where there was one.'],
    ['Slow motion', 'Playback stretches all lanes by the same factor. All times shown are real decode times.'],
    ['Timed', GRAINS[header.grain] || header.grain],
    ['Device', `${placeOf(header)} (${header.reason})`],
    ['Target run by', header.network || 'not recorded'],
    ['Processor', processorOf(lanes)],
    ...serversOf(lanes),
    ['Models', models],
    ['Versions', versions],
    ['Settings', config],
    ['Started', header.started_at || 'unknown'],
    ['Trace', title || 'untitled'],
  ];
  const list = h('dl', { class: 'sd-facts' }, ...facts.flatMap(([name, words]) => [h('dt', {}, name), h('dd', {}, words)]));
  return [list, ...table(lanes)];
}

const PHASES = ['prefill', 'draft', 'score', 'verify', 'other'];

/** @param {Lanes} lanes */
function table(lanes) {
  const ended = Object.entries(lanes).flatMap(([name, lane]) => (lane && lane.finished ? [{ name, finished: lane.finished }] : []));
  if (!ended.length) return [];
  const row = (/** @type {string[]} */ cells) => h('tr', {}, ...cells.map((words, i) => h(i ? 'td' : 'th', i ? {} : { scope: 'row' }, words)));
  return [h('table', { class: 'sd-table', tabindex: '0' }, h('caption', {}, 'Where the decode time went'),
    h('thead', {}, h('tr', {}, ...['lane', ...PHASES, 'total'].map((words) => h('th', { scope: 'col' }, words)))),
    h('tbody', {}, ...ended.map(({ name, finished }) => row([name,
      ...PHASES.map((phase) => milliseconds(finished.seconds_by[phase] || 0)), `${seconds(finished.seconds)} s`]))))];
}

export class CardView {
  /** @param {string} prefix with which the ids of the player's own controls begin */
  constructor(prefix) {
    this.prefix = prefix;
    this.title = h('strong');
    this.message = h('p');
    this.hint = h('p', { class: 'sd-hint' });
    this.element = h('div', { class: 'sd-card', role: 'alert', hidden: true },
      h('span', { class: 'sd-card-glyph', 'aria-hidden': 'true' }, '!'),
      h('div', {}, this.title, this.message, this.hint),
      h('button', { type: 'button', class: 'sd-b', 'aria-label': 'Dismiss', onclick: () => this.hide() }, '✕'));
  }

  /** @param {{title: string, message: string, hint: string, field?: string}} card */
  show({ title, message, hint, field = '' }) {
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

  /** Outline the control that the card is about. @param {string} field */
  mark(field) {
    document.querySelectorAll('.sd-invalid').forEach((element) => element.classList.remove('sd-invalid'));
    const control = field ? document.getElementById(`${this.prefix}-${field}`) : null;
    if (!control) return;
    control.classList.add('sd-invalid');
    control.closest('details')?.setAttribute('open', '');
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

  /** @param {string} words */
  show(words) {
    text(this.words, words);
    this.element.hidden = !words;
    if (words) this.mark.style.rotate = `${45 * (this.news += 1)}deg`;
  }
}
