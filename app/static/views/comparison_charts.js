// The three figures of the Compare tab, from values to Plotly's data.
// @ts-nocheck: it reads no event

import { axis, layout } from './charts.js';
import { MEAN, degrees, intervalWords, numbersOf } from '../state/comparison.js';
import { ratio } from '../state/format.js';

const FAINT = 0.5; // of bars that are not what the switches chose

/** `share` of one colour in another, both #rrggbb: whiskers stay readable on it. */
function mix(one, other, share) {
  const part = (colour, i) => parseInt(colour.slice(1 + 2 * i, 3 + 2 * i), 16);
  return `rgb(${[0, 1, 2].map((i) => Math.round(share * part(one, i) + (1 - share) * part(other, i))).join(',')})`;
}

/** Which speed-up a point stands on: τ over the cost, of all flavours with all tokens pooled; the leaderboard has their mean. */
function speedWords({ tau, cost, value }, flavour) {
  const quotient = `τ / cost = ${ratio(tau / cost)}×`;
  return flavour === MEAN ? `speed-up, pooled (all tokens together) = ${quotient}<br>mean of the flavours: ${ratio(value)}×` : `speed-up = ${quotient}`;
}

/** τ against the cost of a round; behind it lines of equal speed-up. `size` is the plot in pixels. */
export function costFigure({ table, flavour, marks, shown, place }, c, size) {
  const cells = table.cells.filter((cell) => shown.has(cell.group) || cell.drafter === 'none');
  const points = cells.map((cell) => ({ cell, ...numbersOf(cell, flavour) })).filter((point) => point.cost);
  const right = 1.12 * Math.max(1.5, ...points.map((point) => point.cost));
  const top = 1.15 * Math.max(2, ...points.map((point) => point.tau));
  const inner = { width: Math.max(120, size.width - 62), height: Math.max(80, size.height - 58) };
  const spots = points.map((point) => ({ x: (point.cost / right) * inner.width, y: (1 - point.tau / top) * inner.height, text: point.cell.short }));
  const positions = place(spots, inner);
  const lines = [];
  const notes = [];
  for (let speed = 1; speed <= Math.ceil(top); speed += 1) {
    const end = Math.min(right, top / speed);
    if (speed > 1 && end < 0.2 * right) break;
    lines.push({ type: 'scatter', mode: 'lines', x: [0, end], y: [0, speed * end], hoverinfo: 'skip', line: { color: c.edge, width: speed === 1 ? 1.6 : 1, dash: speed === 1 ? 'solid' : 'dot' } });
    notes.push({ x: end, y: speed * end, text: `${speed}×`, showarrow: false, font: { size: 10.5, color: c.muted }, xanchor: 'right', yanchor: speed * end < 0.93 * top ? 'bottom' : 'top', bgcolor: c.card, borderpad: 1 });
  }
  const data = [...lines, {
    type: 'scatter', mode: 'markers+text', x: points.map((point) => point.cost), y: points.map((point) => point.tau),
    text: points.map((point) => point.cell.short), textposition: positions, textfont: { size: 11, color: c.ink }, cliponaxis: false,
    customdata: points.map((point) => [point.cell.label, point.cell.words || '1 token per pass', speedWords(point, flavour), point.cell.group, flavour, table.temperature]),
    marker: { size: 11, symbol: points.map((point) => marks.get(point.cell.group).symbol), color: points.map((point) => c[marks.get(point.cell.group).role]), line: { color: points.map((point) => (point.cell.drafter === 'none' ? c.target : c.card)), width: points.map((point) => (point.cell.drafter === 'none' ? 2.5 : 1)) } },
    hovertemplate: '<b>%{customdata[0]}</b>, %{customdata[1]}<br>τ = %{y:.3f} tokens per round (target pass)<br>cost of a round = %{x:.3f} vanilla passes<br>%{customdata[2]}<extra></extra>',
  }];
  const shape = layout(c, axis(c, 'cost of a round, in vanilla passes', { range: [0, right] }), axis(c, 'τ, tokens per round', { range: [0, top] }));
  return { data, layout: { ...shape, annotations: notes } };
}

