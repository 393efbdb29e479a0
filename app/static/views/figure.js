// Gives figures, whose colours are roles, to Plotly in this page's style; a question's switches.

/** @import { Report } from '../state/events.d.ts' */
/** @import { Figure } from '../state/exploration.js' */

/** @typedef {Record<string, string>} Colours by role of the palette */

/** JSON with the theme's colours in place of roles (`"@draft"`). @param {Colours} c */
function painted(value, c) {
  if (typeof value === 'string') {
    return /^@[a-z][a-z0-9-]*$/.test(value) ? c[value.slice(1)] || value : value;
  }
  if (Array.isArray(value)) return value.map((item) => painted(item, c));
  return value && typeof value === 'object'
    ? Object.fromEntries(Object.entries(value).map(([name, item]) => [name, painted(item, c)]))
    : value;
}

const AXIS = {
  gridcolor: '@line',
  linecolor: '@line',
  zeroline: false,
  tickfont: { size: 11, color: '@muted' },
  automargin: true,
  fixedrange: true,
};
const LAYOUT = {
  margin: { l: 44, r: 10, t: 8, b: 38 },
  showlegend: false,
  legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', maxheight: 0.7, font: { size: 11.5 } },
  paper_bgcolor: 'rgba(0,0,0,0)',
  plot_bgcolor: 'rgba(0,0,0,0)',
  font: { family: 'Inter, system-ui, sans-serif', size: 12, color: '@ink' },
  uirevision: 'keep',
  hoverlabel: { bgcolor: '@card', bordercolor: '@edge', font: { color: '@ink', size: 12 } },
  bargap: 0.35,
  dragmode: false,
};

/** An axis in this page's style, widened up to `reach`. @param {Record<string, any>} [axis] */
const styled = ({ title = '', range, ...rest } = {}, reach = 0) => ({
  ...AXIS,
  title: { text: title, font: { size: 11.5, color: '@muted' }, standoff: 6 },
  ...(range && { range: reach > range[1] ? [range[0], reach] : range }),
  ...rest,
});

/** A figure for Plotly in this page's style, or a sentence on why there is nothing to draw.
 *  @param {Partial<Figure>} figure @param {Colours} c
 *  @returns {{data: object[], layout: object} | string} */
export function styledFigure(
  { data = [], layout: given = {}, empty = '', added = { data: [] } },
  c,
) {
  const marks = [...data, ...added.data];
  if (!marks.length) return empty || 'Nothing has been measured for this yet.';
  const axes = Object.keys(given).filter((name) => /^[xy]axis\d$/.test(name));
  const layout = {
    ...LAYOUT,
    ...given,
    xaxis: styled(given.xaxis, added.reach?.x),
    yaxis: styled(given.yaxis, added.reach?.y),
    ...Object.fromEntries(axes.map((name) => [name, styled(given[name])])),
    margin: {
      ...LAYOUT.margin,
      ...given.margin,
      ...(given.showlegend && { t: 12 }),
      ...(given.yaxis2 && { r: 48 }),
    },
  };
  return painted({ data: marks, layout }, c);
}

/** Whether something is shown at these values of the switches; missing switches hide nothing.
 *  @param {{when?: Record<string, string>}} what @param {Record<string, string>} chosen */
export const applies = ({ when = {} }, chosen) =>
  Object.entries(when).every(([name, value]) => !(name in chosen) || chosen[name] === value);

/** The values of a report's switches: the chosen ones if they still exist, otherwise the first.
 *  @param {Report} report @param {Record<string, string>} chosen */
export const settled = ({ switches = [] }, chosen) =>
  Object.fromEntries(switches.map(({ name, options }) => [
    name,
    options.some(([value]) => value === chosen[name]) ? chosen[name] : options[0][0],
  ]));
