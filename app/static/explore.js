// The Explore and the Compare tab: a form, an answer and its figures for each question, all
// described by the server (specdiff_core/explorations). Opens with recorded answers.

import { answerLesson } from './lesson_answer.js';
import { AnswerRaces } from './answer_races.js';
import { busyMachine } from './state/exploration.js';
import { Answer } from './views/answer.js';
import { Explored } from './views/explored.js';
import { Form } from './views/form.js';
import { FormValues } from './state/form_values.js';
import { Measurement } from './measurement.js';
import { address } from './views/link.js';
import { html, render } from './views/ui.js';
import { setSymbols } from './views/glossary.js';
import { listen } from './messages.js';
import { beginEntry, page, register, updateEntry } from './page.js';
import { Question } from './question.js';
import { soon } from './store.js';
import { Widgets } from './widgets.js';
/** @import { Gradio } from './job.js' */
/** @import { ExploreOptions } from './tabs.d.ts' */

const UNREADABLE = {
  title: 'This answer cannot be shown',
  message: 'The server’s answer is inconsistent.',
  hint: 'Measure again.',
};

export class Explore {
  /** @param {HTMLElement} root @param {ExploreOptions} options @param {Gradio} gradio */
  constructor(root, options, { trigger, server }) {
    this.root = root;
    this.server = server;
    this.options = options;
    this.changed = soon(() => this.draw());
    this.forms = Object.fromEntries(
      Object.entries(options.forms).map(([name, { fields }]) => [
        name,
        new FormValues(fields, options.pairs, this.changed),
      ]),
    );
    this.question = new Question(options, this.forms, {
      changed: this.changed,
      failed: (card) => this.job.card.show(card),
    });
    const { question } = this;
    this.job = new Measurement(root, options, {
      request: () => ({ name: question.name, settings: question.form.values() }),
      started: () => this.started(),
      received: (message) => this.received(message),
      ended: (message) => this.ended(message),
      changed: this.changed,
      keeps: () => question.shown.from === 'live',
    }, trigger);
    this.races = new AnswerRaces(options.folder, this);
    this.widgets = new Widgets(this.changed, {
      race: (race) => this.races.urlOf(race),
      open: (race) => this.races.open(race),
      measure: (values) => this.job.measureBranch({ ...question.answer.settings, ...values }),
    });
    this.lesson = answerLesson(this);
    this.showQuestion(question.readLink());
    this.draw();
    this.job.content = /** @type {HTMLElement} */ (root.querySelector('.sd-explored-answer'));
    const watcher = new IntersectionObserver((entries) => {
      if (!entries.some((entry) => entry.isIntersecting)) return;
      watcher.disconnect();
      question.seen = true;
      question.fetchRecorded();
    });
    watcher.observe(root);
  }

  /** Offer the pairs that this server has now, and the one that is chosen in Live. */
  async offer() {
    const pairs = await this.server.offered?.(page.tabs.live?.form?.settings.raw.pair ?? '');
    if (!pairs) return; // an export has no server
    for (const form of Object.values(this.forms)) form.offer(pairs);
  }

  /** What is shown, for the browser's history. */
  get place() {
    return this.question.place;
  }

  query() {
    return this.question.query();
  }

  /** Show an answer again. @param {Question['place']} place */
  restore({ name, source, stem }) {
    this.showQuestion(name);
    this.question.showAnswer(source, stem);
  }

  /** Make a change that the browser's Back button takes back. @param {() => unknown} change */
  async inNewEntry(change) {
    beginEntry(location.search);
    const changed = change();
    address(this.query()); // at once: the visitor may go on before an answer is loaded
    const place = JSON.stringify(this.place);
    await changed;
    if (JSON.stringify(this.place) === place) address(this.query());
  }

  /** @param {string} name */
  showQuestion(name) {
    const { job, question } = this;
    question.open(name);
    job.card.prefix = `${this.options.tabName}-${name}`; // of its form's ids
    updateEntry();
    if (question.seen) question.fetchRecorded();
  }

  /** Whether the question on the screen is being measured. */
  get measures() {
    return this.job.busy && this.job.live?.name === this.question.name;
  }

  started() {
    this.question.voice = '';
    if (!this.job.branch) address(this.query()); // for a reload
    this.changed();
  }

  /** Show the server's answer so far; of a branch, only the whole one. */
  received({ explore: name, result, files, phase }) {
    const { job: { branch, follows }, question } = this;
    if (name && name !== question.name && follows) this.showQuestion(name);
    if (!result || (phase !== 'finished' && branch)) return;
    question.keepMeasured(name, { ...result, files }, Boolean(branch || follows));
    if (branch && name === question.name) address(this.query());
  }

  /** @param {any} message the final one; null if none came */
  ended(message) {
    this.widgets.ended();
    this.question.noteEnd(message ?? {});
    this.changed();
  }

  draw() {
    const { job, options: { forms, tabName, crowded, plotly }, question, races } = this;
    const { name, shown: { from, answer }, stem } = question;
    const widget = this.widgets.of(name);
    if (answer) widget?.show?.(answer);
    const available = question.answers.available(name);
    const questionView = {
      forms,
      name,
      choose: (key) => this.inNewEntry(() => this.showQuestion(key)),
      fields: html`<${Form} form=${question.form} prefix="${tabName}-${name}" />`,
      unfolded: !stem || question.linked === name,
      offer: () => this.offer(),
    };
    const run = {
      busy: job.busy,
      about: question.about,
      bar: job.bar,
      press: (act) => job.press(act),
      card: job.card.element,
      status: job.status.element,
      voice: question.voice,
    };
    const shown = {
      there: Boolean(answer),
      from,
      origin: question.origin,
      available,
      at: available.findIndex(([source, file]) => source === from && file === stem),
      pick: ([source, file]) => this.inNewEntry(() => question.showAnswer(source, file)),
      doubt: answer && busyMachine(answer, crowded),
    };
    render(
      html`
        <${Explored} question=${questionView} run=${run} shown=${shown}>
          <${Answer} widget=${widget} plotly=${plotly} shown=${{
            name,
            answer,
            from,
            columns: forms[name].columns,
            weights: from === 'live' ? question.weights[name] : '',
            only: question.only,
          }} races=${races.values} />
          <//>
      `,
      this.root,
    );
  }
}

/** Called by the components (app/tabs/explore.py) once per page.
 *  @param {Gradio} gradio @param {ExploreOptions} options */
export function mount(element, gradio, options) {
  setSymbols(options.symbols);
  const root = /** @type {HTMLElement} */ (element.querySelector('.sd-explored'));
  const explore = new Explore(root, options, gradio);
  register(options.tabName, explore);
  listen(explore.job, gradio, UNREADABLE);
}
