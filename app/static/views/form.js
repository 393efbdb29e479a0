// A form made from described fields: what each is called, what it means, and what it may hold.
// @ts-check

import { h } from './dom.js';

/** @typedef {{name: string, title: string, about: string, kind: 'choice' | 'integer' | 'number' | 'switch' | 'text', list: boolean, more: boolean, long: boolean, of: '' | 'drafters' | 'methods', choices: string[], default: any, low: number | null, high: number | null}} Field */

/** Whether two values of a field are equal. @param {any} a @param {any} b */
const same = (a, b) => String(a) === String(b);

/** What a pair is called, and what it has. @typedef {{label: string, drafters: string[], methods: string[]}} Pair */

export class Form {
  /** @param {Field[]} fields @param {string} prefix of the ids @param {Record<string, Pair>} pairs by name */
  constructor(fields, prefix, pairs = {}) {
    this.fields = fields;
    this.pairs = pairs;
    /** @type {Map<string, {read: () => any, write: (value: any) => void, offer?: (names: string[]) => void}>} */
    this.inputs = new Map();
    const placed = (/** @type {boolean} */ more) =>
      fields.filter((field) => field.more === more).map((field) =>
        this.place(field, `${prefix}-${field.name}`)
      );
    const more = placed(true);
    this.element = h(
      'div',
      { class: 'sd-form' },
      ...placed(false),
      more.length
        ? h(
          'details',
          { class: 'sd-form-more' },
          h('summary', {}, 'More settings'),
          h('div', { class: 'sd-form' }, ...more),
        )
        : null,
    );
    this.narrow();
  }

  /** Which pairs can be chosen; the one that is stays. @param {string[]} names @param {Record<string, Pair>} pairs what is known of them */
  offer(names, pairs) {
    this.pairs = pairs;
    this.inputs.get('pair')?.offer?.(names);
    this.narrow();
  }

  /** Of drafters and methods, those that the chosen pair has; all of a pair that is not known here. */
  narrow() {
    const known = this.pairs[this.inputs.get('pair')?.read()];
    for (const { name, of, choices } of this.fields) {
      if (of) {
        this.inputs.get(name)?.offer?.(choices.filter((one) => !known || known[of].includes(one)));
      }
    }
  }

  /** @param {Field} field @param {string} id */
  place(field, id) {
    const about = h('small', { id: `${id}-about` }, field.about);
    const common = { id, 'aria-describedby': `${id}-about` };
    if (field.kind === 'choice' && field.list) {
      const boxes = field.choices.map((name) =>
        h('input', { type: 'checkbox', value: name, checked: field.default.includes(name) })
      );
      this.inputs.set(field.name, {
        read: () => boxes.filter((box) => box.checked && !box.disabled).map((box) => box.value),
        write: (value) =>
          boxes.forEach((box) => {
            box.checked = (Array.isArray(value) ? value : String(value).split(',')).includes(
              box.value,
            );
          }),
        offer: (names) =>
          boxes.forEach((box, i) => {
            labels[i].hidden = box.disabled = !names.includes(box.value);
          }),
      });
      const labels = boxes.map((box, i) => h('label', {}, box, field.choices[i]));
      return h(
        'fieldset',
        { class: 'sd-field', ...common },
        h('legend', {}, field.title),
        h('span', { class: 'sd-boxes' }, ...labels),
        about,
      );
    }
    if (field.kind === 'choice') {
      const select = h('select', { ...common, onchange: () => this.narrow() });
      const add = (/** @type {string} */ name) =>
        select.append(
          h('option', { value: name }, (field.name === 'pair' && this.pairs[name]?.label) || name),
        );
      const write = (/** @type {any} */ value) => {
        if (![...select.options].some((option) => option.value === String(value))) {
          add(String(value)); // of a link: the server judges it
        }
        select.value = String(value);
      };
      field.choices.forEach(add);
      write(field.default);
      this.inputs.set(field.name, {
        read: () => select.value,
        write,
        offer: (names) => {
          const { value } = select;
          select.replaceChildren();
          names.forEach(add);
          write(
            field.name === 'pair' || names.includes(value)
              ? value
              : names.at(field.of === 'methods' ? -1 : 0) ?? value,
          ); // the first method is the plainest
        },
      });
      return h(
        'div',
        { class: field.name === 'pair' ? 'sd-field sd-field-wide' : 'sd-field' },
        h('label', { for: id }, field.title),
        select,
        about,
      ); // a pair has a long name
    }
    const limits = field.list ? {} : { min: field.low, max: field.high };
    const input = field.long
      ? h('textarea', { ...common, rows: 2 })
      : field.kind === 'switch'
      ? h('input', { ...common, type: 'checkbox' })
      : field.kind === 'text' || field.list
      ? h('input', {
        ...common,
        type: 'text',
        inputmode: field.kind === 'integer' ? 'numeric' : null,
      })
      : h('input', {
        ...common,
        ...limits,
        type: 'number',
        step: field.kind === 'integer' ? 1 : 'any',
      });
    const [read, write] = field.kind === 'switch'
      ? [() => input.checked, (/** @type {any} */ value) => {
        input.checked = same(value, true);
      }]
      : [() => input.value, (/** @type {any} */ value) => {
        input.value = Array.isArray(value) ? value.join(', ') : value;
      }];
    write(field.default);
    this.inputs.set(field.name, { read, write });
    const file = field.long
      ? h('input', {
        type: 'file',
        'aria-label': `${field.title}, from a file`,
        onchange: async () => {
          if (file?.files?.[0]) write(await file.files[0].text());
        },
      })
      : null;
    return h(
      'div',
      { class: field.long ? 'sd-field sd-field-wide' : 'sd-field' },
      h('label', { for: id }, field.title),
      input,
      about,
      file,
    );
  }

  /** What stands in the form; the server judges it. @returns {Record<string, any>} */
  values() {
    return Object.fromEntries([...this.inputs].map(([name, { read }]) => [name, read()]));
  }

  /** What is not as it was at first, for a link. @returns {Record<string, any>} */
  changed() {
    const squeezed = (
      /** @type {Field} */ field,
      /** @type {any} */ value,
    ) => (field.list && typeof value === 'string' ? value.replace(/\s*,\s*/g, ',') : value);
    const first = (
      /** @type {Field} */ field,
    ) => (field.kind === 'choice' && field.list
      ? field.choices.filter((name) => field.default.includes(name))
      : field.default); // boxes stand in their own order
    return Object.fromEntries(
      this.fields.map((field) => [field, squeezed(field, this.inputs.get(field.name)?.read())])
        .filter(([field, value]) => !same(first(field), value)).map((
          [field, value],
        ) => [field.name, value]),
    );
  }

  /** Put values in; unknown names are passed over. @param {Record<string, any>} values */
  fill(values) {
    for (const [name, value] of Object.entries(values)) this.inputs.get(name)?.write(value);
    this.narrow();
  }

  /** Put in what an answer was asked for; what an older one does not say was as at first. @param {Record<string, any>} choice */
  repeat(choice) {
    this.fill({
      ...Object.fromEntries(this.fields.map((field) => [field.name, field.default])),
      ...choice,
    });
  }
}
