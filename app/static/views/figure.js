// Draws the figures of any question, whose colours are roles, and applies its switches.

import { axis, layout } from './charts.js';
/** @import { Figure, Report } from '../state/exploration.js' */
/** @import { Colours } from './charts.js' */

/** JSON with the theme's colours in place of roles (`"@draft"`). @param {Colours} c */
export function painted(value, c) {
  if (typeof value === 'string') {
    return /^@[a-z][a-z0-9-]*$/.test(value) ? c[value.slice(1)] : value;
  }
  if (Array.isArray(value)) return value.map((one) => painted(one, c));
  return value && typeof value === 'object'
    ? Object.fromEntries(Object.entries(value).map(([name, one]) => [name, painted(one, c)]))
    : value;
}

const LEGEND = { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: { size: 11.5 } };

/**
 * A figure for Plotly in this page's style, or a sentence on why there is nothing to draw.
 * @param {Figure} figure @param {Colours} c @param {{data: object[], reach?: {x: number, y: number}}} [added] by a widget
 */
export function drawn({ data = [], layout: described, empty = '' }, c, added = { data: [] }) {
  const marks = [...data, ...added.data];
  if (!marks.length) return empty || 'Nothing has been measured for this yet.';
  const { xaxis = {}, yaxis = {}, ...rest } = painted(described, c);
  const styled = ({ title = '', range, ...more }, reach = 0) => {
    const wide = range && reach > range[1] ? [range[0], reach] : range;
    return axis(c, title, wide ? { ...more, range: wide } : more);
  };
  const shape = layout(c, styled(xaxis, added.reach?.x), styled(yaxis, added.reach?.y));
  for (const name of Object.keys(rest)) {
    if (/^[xy]axis\d$/.test(name)) rest[name] = styled(rest[name]);
  }
  const room = { t: rest.showlegend ? 12 : shape.margin.t, r: rest.yaxis2 ? 48 : shape.margin.r };
  return {
    data: painted(marks, c),
    layout: { ...shape, legend: LEGEND, ...rest, margin: { ...shape.margin, ...room } },
  };
}

/** Whether something is shown at these values of the switches; missing switches hide nothing. @param {{when?: Record<string, string>}} what @param {Record<string, string>} chosen */
export const isShown = ({ when = {} }, chosen) =>
  Object.entries(when).every(([name, value]) => !(name in chosen) || chosen[name] === value);

/** The values of a report's switches: the chosen ones if they still exist, otherwise the first. @param {Report} report @param {Record<string, string>} asked */
export const settled = ({ switches = [] }, asked) =>
  Object.fromEntries(switches.map(({ name, options }) => [
    name,
    options.some(([value]) => value === asked[name]) ? asked[name] : options[0][0],
  ]));
