// The Explore tab: one form, one answer and one set of charts for each exploration, all described by the server
// (specdiff_core/explorations). Opens on recorded answers; a reload finds an exploration that still runs.
// @ts-nocheck: it reads no event

import { Charts, chart } from './views/charts.js';
import { Form } from './views/form.js';
import { Job, listen } from './job.js';
import { VIEWS } from './views/explorations.js';
import { busyMachine, columnsOf, csvOf, originWords, progressWords } from './state/exploration.js';
import { download, h, refill, text } from './views/dom.js';
import { fetchFile, fromBase64 } from './state/trace.js';
import { gloss, know, means } from './views/glossary.js';
import { openRace, pauseAll, register } from './page.js';
import { origin } from './state/comparison.js';

const KEPT = 'specdiff-exploring'; // the token of what this tab explores, for after a reload
const WORDS = { waits: 'Waiting for a free place: one exploration runs at a time…', stops: 'Stopping; what was measured is kept…' };
const UNREADABLE = { title: 'This answer cannot be shown', message: 'The server sent one that does not fit together.', hint: 'Measure again.' };

/** A word that only this tab knows. `crypto.randomUUID` is missing where a page is served without TLS. */
const newToken = () => [...crypto.getRandomValues(new Uint8Array(12))].map((byte) => byte.toString(16).padStart(2, '0')).join('');
const press = (id) => document.getElementById(`explore-${id}`)?.click();

