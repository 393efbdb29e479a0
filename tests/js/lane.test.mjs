// One lane, folded to any moment. That its sums are Python's is checked on whole traces by tests/test_js.py.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { make, trace } from './fixture.mjs';
import { buildLane } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import { linesShown, treeOf } from '../../app/static/state/tree.js';

const lanes = { drafted: buildLane(trace.lanes.drafted), vanilla: buildLane(trace.lanes.vanilla) };

test('time never runs backwards, and every prefix folds to the same state from scratch or step by step', () => {
  const lane = lanes.drafted;
  for (let i = 1; i < lane.times.length; i += 1) assert.ok(lane.times[i] >= lane.times[i - 1]);
  let rolling = null;
  for (let n = 0; n <= lane.events.length; n += 1) {
    rolling = stateAt(lane, n, rolling);
    if (n % 17 === 0) assert.deepEqual(rolling, stateAt(lane, n));
  }
  assert.deepEqual(stateAt(lane, 10, rolling), stateAt(lane, 10), 'also when it goes back');
});

test('stepping stops at each step of a round, its draft’s end left out', () => {
  const { events, stops } = lanes.drafted;
  const kinds = stops.map((index) => events[index].kind);
  const round = 'RoundStarted DenoiseStep DenoiseStep DenoiseStep TargetScored Verified Committed';
  assert.equal(kinds.slice(0, 8).join(' '), `${round} RoundStarted`);
});

test('the window holds its round as far as it has come, and the last one is remembered', () => {
  const lane = lanes.drafted;
  const at = (kind, round) =>
    lane.events.findIndex((event) => event.kind === kind && event.round === round) + 1;
  const begun = stateAt(lane, at('RoundStarted', 1));
  assert.deepEqual(
    [begun.window.round, begun.window.passes.length, begun.window.draft, begun.last.round],
    [1, 0, null, 0],
  );
  assert.ok(begun.last.committed && begun.last.verified);
  const one = make.round([5], [make.test(0, 5, true)], [5, 6]);
  const events = [...one, ...make.round([], [], [7], { round: 1 }), make.started(2)];
  assert.equal(stateAt(buildLane(events), Infinity).last.round, 0, 'of those that drafted');
  const drafted = stateAt(lane, at('DraftReady', 1));
  assert.deepEqual(
    [drafted.window.passes.length, drafted.window.scored, drafted.window.steps],
    [3, null, 3],
  );
});

test('a token knows its round, its source and the test that it passed', () => {
  const { tokens } = stateAt(lanes.drafted, Infinity);
  assert.equal(tokens.length, lanes.drafted.finished.ids.length);
  for (const token of tokens) {
    if (token.source === 'draft') assert.ok(token.test.accepted && token.test.id === token.id);
  }
});

test('a draft that the end of the text cuts keeps its window and claims no bonus', () => {
  const tests = [5, 6, 0].map((id, position) => make.test(position, id, true));
  const passes = [make.step([5, 6, 0, 7], [0, 1, 2, 3])];
  const lane = buildLane(make.round([5, 6, 0], tests, [5, 6, 0], { passes }));
  const { size, drafted, extra } = stateAt(lane, Infinity).window;
  assert.deepEqual({ size, drafted, extra }, { size: 4, drafted: 3, extra: false });
});

test('a round says whether its draft was copied, and whether its passes were recorded', () => {
  const round = (...events) => buildLane([make.started(), ...events]).rounds[0];
  const kinds = (one) => [one.copied, one.unrecorded, one.size];
  assert.deepEqual(kinds(round(make.draft([1, 2], { nfe: 0 }))), [true, false, 2]);
  assert.deepEqual(kinds(round(make.draft([1, 2], { nfe: 2 }))), [false, true, 2]);
  assert.deepEqual(kinds(round(make.step([1, 2], [0, 1]), make.draft([1, 2]))), [false, false, 2]);
  assert.deepEqual(kinds(round(make.draft([], { nfe: 0 }))), [false, false, 0]);
});

test('a tree is laid out so that its first line is its most probable window', () => {
  // −1 ─ 0 ─ 2 ─ 3     line 0
  //          └─ 5      line 1, below node 2
  //      └─ 1 ─ 4      line 2, another first token
  const { depths, lines, count, deepest } = treeOf([-1, -1, 0, 2, 1, 2]);
  assert.deepEqual({ depths, lines, count, deepest }, {
    depths: [0, 0, 1, 2, 1, 2],
    lines: [0, 2, 0, 0, 2, 1],
    count: 3,
    deepest: 3,
  });
  assert.deepEqual([treeOf([]).count, treeOf([]).deepest, treeOf([]).depths], [0, 0, []]);
});

test('of many branches the first, the walked, the chosen and the longest are drawn', () => {
  // a comb: the first line is 0-1-2, and each other node begins a branch at the anchor; one branch is long
  const parents = [-1, 0, 1, ...Array.from({ length: 12 }, () => -1), 14, 15, 16];
  const tree = treeOf(parents);
  assert.equal(tree.count, 13);
  assert.deepEqual(linesShown(tree, 20), Array.from({ length: 13 }, (_, i) => i));
  assert.deepEqual(linesShown(tree, Infinity), Array.from({ length: 13 }, (_, i) => i));
  const long = tree.lines[17];
  assert.deepEqual(linesShown(tree, 2), [0, long]);
  assert.deepEqual(linesShown(tree, 4), [0, 1, 2, long], 'of equals the first');
  const walked = tree.lines[8];
  assert.deepEqual(linesShown({ ...tree, path: [8] }, 3), [0, walked, long].sort((a, b) => a - b));
  const chosen = tree.lines[5];
  assert.deepEqual(
    linesShown({ ...tree, branches: [[0, 1, 2], [5]], chosen: 1 }, 3),
    [0, chosen, long].sort((a, b) => a - b),
  );
  assert.equal(linesShown({ ...tree, path: [8], branches: [[3]], chosen: 0 }, 5).length, 5);
});
