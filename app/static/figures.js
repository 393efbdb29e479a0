// Figures of the Learn tab: curves that the server describes, drawn by Plotly when they come into view.
// @ts-check

import { axis, Charts, layout } from './views/charts.js';
import { labelHeights } from './state/race.js';

/** @typedef {{label: string, x: number[], y: number[], ours: boolean}} Line */
/** @typedef {{lines: Line[], x: {title: string, ticks: [number, string][]}, y: string}} Curves `y`: title of the axis */
const DASHES = ['solid', 'dash', 'dot', 'dashdot'];

/** @param {Curves} given @param {Record<string, string>} c colours by role */
function curves({ lines, x, y }, c) {
  const data = lines.map((line, i) => ({
    x: line.x,
    y: line.y,
    name: line.label,
    type: 'scatter',
    mode: 'lines+markers',
    hovertemplate: `${line.label}: %{y:.2f}×<extra></extra>`,
    line: {
      width: line.ours ? 2.6 : 1.6,
      dash: DASHES[i % DASHES.length],
      color: line.ours ? c.accent : c.muted,
    },
    marker: { size: line.ours ? 7 : 5, symbol: line.ours ? 'circle' : 'square' },
  }));
  const ends = lines.map((line) => ({
    x: line.x[line.x.length - 1],
    y: line.y[line.y.length - 1],
    done: false,
  }));
  const [least, most] = [
    Math.min(...lines.flatMap((line) => line.y)),
    Math.max(...lines.flatMap((line) => line.y)),
  ];
  const heights = labelHeights(ends, most, 0.07 * (most - least));
  const annotations = lines.map((line, i) => ({
    x: ends[i].x,
    y: heights[i],
    text: line.label,
    showarrow: false,
    xanchor: 'left',
    xshift: 8,
    font: { size: 11.5, color: line.ours ? c.accent : c.muted },
  }));
  const shape = layout(
    c,
    axis(c, x.title, {
      tickvals: x.ticks.map(([value]) => value),
      ticktext: x.ticks.map(([, words]) => words),
      showgrid: false,
    }),
    axis(c, y, { ticksuffix: '×' }),
  );
  return { data, layout: { ...shape, annotations, margin: { ...shape.margin, r: 150 } } };
}

/** Draw every described figure below `element`. @param {HTMLElement} element @param {{plotly: string}} options */
export function drawFigures(element, { plotly }) {
  const places = /** @type {HTMLElement[]} */ ([...element.querySelectorAll('[data-figure]')]);
  const figures = places.map((place) => {
    /** @type {Curves} */
    const given = JSON.parse(place.dataset.figure ?? '');
    return (/** @type {unknown} */ _, /** @type {Record<string, string>} */ c) => curves(given, c);
  });
  const charts = new Charts(
    Object.fromEntries(Object.entries(places)),
    Object.fromEntries(Object.entries(figures)),
    { plotly, without: 'The chart library could not be loaded; the numbers are below.', share: 0 },
  );
  charts.offer({});
}
