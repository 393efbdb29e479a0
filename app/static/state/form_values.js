// The values of a form that is made from field descriptions: what may be chosen, limits, and links.
// Changes only itself.

/** @typedef {{name: string, title: string, about: string, kind: 'choice' | 'integer' | 'number' |
 *  'switch' | 'text', list: boolean, more: boolean, long: boolean, file?: boolean,
 *  replaces?: string[],
 *  of: '' | 'drafters' | 'methods', choices: string[], labels: Record<string, string>, default: any,
 *  low: number | null, high: number | null, step?: number, within?: string[]}} Field `file`: its text
 *  may come from a file; `replaces`: fields that have no effect while this text is filled in; `within`: a
 *  number with a slider, and what limits it: other fields, or the drafter's `window` */
/** @typedef {{label: string, drafters: Record<string, string>, methods: Record<string, string>,
 *  windows?: Record<string, number>, presets?: Record<string, string>, examples?: string,
 *  about?: string, get?: string, weight?: number}} Pair of models, as app/controls.py describes it */

/** Whether a field is a row of boxes. @param {Field} field */
export const isBoxes = ({ kind, list }) => kind === 'choice' && list;

/** A value as its field holds it. @param {Field} field */
export function cast(field, value) {
  if (isBoxes(field)) return Array.isArray(value) ? value : String(value).split(',');
  if (field.kind === 'switch') return String(value).toLowerCase() === 'true';
  return Array.isArray(value) ? value.join(', ') : String(value ?? '');
}

/** A value with numbers written plainly. @param {Field} field */
export function plain({ kind, list }, value) {
  const isNumber = !list && ['integer', 'number'].includes(kind) && String(value).trim();
  const number = isNumber ? Number(value) : NaN;
  return Number.isFinite(number) ? String(number) : value;
}

export class FormValues {
  /** @param {Field[]} fields @param {Record<string, Pair>} pairs by name
   *  @param {() => void} [redraw] called after each change */
  constructor(fields, pairs = {}, redraw = () => {}) {
    this.fields = fields;
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
    return labels[option] ||
      (name === 'pair'
        ? this.pairs[option]?.label
        : of && this.pairs[this.raw.pair]?.[of][option]) ||
      option;
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

  /** Set the available pairs; the chosen one stays.
   *  @param {Record<string, Partial<Pair>>} pairs by name, with what is new about them */
  offer(pairs) {
    this.available = Object.keys(pairs);
    for (const name of this.available) {
      this.pairs[name] = /** @type {Pair} */ ({ ...this.pairs[name], ...pairs[name] });
    }
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
    const inOrder = (/** @type {Field} */ field, value) => {
      if (isBoxes(field)) return field.choices.filter((name) => value.includes(name)).join();
      return field.list ? String(value).replace(/\s*,\s*/g, ',') : String(value ?? '');
    };
    return Object.fromEntries(this.fields.flatMap((field) => {
      const { name, list } = field;
      const now = inOrder(field, values[name]);
      if (now === inOrder(field, field.default)) return [];
      return [[name, list && !isBoxes(field) ? now : values[name]]];
    }));
  }

  /** The largest value of a number. @param {Field} field */
  highest({ high, within = [] }) {
    const { pair, drafter } = this.raw;
    const limits = within.map((name) =>
      Number(name === 'window' ? this.pairs[pair]?.windows?.[drafter] : this.raw[name])
    );
    return Math.min(high ?? Infinity, ...limits.filter((limit) => limit >= 1));
  }

  /** Write numbers plainly and cut them to their limits, once they are typed: before 16 comes 1. */
  settle() {
    for (const field of this.fields) {
      const { name, within } = field;
      const value = plain(field, this.raw[name]);
      const most = within ? this.highest(field) : Infinity;
      this.raw[name] = Number(value) > most ? String(most) : value;
    }
    this.redraw();
  }

  /** Whether the form has these values. @param {Record<string, any>} values */
  holds(values) {
    return this.fields.every((field) =>
      !Object.hasOwn(values, field.name) ||
      String(cast(field, values[field.name])) === String(this.raw[field.name])
    );
  }

  /** The field in place of which this one has no effect, because that one is filled in. */
  replacing(name) {
    return this.fields.find(({ name: other, replaces = [] }) =>
      replaces.includes(name) && this.raw[other].trim()
    );
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
   *  defaults. @param {Record<string, any>} settings */
  repeat(settings) {
    this.fill({ ...this.defaults, ...settings });
  }
}