/** Share accepted at each position of the window, for each method. */
export function acceptanceCurves({ table, marks, shown }, c) {
  const cells = table.cells.filter((cell) => cell.drafter !== 'none' && shown.has(cell.group));
  const data = cells.map((cell) => {
    const mark = marks.get(cell.group);
    const tested = cell.alpha_at.map((_, i) => cell.tested_at[i] ?? null);
    return {
      type: 'scatter', mode: 'lines+markers', name: cell.short, x: cell.alpha_at.map((_, i) => i + 1), y: cell.alpha_at, connectgaps: false,
      customdata: tested.map((count) => [cell.label, count === null ? 'an unknown number of' : count, cell.group]),
      line: { color: c[mark.role], width: 1.8, dash: mark.dash },
      marker: { size: 8, symbol: tested.map((count) => mark.symbol + (count !== null && count < 20 ? '-open' : '')), color: c[mark.role] },
      hovertemplate: '<b>%{customdata[0]}</b><br>α at position %{x} = %{y:.3f}: accepted of %{customdata[1]} tests<extra></extra>',
    };
  });
  const most = Math.max(4, ...cells.map((cell) => cell.alpha_at.length));
  return { data, layout: layout(c, axis(c, 'position in the window (of a tree: depth)', { range: [0.5, most + 0.5], dtick: most > 16 ? 4 : 1, showgrid: false }), axis(c, 'α, accepted of tested', { range: [0, 1.04], dtick: 0.25 })) };
}

/** Speed-up by temperature and flavour, a bar for each method; the table on screen stands out. */
export function flavourBars({ tables, table, flavour, marks, shown }, c) {
  const groups = [...marks.keys()].filter((group) => shown.has(group) && tables.some((one) => one.cells.some((cell) => cell.group === group)));
  const data = groups.map((group) => {
    const bars = tables.flatMap((one) => {
      const cell = one.cells.find((found) => found.group === group);
      return cell ? one.flavours.map((name) => ({ one, cell, name, ...cell.by_flavour[name] })) : [];
    });
    const mark = marks.get(group);
    const colour = c[mark.role];
    const first = bars[0] ? bars[0].cell : { short: group };
    const spread = bars.map((bar) => (bar.low === null ? null : [bar.high - bar.value, bar.value - bar.low]));
    return {
      type: 'bar', name: `${mark.glyph} ${first.short}`, y: bars.map((bar) => bar.value),
      x: [bars.map((bar) => `temperature ${degrees(bar.one.temperature)}`), bars.map((bar) => bar.name)],
      customdata: bars.map((bar) => [bar.cell.label, bar.cell.words, intervalWords(bar, bar.cell), group, bar.name, bar.one.temperature]),
      error_y: { type: 'data', symmetric: false, array: spread.map((pair) => (pair ? pair[0] : 0)), arrayminus: spread.map((pair) => (pair ? pair[1] : 0)), color: c.ink, thickness: 1, width: 2 },
      marker: {
        color: mark.pattern ? c.card : mix(colour, c.card, 0.5), line: { color: colour, width: 1 },
        pattern: mark.pattern ? { shape: mark.pattern, fgcolor: mix(colour, c.card, 0.7), bgcolor: c.card, size: 5, solidity: 0.55 } : undefined,
        opacity: bars.map((bar) => (bar.one !== table || (flavour !== MEAN && bar.name !== flavour) ? FAINT : 1)),
      },
      hovertemplate: '<b>%{customdata[0]}</b>, %{customdata[1]}<br>%{customdata[4]}: speed-up %{y:.2f}× over vanilla<br>%{customdata[2]}<extra>click: the recorded race</extra>',
    };
  });
  const x = axis(c, '', { type: 'multicategory', showgrid: false, dividercolor: c.line, tickangle: 0 });
  const shape = layout(c, x, axis(c, 'speed-up over vanilla, ×', { rangemode: 'tozero' }));
  const one = { type: 'line', xref: 'paper', x0: 0, x1: 1, y0: 1, y1: 1, line: { color: c.target, width: 1.2, dash: 'dot' } };
  return { data, layout: { ...shape, barmode: 'group', bargap: 0.22, bargroupgap: 0.06, shapes: [one], margin: { ...shape.margin, b: 46 } } };
}
