// A form made from described fields: what each is called, what it means, and what it may hold.
// @ts-check

import { h } from './dom.js';

/** @typedef {{name: string, title: string, about: string, kind: 'choice' | 'integer' | 'number' | 'switch' | 'text', list: boolean, more: boolean, long: boolean, choices: string[], default: any, low: number | null, high: number | null}} Field */

/** Whether two values of a field are equal. @param {any} a @param {any} b */
const same = (a, b) => String(a) === String(b);

export class Form {
  /** @param {Field[]} fields @param {string} prefix of the ids */
  constructor(fields, prefix) {
    this.fields = fields;
    /** @type {Map<string, {read: () => any, write: (value: any) => void}>} */
    this.inputs = new Map();
    const placed = (/** @type {boolean} */ more) => fields.filter((field) => field.more === more).map((field) => this.place(field, `${prefix}-${field.name}`));
    const more = placed(true);
    this.element = h('div', { class: 'sd-form' }, ...placed(false), more.length ? h('details', { class: 'sd-form-more' }, h('summary', {}, 'More settings'), h('div', { class: 'sd-form' }, ...more)) : null);
  }

  /** @param {Field} field @param {string} id */
  place(field, id) {
    const about = h('small', { id: `${id}-about` }, field.about);
    const common = { id, 'aria-describedby': `${id}-about` };
    if (field.kind === 'choice' && field.list) {
      const boxes = field.choices.map((name) => h('input', { type: 'checkbox', value: name, checked: field.default.includes(name) }));
      this.inputs.set(field.name, {
        read: () => boxes.filter((box) => box.checked).map((box) => box.value),
        write: (value) => boxes.forEach((box) => { box.checked = (Array.isArray(value) ? value : String(value).split(',')).includes(box.value); }),
      });
      return h('fieldset', { class: 'sd-field', ...common }, h('legend', {}, field.title), h('span', { class: 'sd-boxes' }, ...boxes.map((box, i) => h('label', {}, box, field.choices[i]))), about);
    }
    const limits = field.list ? {} : { min: field.low, max: field.high };
    const input = field.kind === 'choice' ? h('select', common, ...field.choices.map((name) => h('option', { value: name }, name)))
      : field.long ? h('textarea', { ...common, rows: 2 })
        : field.kind === 'switch' ? h('input', { ...common, type: 'checkbox' })
          : field.kind === 'text' || field.list ? h('input', { ...common, type: 'text', inputmode: field.kind === 'integer' ? 'numeric' : null })
            : h('input', { ...common, ...limits, type: 'number', step: field.kind === 'integer' ? 1 : 'any' });
    const [read, write] = field.kind === 'switch'
      ? [() => input.checked, (/** @type {any} */ value) => { input.checked = same(value, true); }]
      : [() => input.value, (/** @type {any} */ value) => { input.value = Array.isArray(value) ? value.join(', ') : value; }];
    write(field.default);
    this.inputs.set(field.name, { read, write });
    const file = field.long ? h('input', { type: 'file', 'aria-label': `${field.title}, from a file`, onchange: async () => { if (file?.files?.[0]) write(await file.files[0].text()); } }) : null;
    return h('div', { class: field.long ? 'sd-field sd-field-wide' : 'sd-field' }, h('label', { for: id }, field.title), input, about, file);
  }

  /** What stands in the form; the server judges it. @returns {Record<string, any>} */
  values() {
    return Object.fromEntries([...this.inputs].map(([name, { read }]) => [name, read()]));
  }

  /** What is not as it was at first, for a link. @returns {Record<string, any>} */
  changed() {
    const squeezed = (/** @type {Field} */ field, /** @type {any} */ value) => (field.list && typeof value === 'string' ? value.replace(/\s*,\s*/g, ',') : value);
    const first = (/** @type {Field} */ field) => (field.kind === 'choice' && field.list ? field.choices.filter((name) => field.default.includes(name)) : field.default); // boxes stand in their own order
    return Object.fromEntries(this.fields.map((field) => [field, squeezed(field, this.inputs.get(field.name)?.read())])
      .filter(([field, value]) => !same(first(field), value)).map(([field, value]) => [field.name, value]));
  }

  /** Put values in; unknown names are passed over. @param {Record<string, any>} values */
  fill(values) {
    for (const [name, value] of Object.entries(values)) this.inputs.get(name)?.write(value);
  }
}
