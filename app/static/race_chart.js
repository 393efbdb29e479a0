// Tokens over decode time, all lanes of a race: colour, dash, mark and a label on each line. Knows figures, no DOM.

import { labelHeights } from './standings.js';
import { axis, layout } from './charts.js';

const DASHES = ['solid', 'dash', 'dashdot', 'longdash', '10px,3px,2px,3px,2px,3px', '4px,2px', 'longdashdot'];
const MARKS = ['circle', 'square', 'triangle-up', 'diamond', 'star', 'cross', 'hexagon'];
const GLYPHS = ['●', '■', '▲', '◆', '★', '✚', '⬢'];

/** How the lanes of a race are told apart: {role, dash, mark, glyph}; the baseline is always the dotted grey one. */
export function stylesOf(names, baseline) {
  let next = 0;
  return Object.fromEntries(names.map((name) => {
    if (name === baseline) return [name, { role: 'target', dash: 'dot', mark: 'x', glyph: '┆' }];
    const i = next % GLYPHS.length;
    next += 1;
    return [name, { role: `lane-${i + 1}`, dash: DASHES[i], mark: MARKS[i], glyph: GLYPHS[i] }];
  }));
}

/**
 * @param {object} scene {names, labels, styles, states, clocks, duration, total, selected}
 * @param {Record<string, string>} c colours by role
 */
export function raceFigure(scene, c) {
  const { names, labels, styles, states, clocks, duration, total, selected } = scene;
  const most = Math.max(1, total);
  const gap = most * 0.075;
  const drawn = names.filter((name) => styles[name] && states[name] && clocks[name] && (states[name].tokens.length || !clocks[name].done)); // none that failed before it began, or of the race before the one that is being cleared for
  const data = drawn.map((name) => {
    const { points } = states[name];
    const style = styles[name];
    const x = [...points.map((point) => point.t), clocks[name].seconds];
    const y = [...points.map((point) => point.total), points[points.length - 1].total];
    return { x, y, name: labels[name], type: 'scatter', mode: 'lines+markers', marker: { symbol: style.mark, size: 8, opacity: x.map((_, i) => Number(i === x.length - 1)), color: c[style.role] },
      line: { shape: 'hv', width: name === selected ? 3 : 1.8, color: c[style.role], dash: style.dash }, hovertemplate: `${escaped(labels[name])}: %{y} tokens at %{x:.4f} s<extra></extra>` };
  });
  const ends = drawn.map((name) => {
    const { points } = states[name];
    return { x: clocks[name].seconds, y: points[points.length - 1].total, done: clocks[name].done };
  });
  const heights = labelHeights(ends, most, gap);
  const annotations = drawn.map((name, i) => {
    const late = ends[i].x > 0.55 * duration;
    return { x: ends[i].x, y: ends[i].y, ax: ends[i].x, ay: heights[i], axref: 'x', ayref: 'y', text: escaped(labels[name]), showarrow: true, arrowhead: 0, arrowwidth: 1,
      arrowcolor: c[styles[name].role], font: { size: 11.5, color: c[styles[name].role] }, bgcolor: c.card, borderpad: 1, xanchor: late ? 'right' : 'left', xshift: 0 };
  });
  const top = most + gap * (names.length + 1);
  const ticks = nice(most);
  return { data, layout: { ...layout(c, axis(c, 'decode time, s', { range: [0, duration * 1.04 || 1] }), axis(c, 'tokens', { range: [0, top], tickvals: ticks })), annotations } };
}

/** Round steps up to the longest text: the labels' own room above it has no ticks. */
function nice(most) {
  const step = [1, 2, 5, 10, 20, 25, 50, 100, 200].find((value) => most / value <= 6) || 100;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

/** Plotly reads a little markup in labels; a lane's name may come from a foreign trace. */
const escaped = (words) => words.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');
