// The Explore and the Compare tab: a form, an answer and its figures for each question, all
// described by the server (specdiff_core/explorations). Opens with recorded answers.

import { aboutWords, busyMachine, originWords } from './state/exploration.js';
import { Answer } from './views/answer.js';
import { Answers } from './state/answers.js';
import { Explored } from './views/explored.js';
import { Form } from './views/form.js';
import { Measurement } from './measurement.js';
import { Playground } from './views/playground.js';
import { Sandbox } from './views/sandbox.js';
import { SideBySide } from './side_by_side.js';
import { address } from './views/link.js';
import { buildLane } from './state/lane.js';
import { fetchFile, fetchTrace } from './state/trace.js';
import { html, render } from './views/ui.js';
import { know } from './views/glossary.js';
import { listen } from './job.js';
import { mark, openRace, register, visit } from './page.js';
import { plural } from './state/format.js';
import { soon, store } from './store.js';
/** @import { Answer as Result } from './state/exploration.js' */
/** @import { Field, Pair } from './views/form.js' */
/** @import { Lane } from './state/lane.js' */
/** @import { Source } from './state/answers.js' */

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
/** @typedef {{view: () => unknown, adds?: (key: string) => {data: object[]},
 *  show?: (answer: Result) => void, pick?: (key: string) => void, figure?: string,
 *  ended?: () => void, sliders?: {p: number[], q: number[], tokens: string[]}}} Widget an interactive panel */
/** @typedef {{panel: string, lines: string[]} | null} Part of a figure that a lesson shows */

/** @type {Record<string,
 *  new (changed: () => void, tools: import('./side_by_side.js').Tools) => Widget>} */
const WIDGETS = { 'what-it-takes': Sandbox, losslessness: Playground, 'side-by-side': SideBySide };
const UNREADABLE = {
  title: 'This answer cannot be shown',
  message: 'The server’s answer is inconsistent.',
  hint: 'Measure again.',
};
const NO_ANSWER = {
  title: 'The recorded answer could not be shown',
  message: 'The download was incomplete, or another version wrote the file.',
  hint: 'Reload the page, or measure here.',
};

