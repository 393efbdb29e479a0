// The charts of each exploration: pure functions from an answer to Plotly's figures, and the sentences beside them.
// @ts-nocheck: it reads no event

import { alignmentWords } from '../state/alignment.js';
import { axis, escaped, layout } from './charts.js';
import { LABEL_PIXELS, fitLabels } from '../state/comparison.js';
import { DRAWS, PlaygroundView, SandboxView, SideBySideView } from './widgets.js';
import { acceptance, biasWords, budgetFor, paperShape, tauAround } from '../state/exploration.js';
import { milliseconds, plural, quoted, ratio, times } from '../state/format.js';

const sorted = (values) => [...new Set(values)].sort((a, b) => a - b);

/** Colours below and above 1: slower is vermilion, faster is blue, and the number stands in each cell. */
function aroundOne(c, least, most) {
  const one = Math.min(0.98, Math.max(0.02, (1 - least) / (most - least)));
  return [[0, c.residual], [one, c.card], [1, c.draft]];
}

const WINDOW = { across: 'gamma', up: 'steps', x: 'γ, tokens drafted per round', y: 'T, denoising steps', symbols: ['γ', 'T'] };
const DEGREES = { across: 'draft_temperature', up: 'temperature', x: 'temperature of the drafter', y: 'temperature of the target', symbols: ['drafter', 'target'] };

/** Rows as a heat map with its numbers in it, by two of their fields. `numbers(row)`: what a cell shows. */
function heat(rows, c, numbers, words, { best = null, clicks = false, sides = WINDOW, around = true } = {}) {
  const gammas = sorted(rows.map((row) => row[sides.across]));
  const steps = sorted(rows.map((row) => row[sides.up]));
  const at = new Map(rows.map((row) => [`${row[sides.across]} ${row[sides.up]}`, row]));
  const cells = steps.map((step) => gammas.map((gamma) => at.get(`${gamma} ${step}`)));
  const z = cells.map((line) => line.map((row) => (row ? numbers(row) ?? null : null)));
  const known = z.flat().filter((value) => value !== null);
  if (!known.length) return 'No cell has been measured yet.';
  const [least, most] = around ? [Math.min(0.7, ...known), Math.max(1.3, ...known)] : [Math.min(...known), Math.max(...known) + 1e-9];
  const text = cells.map((line, i) => line.map((row, j) => (z[i][j] === null ? (row?.failed ? '!' : '') : `${ratio(z[i][j])}${row === best ? ' ★' : ''}`)));
  const data = [{
    type: 'heatmap', x: gammas.map(String), y: steps.map(String), z, text, texttemplate: '%{text}', textfont: { size: 11.5 }, xgap: 2, ygap: 2, zmin: least, zmax: most,
    colorscale: around ? aroundOne(c, least, most) : [[0, c['draft-tint']], [1, c.draft]], showscale: false, hoverongaps: false,
    customdata: cells.map((line, i) => line.map((row, j) => (z[i][j] === null ? [null, row?.failed ?? ''] : [row.race, words(row)]))),
    hovertemplate: `${sides.symbols[0]} %{x}, ${sides.symbols[1]} %{y}<br>%{customdata[1]}<extra>${clicks ? 'click: its race' : ''}</extra>`,
  }];
  const x = axis(c, sides.x, { type: 'category', showgrid: false });
  const y = axis(c, sides.y, { type: 'category', showgrid: false });
  const impossible = sides === WINDOW && steps[steps.length - 1] > gammas[0] ? [{ xref: 'paper', yref: 'paper', x: 0.02, y: 0.98, xanchor: 'left', yanchor: 'top', showarrow: false, text: 'T ≤ γ', font: { size: 11.5, color: c.muted } }] : [];
  return { data, layout: { ...layout(c, x, y), annotations: impossible } };
}

/** A bar's fill: its colour, and a hatch so that colour is never alone. */
const hatched = (c, colour, shape) => ({ color: shape ? c.card : colour, line: { color: colour, width: 1 }, pattern: shape ? { shape, fgcolor: colour, bgcolor: c.card, size: 5, solidity: 0.55 } : undefined });

const fastest = (rows) => rows.reduce((best, row) => (row.speedup > (best?.speedup ?? 0) ? row : best), null);
const spread = (row) => (row.low === null || row.low === undefined ? 'one prompt: no interval' : `95 % interval ${ratio(row.low)} to ${ratio(row.high)}, ${row.prompts} prompts`);

const measured = ({ answer: { rows }, races }, c) => heat(rows, c, (row) => row.speedup,
  (row) => `measured speed-up ${times(row.speedup)}<br>${spread(row)}<br>τ = ${ratio(row.tau)}, α = ${ratio(row.alpha)}<br>${ratio(1000 * row.seconds_per_round, 1)} ms a round<br>predicted ${times(row.predicted)}`, { best: fastest(rows), clicks: races });
const predicted = ({ answer: { rows } }, c) => heat(rows, c, (row) => row.predicted, (row) => `predicted speed-up ${times(row.predicted)}<br>from E[τ] = ${ratio(row.predicted_tau)} and bare passes<br>measured ${times(row.speedup)}`);
const difference = ({ answer: { rows } }, c) => heat(rows, c, (row) => (row.speedup ? row.predicted / row.speedup : null), (row) => `predicted ${times(row.predicted)}, measured ${times(row.speedup)}`);

const DASHES = ['solid', 'dash', 'dot', 'dashdot', 'longdash', 'longdashdot'];
const MARKS = ['circle', 'square', 'diamond', 'triangle-up', 'cross', 'x', 'star', 'pentagon'];

function slices({ answer: { rows }, races }, c) {
  const known = rows.filter((row) => row.speedup);
  if (!known.length) return 'A line for each T, as soon as its cells are measured.';
  const data = sorted(known.map((row) => row.steps)).map((step, i) => {
    const own = known.filter((row) => row.steps === step);
    const colour = c[`lane-${(i % 11) + 1}`];
    return {
      type: 'scatter', mode: 'lines+markers', name: `T ${step}`, x: own.map((row) => row.gamma), y: own.map((row) => row.speedup), customdata: own.map((row) => [row.race, spread(row)]),
      line: { color: colour, width: 1.8, dash: DASHES[i % DASHES.length] }, marker: { symbol: MARKS[i % MARKS.length], size: 7, color: colour },
      error_y: { type: 'data', symmetric: false, array: own.map((row) => (row.high ?? row.speedup) - row.speedup), arrayminus: own.map((row) => row.speedup - (row.low ?? row.speedup)), color: colour, thickness: 1, width: 2 },
      hovertemplate: `T ${step}, γ %{x}: %{y:.2f}×<br>%{customdata[1]}<extra>${races ? 'click: its race' : ''}</extra>`,
    };
  });
  const one = { type: 'line', xref: 'paper', x0: 0, x1: 1, y0: 1, y1: 1, line: { color: c.target, width: 1.2, dash: 'dot' } };
  const shape = layout(c, axis(c, 'γ, tokens drafted per round'), axis(c, 'speed-up over vanilla, ×', { rangemode: 'tozero' }));
  return { data, layout: { ...shape, shapes: [one], showlegend: true, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: { size: 11.5 } }, margin: { ...shape.margin, t: 12 } } };
}

// What would it take?

