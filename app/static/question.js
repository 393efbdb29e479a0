// The question that Explore or Compare shows: its form's settings, its answer and its link.

import { aboutWords, originWords } from './state/exploration.js';
import { ANSWER_SCHEMA } from './state/declared.js';
import { Answers } from './state/answers.js';
import { fetchFile } from './files.js';
import { updateEntry } from './page.js';
import { plural } from './state/format.js';
/** @import { Answer } from './state/exploration.js' */
/** @import { FormValues } from './state/form_values.js' */
/** @import { ExploreOptions, Part } from './tabs.d.ts' */
/** @import { Source } from './state/answers.js' */

const NO_ANSWER = {
  title: 'The recorded answer could not be shown',
  message: 'The download was incomplete, or another version wrote the file.',
  hint: 'Reload the page, or measure here.',
};

export class Question {
  /** @param {ExploreOptions} options @param {Record<string, FormValues>} forms by question
   *  @param {{changed: () => void, failed: (card: typeof NO_ANSWER) => void}} tab */
  constructor(options, forms, tab) {
    this.options = options;
    this.forms = forms;
    this.tab = tab;
    this.answers = new Answers(options.recorded);
    this.name = '';
    /** @type {Source} */
    this.source = 'recorded';
    /** @type {Part} of its figures, if a lesson shows only that */
    this.only = null;
    this.voice = ''; // what assistive technology reads out
    /** @type {Record<string, string>} by question: the address of the weights of a live answer */
    this.weights = {};
    /** @type {Record<string, string>} by recorded file: its settings in the form at first */
    this.repeated = {};
    this.linked = ''; // the question whose settings are in the link: they are shown
    this.seen = false; // whether the tab has been on the screen
  }

  /** The question of the link, or the first; the link's settings go into its form. */
  readLink() {
    const query = new URLSearchParams(location.search);
    const [question, answer] = ['explore', 'answer'].map((name) => query.get(name) ?? '');
    const { files, chosen } = this.answers;
    if (Object.hasOwn(files[question] ?? {}, answer)) chosen[question] = answer;
    if (!Object.hasOwn(this.forms, question)) return Object.keys(this.forms)[0];
    this.forms[question].fill(Object.fromEntries(query));
    if (Object.keys(this.forms[question].changed()).length) this.linked = question;
    return question;
  }

  get form() {
    return this.forms[this.name];
  }

  /** The answer that is shown and its source: the chosen one, or one that exists. */
  get shown() {
    return this.answers.shown(this.name, this.source);
  }

  get answer() {
    return this.shown.answer;
  }

  /** The file of the chosen recorded answer; undefined if none ships. */
  get stem() {
    return this.answers.chosen[this.name];
  }

  /** A link's query: the question, its settings and the recorded answer; of Compare, the tab. */
  query() {
    const { options: { tabName }, name, stem, shown: { from } } = this;
    if (tabName !== 'explore') return `tab=${tabName}`;
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
    return { name: this.name, source: this.source, stem: this.stem };
  }

  /** @param {string} name */
  open(name) {
    Object.assign(this, { name, source: this.answers.live[name] ? 'live' : 'recorded' });
    this.tab.changed();
  }

  /** Show a recorded answer with its settings, or the visitor's own. @param {Source} source */
  async showAnswer(source, stem) {
    this.source = source;
    this.answers.chosen[this.name] = stem;
    this.tab.changed();
    updateEntry();
    await this.fetchRecorded();
    if (this.stem === stem) this.repeat();
  }

  /** Show only a part of the figures, or whole figures again. @param {Part} only */
  showOnly(only) {
    this.only = only;
    this.tab.changed();
  }

  /** Keep what was measured; show it if its question is open.
   *  @param {string} name of the question @param {Answer} answer
   *  @param {boolean} repeats whether its settings go into the form */
  keepMeasured(name, answer, repeats) {
    this.answers.live[name] = answer;
    delete this.weights[name];
    if (name === this.name) this.source = 'live';
    if (repeats) this.forms[name].repeat(answer.settings);
  }

  /** Set the form to the settings of the answer that is shown, unless the visitor measured it. */
  repeat() {
    const { from, answer } = this.shown;
    if (!answer || from === 'live') return;
    this.form.repeat(answer.settings);
    this.repeated[this.stem] = JSON.stringify(this.form.changed());
  }

  /** Fetch the recorded answer when it is first shown. */
  async fetchRecorded() {
    const { answers: { recorded }, stem } = this;
    if (!stem || recorded[stem]) return;
    try {
      const answer = await (await fetchFile(`${this.options.folder}${stem}.json`)).json();
      if (answer.kind !== 'exploration' || answer.schema !== ANSWER_SCHEMA || !answer.report) {
        throw new Error('not a known format of an answer');
      }
      recorded[stem] = answer;
      // of the default pair, unless a link or the visitor changed it
      const form = this.form.values();
      const differs = (answer.settings.pair ?? form.pair) !== form.pair;
      if (differs && stem === this.stem && !Object.keys(this.form.changed()).length) this.repeat();
      this.tab.changed();
    } catch (error) {
      this.tab.failed(NO_ANSWER);
      console.warn('answer not shown:', error);
    }
  }

  /** Note how a measurement ended. @param {any} message the final one; empty if none came */
  noteEnd({ card = null, explore: name = '', made, phase, done = 0 }) {
    if (made) this.weights[name] = made;
    const end = phase === 'stopped' ? 'Stopped' : 'Measured';
    if (name && !card) this.voice = `${end}: ${plural(done, 'step')}.`;
  }

  /** About how long the measurement in the form takes, from the last one here or the defaults. */
  get about() {
    const { takes, scales } = this.options.forms[this.name];
    const live = this.answers.live[this.name];
    const measured = live?.seconds && live.done === live.total
      ? { settings: live.settings, seconds: live.seconds }
      : { settings: this.form.defaults, seconds: takes };
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
    const { settings, settings: { pair = 'embedded' } } = answer;
    const { pairless } = this.options.forms[this.name];
    const other = Object.entries(pairless).some(([name, values]) =>
      values.includes(settings[name])
    );
    const model = other ? '' : ` Model: ${this.options.pairs[pair]?.label ?? pair}.`;
    return originWords(answer) + model;
  }
}
