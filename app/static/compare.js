// The Compare tab: shows a recorded comparison or the visitor's own, and follows a measurement. Asks the server for
// nothing but the recorded files; a bar opens its race by an event that the race player hears.
// @ts-nocheck: it reads no event

import { Board, glyph } from './views/board.js';
import { Charts, chart } from './views/charts.js';
import { Job, listen } from './job.js';
import { LABEL_PIXELS, MEAN, busyMachine, check, degrees, doubted, marksOf, meanWords, origin, placeLabels, progressWords, raceOf, sourceWords, withoutRaces } from './state/comparison.js';
import { acceptanceCurves, costFigure, flavourBars } from './views/comparison_charts.js';
import { download, h, refill, text } from './views/dom.js';
import { fetchFile, fromBase64 } from './state/trace.js';
import { know } from './views/glossary.js';
import { openRace, pauseAll, register } from './page.js';

const FIRST_SHOWN = 6; // methods that the charts begin with
const ENDED_MS = 2500; // after the end of the server's event: how long its last frame may take to arrive
const WORDS = { waits: 'Waiting for a free place…', alone: 'One measurement or race runs at a time, to keep its clock undisturbed.', stops: 'Stopping; what was measured is added up…' };
const UNREADABLE = { title: 'This result cannot be shown', message: 'The server sent a comparison that does not fit together.', hint: 'Measure again.' };

/** Buttons of which one is pressed; `choose(value)` hears which. */
function choice(label, choose) {
  const element = h('div', { class: 'sd-cmp-choice', role: 'group', 'aria-label': label });
  const draw = (options, chosen) => {
    element.hidden = options.length < 2;
    refill(element, label, options.map(([value, words, title]) => h('button', { type: 'button', 'aria-pressed': String(value === chosen), title, onclick: () => choose(value) }, words)));
  };
  return { element, draw };
}

/** A chart that may scroll sideways. */
const wide = (title, hint, tabindex = null) => chart(title, hint, (place) => h('div', { class: 'sd-cmp-scroll', role: 'group', 'aria-label': `Chart: ${title}`, tabindex }, place));