/** Methods and the sandbox by what a round brings and costs, with lines of equal speed-up. Where names would cover each other, some are left to the pointer. */
function plane({ answer: { rows }, widget, methods }, c, size = { width: 700, height: 300 }) {
  const known = rows.filter((row) => row.speedup);
  const here = widget.point;
  const most = [Math.max(3, here.cost, ...known.map((row) => row.cost)) * 1.08, Math.max(4, here.tau, ...known.map((row) => row.tau)) * 1.08];
  const lines = [1, 1.5, 2, 3, 4, 6].filter((speed) => speed * 0.8 < most[1]).map((speed) => ({
    type: 'scatter', mode: 'lines', x: [0, Math.min(most[0], most[1] / speed)], y: [0, Math.min(most[1], most[0] * speed)], hoverinfo: 'skip', line: { color: speed === 1 ? c.residual : c.line, width: speed === 1 ? 1.6 : 1, dash: speed === 1 ? 'dash' : 'solid' } }));
  const labels = [1, 1.5, 2, 3, 4, 6].filter((speed) => speed * 0.8 < most[1]).map((speed) => ({ x: Math.min(most[0], most[1] / speed), y: Math.min(most[1], most[0] * speed), text: `${speed}×`, showarrow: false, xanchor: 'right', yanchor: 'top', font: { size: 11, color: c.muted } }));
  const inner = { width: Math.max(120, size.width - 62), height: Math.max(80, size.height - 58) };
  const spot = (cost, tau, text, more = {}) => ({ x: (cost / most[0]) * inner.width, y: (1 - tau / most[1]) * inner.height, text, ...more });
  const words = `sandbox ${times(here.speedup)}`;
  const [top, ...names] = fitLabels([
    spot(here.cost, here.tau, words, { kept: true }), ...known.map((row) => spot(row.cost, row.tau, row.method)),
    ...labels.map(({ x, y }) => { const { x: right, y: above } = spot(x, y, ''); return { x: right - 10, y: above + 8, text: '' }; }),
  ], (text) => LABEL_PIXELS * text.length, inner);
  const points = known.map((row, i) => ({
    type: 'scatter', mode: 'markers+text', x: [row.cost], y: [row.tau], text: [names[i] ? row.method : ''], textposition: names[i] ?? 'top center', textfont: { size: 11, color: c.ink }, customdata: [[row.race, `${row.label}: ${times(row.speedup)}<br>${spread(row)}<br>${ratio(1000 * row.seconds_per_round, 1)} ms a round`]],
    marker: { size: 10, symbol: methods[row.method].mark, color: c[methods[row.method].colour] }, hovertemplate: '%{customdata[1]}<br>τ = %{y:.2f}, cost %{x:.2f}<extra>click: its race</extra>' }));
  const star = { type: 'scatter', mode: 'markers+text', x: [here.cost], y: [here.tau], text: [words], textposition: top, textfont: { size: 12, color: c.accent }, marker: { size: 16, symbol: 'star', color: c.accent, line: { color: c.card, width: 1 } }, hovertemplate: 'the sandbox: τ = %{y:.2f}, cost %{x:.2f}<extra></extra>' };
  const shape = layout(c, axis(c, 'cost of a round, in vanilla passes', { range: [0, most[0]] }), axis(c, 'τ, tokens per round', { range: [0, most[1]] }));
  return { data: [...lines, ...points, star], layout: { ...shape, annotations: labels } };
}

function passes({ answer: { facts, rows }, widget, methods }, c) {
  const of = (drafter) => methods[rows.find((row) => row.drafter === drafter)?.method] ?? { colour: 'ink', mark: 'x' }; // that of a method which uses it
  const line = (name, curve, colour, dash, mark) => ({ type: 'scatter', mode: 'lines+markers', name, x: curve.map(([rows]) => rows), y: curve.map(([, seconds]) => 1000 * seconds), line: { color: colour, width: 1.8, dash }, marker: { symbol: mark, size: 7, color: colour }, hovertemplate: `${name}, %{x}: %{y:.2f} ms<extra></extra>` });
  const data = [line('target, by rows', facts.curve, c.target, 'solid', 'circle'), ...Object.entries(facts.drafts).map(([name, curve], i) => line(`${name}, by γ`, curve, c[of(name).colour], DASHES[i % DASHES.length], of(name).mark))];
  if (widget.typed) data.push(line('typed', widget.typed, c.accent, 'longdash', 'star'));
  const shape = layout(c, axis(c, 'rows of the target’s pass, γ of a drafter’s'), axis(c, 'milliseconds of one pass', { rangemode: 'tozero' }));
  return { data, layout: { ...shape, showlegend: true, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: { size: 11 } }, margin: { ...shape.margin, t: 12 } } };
}

/** How far drafts survive, against what one α for all positions would give. */
function lengths({ answer: { rows, facts }, methods }, c) {
  const chosen = rows.filter((row) => facts.lengths[row.method] && row.alpha && row.gamma >= 4 && row.nodes === 0 && row.drafts === 1).sort((a, b) => b.gamma - a.gamma || b.tau - a.tau).slice(0, 3);
  if (!chosen.length) return 'Lines for windows of four tokens and more, as soon as they are measured.';
  const data = chosen.flatMap((row) => {
    const counts = facts.lengths[row.method];
    const all = counts.reduce((sum, [, count]) => sum + count, 0);
    const x = Array.from({ length: row.gamma + 1 }, (_, m) => m);
    const [colour, mark] = [c[methods[row.method].colour], methods[row.method].mark];
    return [
      { type: 'scatter', mode: 'lines+markers', name: `${row.method}, measured`, x, y: x.map((m) => counts.filter(([kept]) => kept >= m).reduce((sum, [, count]) => sum + count, 0) / all), line: { color: colour, width: 2 }, marker: { symbol: mark, size: 7, color: colour }, hovertemplate: `${row.method}: %{y:.2f} of ${all} rounds kept %{x} or more<extra></extra>` },
      { type: 'scatter', mode: 'lines', name: `α^m, α = ${ratio(row.alpha)}`, x, y: x.map((m) => row.alpha ** m), line: { color: colour, width: 1.4, dash: 'dot' }, hovertemplate: `one α for all: %{y:.2f}<extra></extra>` },
    ];
  });
  const shape = layout(c, axis(c, 'm, tokens of the draft'), axis(c, 'rounds that kept m or more', { range: [0, 1.04] }));
  return { data, layout: { ...shape, showlegend: true, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: { size: 11 } }, margin: { ...shape.margin, t: 12 } } };
}

// Losslessness.

function distances({ answer: { rows } }, c) {
  if (!rows.length) return 'A line for each rule, as soon as it has runs.';
  const names = [...new Set(rows.map((row) => row.rule))];
  const first = rows.filter((row) => row.rule === names[0]);
  const floor = (key, name, dash) => ({ type: 'scatter', mode: 'lines', name, x: first.map((row) => row.runs), y: first.map((row) => row[key]), line: { color: c.target, width: 1.4, dash }, fill: key === 'floor_high' ? 'tozeroy' : 'none', fillcolor: c['target-tint'], hovertemplate: `${name}: %{y:.4f}<extra></extra>` });
  const data = [floor('floor_high', 'noise: 99 % of exact samples stay below', 'dot'), floor('floor', 'noise: mean', 'dash'), ...names.map((rule, i) => {
    const own = rows.filter((row) => row.rule === rule);
    const colour = own[0].lossless ? c[`lane-${(i % 11) + 1}`] : c.alarm;
    return { type: 'scatter', mode: 'lines+markers', name: own[0].lossless ? rule : `${rule} (not exact)`, x: own.map((row) => row.runs), y: own.map((row) => row.distance), customdata: own.map((row) => [null, row.p_value.toExponential(1)]), line: { color: colour, width: own[0].lossless ? 1.8 : 2.6, dash: own[0].lossless ? DASHES[i % DASHES.length] : 'solid' }, marker: { symbol: own[0].lossless ? MARKS[i % MARKS.length] : 'x', size: 8, color: colour }, hovertemplate: `${rule}, %{x} runs: distance %{y:.4f}<br>p = %{customdata[1]}<extra></extra>` };
  })];
  const shape = layout(c, axis(c, 'runs of each rule', { type: 'log', dtick: 1 }), axis(c, 'total variation to the exact law', { type: 'log', dtick: 1 }));
  return { data, layout: { ...shape, showlegend: true, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: { size: 11.5 } }, margin: { ...shape.margin, t: 12, l: 56 } } };
}

function joint({ answer: { facts } }, c) {
  const rows = facts.joint;
  const rules = Object.keys(rows[0] || {}).filter((name) => !['text', 'exact'].includes(name));
  const x = rows.map((row) => row.text.join(' '));
  const bars = (name, label, colour, pattern) => ({ type: 'bar', name: label, x, y: rows.map((row) => row[name]), marker: hatched(c, colour, pattern), hovertemplate: `${label}: %{y:.4f}<extra>%{x}</extra>` });
  const patterns = ['/', '.', '\\', 'x', '-'];
  const data = [bars('exact', 'exact law', c.target, ''), ...rules.map((rule, i) => bars(rule, rule, rule === 'naive' ? c.alarm : c[`lane-${(i % 11) + 1}`], patterns[i % patterns.length]))];
  const shape = layout(c, axis(c, 'first tokens (ids)', { type: 'category', showgrid: false }), axis(c, 'share of runs', { rangemode: 'tozero' }));
  return { data, layout: { ...shape, barmode: 'group', bargap: 0.25, showlegend: true, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: { size: 11.5 } }, margin: { ...shape.margin, t: 12 } } };
}

