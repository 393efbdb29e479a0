// A form made from field descriptions: titles, meanings and allowed values.

import { html } from './ui.js';

/** @typedef {{name: string, title: string, about: string, kind: 'choice' | 'integer' | 'number' |
 *  'switch' | 'text', list: boolean, more: boolean, long: boolean, of: '' | 'drafters' | 'methods',
 *  choices: string[], labels: Record<string, string>, default: any, low: number | null, high: number | null}} Field */
/** @typedef {{label: string, drafters: Record<string, string>, methods: Record<string, string>,
 *  weight?: number}} Pair of models; its drafters and methods with their labels, and how long a
 *  token takes, in tokens of the embedded pair */

const REPLACED = ['flavours', 'per_flavour']; // by the visitor's own prompts
const UNUSED = 'Not used: your own prompts replace ours.';

/** Whether a field is a row of boxes. @param {Field} field */
const isBoxes = ({ kind, list }) => kind === 'choice' && list;

/** A value as its field holds it. @param {Field} field */
function cast(field, value) {
  if (isBoxes(field)) return Array.isArray(value) ? value : String(value).split(',');
  if (field.kind === 'switch') return String(value) === 'true';
  return Array.isArray(value) ? value.join(', ') : String(value ?? '');
}

export class Form {
  /** @param {Field[]} fields @param {string} prefix of the ids
   *  @param {Record<string, Pair>} pairs by name @param {() => void} [redraw] */
  constructor(fields, prefix, pairs = {}, redraw = () => {}) {
    this.fields = fields;
    this.prefix = prefix;
    this.pairs = pairs;
    this.redraw = redraw;
    /** @type {string[] | null} pairs that can be chosen; null: as described */
    this.available = null;
    /** @type {Record<string, any>} by name: the values in the form */
    this.raw = Object.fromEntries(fields.map((field) => [field.name, cast(field, field.default)]));
    this.narrow();
  }

  /** The options of a field; for drafters and methods, those of the chosen pair, or all if the pair
   *  is unknown. @param {Field} field */
  offered({ name, of, choices }) {
    const pair = of && this.pairs[this.raw.pair];
    if (name === 'pair') return this.available ?? choices;
    return pair ? choices.filter((option) => option in pair[of]) : choices;
  }

  /** The label of an option. @param {Field} field */
  labelOf({ name, of, labels }, option) {
    return (name === 'pair'
      ? this.pairs[option]?.label
      : of && this.pairs[this.raw.pair]?.[of][option]) || labels[option] || option;
  }

  /** Replace a drafter or method that the chosen pair lacks by one that it has. */
  narrow() {
    for (const field of this.fields) {
      const names = this.offered(field);
      if (!field.of || field.list || names.includes(this.raw[field.name])) continue;
      // the first method is the plainest
      this.raw[field.name] = names.at(field.of === 'methods' ? -1 : 0) ?? this.raw[field.name];
    }
  }

  /** Set the available pairs; the chosen one stays. @param {Record<string, Pair>} pairs by name */
  offer(names, pairs) {
    Object.assign(this, { available: names, pairs });
    this.fill({});
  }

  /** The values in the form, unchecked; the server checks them. */
  values() {
    return Object.fromEntries(this.fields.map((field) => {
      const value = this.raw[field.name];
      const names = isBoxes(field) ? this.offered(field) : [];
      return [field.name, isBoxes(field) ? names.filter((name) => value.includes(name)) : value];
    }));
  }

  get defaults() {
    return Object.fromEntries(this.fields.map((field) => [field.name, field.default]));
  }

  /** The values that differ from the defaults, for a link. */
  changed() {
    const values = this.values();
    const plain = (/** @type {Field} */ field, value) => {
      // in order
      if (isBoxes(field)) return field.choices.filter((name) => value.includes(name)).join();
      return field.list ? String(value).replace(/\s*,\s*/g, ',') : String(value ?? '');
    };
    return Object.fromEntries(this.fields.flatMap((field) => {
      const { name, list } = field;
      const now = plain(field, values[name]);
      if (now === plain(field, field.default)) return [];
      return [[name, list && !isBoxes(field) ? now : values[name]]];
    }));
  }