class Compare extends Job {
  constructor(root, options) {
    super(root, 'compare', options.patience, WORDS);
    this.options = options;
    this.comparisons = { recorded: null, live: null };
    this.source = 'recorded';
    this.temperature = 0;
    this.flavour = MEAN;
    this.shown = new Set();
    this.addresses = []; // of races that were measured here
    this.heard = 0; // frames of the server, and presses of Measure
    this.counted = null; // the run that was last spoken of
    this.board = new Board((found) => this.open(found));
    this.sources = choice('Numbers', (value) => this.set({ source: value }));
    this.temperatures = choice('Temperature', (value) => this.set({ temperature: value }));
    this.flavours = choice('Flavour', (value) => this.set({ flavour: value }));
    this.chip = h('span', { class: 'sd-chip' });
    this.words = h('span', { class: 'sd-source-words' });
    this.doubt = h('p', { class: 'sd-busy-machine', role: 'status' });
    this.voice = h('div', { class: 'sd-voice', 'aria-live': 'polite' });
    this.status.element.removeAttribute('role'); // it changes every second: the voice says what is new
    this.empty = h('p', { class: 'sd-cmp-empty' });
    this.legend = h('div', { class: 'sd-cmp-legend', role: 'group', 'aria-label': 'Methods in the charts' });
    this.facts = h('dl', { class: 'sd-cmp-facts' });
    this.rule = h('p', { class: 'sd-sub' });
    this.save = h('button', { type: 'button', class: 'sd-link', onclick: () => this.keep() }, 'Download these results (JSON)');
    const [cost, costPanel] = wide('What a round yields and what it costs', 'lines: equal speed-up = τ / cost; over all flavours pooled, all tokens together');
    const [alpha, alphaPanel] = wide('Acceptance by position', 'α of each position that was reached; hollow: fewer than 20 tests');
    const [bars, barsPanel] = wide('Speed-up by temperature and flavour', `dotted: vanilla; whiskers: 95 % interval${options.races ? '; a bar opens its race' : ''}`, '0');
    barsPanel.classList.add('sd-cmp-bars');
    this.charts = new Charts({ cost, alpha, bars }, {
      cost: costFigure, alpha: acceptanceCurves, bars: flavourBars,
    }, { plotly: this.options.plotly, without: 'The chart library could not be loaded; the leaderboard is complete without it.', share: 0, drawn: (place) => this.bind(place) });
    this.content = this.full = h('div', { class: 'sd-cmp-full' },
      h('section', { class: 'sd-panel', 'aria-label': 'Leaderboard' },
        h('header', {}, h('h2', {}, 'Leaderboard'), h('div', { class: 'sd-cmp-choices' }, this.sources.element, this.temperatures.element, this.flavours.element)),
        h('div', { class: 'sd-cmp-wrap' }, this.board.element)),
      this.legend,
      h('div', { class: 'sd-cmp-charts' }, costPanel, alphaPanel, barsPanel),
      h('section', { class: 'sd-panel sd-cmp-origin', 'aria-label': 'Where these numbers come from' }, h('header', {}, h('h2', {}, 'Where these numbers come from'), this.save), this.facts, this.rule));
    this.root.append(this.card.element, h('div', { class: 'sd-source' }, this.chip, this.words), this.doubt, this.status.element, this.voice, this.empty, this.full);
    new ResizeObserver(() => this.redrawCharts()).observe(cost);
    this.draw();
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      this.fetchRecorded();
    });
    if (options.recorded) watcher.observe(root);
  }

  /** The recorded comparison is asked for when the tab is first seen. */
  async fetchRecorded() {
    try {
      this.adopt('recorded', check(await (await fetchFile(this.options.recorded + this.options.results)).json()));
    } catch (error) {
      this.card.show({ title: 'The recorded comparison could not be shown', message: 'The server did not send it whole, or it was written by another version.', hint: 'Reload the page, or measure here.' });
      console.warn('comparison not shown:', error);
    }
  }

  get comparison() {
    return this.comparisons[this.source] || this.comparisons.recorded || this.comparisons.live;
  }

  get table() {
    const { tables } = this.comparison;
    return tables.find((table) => table.temperature === this.temperature) || tables[0];
  }

  adopt(source, comparison) {
    this.comparisons[source] = comparison;
    if (source === 'live') {
      for (const address of this.addresses) URL.revokeObjectURL(address);
      this.addresses = [];
    }
    if (source === 'live' || !this.comparisons.live) this.set({ source });
    else this.draw();
  }

  /** Change what is shown; what the new table lacks falls back. */
  set(change) {
    Object.assign(this, change);
    const { table } = this;
    this.temperature = table.temperature;
    if (this.flavour !== MEAN && !table.flavours.includes(this.flavour)) this.flavour = MEAN;
    if (this.drawn !== this.comparison) this.shown = new Set(table.cells.filter((cell) => cell.drafter !== 'none').slice(0, FIRST_SHOWN).map((cell) => cell.group));
    this.draw();
  }

  draw() {
    const { comparison } = this;
    this.full.hidden = !comparison;
    this.empty.hidden = Boolean(comparison) || Boolean(this.options.recorded);
    text(this.empty, 'Nothing is recorded yet: this copy ships without a comparison. Open “Measure here” above and run it live.');
    if (!comparison) return;
    this.drawn = comparison;
    const { table } = this;
    const live = comparison === this.comparisons.live;
    const known = [this.comparisons.recorded, this.comparisons.live].filter(Boolean); // a method keeps its mark in both
    this.marks = marksOf(known.flatMap((one) => one.tables), this.options.methods);
    text(this.chip, live ? '● Measured here' : '◉ Recording');
    this.chip.dataset.kind = live ? 'run' : 'recording';
    text(this.words, sourceWords(table, live));
    const both = this.comparisons.recorded && this.comparisons.live;
    this.sources.draw(both ? [['recorded', 'Recorded', 'The comparison that ships with the page'], ['live', 'Measured here', 'Your own measurement']] : [], this.source);
    this.temperatures.draw(comparison.tables.map((one) => [one.temperature, degrees(one.temperature), one.temperature ? 'The target samples' : 'The target always takes its most probable token']), table.temperature);
    this.flavours.draw([[MEAN, ...meanWords(table)], ...table.flavours.map((name) => [name, name, `${table.prompts[name]} prompts`])], this.flavour);
    this.board.draw(table, this.flavour, this.marks, doubted(table, this.options.crowded));
    this.drawLegend(comparison);
    this.facts.replaceChildren(...origin(table).flatMap(([name, value]) => [h('dt', {}, name), h('dd', {}, name === 'command' ? h('code', {}, value) : value)]));
    const left = !live && table.left_out.length ? ` Left out, to keep the recordings small: ${table.left_out.join('; ')}.` : '';
    const note = live ? 'Every method was measured with one set of settings. ' : `${comparison.choice} ${table.measured} settings were measured at this temperature.${left} `;
    text(this.rule, `${note}${comparison.median}`);
    text(this.doubt, busyMachine(table, this.options.crowded));
    this.redrawCharts();
  }

  drawLegend(comparison) {
    const seen = new Map(comparison.tables.flatMap((table) => table.cells).filter((cell) => cell.drafter !== 'none').map((cell) => [cell.group, cell]));
    const buttons = [...seen.values()].map((cell) => h('button', { type: 'button', 'aria-pressed': String(this.shown.has(cell.group)), title: `${cell.label}: shown in the charts, or not`, onclick: () => this.toggle(cell.group) },
      glyph(this.marks.get(cell.group)), cell.short));
    refill(this.legend, 'In the charts', buttons);
  }

  toggle(group) {
    if (this.shown.has(group)) this.shown.delete(group);
    else this.shown.add(group);
    this.drawLegend(this.comparison);
    this.redrawCharts();
  }

  redrawCharts() {
    if (!this.comparison) return;
    const place = (spots, size) => placeLabels(spots, (label) => LABEL_PIXELS * label.length, size);
    this.charts.offer({ tables: this.comparison.tables, table: this.table, flavour: this.flavour, marks: this.marks, shown: this.shown, place });
  }

  /** Let points of a figure open races, as soon as it is drawn. */
  bind(element) {
    if (element.dataset.bound) return;
    element.dataset.bound = 'yes';
    element.on('plotly_click', ({ points }) => this.clicked(element.dataset.figure, points[0]));
  }

  clicked(name, point) {
    if (name === 'alpha' || !point.customdata) return;
    const [, , , group, flavour, temperature] = point.customdata;
    const table = this.comparison.tables.find((one) => one.temperature === temperature);
    const found = raceOf(table, table.cells.find((cell) => cell.group === group), flavour);
    if (found) this.open(found);
  }

  /** Let the Race tab play a recording. */
  open({ race, lanes, labels, title }) {
    const url = race.data ? this.addressOf(race) : this.options.recorded + race.file;
    const source = race.data ? 'measured' : 'recording';
    openRace({ url, lanes, title, labels, source });
  }

  /** Where the browser keeps a race that was measured here. */
  addressOf(race) {
    if (!race.address) {
      race.address = URL.createObjectURL(new Blob([fromBase64(race.data)], { type: 'application/gzip' }));
      this.addresses.push(race.address);
    }
    return race.address;
  }

  keep() {
    const stamp = this.table.origin.date.slice(0, 16).replace(/[^0-9]/g, '');
    download(JSON.stringify(withoutRaces(this.comparison), null, 1), 'application/json', `specdiff-comparison-${stamp}.json`);
  }

  pressedRun() {
    this.heard += 1;
    this.busy = true;
    pauseAll();
    super.pressedRun();
  }

  /** The server's event is over, however it ended: without a last frame, nothing more will come. */
  ended() {
    const { heard } = this;
    setTimeout(() => {
      if (this.busy && this.heard === heard) this.failed('The server refused it, or the connection was lost.');
    }, ENDED_MS);
  }

  failed(message) {
    this.over();
    this.card.show({ title: 'The measurement ended without a result', message, hint: 'Measure again; if many people measure, wait a little.' });
  }

  lost(stopped) {
    this.failed(stopped ? 'The server was asked to stop and has not answered.' : 'The server does not answer any more.');
  }

  /** Show a line about what goes on; it is spoken only where `key` is another than the last time. */
  tell(words, key = words) {
    super.tell(words);
    if (key !== this.counted) text(this.voice, words);
    this.counted = key;
  }

  /** A frame of the server. */
  receive(message) {
    super.receive(message);
    this.heard += 1;
    if (!message.finished && !message.card) {
      this.busy = true;
      this.live = { run: message.run, warming: message.phase === 'loading' };
      if (!this.live.warming) pauseAll();
      this.tell(progressWords(message), `${message.phase} ${message.count}`);
      return;
    }
    this.over();
    if (message.comparison) {
      this.adopt('live', check(message.comparison));
      this.voice.textContent = 'Measured: the leaderboard shows it.';
    }
    if (message.card) this.card.show(message.card);
    else if (!message.comparison) this.tell('Stopped before one prompt was measured with every method: there is nothing to show yet.');
  }
}

/** Called by the component (app/tabs/compare.py) once per page. */
export function mount(element, props, watch, options) {
  know(options.symbols);
  const compare = new Compare(element.querySelector('.sd-cmp'), options);
  register('compare', compare);
  listen(compare, props, watch, UNREADABLE);
}