function threeTokens({ widget }, c) {
  const { p, q, drawn } = widget;
  const { kept, residual } = acceptance(p, q);
  const x = PlaygroundView.TOKENS;
  const bar = (name, y, colour, pattern = '') => ({ type: 'bar', name, x, y, marker: hatched(c, colour, pattern), hovertemplate: `${name}(%{x}) = %{y:.3f}<extra></extra>` });
  const data = [bar('p, target', p, c.target), bar('q, drafter', q, c.draft), bar('min(p, q), accepted', kept, c.bonus, '/'), bar('residual', residual || [0, 0, 0], c.residual, 'x')];
  if (drawn) data.push(bar(`${DRAWS.toLocaleString('en')} draws`, drawn.counts.map((count) => count / DRAWS), c.plum, '.'));
  const shape = layout(c, axis(c, '', { type: 'category', showgrid: false }), axis(c, 'probability', { range: [0, 1] }));
  return { data, layout: { ...shape, barmode: 'group', bargap: 0.2, showlegend: true, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: { size: 11.5 } }, margin: { ...shape.margin, t: 12 } } };
}

const PVALUE = 1e-6;
const LEGEND = { showlegend: true, legend: { orientation: 'h', y: 1.02, yanchor: 'bottom', x: 0, font: { size: 11.5 } } };

/** Lines by a field of the rows, each with its dash and mark; one named as a method of `methods` looks as the method does. */
function linesBy(rows, c, field, x, y, words, methods = {}) {
  return [...new Set(rows.map((row) => row[field]))].map((name, i) => {
    const own = rows.filter((row) => row[field] === name && row[y] !== null && row[y] !== undefined);
    const { colour: role, mark, short } = methods[name] ?? { colour: `lane-${(i % 11) + 1}`, mark: MARKS[i % MARKS.length], short: String(name) };
    const colour = c[role];
    return { type: 'scatter', mode: 'lines+markers', name: short, x: own.map((row) => row[x]), y: own.map((row) => row[y]), customdata: own.map((row) => [row.race ?? null, words(row)]),
      line: { color: colour, width: 1.8, dash: DASHES[i % DASHES.length] }, marker: { symbol: mark, size: 7, color: colour, line: { color: colour, width: mark.startsWith('line') ? 2 : 0 } }, hovertemplate: '%{customdata[1]}<extra></extra>' };
  });
}
const framed = (c, data, x, y) => {
  const shape = layout(c, x, y);
  return { data, layout: { ...shape, ...LEGEND, margin: { ...shape.margin, t: 12 } } };
};
const oneLine = (c) => ({ type: 'line', xref: 'paper', x0: 0, x1: 1, y0: 1, y1: 1, line: { color: c.target, width: 1.2, dash: 'dot' } });

// Temperature and calibration.

const byDegrees = (key, words, more) => ({ answer: { rows } }, c) => heat(rows, c, (row) => row[key], words, { sides: DEGREES, clicks: true, ...more });

function calibration({ answer: { facts, rows } }, c) {
  const known = facts.reliability;
  if (!known.length) return 'Points as soon as the drafter has drawn at a temperature above 0.';
  const chosen = sorted(known.map((one) => one.temperature)).map((degree) => {
    const own = known.filter((one) => one.temperature === degree);
    return own.reduce((best, one) => (Math.abs(one.draft_temperature - degree) < Math.abs(best.draft_temperature - degree) ? one : best));
  });
  const line = (one, key, i, dash, name) => ({ type: 'scatter', mode: 'lines+markers', name, x: one.bins.map((bin) => bin.q), y: one.bins.map((bin) => bin[key]), customdata: one.bins.map((bin) => [null, bin.tests]), line: { color: c[`lane-${i + 1}`], width: 1.8, dash }, marker: { symbol: MARKS[i], size: 7, color: c[`lane-${i + 1}`] }, hovertemplate: `${name}: %{y:.2f} where q is %{x:.2f}<br>%{customdata[1]} tests<extra></extra>` });
  const data = [{ type: 'scatter', mode: 'lines', name: 'calibrated', x: [0, 1], y: [0, 1], hoverinfo: 'skip', line: { color: c.faint, width: 1.2, dash: 'dash' } },
    ...chosen.flatMap((one, i) => [line(one, 'p', i, 'solid', `p at ${one.temperature}/${one.draft_temperature}`), line(one, 'accepted', i, 'dot', 'accepted')])];
  return framed(c, data, axis(c, 'q(x), the drafter’s confidence in its token', { range: [-0.02, 1.02] }), axis(c, 'p(x), and share accepted', { range: [-0.02, 1.04] }));
}

// Which T, which γ?

function hindsight({ answer: { facts } }, c) {
  const all = facts.regrets;
  if (!all.length) return 'Bars as soon as the controller has run.';
  const bar = (key, name, colour, pattern, words) => ({ type: 'bar', name, x: all.map((one) => one.flavour), y: all.map((one) => one[key]), customdata: all.map((one) => [null, words(one)]), marker: hatched(c, colour, pattern), hovertemplate: '%{x}: %{customdata[1]}<extra></extra>' });
  const data = [bar('best', 'best fixed, by hindsight', c.target, '', (one) => `γ ${one.gamma}, T ${one.steps}: ${times(one.best)}`), bar('auto', 'chosen as it goes', c.draft, '/', (one) => `${times(one.auto)}, regret ${(100 * one.regret).toFixed(1)} %`)];
  const figure = framed(c, data, axis(c, '', { type: 'category', showgrid: false }), axis(c, 'speed-up over vanilla, ×', { rangemode: 'tozero' }));
  return { ...figure, layout: { ...figure.layout, barmode: 'group', shapes: [oneLine(c)] } };
}

const fixedOnes = ({ answer: { rows } }, c) => {
  const data = linesBy(rows.filter((row) => !row.auto && row.steps === rows[0].steps && row.speedup), c, 'flavour', 'gamma', 'speedup', (row) => `${row.flavour}, γ ${row.gamma}, T ${row.steps}: ${times(row.speedup)}<br>${spread(row)}`);
  return data.length ? framed(c, data, axis(c, 'γ, fixed'), axis(c, 'speed-up over vanilla, ×', { rangemode: 'tozero' })) : 'Lines as soon as fixed settings have run.';
};

function decided({ answer: { facts } }, c) {
  const rows = Object.entries(facts.chosen).flatMap(([flavour, counts]) => {
    const all = counts.reduce((sum, [, count]) => sum + count, 0);
    return counts.map(([size, count]) => ({ flavour, size, share: count / all, count, all }));
  });
  if (!rows.length) return 'Lines as soon as the controller has run.';
  return framed(c, linesBy(rows, c, 'flavour', 'size', 'share', (row) => `${row.flavour}: ${row.count} of ${row.all} rounds drafted ${row.size}`), axis(c, 'tokens drafted'), axis(c, 'share of rounds', { rangemode: 'tozero' }));
}

/** Whether an answer is of the embedded pair, of which more is known. @param {{pair?: string}} [choice] of it */
const isOurs = (choice) => (choice?.pair ?? 'embedded') === 'embedded';

// Length.

const TRAINED = 256; // tokens of the rows that the embedded block drafters were trained on
const BLOCKS = ['dflash', 'ddtree', 'markov', 'markov_tree', 'auto'];

const against = (key, title, form) => ({ answer: { rows, facts }, methods }, c) => {
  const known = rows.filter((row) => row[key] !== null && row[key] !== undefined && row.rounds >= 2).map((row) => ({ ...row, at: row.context + facts.width / 2 }));
  const data = linesBy(known, c, 'method', 'at', key, (row) => `${facts.labels[row.method]}, ${row.context} to ${row.context + facts.width - 1} tokens: ${form(row[key])}<br>${row.rounds} rounds`, methods);
  return data.length ? framed(c, data, axis(c, 'tokens of text before the round'), axis(c, title, { rangemode: 'tozero' })) : 'Lines as soon as texts have grown.';
};
const inMilliseconds = (key, title) => (scene, c) => against(key, title, (value) => `${ratio(value)} ms`)({ ...scene, answer: { ...scene.answer, rows: scene.answer.rows.map((row) => ({ ...row, [key]: row[key] === null ? null : 1000 * row[key] })) } }, c);

// Kinds of text.