class Explore extends Job {
  constructor(root, options) {
    super(root, 'explore', options.patience, WORDS);
    this.options = options;
    [this.widgets, this.boards] = [{}, {}]; // by name: what a visitor drags, and the charts
    this.aside = h('div', { class: 'sd-exp-aside' });
    this.answers = { recorded: {}, live: {} }; // by file, by name
    this.races = { recorded: {}, live: {} }; // the same: row's race -> base64
    this.stems = Object.fromEntries(Object.entries(options.recorded).map(([name, stems]) => [name, stems[0]])); // the file that is shown
    this.made = {}; // by name: the token with which the server gives away what the live answer made
    this.addresses = new Map(); // of races that were opened -> a blob
    this.token = '';
    this.forms = Object.fromEntries(Object.entries(options.forms).map(([name, { fields }]) => [name, new Form(fields, `explore-${name}`)]));
    this.questions = h('div', { class: 'sd-cmp-legend sd-exp-questions', role: 'group', 'aria-label': 'Explorations' });
    this.title = h('h2', {});
    this.question = h('p', { class: 'sd-exp-question' });
    this.fields = h('div', { class: 'sd-exp-fields' });
    this.run = h('button', { type: 'button', class: 'sd-exp-run', onclick: () => press('run') }, 'Measure here');
    this.halt = h('button', { type: 'button', class: 'sd-exp-stop', onclick: () => press('stop') }, 'Stop');
    this.bar = h('progress', { class: 'sd-exp-bar', 'aria-label': 'Progress', hidden: true });
    this.chip = h('span', { class: 'sd-chip' });
    this.words = h('span', { class: 'sd-source-words' });
    this.sources = h('span', { class: 'sd-cmp-choice' });
    this.doubt = h('p', { class: 'sd-busy-machine', role: 'status' });
    this.notes = h('div', { class: 'sd-exp-notes' });
    this.charts = h('div', { class: 'sd-cmp-charts' });
    this.rows = h('table', { class: 'sd-exp-table' });
    this.facts = h('dl', { class: 'sd-cmp-facts' });
    this.voice = h('div', { class: 'sd-voice', 'aria-live': 'polite' });
    this.status.element.removeAttribute('role'); // it changes every second: the voice says what is new
    const save = (label, what) => h('button', { type: 'button', class: 'sd-link', onclick: what }, label);
    this.saves = h('span', { class: 'sd-exp-saves' }, 'Download: ', save('CSV', () => this.save('csv')), save('JSON', () => this.save('json')), save('PNG', () => this.image('png')), save('SVG', () => this.image('svg')), this.weights = h('a', { class: 'sd-link', hidden: true }, 'Weights'));
    this.numbers = h('details', { class: 'sd-panel sd-exp-numbers', ontoggle: () => { if (this.numbers.open && this.answer) this.drawRows(); } }, h('summary', {}, 'All numbers'), h('div', { class: 'sd-cmp-wrap', tabindex: '0', role: 'region', 'aria-label': 'All numbers' }, this.rows));
    this.beside = h('section', { class: 'sd-panel sd-exp-beside' });
    this.content = this.full = h('div', { class: 'sd-cmp-full' }, this.notes, this.charts, this.aside, this.beside, this.numbers,
      h('section', { class: 'sd-panel sd-cmp-origin', 'aria-label': 'Where these numbers come from' }, h('header', {}, h('h2', {}, 'Where these numbers come from'), this.saves), this.facts));
    this.root.append(this.questions, this.card.element,
      h('section', { class: 'sd-panel sd-exp-ask', 'aria-label': 'What to measure' }, h('header', {}, this.title), this.question, this.fields, h('div', { class: 'sd-exp-buttons' }, this.run, this.halt, this.bar)),
      this.status.element, this.voice, h('div', { class: 'sd-source' }, this.chip, this.words, this.sources), this.doubt, this.full);
    this.place();
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      this.shown = true;
      this.fetchRecorded();
    });
    watcher.observe(root);
    this.again();
  }

  /** Begin where the link or the browser says. */
  place() {
    const query = new URLSearchParams(location.search);
    const asked = query.get('explore');
    const known = Object.keys(this.forms);
    this.select(known.includes(asked) ? asked : known[0]);
    if (known.includes(asked)) this.form.fill(Object.fromEntries(query));
  }

  /** Follow what ran when the page was reloaded. */
  again() {
    let kept = null;
    try { kept = sessionStorage.getItem(KEPT); } catch { /* a browser that keeps nothing has nothing to follow */ }
    if (!kept) return;
    this.token = kept;
    this.follows = true;
    const wait = setInterval(() => { // Gradio makes its buttons a moment later
      if (!document.getElementById('explore-again')) return;
      clearInterval(wait);
      press('again');
    }, 100);
  }

  get form() {
    return this.forms[this.name];
  }

  get answer() {
    const [recorded, live] = [this.answers.recorded[this.stem], this.answers.live[this.name]];
    return (this.source === 'live' ? live : recorded) || recorded || live || null;
  }

  /** The recorded answer that is chosen, by its file; undefined where none ships. */
  get stem() {
    return this.stems[this.name];
  }

  /** Whether the races of the answer come with it: an export leaves some out. */
  get hasRaces() {
    return this.isLive || !this.options.without_races.includes(this.stem);
  }

  get isLive() {
    return Boolean(this.answer) && this.answer === this.answers.live[this.name];
  }

  /** Called by Gradio when a run, a stop or a reload asks the server: what it gets. */
  asked() {
    if (this.follows) return JSON.stringify({ token: this.token });
    return JSON.stringify({ token: this.token, explore: this.name, choice: this.form.values() });
  }

  /** This exploration with its settings, as a link holds them. */
  query() {
    const query = new URLSearchParams({ explore: this.name });
    for (const [name, value] of Object.entries(this.form.changed())) query.set(name, Array.isArray(value) ? value.join(',') : String(value));
    return query.toString();
  }

  select(name) {
    this.name = name;
    this.source = this.answers.live[name] ? 'live' : 'recorded';
    const told = this.options.forms[name];
    text(this.title, told.title);
    text(this.question, told.question);
    gloss(this.question);
    this.fields.replaceChildren(this.form.element);
    this.view = VIEWS[name];
    const isNew = !(name in this.widgets);
    this.widgets[name] ??= this.view.widget ? new this.view.widget(() => this.draw(), { race: (race) => this.race(race), open: (race) => this.openRace(race), ask: (values) => this.ask(values) }) : null;
    this.widget = this.widgets[name];
    this.charts[this.view.widgetFirst ? 'before' : 'after'](this.aside);
    this.aside.replaceChildren(...(this.widget ? [this.widget.element] : []));
    if (isNew) gloss(this.aside); // later also names are written there: B is a run
    this.boards[name] ??= this.board();
    const { panels, figures } = this.boards[name];
    this.charts.replaceChildren(...panels);
    this.figures = figures;
    this.drawQuestions();
    this.draw();
    if (this.shown) this.fetchRecorded();
  }

  /** The panels of the exploration on the screen, and what draws them: made once. */
  board() {
    const { panels } = this.view;
    const made = panels.map(({ title, hint, opens, wide }) => {
      const [place, panel] = chart(title, [hint, opens].filter(Boolean).join('; '), (own) => h('div', { class: 'sd-cmp-scroll', role: 'group', 'aria-label': `Chart: ${title}`, tabindex: wide ? '0' : null }, own));
      if (wide) panel.classList.add('sd-cmp-bars');
      return [place, panel];
    });
    const keyed = (of) => Object.fromEntries(panels.map(({ key, figure }, i) => [key, of(figure, i)]));
    const figures = new Charts(keyed((_, i) => made[i][0]), keyed((figure) => figure), {
      plotly: this.options.plotly, without: 'The chart library could not be loaded; the table below is complete without it.', share: 0, drawn: (place) => this.bind(place) });
    return { panels: made.map(([, panel]) => panel), figures };
  }

  drawQuestions() {
    refill(this.questions, '', Object.entries(this.options.forms).map(([name, { title, question }]) => h('button', { type: 'button', 'aria-pressed': String(name === this.name), title: question, onclick: () => this.select(name) }, title)));
  }

  /** Show a recorded answer, with what it asked for in the form, or the visitor's own. */
  async choose(source, stem) {
    this.source = source;
    this.stems[this.name] = stem;
    this.draw();
    await this.fetchRecorded();
    if (this.stem === stem && this.answer && !this.isLive) this.form.fill(this.answer.choice);
  }

  /** A recorded answer is asked for when it is first looked at. */
  async fetchRecorded() {
    const { stem } = this;
    if (!stem || this.answers.recorded[stem]) return;
    try {
      const found = await this.get(`${stem}.json`);
      if (found.kind !== 'exploration' || found.schema !== 1) throw new Error('no answer of a known form');
      this.answers.recorded[stem] = found;
      this.draw();
    } catch (error) {
      this.card.show({ title: 'The recorded answer could not be shown', message: 'The server did not send it whole, or it was written by another version.', hint: 'Reload the page, or measure here.' });
      console.warn('answer not shown:', error);
    }
  }

  async get(file) {
    return (await fetchFile(this.options.folder + file)).json();
  }

  draw() {
    const { answer } = this;
    this.run.disabled = this.busy || this.waiting;
    this.halt.disabled = !this.run.disabled;
    this.full.hidden = !answer;
    const known = [...this.options.recorded[this.name].map((stem) => ['recorded', stem, `Recorded${stem === this.name ? '' : `: ${stem.slice(this.name.length + 1)}`}`]), ...(this.answers.live[this.name] ? [['live', this.stem, 'Measured here']] : [])];
    refill(this.sources, '', known.length < 2 ? [] : known.map(([source, stem, words]) => h('button', { type: 'button', 'aria-pressed': String((source === 'live') === this.isLive && (source === 'live' || stem === this.stem)), onclick: () => this.choose(source, stem) }, words)));
    this.chip.dataset.kind = this.isLive ? 'measured' : 'recording';
    text(this.chip, answer ? (this.isLive ? '● Measured here' : '◉ Recording') : '');
    text(this.words, answer ? originWords(answer) : this.stem ? 'Loading the recorded answer…' : 'Nothing is recorded yet: press Measure here.');
    const token = this.isLive ? this.made[this.name] : '';
    this.weights.hidden = !token;
    if (token) this.weights.href = new URL(`weights?token=${token}`, document.baseURI).href;
    text(this.doubt, answer ? busyMachine(answer, this.options.crowded) : '');
    if (!answer) return;
    this.notes.replaceChildren(...this.view.notes(answer, this.options.methods).map((words) => h('p', {}, words)), ...(answer.facts.skipped || []).map((words) => h('p', { class: 'sd-sub' }, `Left out: ${words}`)));
    gloss(this.notes);
    if (this.numbers.open) this.drawRows();
    this.drawBeside();
    const table = { origin: { ...answer.origin, ...answer.machine, sittings: 1 }, prompts: {}, settings: {}, repeats: 1 };
    this.facts.replaceChildren(...origin(table).filter(([name]) => name !== 'prompts').flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, name === 'command' ? h('code', {}, value) : value)]));
    this.widget?.show(answer);
    this.drawHints();
    this.figures.offer({ answer, widget: this.widget, races: this.hasRaces, methods: this.options.methods });
  }

  /** What a chart promises of a click, where there is anything to open. */
  drawHints() {
    this.view.panels.forEach(({ hint, opens }, i) => {
      if (opens) text(this.boards[this.name].panels[i].querySelector('header .sd-sub'), [hint, this.hasRaces && opens].filter(Boolean).join('; '));
    });
  }

  /** What others have measured, beside this answer, where the exploration has it. */
  drawBeside() {
    const { beside } = this.view;
    const rows = beside?.rows(this.answer) ?? [];
    this.beside.hidden = !rows.length;
    if (!rows.length) return;
    this.beside.replaceChildren(h('header', {}, h('h2', {}, beside.title), h('p', {}, beside.hint)),
      h('div', { class: 'sd-cmp-wrap', tabindex: '0', role: 'region', 'aria-label': beside.title }, h('table', { class: 'sd-exp-table sd-exp-words' }, h('thead', {}, h('tr', {}, ...beside.head.map((name) => h('th', { scope: 'col' }, name)))), h('tbody', {}, ...rows.map((row) => h('tr', {}, ...row.map((words) => h('td', {}, words))))))));
  }

  /** The table: only where somebody looks, because an answer comes every second. */
  drawRows() {
    const { rows } = this.answer;
    const columns = columnsOf(rows);
    this.rows.replaceChildren(h('thead', {}, h('tr', {}, ...columns.map((name) => h('th', { scope: 'col', title: means(this.view.columns[name]) || this.view.columns[name] }, name)))),
      h('tbody', {}, ...rows.map((row) => h('tr', {}, ...columns.map((name) => h('td', {}, shown(row[name])))))));
  }

  /** Let marks of a figure open races, or be looked at in the widget, as soon as it is drawn. */
  bind(element) {
    if (element.dataset.bound) return;
    element.dataset.bound = 'yes';
    element.on('plotly_click', ({ points }) => {
      const clicked = points[0].customdata?.[0];
      if (clicked && this.widget?.pick) this.widget.pick(clicked);
      else if (clicked) this.openRace(clicked);
    });
  }

  /** The trace of a race of this answer, as base64; undefined until the exploration is over. */
  async race(race) {
    const source = this.isLive ? 'live' : 'recorded';
    const [held, name] = [this.races[source], source === 'live' ? this.name : this.stem];
    if (source === 'recorded') held[name] ??= await this.get(`${name}.races.json`);
    return held[name]?.[race];
  }

  async openRace(race) {
    const data = await this.race(race);
    if (!data) {
      this.tell(this.isLive ? 'The race of a cell can be opened when the exploration is over.' : this.hasRaces ? 'This race was not recorded.' : 'This export does not hold the races of this map.');
      return;
    }
    const key = `${this.isLive ? `live ${this.name}` : `recorded ${this.stem}`} ${race} ${this.answer.origin.date}`;
    if (!this.addresses.has(key)) this.addresses.set(key, URL.createObjectURL(new Blob([fromBase64(data)], { type: 'application/gzip' })));
    const title = this.view.titleOf(this.answer, race, this.options.methods);
    const labels = this.view.lanesOf?.(this.answer) ?? { vanilla: { label: 'Vanilla' }, drafted: { label: title } };
    openRace({ url: this.addresses.get(key), lanes: Object.keys(labels), title, labels, source: this.isLive ? 'measured' : 'recording' });
  }

  /** Measure what is shown again, with some values changed. Says whether it began: an export has nothing to run. */
  ask(values) {
    if (this.busy || this.waiting || !document.getElementById('explore-run')) return false;
    this.form.fill({ ...this.answer.choice, ...values });
    press('run');
    return true;
  }

  fileName(end) {
    return `specdiff-${this.name}-${this.answer.origin.date.slice(0, 16).replace(/[^0-9]/g, '')}.${end}`;
  }

  save(kind) {
    const content = kind === 'csv' ? csvOf(this.answer.rows) : JSON.stringify(this.answer, null, 1);
    download(content, kind === 'csv' ? 'text/csv' : 'application/json', this.fileName(kind));
  }

  /** The first figure as a picture, made in this browser. */
  async image(format) {
    const place = Object.values(this.figures.places).find((one) => one.classList.contains('js-plotly-plot'));
    if (!place) return;
    const address = await this.figures.plotly.toImage(place, { format, width: 1200, height: 700, scale: format === 'png' ? 2 : 1 });
    const picture = await (await fetch(address)).blob();
    download(picture, picture.type, this.fileName(format));
  }

  pressedRun() {
    this.token = newToken();
    this.follows = false;
    try { sessionStorage.setItem(KEPT, this.token); } catch (error) { console.info('a reload will not find this exploration', error); }
    const address = `${location.pathname}?${this.query()}`;
    if (address.length < 8000) history.replaceState(null, '', address); // a reload opens this tab again
    this.busy = true;
    pauseAll();
    super.pressedRun();
    this.draw();
  }

  over() {
    super.over();
    this.bar.hidden = true;
    for (const widget of Object.values(this.widgets)) widget?.over?.();
    try { sessionStorage.removeItem(KEPT); } catch { /* nothing was kept */ }
    this.draw();
  }

  failed(message) {
    this.over();
    this.card.show({ title: 'The exploration ended early', message, hint: 'What was measured before is kept. Measure again; if many people measure, wait a little.' });
  }

  lost(stopped) {
    this.failed(stopped ? 'The server was asked to stop and has not answered.' : 'The server does not answer any more.');
  }

  /** The server's event is over, however it ended: without a last frame, nothing more will come. */
  ended() {
    const { token } = this;
    setTimeout(() => {
      if (token === this.token && (this.busy || this.waiting)) this.failed('The server refused it, or the connection was lost.');
    }, 2500);
  }

  /** A frame of the server. */
  receive(message) {
    super.receive(message);
    if (message.phase === 'gone') {
      this.over();
      return;
    }
    const name = message.explore;
    if (name && name !== this.name && this.follows) this.select(name);
    if (message.result) {
      this.answers.live[name] = message.result;
      delete this.races.live[name]; // they are of the answer before
      delete this.made[name];
      if (this.follows) this.form.fill(message.result.choice);
      if (name === this.name) this.source = 'live';
    }
    if (message.finished || message.card) {
      if (message.races) this.races.live[name] = message.races;
      if (message.made) this.made[name] = this.token;
      const { done = 0 } = message;
      this.over();
      if (message.card) this.card.show(message.card);
      text(this.voice, message.card ? '' : `${message.phase === 'stopped' ? 'Stopped' : 'Measured'}: ${done} steps are shown.`);
      return;
    }
    this.busy = true;
    this.live = { run: message.run, warming: message.phase !== 'exploring' };
    this.bar.hidden = !message.total;
    if (message.total) Object.assign(this.bar, { max: message.total, value: message.done });
    this.tell(progressWords(message));
    this.draw();
  }
}

/** A value in the table. */
function shown(value) {
  if (value === null || value === undefined) return '';
  if (Array.isArray(value)) return value.map(shown).join(' ');
  return typeof value === 'number' && !Number.isInteger(value) ? String(Number(value.toPrecision(4))) : String(value);
}

/** Called by the component (app/tabs/explore.py) once per page. */
export function mount(element, props, watch, options) {
  know(options.symbols);
  const explore = new Explore(element.querySelector('.sd-exp'), options);
  register('explore', explore);
  listen(explore, props, watch, UNREADABLE);
}

