// Figures: from values to Plotly's data.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { looks, make, methods, trace } from './fixture.mjs';
import { buildLane } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import { Playhead } from '../../app/static/state/playhead.js';
import { Stage } from '../../app/static/state/stage.js';
import { acceptanceFigure, confidenceFigure, tokensFigure } from '../../app/static/state/charts.js';
import { styledFigure } from '../../app/static/views/figure.js';

const c = new Proxy({}, { get: (_, role) => role === 'toJSON' ? undefined : '#123456' });
const drafted = buildLane(trace.lanes.drafted);

test('tokens over time: a line and a label for each lane that wrote or still may', () => {
  const failed = { kind: 'Failed', code: 'weights', message: 'Missing.', hint: '', run: '' };
  const lanes = {
    vanilla: buildLane(trace.lanes.vanilla),
    '<b>drafted': drafted,
    begun: buildLane([make.started()]),
    unloaded: buildLane([failed]),
    absent: null,
  };
  const stage = new Stage(Object.keys(lanes), lanes, { ...looks, crowded: 1 });
  const player = new Playhead({ duration: stage.duration, growing: true });
  player.toEdge();
  const scene = stage.scene(player, '<b>drafted');
  const { data, layout } = styledFigure(tokensFigure(scene), c);
  assert.deepEqual(data.map((line) => line.name), [methods.vanilla.label, '<b>drafted', 'begun']);
  const notes = layout.annotations.map(({ text }) => text);
  assert.ok(notes.some((words) => words.endsWith(' &lt;b&gt;drafted')), 'a foreign name is text');
  assert.ok(layout.margin.r > 70, 'the labels have room');
  assert.ok(data.every((line) => !line.hovertemplate.includes('<b>d')));
  const [base, own] = data;
  assert.ok(own.line.width > base.line.width, 'the selected lane stands out');
  assert.deepEqual([own.y[0], own.y.at(-1), own.x.at(-1)], [0, 40, drafted.duration]);
});

test('acceptance: the words of each test, where nothing is drawn too', () => {
  const chance = { position: 0, id: 1, p: 0.5, q: 0.25, threshold: 0.75, draw: null };
  const tests = ['block', 'match'].map((kind) => ({
    ...chance,
    kind,
    accepted: true,
    wanted: null,
  }));
  const lane = { ...drafted, header: { ...drafted.header, config: { temperature: 1 } } };
  const state = { sums: { testedAt: [2], acceptedAt: [2] } };
  const { data } = acceptanceFigure({ lane, state, view: { verified: { tests } } });
  const [block, match] = data[1].customdata.map(([, words]) => words);
  assert.match(block, /0\.75.*a longer part of it passed/);
  assert.doesNotMatch(block, /shared noise/);
  assert.match(match, /shared noise/);
});

test('confidence: a row for each step, empty until it has happened', () => {
  const at =
    drafted.events.findIndex((event) =>
      event.kind === 'DenoiseStep' && event.round === 1 && event.step === 1
    ) + 1;
  const view = stateAt(drafted, at).window;
  const [{ x, y, z, text }] = styledFigure(confidenceFigure({ lane: drafted, view }), c).data;
  assert.deepEqual([x.length, y], [6, [1, 2, 3]]);
  assert.deepEqual([z[0], z[1]], view.passes.map((step) => step.confidence));
  assert.ok(z[2].every((value) => value === null) && text[2].every((words) => words === 'masked'));
  assert.match(
    styledFigure(
      confidenceFigure({ lane: drafted, view: { ...view, passes: [], copied: true } }),
      c,
    ),
    /A copied draft has no confidence/,
  );
});
