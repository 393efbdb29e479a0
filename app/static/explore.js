// The Explore tab: one form, one answer and one set of charts for each exploration, all described by the server
// (specdiff_core/explorations). Opens on recorded answers; a reload finds an exploration that still runs.
// @ts-nocheck: it reads no event

import { Charts, chart } from './views/charts.js';
import { Form } from './views/form.js';
import { Job, listen } from './job.js';
import { VIEWS } from './views/explorations.js';
import { address } from './views/link.js';
import { busyMachine, columnsOf, csvOf, originWords, progressWords } from './state/exploration.js';
import { download, h, refill, text } from './views/dom.js';
import { fetchFile, fromBase64, gzip, readFile, serialise, unzip } from './state/trace.js';
import { BRANCH, Opened } from './state/alignment.js';
import { gloss, know, means } from './views/glossary.js';
import { openRace, pauseAll, register } from './page.js';
import { origin } from './state/comparison.js';

const KEPT = 'specdiff-exploring'; // the token of what this tab explores, for after a reload
const WORDS = { waits: 'Waiting for a free place…', alone: 'One exploration runs at a time.', stops: 'Stopping; what was measured is kept…' };
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
    this.answers = { recorded: {}, live: {}, opened: {} }; // by file, by name, by name
    this.opened = new Opened(); // traces of the visitor: two of their lanes can be held against each other
    this.more = {}; // what the next measurement asks for besides the form
    this.races = { recorded: {}, live: {} }; // the same: row's race -> base64
    this.stems = Object.fromEntries(Object.entries(options.recorded).map(([name, stems]) => [name, stems[0]])); // the file that is shown
    this.made = {}; // by name: the token with which the server gives away what the live answer made
    this.addresses = new Map(); // of races that were opened -> a blob
    this.token = '';
    /** @type {{name: string, source: string, search: string, form: object, answer: object, races: object} | null} what there was before a widget asked, while its answer is not whole */
    this.before = null;
    this.forms = Object.fromEntries(Object.entries(options.forms).map(([name, { fields }]) => [name, new Form(fields, `explore-${name}`, options.pairs)]));
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
    this.files = h('input', { type: 'file', multiple: true, accept: '.jsonl,.gz', hidden: true, onchange: () => this.read([...this.files.files]) });
    this.openFiles = h('button', { type: 'button', class: 'sd-link', onclick: () => this.files.click() }, 'Open traces');
    this.lanesOf = h('span', { class: 'sd-row-selects sd-exp-lanes' });
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
      this.status.element, this.voice, h('div', { class: 'sd-source' }, this.chip, this.words, this.sources, this.openFiles, this.lanesOf, this.files), this.doubt, this.full);
    this.place();
    this.fields.addEventListener('toggle', ({ target }) => { if (target.open) press('pairs'); }, true); // which can be chosen here, and the visitor’s own
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
    if (this.options.recorded[asked]?.includes(query.get('answer'))) this.stems[asked] = query.get('answer');
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

  /** Called by Gradio with the pairs that can be chosen here, as JSON. */
  offer(told) {
    const pairs = JSON.parse(told);
    Object.assign(this.options.pairs, pairs);
    for (const form of Object.values(this.forms)) form.offer(Object.keys(pairs), this.options.pairs);
  }

  get form() {
    return this.forms[this.name];
  }

  get answer() {
    const all = { recorded: this.answers.recorded[this.stem], live: this.answers.live[this.name], opened: this.answers.opened[this.name] };
    return all[this.source] || all.recorded || all.live || null;
  }

  /** The recorded answer that is chosen, by its file; undefined where none ships. */
  get stem() {
    return this.stems[this.name];
  }

  /** Whether the exploration on the screen is being measured. */
  get runs() {
    return this.busy && this.live?.name === this.name;
  }

  /** Whether the races of the answer come with it, or will at its end: an export leaves some out, and a server that breaks off loses them. */
  get hasRaces() {
    if (this.isLive) return this.runs || Boolean(Object.keys(this.races.live[this.name] ?? {}).length);
    return this.isOpened || !this.options.without_races.includes(this.stem);
  }

  get isLive() {
    return Boolean(this.answer) && this.answer === this.answers.live[this.name];
  }

  /** Whether it was made here of the visitor's traces. */
  get isOpened() {
    return Boolean(this.answer) && this.answer === this.answers.opened[this.name];
  }

  /** Called by Gradio when a run, a stop or a reload asks the server: what it gets. */
  asked() {
    if (this.follows) return JSON.stringify({ token: this.token });
    const choice = { ...this.form.values(), ...this.more };
    this.more = {};
    return JSON.stringify({ token: this.token, explore: this.name, choice });
  }

  /** This exploration with its settings, and which of several recorded answers is shown, as a link holds them. */
  query() {
    const query = new URLSearchParams({ explore: this.name });
    for (const [name, value] of Object.entries(this.form.changed())) query.set(name, Array.isArray(value) ? value.join(',') : String(value));
    if (!this.isLive && this.stem !== this.options.recorded[this.name][0]) query.set('answer', this.stem);
    return query.toString();
  }

  select(name) {
    this.name = name;
    this.card.prefix = `explore-${name}`; // of its form's ids
    this.source = this.answers.live[name] ? 'live' : 'recorded';
    const told = this.options.forms[name];
    text(this.title, told.title);
    text(this.question, told.question);
    gloss(this.question);
    this.fields.replaceChildren(this.form.element);
    this.view = VIEWS[name];
    const isNew = !(name in this.widgets);
    this.widgets[name] ??= this.view.widget ? new this.view.widget(() => this.draw(), { race: (race) => this.race(race), open: (race) => this.openRace(race), ask: (values) => this.ask(values), given: (run, round) => this.opened.given(run, round, Object.keys(this.options.pairs)) }) : null;
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
    new ResizeObserver(() => { if (figures.scene) figures.offer(figures.scene); }).observe(made[0][0]); // its labels are placed for its size
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
    if (this.stem === stem && this.answer && !this.isLive) this.form.repeat(this.answer.choice);
  }

  /** The answer to an exploration, and whether this visitor measured it: the recorded one where they have not. */
  async answerOf(name) {
    const live = this.answers.live[name];
    if (live) return { answer: live, own: true, busy: Boolean(busyMachine(live, this.options.crowded)) };
    await this.fetchRecorded(this.stems[name]);
    const answer = this.answers.recorded[this.stems[name]];
    return answer ? { answer, own: false, busy: false } : null;
  }

  /** A recorded answer is asked for when it is first looked at. */
  async fetchRecorded(stem = this.stem) {
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

  /** Open traces of the visitor, in this browser. What is shown stays until two lanes are there. @param {File[]} files */
  async read(files) {
    this.files.value = ''; // the same file may be chosen again
    const { name } = this;
    const wrong = [];
    this.card.hide();
    for (const file of files) {
      try {
        this.opened.add(file.name, await readFile(file));
      } catch (error) {
        wrong.push(`${file.name}: ${error instanceof Error ? error.message : error}`);
        console.warn('trace not opened:', error);
      }
    }
    if (wrong.length) this.card.show({ title: wrong.length > 1 ? 'These files are no traces' : 'This file is no trace', message: `${wrong.join('; ')}.`, hint: 'Choose .jsonl or .jsonl.gz files that were downloaded from this page or written with --trace. What was opened before is kept.' });
    if (this.name !== name) return;
    if (this.opened.answer) await this.showOpened();
    else if (this.opened.lanes.length) this.card.show({ title: 'One more is needed', message: 'This trace holds one lane: open another to hold it against.', hint: '' });
  }

  /** Two lanes of what was opened. */
  async showOpened() {
    this.answers.opened[this.name] = this.opened.answer;
    this.source = 'opened';
    this.draw();
  }

  /** Which lanes of the opened traces are run A and run B. */
  drawLanes() {
    const chosen = (run) => h('label', {}, `${run.toUpperCase()} `, h('select', { 'aria-label': `Run ${run.toUpperCase()}`, onchange: ({ target }) => {
      this.opened.choose(run, Number(target.value));
      this.showOpened();
    } }, ...this.opened.lanes.map(({ file, name }, i) => h('option', { value: i, selected: i === this.opened.chosen[run] }, `${name} of ${file}`))));
    const shown = this.isOpened ? JSON.stringify([this.opened.chosen, this.opened.lanes.map(({ file, name }) => [file, name])]) : '';
    if (this.lanesOf.dataset.shown === shown) return; // a list that is open stays
    this.lanesOf.dataset.shown = shown;
    this.lanesOf.replaceChildren(...(shown ? [chosen('a'), chosen('b')] : []));
  }

  async get(file) {
    return (await fetchFile(this.options.folder + file)).json();
  }

  draw() {
    const { answer } = this;
    this.run.disabled = this.busy || this.waiting;
    this.halt.disabled = !this.run.disabled;
    this.full.hidden = !answer;
    const known = [...this.options.recorded[this.name].map((stem) => ['recorded', stem, `Recorded${stem === this.name ? '' : `: ${stem.slice(this.name.length + 1)}`}`]), ...(this.answers.live[this.name] ? [['live', this.stem, 'Measured here']] : []), ...(this.answers.opened[this.name] ? [['opened', this.stem, 'Opened traces']] : [])];
    const now = this.isLive ? 'live' : this.isOpened ? 'opened' : 'recorded';
    refill(this.sources, '', known.length < 2 ? [] : known.map(([source, stem, words]) => h('button', { type: 'button', 'aria-pressed': String(source === now && (source !== 'recorded' || stem === this.stem)), onclick: () => this.choose(source, stem) }, words)));
    this.openFiles.hidden = !this.view.opens;
    this.drawLanes();
    this.chip.dataset.kind = this.isLive ? 'measured' : 'recording';
    text(this.chip, answer ? { live: '● Measured here', opened: '◉ Opened traces', recorded: '◉ Recording' }[now] : '');
    text(this.words, answer ? (this.isOpened ? 'Read in this browser; the server was not asked.' : `${originWords(answer)}${this.ofPair(answer)}`) : this.stem ? 'Loading the recorded answer…' : 'Nothing is recorded yet: press Measure here.');
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
    const told = this.isOpened ? Object.entries(answer.facts.files).flatMap(([run, lines]) => Object.entries(lines).map(([name, value]) => [`${run.toUpperCase()}: ${name}`, value])) : origin(table).filter(([name]) => name !== 'prompts');
    this.facts.replaceChildren(...told.flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, name === 'command' ? h('code', {}, value) : value)]));
    this.widget?.show(answer);
    this.drawHints();
    this.figures.offer({ answer, widget: this.widget, races: this.hasRaces, methods: this.options.methods });
  }

  /** Of which pair an answer is, where it is not the embedded one. */
  ofPair({ choice: { pair = 'embedded' } }) {
    return pair === 'embedded' ? '' : ` Pair: ${this.options.pairs[pair]?.label ?? pair}.`;
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

  /** The bytes of the trace of a race of this answer; undefined until the exploration is over. */
  async race(race) {
    if (this.isOpened) return gzip(new TextEncoder().encode(serialise(this.opened.trace)));
    const source = this.isLive ? 'live' : 'recorded';
    const [held, name] = [this.races[source], source === 'live' ? this.name : this.stem];
    if (source === 'recorded') held[name] ??= await this.get(`${name}.races.json`);
    return held[name]?.[race] && fromBase64(held[name][race]);
  }

  async openRace(race) {
    const data = await this.race(race);
    if (!data) {
      this.tell(this.isLive ? (this.runs ? 'The race of a cell can be opened when the exploration is over.' : 'The race of this cell is gone: the exploration broke off before it was sent.') : this.hasRaces ? 'This race was not recorded.' : 'This export does not hold the races of this map.');
      return;
    }
    const key = this.isOpened ? `opened ${JSON.stringify(this.opened.chosen)}` : `${this.isLive ? `live ${this.name}` : `recorded ${this.stem}`} ${race} ${this.answer.origin.date}`;
    if (!this.addresses.has(key)) this.addresses.set(key, URL.createObjectURL(new Blob([data], { type: 'application/gzip' })));
    const title = this.view.titleOf(this.answer, race, this.options.methods);
    const labels = this.view.lanesOf?.(this.answer) ?? { vanilla: { label: 'Vanilla' }, drafted: { label: title } };
    openRace({ url: this.addresses.get(key), lanes: Object.keys(labels), title, labels, source: this.isLive ? 'measured' : this.isOpened ? 'file' : 'recording' });
  }

  /** What the server decoded from where an opened run was left. */
  async goOn(result, data) {
    const { lanes } = await unzip(fromBase64(data));
    if (!this.opened.goOn(result.choice.given, { ...result.facts.branch, seed: result.choice.branch_seed }, lanes[BRANCH])) {
      this.card.show({ title: 'This continues a trace that is not open here', message: 'Other lanes were chosen meanwhile, or the page was reloaded.', hint: 'Open the traces again, and choose the token once more.' });
      return;
    }
    await this.showOpened();
  }

  /** Measure what is shown again, with some values changed; of an opened run only what follows. Says whether it began: an export has nothing to run. */
  ask(values) {
    if (this.busy || this.waiting || !document.getElementById('explore-run')) return false;
    const { name, source } = this;
    const before = { name, source, search: location.search, form: this.form.values(), answer: this.answers.live[name], races: this.races.live[name] };
    if (this.isOpened) this.more = values;
    else this.form.repeat({ ...this.answer.choice, ...values });
    press('run');
    this.before = before;
    return true;
  }

  /** What a widget asked for was refused, failed or was stopped: give back what there was before. */
  putBack() {
    const { before } = this;
    if (!before) return;
    const { name } = before;
    this.before = null;
    this.forms[name].fill(before.form);
    Object.assign(this.answers.live, { [name]: before.answer });
    Object.assign(this.races.live, { [name]: before.races });
    if (name !== this.name) return;
    this.source = before.source;
    address(before.search);
  }

  fileName(end) {
    return `specdiff-${this.name}-${this.isOpened ? 'opened-' : ''}${this.answer.origin.date.slice(0, 16).replace(/[^0-9]/g, '')}.${end}`;
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
    this.before = null;
    const query = this.query();
    if (query.length < 8000) address(query); // a reload opens this tab again
    this.busy = true;
    pauseAll();
    super.pressedRun();
    this.draw();
  }

  over() {
    super.over();
    this.putBack();
    this.more = {};
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
    const branch = name === 'side-by-side' && message.result?.choice.given; // what follows on an opened run
    if (branch && message.finished && message.races?.runs) this.goOn(message.result, message.races.runs);
    if (message.result && !branch) {
      this.answers.live[name] = message.result;
      delete this.races.live[name]; // they are of the answer before
      delete this.made[name];
      if (this.follows) this.form.repeat(message.result.choice);
      if (name === this.name) this.source = 'live';
    }
    if (message.finished || message.card) {
      if (message.result && !branch) this.races.live[name] = message.races;
      if (message.made) this.made[name] = this.token;
      const { done = 0, card } = message;
      if (message.phase === 'finished') this.before = null;
      const back = Boolean(this.before);
      this.over();
      if (card) this.card.show(back ? { ...card, field: '' } : card); // its value is not in the form any more
      const ended = message.phase === 'stopped' ? 'Stopped' : 'Measured';
      text(this.voice, card ? '' : back ? 'Stopped: what was there before is shown.' : `${ended}: ${done} steps are shown.`);
      return;
    }
    this.busy = true;
    this.live = { run: message.run, warming: message.phase !== 'exploring', name };
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

