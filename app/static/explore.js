// The Explore and the Compare tab: a form, an answer and its figures for each question, all
// described by the server (specdiff_core/explorations). Opens with recorded answers; after a reload
// it follows a measurement that still runs.

import { aboutWords, busyMachine, progressWords } from './state/exploration.js';
import { Explored } from './views/explored.js';
import { FORMULAS } from './state/formulas.js';
import { Form } from './views/form.js';
import { Job, listen, lostCard } from './job.js';
import { Playground, Sandbox } from './views/widgets.js';
import { SideBySide } from './views/tracks.js';
import { address } from './views/link.js';
import { until } from './views/dom.js';
import { buildLane } from './state/lane.js';
import { fetchFile, fetchTrace } from './state/trace.js';
import { html, render } from './views/ui.js';
import { plural } from './state/format.js';
import { keep, recall } from './storage.js';
import { know } from './views/glossary.js';
import { canRun, mark, openRace, register, visit } from './page.js';
import { code } from './views/room.js';
/** @import { Answer, Figure } from './state/exploration.js' */
/** @import { Charts } from './views/charts.js' */
/** @import { Field, Pair } from './views/form.js' */

/**
 * @typedef {object} Options what the server says about a tab (app/tabs/explore.py)
 * @property {'explore' | 'compare'} prefix with which the ids of its controls begin
 * @property {Record<string, {title: string, question: string, columns: Record<string, string>,
 *   takes: number, scales: string[], fields: Field[]}>} forms by question
 * @property {Record<string, string>} renamed questions
 * @property {Record<string, Pair>} pairs @property {string} folder of the recorded answers
 * @property {Record<string, Record<string, string>>} recorded by question: file, no ending -> label
 * @property {number} crowded @property {number} patience seconds that a stopped measurement gets
 * @property {string} plotly @property {import('./views/glossary.js').Symbols} symbols
 */
/** @typedef {{run: string, name: string}} Run */
/** @typedef {'recorded' | 'live'} Source of an answer */
/** @typedef {{view: () => unknown, adds?: (key: string) => {data: object[]},
 *  show?: (answer: Answer) => void, pick?: (key: string) => void, figure?: string,
 *  ended?: () => void, p?: number[], q?: number[]}} Widget an interactive panel */

/** @type {Record<string,
 *  new (changed: () => void, tools: import('./views/tracks.js').Tools) => Widget>} */
const WIDGETS = { 'what-it-takes': Sandbox, losslessness: Playground, 'side-by-side': SideBySide };
const WORDS = {
  waits: 'Waiting in the queue…',
  alone: 'Up to two questions are measured at a time, in turns.',
  stops: 'Stopping; results so far are kept…',
};
const EARLY = {
  title: 'The measurement ended early',
  hint: 'Results so far are kept. Measure again; if the server is busy, wait a little.',
};
const WITHOUT_RESULT = {
  refused: 'The server refused the measurement.',
  unconfirmed: 'The server hasn’t confirmed that it stopped.',
};
const UNREADABLE = {
  title: 'This answer cannot be shown',
  message: 'The server’s answer is inconsistent.',
  hint: 'Measure again.',
};

