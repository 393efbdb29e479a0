// Figures of the Learn tab: curves that the server describes, drawn by Plotly when they come into view.
// @ts-check

import { axis, colours, layout, loadPlotly } from './views/charts.js';
import { labelHeights } from './state/race.js';

/**
 * @typedef {object} Figure
 * @property {{label: string, x: number[], y: number[], ours: boolean}[]} lines
 * @property {{title: string, ticks: [number, string][]}} x
 * @property {string} y title of the axis
 */
const DASHES = ['solid', 'dash', 'dot', 'dashdot'];

/** @param {HTMLElement} place @param {any} plotly */
function draw(place, plotly) {
  /** @type {Figure} */
  const { lines, x, y } = JSON.parse(place.dataset.figure ?? '');
  const c = colours(place);
  const data = lines.map((line, i) => ({
    x: line.x, y: line.y, name: line.label, type: 'scatter', mode: 'lines+markers', hovertemplate: `${line.label}: %{y:.2f}×<extra></extra>`,
    line: { width: line.ours ? 2.6 : 1.6, dash: DASHES[i % DASHES.length], color: line.ours ? c.accent : c.muted }, marker: { size: line.ours ? 7 : 5, symbol: line.ours ? 'circle' : 'square' },
  }));
  const ends = lines.map((line) => ({ x: line.x[line.x.length - 1], y: line.y[line.y.length - 1], done: false }));
  const [least, most] = [Math.min(...lines.flatMap((line) => line.y)), Math.max(...lines.flatMap((line) => line.y))];
  const heights = labelHeights(ends, most, 0.07 * (most - least));
  const annotations = lines.map((line, i) => ({ x: ends[i].x, y: heights[i], text: line.label, showarrow: false, xanchor: 'left', xshift: 8, font: { size: 11.5, color: line.ours ? c.accent : c.muted } }));
  const shape = layout(c, axis(c, x.title, { tickvals: x.ticks.map(([value]) => value), ticktext: x.ticks.map(([, words]) => words), showgrid: false }), axis(c, y, { ticksuffix: '×' }));
  plotly.react(place, data, { ...shape, annotations, margin: { ...shape.margin, r: 150 } }, { displayModeBar: false, responsive: true });
}

/** Draw every described figure below `element`, and again when the theme changes. @param {HTMLElement} element @param {any} props @param {any} watch @param {{plotly: string}} options */
export function mount(element, props, watch, { plotly: address }) {
  const places = /** @type {HTMLElement[]} */ ([...element.querySelectorAll('[data-figure]')]);
  const seen = new Set();
  const show = (/** @type {HTMLElement} */ place) => loadPlotly(address).then((plotly) => draw(place, plotly), () => { place.textContent = 'The chart library could not be loaded; the numbers are below.'; });
  const watcher = new IntersectionObserver((entries) => {
    for (const { target, isIntersecting } of entries) {
      if (!isIntersecting) continue;
      watcher.unobserve(target);
      seen.add(target);
      show(/** @type {HTMLElement} */ (target));
    }
  });
  for (const place of places) watcher.observe(place);
  new MutationObserver(() => seen.forEach(show)).observe(document.body, { attributeFilter: ['class'] });
}