const shares = (group, title) => ({ answer: { rows } }, c) => {
  const own = rows.filter((row) => row.group === group);
  if (!own.length) return 'Bars as soon as the first text is written.';
  const data = [{ type: 'bar', orientation: 'h', y: own.map((row) => row.name), x: own.map((row) => row.accepted), customdata: own.map((row) => [null, `${Math.round(row.accepted * row.tested)} of ${row.tested} accepted<br>95 % interval ${ratio(row.low)} to ${ratio(row.high)}`]),
    error_x: { type: 'data', symmetric: false, array: own.map((row) => row.high - row.accepted), arrayminus: own.map((row) => row.accepted - row.low), color: c.ink, thickness: 1, width: 2 },
    marker: { color: c['draft-tint'], line: { color: c.draft, width: 1 } }, hovertemplate: '%{y}: %{customdata[1]}<extra></extra>' }];
  const shape = layout(c, axis(c, 'share of drafted tokens accepted', { range: [0, 1.02] }), axis(c, title, { type: 'category', autorange: 'reversed', showgrid: false, title: { text: title, font: { size: 11.5, color: c.muted }, standoff: 12 } }));
  return { data, layout: shape };
};

// Budget.

/** A line for each method, in its colour and with its mark, and behind it its interval; an open mark where a part of the problems had no attempt left. */
function withBands(rows, methods, c, x, words) {
  const names = [...new Set(rows.map((row) => row.method))];
  const of = (name) => ({ own: rows.filter((row) => row.method === name), colour: c[methods[name].colour] });
  const bands = names.map((name) => {
    const { own, colour } = of(name);
    return { type: 'scatter', mode: 'lines', x: [...own.map((row) => row[x]), ...own.map((row) => row[x]).reverse()], y: [...own.map((row) => row.high), ...own.map((row) => row.low).reverse()], fill: 'toself', fillcolor: colour, opacity: 0.07, line: { width: 0 }, hoverinfo: 'skip', showlegend: false };
  });
  const lines = names.map((name, i) => {
    const { own, colour } = of(name);
    const { short, mark } = methods[name];
    return { type: 'scatter', mode: 'lines+markers', name: short, x: own.map((row) => row[x]), y: own.map((row) => row.accuracy), customdata: own.map((row) => [row.race ?? null, `${short}: ${words(row)}<br>${Math.round(100 * row.accuracy)} % right, 95 % interval ${Math.round(100 * row.low)} to ${Math.round(100 * row.high)} %`]),
      line: { color: colour, width: name === 'vanilla' ? 2.6 : 1.8, dash: DASHES[i % DASHES.length] }, marker: { symbol: own.map((row) => (row.used_up ? `${mark}-open` : mark)), size: 8, color: colour, line: { color: colour, width: mark.startsWith('line') ? 2 : 1 } }, hovertemplate: '%{customdata[1]}<extra></extra>' };
  });
  return [...bands, ...lines];
}
const lasting = (seconds) => (seconds < 1 ? milliseconds(seconds) : `${ratio(seconds)} s`);
const SECONDS = [0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 50, 100];
const share = (c, title) => axis(c, title, { rangemode: 'tozero', tickformat: '.0%' });

const withinSeconds = ({ answer: { rows }, methods }, c) => {
  const fits = (row) => `${lasting(row.budget)} for each problem, ${ratio(row.attempts, 1)} attempts fit${row.used_up ? `<br>${Math.round(100 * row.used_up)} % of the problems had no attempt left` : ''}`;
  return framed(c, withBands(rows, methods, c, 'budget', fits), axis(c, 'seconds for each problem', { type: 'log', tickvals: SECONDS, ticktext: SECONDS.map(String) }), share(c, 'majority is right'));
};
const byAttempts = ({ answer: { facts }, methods }, c) => framed(c, withBands(facts.votes, methods, c, 'k', (row) => `majority of ${row.k}`), axis(c, 'attempts k', { dtick: Math.max(...facts.votes.map((row) => row.k)) > 12 ? 2 : 1, tick0: 1 + (Math.max(...facts.votes.map((row) => row.k)) > 12) }), share(c, 'majority is right'));

// Align it live.

function learning({ answer: { rows } }, c) {
  const taus = rows.filter((row) => row.tau !== null);
  if (!taus.length) return 'The curves begin when the target has written the texts.';
  const losses = rows.filter((row) => row.loss !== null);
  const smooth = losses.map((_, i) => losses.slice(Math.max(0, i - 9), i + 1).reduce((sum, row, __, all) => sum + row.loss / all.length, 0));
  const data = [
    { type: 'scatter', mode: 'lines', name: 'loss, mean of ten steps (right)', x: losses.map((row) => row.seconds), y: smooth, yaxis: 'y2', line: { color: c.muted, width: 1.4, dash: 'dot' }, hovertemplate: '%{x:.0f} s: loss %{y:.2f}<extra></extra>' },
    { type: 'scatter', mode: 'lines+markers', name: 'τ on prompts not learnt from', x: taus.map((row) => row.seconds), y: taus.map((row) => row.tau), line: { color: c.draft, width: 2.4 }, marker: { size: 7, color: c.draft }, hovertemplate: '%{x:.0f} s: τ = %{y:.2f}<extra></extra>' },
  ];
  const figure = framed(c, losses.length ? data : data.slice(1), axis(c, 'seconds of training'), axis(c, 'τ at γ 8, tokens per round'));
  return !losses.length ? figure : { ...figure, layout: { ...figure.layout, yaxis2: { ...axis(c, 'loss', { showgrid: false }), overlaying: 'y', side: 'right' }, margin: { ...figure.layout.margin, r: 48 } } };
}

function positions({ answer: { facts } }, c) {
  if (!facts.alphas.length) return 'Lines when τ has been replayed once.';
  const [before, after] = facts.alphas;
  const line = (one, name, colour, dash, mark) => ({ type: 'scatter', mode: 'lines+markers', name, x: one.alpha_at.map((_, j) => j + 1), y: one.alpha_at, line: { color: colour, width: 2, dash }, marker: { symbol: mark, size: 8, color: colour }, hovertemplate: `${name}, position %{x}: %{y:.2f}<extra></extra>` });
  return framed(c, [line(before, 'before', c.muted, 'dot', 'square'), line(after, `after ${after.step} steps`, c.draft, 'solid', 'circle')], axis(c, 'position in the window', { dtick: 1 }), axis(c, 'α<sub>j</sub>, where it was reached', { range: [0, 1.04] }));
}

function beforeAfter({ answer: { facts } }, c) {
  const all = Object.entries(facts.race).filter(([, row]) => row.speedup);
  if (!all.length) return 'Bars when the race is run: both drafters decode the prompts that were not learnt from.';
  const data = all.map(([name, row], i) => ({ type: 'bar', name: name === 'aligned' ? 'after' : 'before', x: [name === 'aligned' ? 'after' : 'before'], y: [row.speedup], customdata: [[row.race, `${times(row.speedup)}, τ = ${ratio(row.tau)}<br>${spread(row)}`]], marker: hatched(c, i ? c.draft : c.muted, i ? '' : '/'),
    error_y: { type: 'data', symmetric: false, array: [(row.high ?? row.speedup) - row.speedup], arrayminus: [row.speedup - (row.low ?? row.speedup)], color: c.ink, thickness: 1, width: 3 }, hovertemplate: '%{x}: %{customdata[1]}<extra>click: its race</extra>' }));
  const shape = layout(c, axis(c, '', { type: 'category', showgrid: false }), axis(c, 'speed-up over vanilla, ×', { rangemode: 'tozero' }));
  return { data, layout: { ...shape, shapes: [oneLine(c)] } };
}

// Two runs side by side.

/** A run in a sentence. */
const runName = ({ labels }, name) => (labels[name] ? `${name.toUpperCase()}: ${labels[name]}` : name);
/** And in an axis, where names of files are too long. */
const axisName = (facts, name) => (facts.opened && facts.labels[name] ? name.toUpperCase() : runName(facts, name));

