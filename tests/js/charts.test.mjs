// Figures: from values to Plotly's data.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { make, methods, trace } from './fixture.mjs';
import { table } from './comparison.mjs';
import { MEAN, marksOf } from '../../app/static/state/comparison.js';
import { buildLane, stateAt } from '../../app/static/state/lane.js';
import { nameLanes } from '../../app/static/state/marks.js';
import { rowAt } from '../../app/static/state/race.js';
import { acceptanceFigure, confidenceFigure, tokensFigure } from '../../app/static/views/charts.js';
import { acceptanceCurves, costFigure, flavourBars } from '../../app/static/views/comparison_charts.js';

const c = new Proxy({}, { get: (_, role) => (role === 'toJSON' ? undefined : `#${[...role].map((letter) => letter.charCodeAt(0).toString(16)).join('').padEnd(6, '0').slice(-6)}`) });
const drafted = buildLane(trace.lanes.drafted);

test('tokens over time: a line, its mark, its dash and its label for each lane that wrote or still may', () => {
  const failed = { kind: 'Failed', code: 'weights', message: 'Missing.', hint: '', run: '' };
  const lanes = { vanilla: buildLane(trace.lanes.vanilla), '<b>drafted': drafted, begun: buildLane([make.started()]), unloaded: buildLane([failed]), absent: null };
  const names = Object.keys(lanes);
  const named = nameLanes(names, lanes, 'vanilla', methods, {});
  const states = Object.fromEntries(names.map((name) => [name, lanes[name] ? stateAt(lanes[name], Infinity) : null]));
  const clocks = Object.fromEntries(names.map((name) => [name, rowAt(lanes, states, name, 'vanilla', 99, 40)?.clock ?? null]));
  const scene = { names, named, states, clocks, duration: lanes.vanilla.duration, total: 40, selected: '<b>drafted' };
  const { data, layout } = tokensFigure(scene, c);
  assert.deepEqual(data.map((line) => line.name), [methods.vanilla.label, '<b>drafted', 'begun']);
  assert.ok(layout.annotations.some((note) => note.text === '&lt;b&gt;drafted'), 'a foreign name is text');
  assert.ok(data.every((line) => !line.hovertemplate.includes('<b>d')));
  const [base, own] = data;
  assert.deepEqual([base.line.dash, base.line.color, own.line.color], ['dot', c.target, c[named['<b>drafted'].colour]]);
  assert.ok(own.line.width > base.line.width, 'the selected lane stands out');
  assert.deepEqual(own.x.slice(-1), [drafted.duration]);
  assert.deepEqual([own.y[0], own.y[own.y.length - 1], own.x.length], [0, 40, drafted.rounds.length + 2]);
  for (const [i, note] of layout.annotations.entries()) assert.equal(note.font.color, data[i].line.color);
  assert.equal(typeof tokensFigure({ ...scene, named: {} }, c), 'string', 'the stage is cleared for a race of other lanes');
});

test('acceptance by position: shares of the run so far, and the tests of the round on screen', () => {
  const at = drafted.events.findIndex((event) => event.kind === 'Verified' && event.round === 2) + 1;
  const state = stateAt(drafted, at);
  const { data, layout } = acceptanceFigure({ lane: drafted, state, view: state.window }, c);
  const [bars, tests, draws] = data;
  assert.deepEqual(bars.y, state.sums.acceptedAt.map((n, i) => n / state.sums.testedAt[i]));
  assert.deepEqual(tests.y, state.window.verified.tests.map((one) => one.threshold));
  assert.deepEqual(tests.marker.symbol, state.window.verified.tests.map((one) => (one.accepted ? 'circle' : 'x')));
  assert.deepEqual(draws.y, state.window.verified.tests.map((one) => one.draw));
  assert.deepEqual(layout.xaxis.range, [0.4, 6.6]);
  const greedy = { ...drafted, header: { ...drafted.header, config: { ...drafted.header.config, temperature: 0 } } };
  assert.deepEqual(acceptanceFigure({ lane: greedy, state, view: state.window }, c).data[2].y, [], 'at temperature 0 a draw decides nothing');
  assert.match(acceptanceFigure({ lane: drafted, state: stateAt(drafted, 0), view: null }, c), /No draft has been tested/);
  assert.match(acceptanceFigure({ lane: null, state: null, view: null }, c), /Vanilla drafts nothing/);
});

test('confidence: a row for each step, empty until it has happened', () => {
  const at = drafted.events.findIndex((event) => event.kind === 'DenoiseStep' && event.round === 1 && event.step === 1) + 1;
  const view = stateAt(drafted, at).window;
  const [{ x, y, z, text }] = confidenceFigure({ lane: drafted, view }, c).data;
  assert.deepEqual([x.length, y], [6, [1, 2, 3]]);
  assert.deepEqual([z[0], z[1]], view.passes.map((step) => step.confidence));
  assert.ok(z[2].every((value) => value === null) && text[2].every((words) => words === 'masked'));
  assert.match(confidenceFigure({ lane: drafted, view: { ...view, passes: [], copied: true } }, c), /A copy has no confidence/);
});

test('points lie on the line of their speed-up', () => {
  const one = table();
  const shown = new Set(['block/window', 'block/tree']);
  const figure = costFigure({ table: one, flavour: 'code', marks: marksOf([one], methods), shown, place: (spots) => spots.map(() => 'top center') }, c, { width: 500, height: 300 });
  const points = figure.data[figure.data.length - 1];
  points.x.forEach((x, i) => assert.ok(Math.abs(points.y[i] / x - [1, 3, 2][i]) < 1e-9));
  for (const line of figure.data.slice(0, -1)) assert.ok(line.x[1] <= figure.layout.xaxis.range[1] + 1e-9 && line.y[1] <= figure.layout.yaxis.range[1] + 1e-9);
  assert.equal(figure.layout.annotations.length, figure.data.length - 1);
  assert.ok(points.customdata.every((data, i) => data[2] === `speed-up = τ / cost = ${[1, 3, 2][i].toFixed(2)}×`));
  const mean = costFigure({ table: one, flavour: MEAN, marks: marksOf([one], methods), shown, place: (spots) => spots.map(() => 'top center') }, c, { width: 500, height: 300 });
  assert.match(mean.data[mean.data.length - 1].customdata[1][2], /pooled .*mean of the flavours: 2[.]50×/);
});

test('curves and bars hold the stored numbers', () => {
  const tables = [table(0), table(1)];
  const scene = { tables, table: tables[0], flavour: MEAN, marks: marksOf(tables, methods), shown: new Set(['block/window', 'mdlm/window']) };
  const curves = acceptanceCurves(scene, c).data;
  assert.deepEqual(curves.map((curve) => curve.y), [[0.9, 0.8], [0.9, 0.8]]);
  assert.deepEqual(curves[0].marker.symbol, [methods.dflash.mark, `${methods.dflash.mark}-open`]); // fewer than 20 tests
  const bars = flavourBars(scene, c).data;
  assert.deepEqual(bars[0].y, [3, 2, 3, 2]);
  assert.deepEqual(bars[0].x, [['temperature 0', 'temperature 0', 'temperature 1', 'temperature 1'], ['code', 'stories', 'code', 'stories']]);
  assert.ok(Math.abs(bars[0].error_y.array[0] - 0.2) < 1e-9 && Math.abs(bars[0].error_y.arrayminus[0] - 0.1) < 1e-9);
  assert.deepEqual(bars[0].marker.opacity, [1, 1, 0.5, 0.5]);
});