  /** Set values; unknown names are ignored. @param {Record<string, any>} values */
  fill(values) {
    for (const field of this.fields) {
      if (Object.hasOwn(values, field.name)) {
        this.raw[field.name] = cast(field, values[field.name]);
      }
    }
    this.narrow();
    this.redraw();
  }

  /** Set the values of an answer's settings; settings that an older answer lacks get their
   *  defaults. @param {Record<string, any>} choice */
  repeat(choice) {
    this.fill({ ...this.defaults, ...choice });
  }

  /** The input element of a field. @param {Field} field @param {object} common attributes */
  input(field, common) {
    const { name, kind, list, long, low, high, choices } = field;
    const value = this.raw[name];
    const set = ({ currentTarget }) => this.fill({ [name]: currentTarget.value });
    if (isBoxes(field)) {
      const names = this.offered(field);
      const check = ({ currentTarget: { value: option, checked } }) =>
        this.fill({ [name]: value.filter((old) => old !== option).concat(checked ? option : []) });
      const boxes = choices.map((option) => {
        const away = !names.includes(option);
        return html`
          <label hidden=${away}><input type="checkbox" value=${option} disabled=${away}
              checked=${value.includes(option)}
              onchange=${check} />${this.labelOf(field, option)}</label>
        `;
      });
      return html`<span class="sd-boxes">${boxes}</span>`;
    }
    if (kind === 'choice') {
      const names = this.offered(field);
      const all = names.includes(value) ? names : [...names, value]; // from a link
      const options = all.map((option) =>
        html`<option value=${option}>${this.labelOf(field, option)}</option>`
      );
      return html`<select ...${common} value=${value} onchange=${set}>${options}</select>`;
    }
    if (long) {
      return html`<textarea ...${common} rows="2" value=${value} oninput=${set}></textarea>`;
    }
    if (kind === 'switch') {
      const flip = () => this.fill({ [name]: !value });
      return html`<input ...${common} type="checkbox" checked=${value} onchange=${flip} />`;
    }
    const isInteger = kind === 'integer';
    const shape = kind === 'text' || list
      ? { type: 'text', inputmode: isInteger ? 'numeric' : null }
      : { type: 'number', step: isInteger ? 1 : 'any', min: low, max: high };
    return html`<input ...${{ ...common, ...shape }} value=${value} oninput=${set} />`;
  }

  /** @param {Field} field */
  place(field) {
    const { name, title, about, long } = field;
    const id = `${this.prefix}-${name}`;
    const disabled = Boolean(this.raw.texts?.trim()) && REPLACED.includes(name);
    const common = { id, 'aria-describedby': `${id}-about`, disabled };
    const note = html`<small id="${id}-about">${disabled ? UNUSED : about}</small>`;
    if (isBoxes(field)) {
      return html`
        <fieldset class="sd-field"
          ...${common}><legend>${title}</legend>${this.input(field, {})}${note}</fieldset>
      `;
    }
    const read = async ({ currentTarget: { files } }) => {
      if (files[0]) this.fill({ [name]: await files[0].text() });
    };
    const wide = long || name === 'pair'; // which has a long name
    return html`<div class="sd-field ${wide ? 'sd-field-wide' : ''}">
      <label for=${id}>${title}</label>${this.input(field, common)}${note}${
      long && html`<input type="file" aria-label="${title}, from a file" onchange=${read} />`
    }</div>`;
  }

  view() {
    const moreFields = this.fields.filter((field) => field.more);
    const placed = (/** @type {Field[]} */ fields) => fields.map((field) => this.place(field));
    return html`<div class="sd-form" key=${this.prefix}>${
      placed(this.fields.filter((field) => !field.more))
    }${
      moreFields.length > 0 && html`
        <details class="sd-form-more">
          <summary>More settings</summary>
          <div class="sd-form">${placed(moreFields)}</div>
        </details>
      `
    }</div>`;
  }
}
