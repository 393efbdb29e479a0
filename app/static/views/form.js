// A form made from field descriptions: titles, meanings and allowed values.

import { FormValues, isBoxes } from '../state/form_values.js';
import { html } from './ui.js';
/** @import { Field, Pair } from '../state/form_values.js' */

const REPLACED = ['flavours', 'per_flavour']; // by the visitor's own prompts
const UNUSED = 'Not used: your own prompts replace ours.';

export class Form extends FormValues {
  /** @param {Field[]} fields @param {string} prefix of the ids
   *  @param {Record<string, Pair>} pairs by name @param {() => void} [redraw] */
  constructor(fields, prefix, pairs = {}, redraw = () => {}) {
    super(fields, pairs, redraw);
    this.prefix = prefix;
  }

  /** The input element of a field. @param {Field} field @param {object} common attributes */
  input(field, common) {
    const { name, title, kind, list, long, low, high, step, within, choices } = field;
    const value = this.raw[name];
    const set = ({ currentTarget }) => this.fill({ [name]: currentTarget.value });
    const settle = () => this.settle();
    const choose = (event) => {
      set(event);
      settle();
    };
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
      return html`<select ...${common} value=${value} onchange=${choose}>${options}</select>`;
    }
    if (long) {
      return html`<textarea rows="2" ...${common} value=${value} oninput=${set}></textarea>`;
    }
    if (kind === 'switch') {
      const flip = () => this.fill({ [name]: !value });
      return html`<input ...${common} type="checkbox" checked=${value} onchange=${flip} />`;
    }
    const isInteger = kind === 'integer';
    const shape = kind === 'text' || list
      ? { type: 'text', inputmode: isInteger ? 'numeric' : null }
      : { type: 'number', step: isInteger ? 1 : 'any', min: low, max: high };
    const box = html`
      <input ...${{ ...common, ...shape }} value=${value} oninput=${set} onchange=${settle} />
    `;
    if (!within) return box;
    return html`<span class="sd-knob"><input type="range" aria-label=${title} min=${low}
      max=${this.highest(field)} step=${step} value=${value} oninput=${choose} />${box}</span>`;
  }

  /** @param {Field} field */
  place(field) {
    const { name, title, about, long, file } = field;
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
      file && html`<input type="file" aria-label="${title}, from a file" onchange=${read} />`
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
