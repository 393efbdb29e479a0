// A form made from field descriptions: titles, meanings and allowed values.

import { html } from './ui.js';
import { isBoxes } from '../state/form_values.js';
/** @import { Field, FormValues } from '../state/form_values.js' */

/** Boxes, any of which may be checked. @param {FormValues} form @param {Field} field */
function boxes(form, field) {
  const names = form.offered(field);
  const value = form.raw[field.name];
  const check = ({ currentTarget: { value: option, checked } }) =>
    form.fill({
      [field.name]: value.filter((old) => old !== option).concat(checked ? option : []),
    });
  return html`<span class="sd-field-boxes">${
    field.choices.map((option) => {
      const away = !names.includes(option);
      return html`
        <label hidden=${away}><input type="checkbox" value=${option} disabled=${away}
            checked=${value.includes(option)}
            onchange=${check} />${form.labelOf(field, option)}</label>
      `;
    })
  }</span>`;
}

/** Any other input element. @param {FormValues} form @param {Field} field @param {object} common
 *  attributes @param {(() => void) | null} enter what the Enter key does in a long text */
function input(form, field, common, enter) {
  const { name, title, kind, list, long, low, high, step, within } = field;
  const value = form.raw[name];
  const set = ({ currentTarget }) => form.fill({ [name]: currentTarget.value });
  const settle = () => form.settle();
  const choose = (event) => {
    set(event);
    settle();
  };
  if (kind === 'choice') {
    const names = form.offered(field);
    const all = names.includes(value) ? names : [...names, value]; // from a link
    const options = all.map((option) =>
      html`<option value=${option}>${form.labelOf(field, option)}</option>`
    );
    return html`<select ...${common} value=${value} onchange=${choose}>${options}</select>`;
  }
  if (long) {
    const onkeydown = enter && ((event) => { // a line break takes the Shift key
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      enter();
    });
    return html`
      <textarea rows="2" ...${{ ...common, onkeydown }} value=${value}
        oninput=${set}></textarea>
    `;
  }
  if (kind === 'switch') {
    const flip = () => form.fill({ [name]: !value });
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
  return html`<span class="sd-field-knob"><input type="range" aria-label=${title} min=${low}
    max=${form.highest(field)} step=${step} value=${value} oninput=${choose} />${box}</span>`;
}

/** A field with its title and its meaning. @param {{form: FormValues, field: Field, prefix: string,
 *  enter?: (() => void) | null}} props `prefix`: of the ids */
export function FormField({ form, field, prefix, enter = null }) {
  const { name, title, about, long, file } = field;
  const id = `${prefix}-${name}`;
  const instead = form.replacing(name);
  const disabled = Boolean(instead);
  const common = { id, 'aria-describedby': `${id}-about`, disabled };
  const note = html`<small id="${id}-about">${
    instead ? `Not used: “${instead.title}” replaces it.` : about
  }</small>`;
  if (isBoxes(field)) {
    return html`
      <fieldset class="sd-field"
        ...${common}><legend>${title}</legend>${boxes(form, field)}${note}</fieldset>
    `;
  }
  const read = async ({ currentTarget: { files } }) => {
    if (files[0]) form.fill({ [name]: await files[0].text() });
  };
  const wide = long || name === 'pair'; // which has a long name
  return html`<div class="sd-field ${wide ? 'sd-field-wide' : ''}">
    <label for=${id}>${title}</label>${input(form, field, common, enter)}${note}${
    file && html`<input type="file" aria-label="${title}, from a file" onchange=${read} />`
  }</div>`;
}

/** @param {{form: FormValues, prefix: string}} props `prefix`: of the ids */
export function Form({ form, prefix }) {
  const draw = (/** @type {Field} */ field) =>
    html`<${FormField} form=${form} field=${field} prefix=${prefix} />`;
  const more = form.fields.filter((field) => field.more);
  return html`<div class="sd-form">${form.fields.filter((field) => !field.more).map(draw)}${
    more.length > 0 && html`
      <details class="sd-form-more">
        <summary>More settings</summary>
        <div class="sd-form">${more.map(draw)}</div>
      </details>
    `
  }</div>`;
}