/** Rounds as bars along the text: what was kept, the target's own token, and a cross at each refusal. */
function alongText({ answer: { rows, facts } }, c) {
  const names = [...new Set(rows.map((row) => row.run))];
  const places = new Map(names.flatMap((name) => rows.filter((row) => row.run === name).map((row, i) => [row, facts.along?.[name]?.[i] ?? [row.position - 0.5, row.position + row.accepted - 0.5, row.position + row.accepted + 0.5]])));
  const edge = (row, i) => places.get(row)[i];
  const bars = (name, own, kept, colour, shape) => ({ type: 'bar', orientation: 'h', name, y: own.map((row) => axisName(facts, row.run)), base: own.map((row) => edge(row, kept ? 0 : 1)), x: own.map((row) => edge(row, kept ? 1 : 2) - edge(row, kept ? 0 : 1)), width: 0.5, marker: hatched(c, colour, shape), customdata: own.map((row) => [row.refused === null ? null : `${row.run}/${row.round - 1}`, shownWords(row)]), hovertemplate: '%{customdata[1]}<extra></extra>' });
  const added = (source) => rows.filter((row) => row.added_as === source);
  const refused = rows.filter((row) => row.refused !== null);
  const data = [
    bars('accepted drafts', rows.filter((row) => row.accepted), true, c.draft, ''), bars('bonus token', added('bonus'), false, c.bonus, '/'), bars('the target’s token', [...added('residual'), ...added('target')], false, c.residual, 'x'),
    { type: 'scatter', mode: 'markers', name: 'refusal', x: refused.map((row) => (edge(row, 1) + edge(row, 2)) / 2), y: refused.map((row) => axisName(facts, row.run)), customdata: refused.map((row) => [`${row.run}/${row.round - 1}`, shownWords(row)]), marker: { symbol: 'x', size: 9, color: c.residual, line: { color: c.card, width: 1 } }, hovertemplate: '%{customdata[1]}<extra>click: look at it</extra>' },
  ];
  if (facts.branch?.take >= 0 && names.includes('what if')) data.push({ type: 'scatter', mode: 'markers', name: 'put there', x: [facts.branch.column ?? facts.branch.position], y: ['what if'], marker: { symbol: 'diamond', size: 11, color: c.accent }, hovertemplate: `put there: ${quoted(facts.branch.token)}<extra></extra>` });
  const figure = framed(c, data.filter((one) => one.x.length), axis(c, facts.opened && facts.common.by !== 'tokens' ? 'columns of the text' : 'new tokens', { rangemode: 'tozero' }), axis(c, '', { type: 'category', categoryorder: 'array', categoryarray: names.map((name) => axisName(facts, name)).reverse(), showgrid: false }));
  return { ...figure, layout: { ...figure.layout, barmode: 'overlay' } };
}

const shownWords = (row) => `round ${row.round}: ${row.accepted} of ${row.drafted} accepted${row.refused === null ? '' : `<br>refused ${quoted(row.refused)}, p = ${ratio(row.p)}, q = ${ratio(row.q)}`}<br>the target wrote ${quoted(row.added)}`;

/** New tokens by decode time, of the two runs that are measured. */
function byTime({ answer: { rows, facts } }, c) {
  const points = ['a', 'b'].flatMap((run) => {
    let [at, tokens] = [0, 0];
    return rows.filter((row) => row.run === run).map((row) => {
      at += row.milliseconds;
      tokens += row.accepted + 1;
      return { run: axisName(facts, run), at, tokens };
    });
  });
  return framed(c, linesBy(points, c, 'run', 'at', 'tokens', (one) => `${one.run}: ${one.tokens} tokens after ${ratio(one.at, 1)} ms`), axis(c, 'milliseconds of decode clock, the prompt’s reading included'), axis(c, 'new tokens', { rangemode: 'tozero' }));
}

/**
 * Exploration -> its panels, the sentences above them, what its columns mean, and how a race of a row is called.
 * `methods`, where one asks for it: how the page calls and marks every method.
 */
// Drafter doctor.

const DECLARED = (row) => !row.declaration;
const SHORT = { 'feature layers': 'layers', 'embedding of the anchor slot': 'anchor', 'tokenizer map': 'map' };
const changeWords = (row) => (DECLARED(row) ? 'as declared' : `${row.declaration}: ${row.change}, declared ${row.declared}`);
/** The same where there is little room. */
function changeLabel(row) {
  const words = DECLARED(row) ? 'as declared' : `${SHORT[row.declaration] ?? row.declaration} ${row.change}`;
  return escaped(words.length > 24 ? `${words.slice(0, 23)}…` : words);
}

/** τ of every change, the declared one on top; whiskers belong to the ratio of both. */
function changedTau({ answer: { rows } }, c) {
  const known = rows.filter((row) => row.tau !== undefined);
  if (!known.length) return 'Bars as soon as the target has written its texts.';
  const [declared] = known;
  const up = known.map((_, i) => i);
  const ends = (end) => known.map((row) => (row[end] === null || row[end] === undefined ? 0 : Math.abs(row[end] * declared.tau - row.tau)));
  const data = [{
    type: 'bar', orientation: 'h', y: up, x: known.map((row) => row.tau), error_x: { type: 'data', symmetric: false, array: ends('high'), arrayminus: ends('low'), color: c.ink, thickness: 1, width: 2 },
    customdata: known.map((row) => [null, `${escaped(changeWords(row))}<br>τ = ${ratio(row.tau)}, ${plural(row.drafts, 'draft')} along ${plural(row.texts, 'text')}${row.low === null || row.low === undefined ? '' : `<br>× ${ratio(row.ratio)} of as declared, interval ${ratio(row.low)} to ${ratio(row.high)}`}`]),
    marker: { color: known.map((row) => (DECLARED(row) ? c.target : row.low > 1 ? c.residual : c['draft-tint'])), line: { color: known.map((row) => (DECLARED(row) ? c.target : row.low > 1 ? c.residual : c.draft)), width: 1 } }, hovertemplate: '%{customdata[1]}<extra></extra>' }];
  const line = { type: 'line', yref: 'paper', y0: 0, y1: 1, x0: declared.tau, x1: declared.tau, line: { color: c.target, width: 1.2, dash: 'dot' } };
  const shape = layout(c, axis(c, 'τ, tokens per round', { rangemode: 'tozero' }), axis(c, '', { tickvals: up, ticktext: known.map(changeLabel), autorange: 'reversed', showgrid: false }));
  return { data, layout: { ...shape, shapes: [line], bargap: 0.25 } };
}

/** α by position, as declared and with the change that brings most. */
function alphasChanged({ answer: { rows } }, c) {
  const known = rows.filter((row) => row.alpha_at);
  if (!known.length) return 'Lines as soon as the target has written its texts.';
  const [declared, ...others] = known;
  const best = others.reduce((most, row) => (row.tau > (most?.tau ?? 0) ? row : most), null);
  const data = [declared, ...(best ? [best] : [])].map((row, i) => {
    const own = row.alpha_at.map((alpha, j) => ({ place: j + 1, alpha, low: row.alpha_low[j] ?? alpha, high: row.alpha_high[j] ?? alpha })).filter(({ alpha }) => alpha !== null);
    const colour = i ? c.draft : c.target;
    return { type: 'scatter', mode: 'lines+markers', name: changeLabel(row), x: own.map((one) => one.place), y: own.map((one) => one.alpha), customdata: own.map((one) => [null, `${ratio(one.low)} to ${ratio(one.high)}`]),
      error_y: { type: 'data', symmetric: false, array: own.map((one) => one.high - one.alpha), arrayminus: own.map((one) => one.alpha - one.low), color: colour, thickness: 1, width: 2 },
      line: { color: colour, width: 1.8, dash: DASHES[i] }, marker: { symbol: MARKS[i], size: 7, color: colour }, hovertemplate: 'α at position %{x}: %{y:.2f}<br>95 % interval %{customdata[1]}<extra></extra>' };
  });
  return framed(c, data, axis(c, 'position in the draft', { dtick: 1 }), axis(c, 'α, accepted where reached', { range: [0, 1.04] }));
}

// Divergence microscope.

/** By how much A's token leads B's, by rows of the pass, within what rounding explains. */
function leads({ answer: { rows, facts } }, c) {
  const passes = rows.filter((row) => row.rows && row.lead !== null);
  if (!passes.length) return 'Points as soon as both runs have ended.';
  const data = linesBy(passes, c, 'place', 'rows', 'lead', (row) => `${row.place}, ${plural(row.rows, 'row')}: ${row.lead.toPrecision(3)}<br>the best is ${escaped(quoted(row.best))}`);
  const runs = rows.filter((row) => !row.rows && row.lead !== null).map((row, i) => ({ type: 'scatter', mode: 'lines', name: row.place, x: [1, Math.max(2, ...passes.map((one) => one.rows))], y: [row.lead, row.lead], line: { color: c[i ? 'residual' : 'draft'], width: 1.6, dash: i ? 'dot' : 'dash' }, hovertemplate: `${row.place}: ${row.lead.toPrecision(3)}<extra></extra>` }));
  const figure = framed(c, [...data, ...runs], axis(c, 'rows of the pass'), axis(c, 'A’s token over B’s, logits', { zeroline: true, zerolinecolor: c.target }));
  const band = facts.limit ? [{ type: 'rect', xref: 'paper', x0: 0, x1: 1, y0: -facts.limit, y1: facts.limit, fillcolor: c['target-tint'], opacity: 0.6, line: { width: 0 }, layer: 'below' }] : [];
  return { ...figure, layout: { ...figure.layout, shapes: band } };
}

