// The settings of a race in its form: from a link, a preset, or a race that was recorded or run. Changes only itself.

import { BASELINE } from './declared.js';
import { cast, FormValues, plain } from './form_values.js';
import { linkOf } from './moment.js';
/** @import { RunFormOptions } from '../tabs.d.ts' */

export class RunSettings extends FormValues {
  /** @param {RunFormOptions} options */
  constructor(options) {
    super(options.fields, { ...options.pairs });
    this.options = options;
    this.fill(options.opening);
  }

  /** The chosen pair, if it is known. */
  get pair() {
    return this.pairs[this.raw.pair] ?? null;
  }

  /** How many pairs can't run on this machine. */
  get missing() {
    const { available, options: { pairs } } = this;
    return available ? Object.keys(pairs).filter((name) => !available.includes(name)).length : 0;
  }

  /** The values as a link's query. */
  get link() {
    return linkOf(this.values());
  }

  /** Fill the form from a link. What it lacks gets its default, unless it names the pair or the prompt
   *  alone. @param {URLSearchParams} query @returns {Record<string, any>} the settings that it names */
  read(query) {
    const named = this.fields.filter(({ name }) => query.has(name));
    /** @type {Record<string, any>} */
    const { prompt, ...settings } = Object.fromEntries(
      named.map((field) => [field.name, plain(field, cast(field, query.get(field.name)))]),
    );
    if (Object.keys(settings).join() === 'pair') this.fill(settings);
    else if (Object.keys(settings).length) {
      const { examples } = this.pairs[settings.pair ?? this.defaults.pair] ?? {};
      this.repeat({ prompt: this.options.examples[examples ?? 'embedded'][0][1], ...settings });
    }
    if (prompt !== undefined) this.fill({ prompt });
    return settings;
  }

  /** Set the form to the settings of a race, as a link's query. @param {string} settings */
  take(settings) {
    this.repeat(Object.fromEntries(new URLSearchParams(settings)));
  }

  /** Set values; a pair alone comes with what fits it. @override */
  fill(values) {
    const { pair, ...others } = values;
    const alone = pair && pair !== this.raw.pair && !Object.keys(others).length;
    super.fill(alone ? { ...this.fitting(pair), pair } : values);
  }

  /** Another pair's example, preset and methods in place of those of the chosen pair; a visitor's own
   *  stay. @param {string} name @returns {Record<string, any>} */
  fitting(name) {
    const { preset, options: { examples, usual } } = this;
    const pair = this.pairs[name];
    if (!pair) return {};
    const own = examples[pair.examples ?? ''];
    const isOf = (all) => all.some(([, prompt]) => prompt === this.raw.prompt);
    const values = Object.values(examples).some(isOf) && !isOf(own) ? { prompt: own[0][1] } : {};
    const [first] = Object.keys(pair.presets ?? {});
    if (preset && first && !(preset in (pair.presets ?? {}))) {
      Object.assign(values, this.presetValues(first, name));
    }
    if (!usual) return values;
    const { methods } = this.values();
    const isUsual = Object.values(usual).some((names) => names.join() === methods.join());
    const kept = (isUsual && usual[name]) || methods.filter((method) => method in pair.methods);
    const some = Object.keys(pair.methods).filter((method) => method !== BASELINE).slice(0, 1);
    return { ...values, methods: kept.length ? kept : some };
  }

  /** @param {string} index of a preset @param {string} [pair] whose drafter it gets */
  presetValues(index, pair = this.raw.pair) {
    const [, values] = this.options.presets?.[index] ?? [];
    return { ...values, drafter: this.pairs[pair]?.presets?.[index] };
  }

  /** The index of the pair's preset that the form matches; empty if there is none. */
  get preset() {
    return this.presets.find(([index]) => this.holds(this.presetValues(index)))?.[0] ?? '';
  }

  /** The pair's presets. @returns {[index: string, words: string][]} */
  get presets() {
    const { pair, options: { presets } } = this;
    return presets ? Object.keys(pair?.presets ?? {}).map((key) => [key, presets[key][0]]) : [];
  }

  /** The pair's prompts, as values of the form. @returns {[words: string, values: {prompt: string}][]} */
  get examples() {
    const prompts = this.options.examples[this.pair?.examples ?? ''] ?? [];
    return prompts.map(([words, prompt]) => [words, { prompt }]);
  }
}
