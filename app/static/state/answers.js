// The answers to a tab's questions: recorded ones by file, the visitor's own by question. Changes only itself.

/** @import { Answer } from './exploration.js' */

/** @typedef {'recorded' | 'live'} Source of an answer; `live`: the visitor measured it */

export class Answers {
  /** @param {Record<string, Record<string, string>>} files by question: file, no ending -> label */
  constructor(files) {
    this.files = files;
    /** @type {Record<string, Answer>} by file */
    this.recorded = {};
    /** @type {Record<string, Answer>} by question */
    this.live = {};
    /** @type {Record<string, string>} by question: the recorded file that is shown, if one ships */
    this.chosen = Object.fromEntries(Object.keys(files).map((name) => [name, this.fileOf(name)]));
  }

  /** A recorded answer to a question: this file, or the default one; undefined if none ships. */
  fileOf(name, file = '') {
    const files = Object.keys(this.files[name]);
    return files.includes(file) ? file : files[0];
  }

  /** The answer to show, from this source or else from one that has it. @param {Source} source */
  shown(name, source) {
    const answers = { recorded: this.recorded[this.chosen[name]], live: this.live[name] };
    const sources = /** @type {Source[]} */ ([source, 'recorded', 'live']);
    const from = sources.find((one) => answers[one]) ?? 'recorded';
    return { from, answer: answers[from] };
  }

  /** All that can be shown. @returns {[source: Source, file: string, words: string][]} */
  available(name) {
    const recorded = Object.entries(this.files[name]);
    return [
      ...recorded.map((
        [file, label],
      ) => /** @type {[Source, string, string]} */ (['recorded', file, `Recorded: ${label}`])),
      ...(this.live[name]
        ? [/** @type {[Source, string, string]} */ (['live', this.chosen[name], 'Measured here'])]
        : []),
    ];
  }
}
