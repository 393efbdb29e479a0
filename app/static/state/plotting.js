// The traces that formulas draw, and the rows and numbers that they read. Pure.

/** @import { Answer, Figure } from './exploration.js' */

/** @typedef {{words: string, kind: string}} Token accepted, rejected or untested */
/** @typedef {{data: object[], words: string[], block?: Token[]}} Computed `words`: a sentence above
 *  the chart, and those below it */
/** @typedef {Record<string, number>} Values of the sliders, by name */

export const range = (/** @type {number} */ low, /** @type {number} */ high, step = 1) =>
  Array.from({ length: Math.round((high - low) / step) + 1 }, (_, i) => low + i * step);

/** A line, or marks if `mark` is given.
 *  @param {{dash?: string, mark?: string, [field: string]: unknown}} [look] */
export const trace = (name, x, y, colour, look = {}) => {
  const { dash = '', mark = '', ...rest } = look;
  return {
    type: 'scatter',
    mode: dash ? 'lines' : 'markers',
    name,
    x,
    y,
    line: { color: colour, width: 1.8, dash },
    marker: { symbol: mark, size: mark === 'star' ? 15 : 9, color: colour },
    hovertemplate: `${name}: %{y:.3~g}<extra></extra>`,
    ...rest,
  };
};

/** What sliders are set to: a ring, wide enough to go around a measured mark. */
export const ring = (name, x, y, colour, look = {}) =>
  trace(name, [x], [y], colour, {
    marker: { symbol: 'circle-open', size: 18, color: colour, line: { width: 2.5 } },
    ...look,
  });

export const largest = (all, value) =>
  all.reduce((best, item) => value(item) > value(best) ? item : best, all[0]);

/** A field of rows. @param {Record<string, any>[]} rows */
export const column = (rows, field) => rows.map((row) => row[field]);

/** The row of a figure's race. @param {Answer} answer @param {Figure} figure */
export const rowOf = (
  { rows },
  { race },
) => /** @type {any} */ (rows.find((row) => row.race === race));
