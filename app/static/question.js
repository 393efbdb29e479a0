// The question that Explore or Compare shows: its form's settings, its answer and its link.

import { aboutWords, originWords } from './state/exploration.js';
import { Answers } from './state/answers.js';
import { fetchFile } from './state/trace.js';
/** @import { Answer } from './state/exploration.js' */
/** @import { ExploreOptions, Part } from './tabs.d.ts' */
/** @import { Form } from './views/form.js' */
/** @import { Source } from './state/answers.js' */

export class Question {
  /** @param {ExploreOptions} options @param {Record<string, Form>} forms by question
   *  @param {() => void} changed draws the tab */
  constructor(options, forms, changed) {
    this.options = options;
    this.forms = forms;
    this.changed = changed;
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
    const [named, answer] = ['explore', 'answer'].map((name) => query.get(name) ?? '');
    const question = this.options.renamed[named] ?? named;
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
    const { options: { prefix }, name, stem, shown: { from } } = this;
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
    return { name: this.name, source: this.source, stem: this.stem };
  }

  /** @param {string} name */
  open(name) {
    Object.assign(this, { name, source: this.answers.live[name] ? 'live' : 'recorded' });
    this.changed();
  }

  /** @param {Source} source @param {string} stem the file, if it is recorded */
  choose(source, stem) {
    this.source = source;
    this.answers.chosen[this.name] = stem;
    this.changed();
  }

  /** Show only a part of the figures, or whole figures again. @param {Part} only */
  showOnly(only) {
    this.only = only;
    this.changed();
  }

  /** Keep what was measured; show it if its question is open.
   *  @param {string} name of the question @param {Answer} answer
   *  @param {boolean} repeats whether its settings go into the form */
  keepMeasured(name, answer, repeats) {
    this.answers.live[name] = answer;
    delete this.weights[name];
    if (name === this.name) this.source = 'live';
    if (repeats) this.forms[name].repeat(answer.choice);
  }

  /** Set the form to the settings of the answer that is shown, unless the visitor measured it. */
  repeat() {
    const { from, answer } = this.shown;
    if (!answer || from === 'live') return;
    this.form.repeat(answer.choice);
    this.repeated[this.stem] = JSON.stringify(this.form.changed());
  }

  /** Fetch the recorded answer. Returns whether it is new. */
  async fetchRecorded() {
    const { answers: { recorded }, stem } = this;
    if (!stem || recorded[stem]) return false;
    const answer = await (await fetchFile(`${this.options.folder}${stem}.json`)).json();
    if (answer.kind !== 'exploration' || answer.schema !== 1 || !answer.report) {
      throw new Error('not a known format of an answer');
    }
    recorded[stem] = answer;
    // of the default pair, unless a link or the visitor changed it
    const form = this.form.values();
    const differs = (answer.choice.pair ?? form.pair) !== form.pair;
    if (differs && stem === this.stem && !Object.keys(this.form.changed()).length) this.repeat();
    return true;
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
}