/** @extends {Job<Run>} */
export class Explore extends Job {
  /** @param {Options} options */
  constructor(root, options) {
    super(root, options.prefix, options.patience, WORDS);
    this.options = options;
    this.storageKey = `specdiff-exploring-${options.prefix}`; // where the token is kept for a reload
    this.name = ''; // of the question
    /** @type {Source} */
    this.source = 'recorded';
    /** @type {Record<string, Record<string, string>>} by name: values of the report's switches */
    this.chosen = {};
    /** @type {Record<string, Widget | null>} by name */
    this.widgets = {};
    /** @type {Charts | null} of the figures that are shown */
    this.charts = null;
    /** @type {Record<Source, Record<string, Answer>>} by file, by name */
    this.answers = { recorded: {}, live: {} };
    /** @type {Record<string, any> | null} settings of the branch that is measured, instead of the
     *  form's: until it is complete, nothing that is shown changes */
    this.branch = null;
    this.stems = Object.fromEntries(
      Object.keys(options.recorded).map((name) => [name, this.stemOf(name)]),
    ); // the recorded file that is shown; undefined if none ships
    /** @type {Record<string, string>} by name: the address of the weights of a live answer */
    this.made = {};
    /** @type {Record<string, string>} by recorded file: its settings in the form at first */
    this.repeated = {};
    this.token = '';
    this.linked = ''; // the question whose settings are in the link: they are shown
    this.follows = false; // a measurement from before a reload
    this.seen = false; // whether the tab has been on the screen
    this.listed = false; // whether all numbers are shown
    this.unfolded = false; // whether notes and further charts are shown
    /** @type {Record<string, Record<string, number>>} by figure: values of its sliders */
    this.sliders = {};
    /** @type {{race: string, figure: string} | null} the mark of a figure whose races are listed */
    this.races = null;
    /** @type {{url: string | undefined, lane: import('./state/lane.js').Lane | null}} formulas' */
    this.drafted = { url: '', lane: null };
    /** @type {{panel: string, lines: string[]} | null} the part of a figure that a lesson shows */
    this.only = null;
    this.voice = ''; // what assistive technology reads out
    /** @type {{max: number, value: number} | null} */
    this.bar = null;
    this.forms = Object.fromEntries(
      Object.entries(options.forms).map((
        [name, { fields }],
      ) => [name, new Form(fields, `${options.prefix}-${name}`, options.pairs, () => this.draw())]),
    );
    this.status.element.removeAttribute('role'); // it changes every second
    this.readLink();
    this.content = /** @type {HTMLElement} */ (root.querySelector('.sd-cmp-full'));
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      this.seen = true;
      this.fetchRecorded();
    });
    watcher.observe(root);
    this.resume();
  }

  /** Begin with the question of the link. */
  readLink() {
    const query = new URLSearchParams(location.search);
    const [named, answer] = ['explore', 'answer'].map((name) => query.get(name) ?? '');
    const question = this.options.renamed[named] ?? named;
    const questions = Object.keys(this.forms);
    if (Object.hasOwn(this.options.recorded[question] ?? {}, answer)) this.stems[question] = answer;
    this.showQuestion(questions.includes(question) ? question : questions[0]);
    if (questions.includes(question)) this.form.fill(Object.fromEntries(query));
    if (Object.keys(this.form.changed()).length) this.linked = question;
  }

  /** Follow a measurement that was running when the page was reloaded. */
  async resume() {
    const token = recall(this.storageKey, 'sessionStorage');
    if (!token) return;
    this.token = token;
    this.follows = true;
    const id = `${this.prefix}-again`; // Gradio creates its buttons a moment later
    await until(() => document.getElementById(id), Infinity);
    setTimeout(() => this.press('again'), 100); // and listens to them after that
  }

  /** Called by Gradio with the pairs that this server offers. */
  offer(json) {
    const pairs = JSON.parse(json);
    Object.assign(this.options.pairs, pairs);
    for (const form of Object.values(this.forms)) {
      form.offer(Object.keys(pairs), this.options.pairs);
    }
  }

  get form() {
    return this.forms[this.name];
  }

  get widget() {
    return this.widgets[this.name];
  }

  /** The answer that is shown and its source: the chosen one, or one that exists. */
  get shown() {
    const answers = {
      recorded: this.answers.recorded[this.stem],
      live: this.answers.live[this.name],
    };
    const sources = /** @type {Source[]} */ ([this.source, 'recorded', 'live']);
    const from = sources.find((source) => answers[source]) ?? 'recorded';
    return { from, answer: answers[from] };
  }

  get answer() {
    return this.shown.answer;
  }

  /** The file of the chosen recorded answer; undefined if none ships. */
  get stem() {
    return this.stems[this.name];
  }

  /** The form cannot be sent while a measurement waits, either. @override */
  get busy() {
    return this.state !== 'idle';
  }

  /** Whether the exploration on the screen is being measured. */
  get runs() {
    return this.busy && this.live?.name === this.name;
  }

  /** Whether the races of the answer can be opened, now or at its end: an export leaves some out,
   *  and a measurement that fails loses them. */
  get hasRaces() {
    const { from, answer } = this.shown;
    return (from === 'live' && this.runs) ||
      Object.keys(answer?.files ?? {}).length > 0;
  }

  /** Called by Gradio for the arguments of a run, a stop or a reload. */
  request() {
    if (this.follows) return JSON.stringify({ token: this.token });
    const choice = { ...this.form.values(), ...this.branch };
    return JSON.stringify({ token: this.token, explore: this.name, choice });
  }

  /** A link's query: the question, its settings and the recorded answer; of Compare, the tab. */
  query() {
    if (this.prefix !== 'explore') return `tab=${this.prefix}`;
    const query = new URLSearchParams({ explore: this.name });
    const changed = this.form.changed();
    if (this.shown.from === 'live' || JSON.stringify(changed) !== this.repeated[this.stem]) {
      for (const [name, value] of Object.entries(changed)) {
        query.set(name, Array.isArray(value) ? value.join(',') : String(value));
      }
    }
    const defaultStem = this.stemOf(this.name);
    if (this.shown.from !== 'live' && this.stem !== defaultStem) query.set('answer', this.stem);
    return query.toString();
  }

  /** A figure, with its data computed if it has a formula. @param {Figure} figure */
  computed(figure) {
    const { answer } = this;
    if (!figure.formula) return figure;
    const values = Object.fromEntries(
      (figure.sliders ?? []).map((
        { name, value, high },
      ) => [name, Math.min(high, this.sliders[figure.key]?.[name] ?? value)]),
    );
    if (figure.race && figure.formula === 'block') this.loadDrafted(figure.race);
    return {
      ...figure,
      values,
      ...FORMULAS[figure.formula](answer, figure, values, this.drafted.lane),
    };
  }

  /** Load the drafted lane of a race, once. @param {string} race */
  async loadDrafted(race) {
    const url = await this.raceUrl(race);
    if (url === this.drafted.url) return;
    this.drafted = { url, lane: null };
    const trace = url && await fetchTrace(url).catch(() => null); // shown without it
    if (this.drafted.url !== url) return;
    if (trace) this.drafted.lane = buildLane(trace.lanes.drafted ?? []);
    this.draw();
  }

  /** About how long the measurement in the form takes, from the last one here or the defaults. */
  get about() {
    const { takes, scales } = this.options.forms[this.name];
    const live = this.answers.live[this.name];
    const measured = live?.seconds && live.done === live.total
      ? { choice: live.choice, seconds: live.seconds }
      : { choice: this.form.defaults, seconds: takes };
    const weight = (pair) => this.options.pairs[pair]?.weight ?? 1;
    return aboutWords(this.form.values(), scales, measured, weight);
  }

  get place() {
    return { name: this.name, source: this.source, stem: this.stem };
  }

  /** Show an answer again. @param {Explore['place']} place */
  restore({ name, source, stem }) {
    this.showQuestion(name);
    this.showAnswer(source, stem);
  }

  /** Make an entry of the browser's history for a change. @param {() => unknown} change */
  async visit(change) {
    visit(location.search);
    const changed = change();
    address(this.query()); // at once: the visitor may go on before an answer is loaded
    const place = JSON.stringify(this.place);
    await changed;
    if (JSON.stringify(this.place) === place) address(this.query());
  }

  /** @param {string} name of a question */
  showQuestion(name) {
    this.name = name;
    this.races = null;
    this.card.prefix = `${this.prefix}-${name}`; // of its form's ids
    this.source = this.answers.live[name] ? 'live' : 'recorded';
    const Widget = WIDGETS[name];
    this.widgets[name] ??= Widget
      ? new Widget(() => this.draw(), {
        race: (race) => this.raceUrl(race),
        open: (race) => this.openRace(race),
        measure: (values) => this.measureBranch(values),
      })
      : null;
    mark();
    this.draw();
    if (this.seen) this.fetchRecorded();
  }

  /** Show a recorded answer with its settings, or the visitor's own. @param {Source} source */
  async showAnswer(source, stem) {
    this.source = source;
    this.races = null;
    this.stems[this.name] = stem;
    mark();
    this.draw();
    await this.fetchRecorded();
    if (this.stem === stem) this.repeat();
  }

  /** Set the form to the settings of the answer that is shown, unless the visitor measured it. */
  repeat() {
    const { from, answer } = this.shown;
    if (!answer || from === 'live') return;
    this.form.repeat(answer.choice);
    if (from === 'recorded') this.repeated[this.stem] = JSON.stringify(this.form.changed());
  }

  /** A recorded answer to a question: this file, or the default one; undefined if none ships. */
  stemOf(name, file = '') {
    const stems = Object.keys(this.options.recorded[name]);
    return stems.includes(file) ? file : stems[0];
  }

  /** The visitor's answer to a question, or a recorded one, and whether it is the visitor's. */
  async answerOf(name, file) {
    const live = this.answers.live[name];
    if (live) {
      return { answer: live, live: true, busy: Boolean(busyMachine(live, this.options.crowded)) };
    }
    const stem = this.stemOf(name, file);
    await this.fetchRecorded(stem);
    const answer = this.answers.recorded[stem];
    return answer ? { answer, live: false, busy: false } : null;
  }

  /** Fetch a recorded answer when it is first shown. */
  async fetchRecorded(stem = this.stem) {
    if (!stem || this.answers.recorded[stem]) return;
    try {
      const answer = await (await fetchFile(`${this.options.folder}${stem}.json`)).json();
      if (answer.kind !== 'exploration' || answer.schema !== 1 || !answer.report) {
        throw new Error('not a known format of an answer');
      }
      this.answers.recorded[stem] = answer;
      // of the default pair, unless a link or the visitor changed it
      const form = this.form.values();
      const differs = (answer.choice.pair ?? form.pair) !== form.pair;
      if (differs && stem === this.stem && !Object.keys(this.form.changed()).length) this.repeat();
      this.draw();
    } catch (error) {
      this.card.show({
        title: 'The recorded answer could not be shown',
        message: 'The download was incomplete, or another version wrote the file.',
        hint: 'Reload the page, or measure here.',
      });
      console.warn('answer not shown:', error);
    }
  }

  draw() {
    if (this.answer) this.widget?.show?.(this.answer);
    render(html`<${Explored} app=${this} />`, this.root);
  }

  /** The address of a race's trace; undefined until the exploration ends. */
  async raceUrl(race) {
    const { from } = this.shown;
    const file = this.answer.files?.[race];
    return file && (from === 'live' ? file : this.options.folder + file);
  }

  /** Let the Race tab play a race; `RACE#LANE` plays vanilla and that lane of it. */
  async openRace(race) {
    const [file, drafted = 'drafted'] = race.split('#');
    const { from } = this.shown;
    const url = await this.raceUrl(file);
    if (!url) {
      this.status.show(
        from === 'live'
          ? (this.runs
            ? 'You can open the race when the measurement is done.'
            : 'This race is missing: the measurement ended before it was sent.')
          : 'There is no recording of this race here.',
        false,
      );
      return;
    }
    const { titles = {}, lanes } = this.answer.report;
    const title = titles[race] ??
      race.replace(/^[^@]*/, (key) => titles[key] ?? key).replace('@', ', ');
    const labels = lanes && Object.keys(lanes).length
      ? Object.fromEntries(Object.entries(lanes).map(([lane, label]) => [lane, { label }]))
      : { vanilla: { label: 'Vanilla' }, [drafted]: { label: title } };
    openRace({
      url,
      lanes: Object.keys(labels),
      title,
      labels,
      source: from === 'live' ? 'measured' : 'recording',
    });
  }

  /** Measure the shown answer again with some values changed.
   *  @param {Record<string, any>} values */
  measureWith(values) {
    if (!this.free) return;
    this.form.repeat({ ...this.answer.choice, ...values });
    this.press('run');
  }

  /** Whether a measurement may begin. */
  get free() {
    return !this.busy && canRun(this.prefix);
  }

  /** Measure the shown answer again with a branch. Returns whether it began.
   *  @param {Record<string, any>} values */
  measureBranch(values) {
    if (!this.free) return false;
    this.branch = { ...this.answer.choice, ...values };
    this.press('run');
    return true;
  }

  /** @override */ pressedRun() {
    this.token = code(12); // of this tab
    this.follows = false;
    keep(this.storageKey, this.token, 'sessionStorage');
    this.voice = '';
    this.races = null;
    if (!this.branch) address(this.query()); // for a reload
    super.pressedRun();
    this.draw();
  }

  /** @override */ async fetchResult(message) {
    this.acceptResult(message);
  }

  /** @override */ ended(ending, live, message) {
    const { branch } = this;
    Object.assign(this, { branch: null, bar: null });
    mark();
    for (const widget of Object.values(this.widgets)) widget?.ended?.();
    keep(this.storageKey, null, 'sessionStorage');
    const { card = null, explore: name = '', made, phase, done = 0 } = message ?? {};
    if (made) this.made[name] = made;
    if (ending === 'lost') {
      const kept = this.shown.from === 'live' ? ' Download the results that you want to keep.' : '';
      this.card.show(lostCard(kept, 'your question. Then measure again'));
    } else if (ending in WITHOUT_RESULT) {
      this.card.show({ ...EARLY, message: WITHOUT_RESULT[ending] });
    } else if (card) this.card.show(branch ? { ...card, field: '' } : card); // the value isn't in the form
    else if (name) {
      this.voice = `${phase === 'stopped' ? 'Stopped' : 'Measured'}: ${plural(done, 'step')}.`;
    }
    this.draw();
  }

  /** @override */ queued(message) {
    super.queued(message);
    this.draw(); // after a reload the form shows it now
  }

  /** @override */ progress(message) {
    this.acceptResult(message);
    this.live = { run: message.run, name: message.explore };
    this.bar = message.total ? { max: message.total, value: message.done } : null;
    this.status.show(progressWords(message));
    this.draw();
  }

  /** Show the server's answer so far; of a branch, only the whole one. */
  acceptResult({ explore: name, result, files, phase }) {
    if (name && name !== this.name && this.follows) this.showQuestion(name);
    if (!result || (phase !== 'finished' && this.branch)) return;
    this.answers.live[name] = { ...result, files };
    delete this.made[name];
    if (name === this.name) this.source = 'live';
    if (this.branch || this.follows) this.forms[name].repeat(result.choice);
    if (this.branch && name === this.name) address(this.query());
  }
}

/** Called by the components (app/tabs/explore.py) once per page. @param {Options} options */
export function mount(element, props, watch, options) {
  know(options.symbols);
  const explore = new Explore(
    /** @type {HTMLElement} */ (element.querySelector('.sd-exp')),
    options,
  );
  register(options.prefix, explore);
  listen(explore, props, watch, UNREADABLE);
}