export class Explore {
  /** @param {HTMLElement} root @param {Options} options */
  constructor(root, options) {
    this.root = root;
    this.options = options;
    this.answers = new Answers(options.recorded);
    this.changed = soon(() => this.draw());
    this.state = store({
      name: '', // of the question
      source: /** @type {Source} */ ('recorded'),
      only: /** @type {Part} */ (null),
      lane: /** @type {Lane | null} */ (null), // that formulas replay
      voice: '', // what assistive technology reads out
    }, this.changed);
    this.laneUrl = /** @type {string | undefined} */ ('');
    /** @type {Record<string, Widget | null>} by question */
    this.widgets = {};
    /** @type {Record<string, string>} by question: the address of the weights of a live answer */
    this.weights = {};
    /** @type {Record<string, string>} by recorded file: its settings in the form at first */
    this.repeated = {};
    this.linked = ''; // the question whose settings are in the link: they are shown
    this.seen = false; // whether the tab has been on the screen
    this.forms = Object.fromEntries(
      Object.entries(options.forms).map(([name, { fields }]) => [
        name,
        new Form(fields, `${options.prefix}-${name}`, options.pairs, this.changed),
      ]),
    );
    this.job = new Measurement(root, options, {
      asked: () => ({ name: this.state.name, choice: this.form.values() }),
      started: () => this.started(),
      received: (message) => this.received(message),
      ended: (message) => this.ended(message),
      changed: this.changed,
      keeps: () => this.shown.from === 'live',
    });
    this.readLink();
    this.draw();
    this.job.content = /** @type {HTMLElement} */ (root.querySelector('.sd-cmp-full'));
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      this.seen = true;
      this.fetchRecorded();
    });
    watcher.observe(root);
  }

  /** Begin with the question of the link. */
  readLink() {
    const query = new URLSearchParams(location.search);
    const [named, answer] = ['explore', 'answer'].map((name) => query.get(name) ?? '');
    const question = this.options.renamed[named] ?? named;
    const questions = Object.keys(this.forms);
    const { files, chosen } = this.answers;
    if (Object.hasOwn(files[question] ?? {}, answer)) chosen[question] = answer;
    this.showQuestion(questions.includes(question) ? question : questions[0]);
    if (questions.includes(question)) this.form.fill(Object.fromEntries(query));
    if (Object.keys(this.form.changed()).length) this.linked = question;
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
    return this.forms[this.state.name];
  }

  /** The answer that is shown and its source: the chosen one, or one that exists. */
  get shown() {
    return this.answers.shown(this.state.name, this.state.source);
  }

  get answer() {
    return this.shown.answer;
  }

  /** The file of the chosen recorded answer; undefined if none ships. */
  get stem() {
    return this.answers.chosen[this.state.name];
  }

  /** A link's query: the question, its settings and the recorded answer; of Compare, the tab. */
  query() {
    const { options: { prefix }, state: { name }, stem, shown: { from } } = this;
    if (prefix !== 'explore') return `tab=${prefix}`;
    const query = new URLSearchParams({ explore: name });
    const changed = this.form.changed();
    if (from === 'live' || JSON.stringify(changed) !== this.repeated[stem]) {
      for (const [field, value] of Object.entries(changed)) {
        query.set(field, Array.isArray(value) ? value.join(',') : String(value));
      }
    }
    if (from !== 'live' && stem !== this.answers.fileOf(name)) query.set('answer', stem);
    return query.toString();
  }

  get place() {
    return { name: this.state.name, source: this.state.source, stem: this.stem };
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

  /** @param {string} name */
  showQuestion(name) {
    const { job, state } = this;
    Object.assign(state, { name, source: this.answers.live[name] ? 'live' : 'recorded' });
    job.card.prefix = `${this.options.prefix}-${name}`; // of its form's ids
    const Widget = WIDGETS[name];
    this.widgets[name] ??= Widget
      ? new Widget(this.changed, {
        race: (race) => this.raceUrl(race),
        open: (race) => this.openRace(race),
        measure: (values) => job.measureBranch({ ...this.answer.choice, ...values }),
      })
      : null;
    mark();
    if (this.seen) this.fetchRecorded();
  }

  /** Show a part of a recorded answer, as a lesson does. @param {string} file @param {Part} only */
  showPart(name, file, only) {
    this.answers.chosen[name] = this.answers.fileOf(name, file);
    this.state.only = only;
    this.showQuestion(name);
  }

  /** Show a recorded answer with its settings, or the visitor's own. @param {Source} source */
  async showAnswer(source, stem) {
    this.state.source = source;
    this.answers.chosen[this.state.name] = stem;
    this.changed();
    mark();
    await this.fetchRecorded();
    if (this.stem === stem) this.repeat();
  }

  /** Set the form to the settings of the answer that is shown, unless the visitor measured it. */
  repeat() {
    const { from, answer } = this.shown;
    if (!answer || from === 'live') return;
    this.form.repeat(answer.choice);
    this.repeated[this.stem] = JSON.stringify(this.form.changed());
  }

  /** The visitor's answer to a question, or a recorded one, and whether it is the visitor's. */
  async answerOf(name, file) {
    const live = this.answers.live[name];
    if (live) {
      return { answer: live, live: true, busy: Boolean(busyMachine(live, this.options.crowded)) };
    }
    const stem = this.answers.fileOf(name, file);
    await this.fetchRecorded(stem);
    const answer = this.answers.recorded[stem];
    return answer ? { answer, live: false, busy: false } : null;
  }

  /** Fetch a recorded answer when it is first shown. */
  async fetchRecorded(stem = this.stem) {
    const { recorded } = this.answers;
    if (!stem || recorded[stem]) return;
    try {
      const answer = await (await fetchFile(`${this.options.folder}${stem}.json`)).json();
      if (answer.kind !== 'exploration' || answer.schema !== 1 || !answer.report) {
        throw new Error('not a known format of an answer');
      }
      recorded[stem] = answer;
      // of the default pair, unless a link or the visitor changed it
      const form = this.form.values();
      const differs = (answer.choice.pair ?? form.pair) !== form.pair;
      if (differs && stem === this.stem && !Object.keys(this.form.changed()).length) this.repeat();
      this.draw();
    } catch (error) {
      this.job.card.show(NO_ANSWER);
      console.warn('answer not shown:', error);
    }
  }

  // ---- its races ----

  /** Whether the question on the screen is being measured. */
  get runs() {
    return this.job.busy && this.job.live?.name === this.state.name;
  }

  /** The address of a race's trace; undefined until the exploration ends. */
  async raceUrl(race) {
    const { from, answer } = this.shown;
    const file = answer.files?.[race];
    return file && (from === 'live' ? file : this.options.folder + file);
  }

  /** Load the drafted lane of a race, once. @param {string} race */
  async loadLane(race) {
    const url = await this.raceUrl(race);
    if (url === this.laneUrl) return;
    this.laneUrl = url;
    this.state.lane = null;
    const trace = url && await fetchTrace(url).catch(() => null); // shown without it
    if (trace && this.laneUrl === url) this.state.lane = buildLane(trace.lanes.drafted ?? []);
  }

  /** Let the Race tab play a race; `RACE#LANE` plays vanilla and that lane of it. */
  async openRace(race) {
    const [file, drafted = 'drafted'] = race.split('#');
    const { from } = this.shown;
    const url = await this.raceUrl(file);
    if (!url) {
      const missing = from !== 'live'
        ? 'There is no recording of this race here.'
        : this.runs
        ? 'You can open the race when the measurement is done.'
        : 'This race is missing: the measurement ended before it was sent.';
      this.job.status.show(missing, false);
      return;
    }
    const { titles = {}, lanes } = this.answer.report;
    const title = titles[race] ??
      race.replace(/^[^@]*/, (key) => titles[key] ?? key).replace('@', ', ');
    const labels = lanes && Object.keys(lanes).length
      ? Object.fromEntries(Object.entries(lanes).map(([lane, label]) => [lane, { label }]))
      : { vanilla: { label: 'Vanilla' }, [drafted]: { label: title } };
    const source = from === 'live' ? 'measured' : 'recording';
    openRace({ url, lanes: Object.keys(labels), title, labels, source });
  }

  // ---- its measurement ----

  /** Measure the shown answer again with some values changed.
   *  @param {Record<string, any>} values */
  measureWith(values) {
    if (!this.job.free) return;
    this.form.repeat({ ...this.answer.choice, ...values });
    this.job.press('run');
  }

  started() {
    this.state.voice = '';
    if (!this.job.branch) address(this.query()); // for a reload
    this.changed();
  }

  /** Show the server's answer so far; of a branch, only the whole one. */
  received({ explore: name, result, files, phase }) {
    const { branch, follows } = this.job;
    const { state } = this;
    if (name && name !== state.name && follows) this.showQuestion(name);
    if (!result || (phase !== 'finished' && branch)) return;
    this.answers.live[name] = { ...result, files };
    delete this.weights[name];
    if (name === state.name) state.source = 'live';
    if (branch || follows) this.forms[name].repeat(result.choice);
    if (branch && name === state.name) address(this.query());
  }

  /** @param {any} message the final one; null if none came */
  ended(message) {
    const { card = null, explore: name = '', made, phase, done = 0 } = message ?? {};
    for (const widget of Object.values(this.widgets)) widget?.ended?.();
    if (made) this.weights[name] = made;
    if (name && !card) {
      this.state.voice = `${phase === 'stopped' ? 'Stopped' : 'Measured'}: ${
        plural(done, 'step')
      }.`;
    }
    this.changed();
  }

  // ---- drawing ----

  /** About how long the measurement in the form takes, from the last one here or the defaults. */
  get about() {
    const { takes, scales } = this.options.forms[this.state.name];
    const live = this.answers.live[this.state.name];
    const measured = live?.seconds && live.done === live.total
      ? { choice: live.choice, seconds: live.seconds }
      : { choice: this.form.defaults, seconds: takes };
    const weight = (pair) => this.options.pairs[pair]?.weight ?? 1;
    return aboutWords(this.form.values(), scales, measured, weight);
  }

  /** Where the answer on the screen comes from, in words. */
  get origin() {
    const { answer } = this;
    if (!answer) {
      return this.stem
        ? 'Loading the recorded answer…'
        : 'There is no recording yet. Press Measure here.';
    }
    const { models = '', pair = 'embedded' } = answer.choice;
    const other = models && !/^mdlm/.test(models);
    const model = other ? '' : ` Model: ${this.options.pairs[pair]?.label ?? pair}.`;
    return originWords(answer) + model;
  }

  draw() {
    const { answers, job, options, shown: { from, answer }, state, stem } = this;
    const { name } = state;
    const widget = this.widgets[name];
    if (answer) widget?.show?.(answer);
    const available = answers.available(name);
    render(
      html`
        <${Explored} forms=${options.forms} name=${name} choose=${(key) =>
          this.visit(() => this.showQuestion(key))} form=${this.form.view()}
          unfolded=${!stem || this.linked === name} runs=${job.busy} about=${this.about}
          bar=${job.bar} press=${(id) => job.press(id)} card=${job.card.element}
          status=${job.status.element} voice=${state.voice} from=${from} origin=${this.origin}
          available=${available} at=${available.findIndex(([source, file]) =>
            source === from && file === stem
          )} pick=${([source, file]) => this.visit(() => this.showAnswer(source, file))}
          busy=${answer && busyMachine(answer, options.crowded)} there=${Boolean(answer)}>
          <${Answer} name=${name} answer=${answer} from=${from} widget=${widget}
            only=${state.only}
            columns=${options.forms[name].columns} plotly=${options.plotly} lane=${state.lane}
            weights=${from === 'live' ? this.weights[name] : ''}
            loadLane=${(race) => this.loadLane(race)} openRace=${(race) => this.openRace(race)}
            hasRaces=${(from === 'live' && this.runs) ||
              Object.keys(answer?.files ?? {}).length > 0} />
          <//>
      `,
      this.root,
    );
  }
}

/** Called by the components (app/tabs/explore.py) once per page. @param {Options} options */
export function mount(element, props, watch, options) {
  know(options.symbols);
  const root = /** @type {HTMLElement} */ (element.querySelector('.sd-exp'));
  const explore = new Explore(root, options);
  register(options.prefix, explore);
  listen(explore.job, props, watch, UNREADABLE);
}