/** How far each layer is from what it is in a pass of one row: the most of all passes of a kind. */
function layersApart({ answer: { rows } }, c) {
  const passes = rows.filter((row) => row.rows > 1 && row.ulps_at);
  if (!passes.length) return 'Lines as soon as passes of several rows are made.';
  const points = [...new Set(passes.map((row) => row.place))].flatMap((place) => {
    const own = passes.filter((row) => row.place === place);
    return own[0].ulps_at.map((_, layer) => ({ place, layer: layer + 1, most: Math.max(...own.map((row) => row.ulps_at[layer])) }));
  });
  return framed(c, linesBy(points, c, 'place', 'layer', 'most', (row) => `${row.place}, layer ${row.layer}: ${row.most} ULP`), axis(c, 'layer of the target'), axis(c, 'largest |Δ|, ULP', { rangemode: 'tozero' }));
}

export const VIEWS = {
  'window-map': {
    panels: [
      { key: 'measured', title: 'Measured speed-up over vanilla', hint: '★: the best cell', opens: 'a cell opens its race', figure: measured, wide: true },
      { key: 'predicted', title: 'Predicted', hint: 'E[τ] of the measured α_j over bare passes; not a measurement', figure: predicted },
      { key: 'difference', title: 'Predicted over measured', hint: '1 where the formula holds', figure: difference },
      { key: 'slices', title: 'Slices: speed-up by γ', hint: 'one line for each T; whiskers: 95 % interval over prompts', figure: slices, wide: true },
    ],
    notes({ rows, facts, choice }) {
      const best = fastest(rows);
      if (!best) return [];
      const one = facts.agree.within_10_percent;
      return [
        `Best so far: γ ${best.gamma}, T ${best.steps}: ${times(best.speedup)} over vanilla, with ${ratio(best.tau)} tokens per round (${choice.drafter}, temperature ${choice.temperature}).`,
        `The prediction is within 10 % of the measurement in ${Math.round(100 * one)} % of ${facts.agree.cells} cells. It takes 1 + Σ Π α_j tokens per round and counts T passes of the drafter and one pass of the target, both timed bare; what it leaves out is the work between passes.`,
      ];
    },
    beside: { title: 'The shape of the papers’ curves, and of ours', hint: 'other models on another machine: compare shapes, not heights', head: ['curve', 'SpecDiff, read off its figure', 'this map'], rows: ({ rows }) => paperShape(rows) },
    titleOf: ({ choice }, race) => `${choice.drafter} γ ${race.split('/')[1]}, T ${race.split('/')[2]}`,
    columns: {
      gamma: 'γ', steps: 'T', race: 'the cell, as bench names it', prompts: 'prompts measured so far', speedup: 'vanilla’s seconds per token over this cell’s, prefill included', low: '95 % bootstrap interval over prompts, lower end', high: '95 % bootstrap interval over prompts, upper end',
      tau: 'τ', alpha: 'α', alpha_at: 'α_j', tokens_per_second: 'new tokens per second of decode clock', seconds_per_round: 'decode seconds per round', draft_seconds: 'drafting, seconds per round', verify_seconds: 'the target’s pass and the tests, seconds per round',
      peak_bytes: 'largest memory of the process so far, bytes', waiting: 'threads that waited for a processor, on average', predicted_tau: 'E[τ] = 1 + Σ_m Π_{j≤m} α_j', geometric_tau: '(1 − α^{γ+1}) / (1 − α), with one α for all positions', predicted: 'predicted speed-up', failed: 'why it could not be measured',
    },
  },
  'what-it-takes': {
    widget: SandboxView,
    widgetFirst: true,
    panels: [
      { key: 'plane', title: 'What a round brings and what it costs', hint: 'measured methods and the sandbox ★; lines of equal speed-up, dashed: none', figure: plane, wide: true },
      { key: 'passes', title: 'What a pass costs here', hint: 'bare passes, medians', figure: passes },
      { key: 'lengths', title: 'How far drafts survive', hint: 'measured, and with one α for all positions (dotted)', figure: lengths },
    ],
    notes({ rows }) {
      const best = fastest(rows);
      return best ? [
        `Fastest here: ${best.label}, ${times(best.speedup)}: ${ratio(best.tau)} tokens in a round that costs ${ratio(best.cost)} tokens of vanilla.`,
        'The formula takes one α for all positions and all rounds. Real drafts do better or worse in streaks: what follows an accepted token is easier than what follows a refused one, so the measured curve leaves the dotted one, and the mean over rounds with it.',
      ] : [];
    },
    titleOf: ({ rows }, race) => rows.find((row) => row.race === race)?.label ?? race,
    columns: { method: 'name of the method', label: 'what it is called', drafter: 'what drafts', cost: 'τ over the speed-up: what a round costs, in tokens of vanilla, prefill shared out', draft_cost: 'drafting, in bare passes of the target over one row', verify_cost: 'the target’s pass and the tests, in the same', nodes: 'B: nodes of a tree', drafts: 'K: drafts' },
  },
  losslessness: {
    widget: PlaygroundView,
    panels: [
      { key: 'distances', title: 'Distance to the exact law', hint: 'total variation of the joint of the first tokens; what is exact falls as 1/√N', figure: distances, wide: true },
      { key: 'joint', title: 'The joint law', hint: 'the likeliest outcomes: exact, and as each rule wrote them', figure: joint },
      { key: 'three', title: 'Three tokens', hint: 'the test of one position; drag below', figure: threeTokens },
    ],
    notes({ rows, facts, choice }) {
      const last = rows.filter((row) => row.runs === facts.runs);
      const caught = last.filter((row) => row.lossless && row.p_value < PVALUE);
      const within = last.filter((row) => row.distance <= row.floor_high);
      return [
        `${facts.runs.toLocaleString('en')} runs of each rule, ${facts.outcomes} possible outcomes. Within the noise: ${within.map((row) => row.rule).join(', ') || 'none'}.${caught.length ? ` Caught, p < 10⁻⁶: ${caught.map((row) => `${row.rule} (distance ${ratio(row.distance, 3)}, true bias ${ratio(row.bias_low, 3)} to ${ratio(row.bias_high, 3)})`).join(', ')}.` : ''}`,
        ...last.filter((row) => !row.lossless).map((row) => (choice.temperature === 0 ? `At temperature 0 every rule writes the likeliest token, also ${row.rule}, which is not exact.` : biasWords(row, choice.models))),
      ];
    },
    titleOf: (_, race) => race,
    columns: { rule: 'verification rule', runs: 'runs so far', distance: 'total variation between the drawn and the exact joint law', floor: 'mean distance of as many draws of the exact law', floor_high: '99 % of such samples stay below', bias_low: 'the true distance is at least this (99 %)', bias_high: 'and at most this (99 %)', p_value: 'of Pearson’s χ² test', lossless: 'what the rule claims' },
  },
  temperature: {
    panels: [
      { key: 'speed', title: 'Speed-up over vanilla at the same temperature', hint: '', opens: 'a cell opens its race', figure: byDegrees('speedup', (row) => `${times(row.speedup)}<br>${spread(row)}`) },
      { key: 'tau', title: 'τ, tokens per round', hint: 'under an exact rule the drafter’s temperature changes only this', figure: byDegrees('tau', (row) => `τ = ${ratio(row.tau)}, α = ${ratio(row.alpha)}`, { around: false }) },
      { key: 'calibration', title: 'Does the drafter know what it knows?', hint: 'by its confidence q: the target’s p, and what was accepted', figure: calibration, wide: true },
    ],
    notes: ({ facts }) => [
      ...facts.fits.map((one) => `Target at ${one.temperature}: fitted on every other prompt, the drafter’s best temperature is ${one.fitted}; on the rest τ is ${ratio(one.after)}, against ${ratio(one.before)} at ${one.usual}.`),
      ...(facts.reliability.length ? [`Expected calibration error, |q − p| over all drawn tokens: ${facts.reliability.map((one) => `${ratio(one.ece)} at ${one.temperature}/${one.draft_temperature}`).join(', ')} (target/drafter).`] : []),
    ],
    titleOf: ({ choice }, race) => `${choice.drafter} γ ${choice.gamma}, temperatures ${race}`,
    columns: { temperature: 'of the target', draft_temperature: 'of the drafter' },
  },
  'which-gamma': {
    panels: [
      { key: 'hindsight', title: 'Chosen as it goes, against the best by hindsight', hint: 'for each kind of text; dotted: vanilla', figure: hindsight, wide: true },
      { key: 'fixed', title: 'Fixed windows', hint: 'speed-up by γ with the fewest steps', figure: fixedOnes },
      { key: 'decided', title: 'What the controller drafted', hint: 'share of rounds by length', figure: decided },
    ],
    notes({ facts }) {
      const all = facts.regrets.find((one) => one.flavour === 'all');
      return all ? [`Over all texts the controller reaches ${times(all.auto)}; the best fixed setting, which nobody knows beforehand, is γ ${all.gamma}, T ${all.steps} with ${times(all.best)}: a regret of ${(100 * all.regret).toFixed(1)} %.${all.regret < 0 ? ' Choosing as it goes is even faster than any fixed setting here.' : ''}`] : [];
    },
    titleOf: ({ choice }, race) => `${choice.drafter} ${race.split('/').slice(1).join('/')}`,
    columns: { flavour: 'kind of text', auto: 'whether a controller chooses as it goes' },
  },
  length: {
    panels: [
      { key: 'speed', title: 'Speed-up by length', hint: 'over vanilla at texts of the same length', figure: against('speedup', 'speed-up over vanilla, ×', times), wide: true },
      { key: 'tau', title: 'τ by length', hint: 'tokens per round', figure: against('tau', 'τ, tokens per round', (value) => ratio(value)) },
      { key: 'passes', title: 'The target’s pass by length', hint: 'milliseconds a pass; a drafted one reads γ + 1 rows', figure: inMilliseconds('pass_seconds', 'milliseconds of a pass') },
    ],
    notes({ rows, facts, choice }) {
      const vanilla = rows.filter((row) => row.method === 'vanilla' && row.seconds_per_token && row.rounds > 8);
      if (vanilla.length < 2) return [];
      const fallen = BLOCKS.filter((name) => isOurs(choice) && facts.labels[name]).map((name) => [name, ...tauAround(rows, name, facts.width, TRAINED)]).filter(([, before, after]) => before && after && after < 0.8 * before);
      const lost = fallen.map(([name, before, after]) => `${facts.labels[name]} from ${ratio(before)} to ${ratio(after)} (−${Math.round(100 * (1 - after / before))} %)`);
      const [first, last] = [vanilla[0], vanilla[vanilla.length - 1]];
      return [`Vanilla takes ${ratio(1000 * first.seconds_per_token)} ms a token at the beginning and ${ratio(1000 * last.seconds_per_token)} ms with ${last.context} tokens before it: every pass reads all keys and values again, of one row or of many.`,
        ...(lost.length ? [`Beyond ${TRAINED} tokens the block drafters lose much of their τ: ${lost.join(', ')}. They were trained on rows of ${TRAINED} tokens, so they have never drafted that far into a text; it is no law of their kind.`] : [])];
    },
    titleOf: (_, race) => race,
    columns: { method: 'name of the method', context: 'tokens before the round, from here on', rounds: 'rounds that count', seconds_per_token: 'decode seconds per new token', speedup: 'vanilla’s seconds per token over these, at the same length', tau: 'τ', alpha: 'α', pass_seconds: 'seconds of the target’s pass' },
  },
  'kinds-of-text': {
    panels: [
      { key: 'token', title: 'By what the token is', hint: 'share of drafted tokens that the target accepted', figure: shares('token', '') },
      { key: 'entropy', title: 'By how sure the target is', hint: 'entropy of its distribution at temperature 1, nats', figure: shares('entropy', 'nats') },
      { key: 'text', title: 'By kind of text', hint: 'whiskers: 95 % Wilson interval', figure: shares('text', '') },
    ],
    notes: ({ rows, facts }) => {
      const own = rows.filter((row) => row.group === 'token' && row.tested >= 20);
      if (own.length < 2) return [];
      const [best, worst] = [own[0], own[own.length - 1]];
      const like = (row) => (facts.examples[row.name] || []).slice(0, 5).map((word) => `“${word}”`).join(', ');
      return [`Guessed best: ${best.name} (${Math.round(100 * best.accepted)} % of ${best.tested}; ${like(best)}). Guessed worst: ${worst.name} (${Math.round(100 * worst.accepted)} % of ${worst.tested}; ${like(worst)}).`];
    },
    titleOf: (_, race) => race,
    columns: { group: 'what rows are sorted by', name: 'class', tested: 'tokens that the target tested', accepted: 'share accepted', low: '95 % Wilson interval, lower end', high: '95 % Wilson interval, upper end' },
  },
  budget: {
    panels: [
      { key: 'seconds', title: 'Right answers within seconds', hint: 'bands: 95 % interval over problems; open marks: some problems had no attempt left', figure: withinSeconds },
      { key: 'votes', title: 'Right answers by number of attempts', hint: 'whatever they took; bands: 95 % interval over problems; lossless methods should be as often right', figure: byAttempts },
    ],
    notes({ rows, facts, choice }, methods) {
      const { vanilla, ...others } = facts.single;
      if (!vanilla || !Object.keys(others).length) return [];
      const whole = (value) => `${Math.round(100 * value)} %`;
      const name = (method) => methods[method].short;
      const agree = Object.entries(others).map(([method, one]) => `${name(method)} ${whole(one.accuracy)}${one.noise === null ? '' : ` (${one.difference < 0 ? '−' : '+'}${Math.abs(100 * one.difference).toFixed(1)} ± ${(100 * one.noise).toFixed(1)} points)`}`);
      const compared = Object.entries(others).filter(([, one]) => one.noise !== null); // of one attempt at a problem, the noise is unknown
      const apart = compared.filter(([, one]) => Math.abs(one.difference) > one.noise);
      const named = (those) => those.map(([one]) => name(one)).join(', ');
      const verdict = apart.length ? ` Differs from vanilla by more than the 99 % noise: ${named(apart)}.` : compared.length ? ` Within the 99 % noise of vanilla: ${named(compared)}.` : '';
      const [method, quickest] = Object.entries(others).reduce((best, one) => (one[1].seconds < best[1].seconds ? one : best));
      const goal = Math.max(0, ...rows.filter((row) => row.method === 'vanilla' && !row.used_up).map((row) => row.accuracy));
      const [slow, fast] = ['vanilla', method].map((one) => budgetFor(rows, one, goal));
      const sooner = goal && slow && fast ? ` ${whole(goal)} of the problems are right within ${lasting(slow)} for each with vanilla, and within ${lasting(fast)} with ${name(method)}.` : '';
      return [
        `Every method is lossless: it draws its attempts from the same law as vanilla, and a single one should be as often right. Only the time of an attempt should differ, and with it how many fit into a budget. An attempt takes ${lasting(vanilla.seconds)} with vanilla and ${lasting(quickest.seconds)} with ${name(method)}, the problem read anew each time.${sooner}`,
        `Right in one attempt: vanilla ${whole(vanilla.accuracy)} of ${vanilla.attempts}; ${agree.join(', ')}.${verdict} Temperature ${choice.temperature}; ${whole(vanilla.no_answer)} of vanilla’s attempts end without an answer and have no vote.`,
        { all: `All sums were given, and the target had to finish the text${isOurs(choice) ? ': one as small as this cannot calculate' : ''}.`, most: 'All sums but the last were given.', none: `Nothing was given${isOurs(choice) ? ': a target as small as the embedded one is hardly ever right' : ''}.` }[facts.given ?? choice.given],
      ];
    },
    titleOf: (_, race, methods) => methods[race]?.label ?? race,
    columns: { method: 'name of the method', budget: 'seconds that every problem may use', accuracy: 'share of problems whose majority answer is right; each attempt in turn counts as the first', low: '95 % bootstrap interval over problems, lower end', high: '95 % bootstrap interval over problems, upper end', attempts: 'attempts that are finished within the budget, on average', used_up: 'share of problems of which all attempts are used up: what more of them would bring was not measured', problems: 'problems measured so far' },
  },
  align: {
    panels: [
      { key: 'learning', title: 'Learning to be accepted', hint: 'τ is replayed on held-out prompts; the loss is streak-distillation’s', figure: learning, wide: true },
      { key: 'positions', title: 'Acceptance by position', hint: 'before and now', figure: positions },
      { key: 'race', title: 'The race, before and after', hint: 'decoded on held-out prompts; whiskers: 95 % interval', figure: beforeAfter },
    ],
    notes({ rows, facts, choice }) {
      const taus = rows.filter((row) => row.tau !== null);
      if (taus.length < 2) return [];
      const [first, last] = [taus[0], taus[taus.length - 1]];
      const { change } = facts; // none in old recordings, and of few texts
      const held = change ? ` (× ${ratio(change.value)}, 95 % interval over these texts ${ratio(change.low)} to ${ratio(change.high)})` : '';
      const verdict = !change || facts.diverged ? '' : change.low <= 1 && change.high >= 1 ? ' The interval holds 1: the change may be chance.'
        : change.high < 1 ? ' So short a training can also harm: try a lower learning rate or more seconds.' : ' The shipped streak-distilled drafter was trained this way for hours.';
      return [
        `A copy of ${choice.drafter} learnt for ${Math.round(last.seconds)} s (${last.step} steps) from texts that the target wrote after ${facts.learnt.length} prompts. On ${facts.held_out.length} others τ went from ${ratio(first.tau)} to ${ratio(last.tau)}${held}.${verdict}`,
        ...(facts.diverged ? [`${rows.at(-1).loss === null ? 'The loss became NaN' : 'In two replays running, less than two thirds of the drafted tokens survived that did before'}: training diverged, and was stopped there. Try a lower learning rate.`] : []),
        'The weights that all others use are as they were. Whoever trained this copy can download it below; the server keeps the last four.',
      ];
    },
    titleOf: ({ choice }, race) => (race === 'aligned' ? `${choice.drafter}, aligned here` : choice.drafter),
    columns: { step: 'optimiser steps', seconds: 'seconds of training, replays left out', loss: 'soft cross-entropy and streak-distillation, nats', tau: 'τ of greedy rounds at γ 8, T 1, replayed' },
  },
  'side-by-side': {
    widget: SideBySideView,
    widgetFirst: true,
    opens: true,
    panels: [
      { key: 'along', title: 'Rounds along the text', hint: 'each bar is a round; ✕: a refusal, click it', figure: alongText, wide: true },
      { key: 'time', title: 'Tokens by time', hint: 'one run of each: no interval', figure: byTime, wide: true },
    ],
    notes({ rows, facts, choice }) {
      const told = Object.keys(facts.labels).map((run) => [run, rows.filter((row) => row.run === run)]).filter(([, own]) => own.length)
        .map(([run, own]) => `Run ${runName(facts, run)}: ${plural(own.length, 'round')}, τ = ${ratio(own.reduce((sum, row) => sum + row.accepted + 1, 0) / own.length)}, ${plural(own.filter((row) => row.refused !== null).length, 'refusal')}.`);
      const { first_difference: parted, must_be_equal: must, branch } = facts;
      const opened = facts.opened ? alignmentWords({ facts }) : null;
      const [why, Why] = choice.temperature === 0 ? ['at temperature 0', 'At temperature 0'] : ['under match', 'Under match'];
      const law = facts.lossless === false ? '. The rule is not exact: it can change the law of a text' : ', from the same law'; // recorded answers do not say it, and were exact
      const same = opened ?? (parted === undefined ? [] : [
        must ? (parted === null ? `Both wrote the same ${choice.tokens} tokens, as they must ${why}: a refusal costs time, never text.` : `${Why} both should write the same text, and here they part at token ${parted}: probably two tokens were so close that sums in another order, as in a tree, decide.`)
          : parted === null ? 'Both wrote the same text, by chance: each run draws for itself.' : `The texts part at token ${parted}: each run draws for itself${law}.`]);
      const other = branch?.tokens === undefined ? [] : [
        `What if, at token ${branch.position} of run ${branch.run.toUpperCase()}: ${branch.take < 0 ? `everything from there on was drawn again, with seed ${choice.branch_seed}` : `${quoted(branch.token)} was put in place of ${quoted(branch.instead_of)}, and the engine decoded on. It was not drawn, so this branch is no longer a sample of the target’s law`}. ${branch.same} of its ${plural(branch.tokens, 'token')} are those that stood there before. It measures nothing.`];
      return [told.join(' '), ...same, ...other];
    },
    titleOf: () => 'Two runs side by side',
    lanesOf: ({ facts }) => Object.fromEntries(['a', 'b'].map((run) => [run, { label: runName(facts, run) }])),
    columns: {
      run: 'a, b, or the branch', round: 'number of the round', position: 'of its first token among the new ones', drafted: 'tokens drafted; of a tree, nodes', accepted: 'drafted tokens that were kept', refused: 'the drafted token that was refused', added: 'the token that the target added', added_as: 'why: residual and target, after a refusal; bonus, after a whole draft', p: 'the target’s probability of the refused token; of a tree, of all tokens drafted there', q: 'the drafter’s', threshold: 'probability with which it would have been accepted', u: 'the draw: accepted if below the threshold; at temperature 0 it decides nothing; empty where shared noise or a tree decides', milliseconds: 'from the round before to this commit, on the decode clock; the first round’s hold the prompt’s', text: 'what the round wrote', character: 'of the text at which the round begins, from 0; the same words of both runs have the same number as far as the texts agree',
    },
  },
  doctor: {
    panels: [
      { key: 'tau', title: 'τ with one declaration changed', hint: 'dotted: as declared; whiskers: of the ratio to it, 95 % for all changes together', figure: changedTau },
      { key: 'alpha', title: 'Acceptance by position', hint: 'as declared, and with the change that brings most; whiskers: 95 % interval', figure: alphasChanged },
    ],
    notes({ facts }) {
      const left = Object.entries(facts.not_changed).map(([name, why]) => `${name} (${why})`);
      return [...(facts.told ?? []), ...(left.length ? [`Not changed: ${left.join('; ')}.`] : []),
        'The target wrote each text greedily beforehand, and the drafter drafted behind every third token of it. A declaration is what a pair says about a drafter’s weights, not the weights themselves: they stay as they are.'];
    },
    titleOf: (_, race) => race,
    columns: { declaration: 'what is changed; empty: nothing', declared: 'what the pair says', change: 'what was tried; of a shift s, slot i − s predicts token i', texts: 'texts that both drafted along', drafts: 'drafts that were held against the target’s text', tau: '1 + tokens of a draft that the target says, too', alpha_at: 'by position: share of drafts that are right there, of those that came so far', alpha_low: '95 % bootstrap interval over texts, lower ends', alpha_high: 'and upper ends', ratio: 'τ over τ as declared', low: 'bootstrap interval over texts, widened for the number of changes: lower end', high: 'and upper end', failed: 'why it could not draft that way' },
  },
  diverge: {
    panels: [
      { key: 'leads', title: 'Who leads, in passes of every width', hint: 'above 0: A’s token; band: what rounding explains', figure: leads },
      { key: 'layers', title: 'Layer by layer', hint: 'against the pass of one row, in units in the last place', figure: layersApart },
    ],
    beside: { title: 'Both texts', hint: 'in parts that are the same or differ', head: ['from token', 'run A', 'run B'], rows: ({ facts }) => (facts.aligned ?? []).map((part) => [`${part.at[0]}${part.at[0] === part.at[1] ? '' : ` / ${part.at[1]}`}`, ...(part.same ? [part.a, 'the same'] : [part.a || '–', part.b || '–'])]) },
    notes: ({ facts }) => [...(facts.told ?? []), ...(facts.exactness === 'bitwise' ? ['As this pair is loaded, windows are scored with the same bits in passes of any width; only trees are summed up in another order.'] : [])],
    titleOf: (_, race) => race,
    columns: { rows: 'rows of the pass that scores the token; empty: in the run itself', place: 'where among them it stands', best: 'the token that this pass puts first', margin: 'by how much it leads the second; logits, or under match log p and noise', lead: 'by how much A’s token leads B’s', behind: 'what the worse of both lacks to the best', moved: '|lead − lead in the pass of one row|', ulps: 'largest difference of a layer’s output to that of the pass of one row, in units in the last place of its root mean square', ulps_at: 'the same, layer by layer' },
  },
};
// What many tables say alike.
const SHARED = VIEWS['window-map'].columns;
for (const view of Object.values(VIEWS)) view.columns = { ...SHARED, ...view.columns };
