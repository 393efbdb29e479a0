// One position, looked at closely.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { again, inspected, tokenOf } from '../../app/static/state/inspect.js';
import { buildLane } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import { make, trace } from './fixture.mjs';

const lane = buildLane(trace.lanes.drafted);
const whole = (round) => {
  const n = lane.events.findIndex((event) => event.kind === 'Verified' && event.round === round) +
    1;
  return stateAt(lane, n).window;
};
const rounds = lane.events.filter((event) => event.kind === 'Verified' && event.tests.length).map((
  event,
) => event.round);

test('a position knows its draft, its test, and the likeliest tokens of both models', () => {
  for (const round of rounds) {
    const view = whole(round);
    for (const one of view.verified.tests) {
      const what = inspected(view, one.position);
      assert.equal(what.drafted, view.draft.ids[one.position]);
      assert.deepEqual(what.test, one);
      assert.equal(what.extra, one.accepted ? null : view.verified.extra);
      if (!what.rows.length) continue;
      const sum = (key) => what.rows.reduce((all, row) => all + (row[key] ?? 0), 0);
      for (const key of ['p', 'q']) assert.ok(sum(key) < 1.02, `${key} is ${sum(key)}`);
      assert.equal(what.rows.at(-1).id, null);
    }
  }
});

test("p is the target's and q is the drafter's", () => {
  const view = {
    round: 3,
    tree: null,
    verified: null,
    passes: [{
      step: 1,
      revealed: [0],
      ids: [7],
      candidates: [[{ id: 7, prob: 0.6 }, { id: 9, prob: 0.1 }]],
    }],
    draft: { ids: [7], q: [0.6], proposal: 'distribution' },
    scored: { p: [0.2], candidates: [[{ id: 9, prob: 0.7 }, { id: 7, prob: 0.2 }]] },
  };
  const rows = inspected(view, 0).rows.map(({ id, p, q }) =>
    [id, p, q].map((value) => value === null ? null : Math.round(value * 10) / 10)
  );
  assert.deepEqual(rows, [[9, 0.7, 0.1], [7, 0.2, 0.6], [null, 0.1, 0.3]]);
});

test('other draws: as often accepted as the threshold says, and instead the residual', () => {
  const rows = [{ id: 1, p: 0.6, q: 0.3 }, { id: 2, p: 0.3, q: 0.6 }, { id: null, p: 0.1, q: 0.1 }];
  const what = { rows, drafted: 2, certain: false };
  const { accepted, counts } = again(what, 0.5, 10000, 3);
  assert.ok(Math.abs(accepted - 5000) < 200);
  assert.deepEqual([counts[1], counts[0], counts[2]], [accepted, 10000 - accepted, 0]);
  const sure = again({ ...what, certain: true }, 0.3, 10000, 3); // a point mass: else p without it
  assert.ok(Math.abs(sure.counts[0] - 7000 * 0.6 / 0.7) < 250);
  assert.equal(sure.counts.reduce((a, b) => a + b), 10000);
  const walked = { ...what, certain: true, test: { kind: 'tree' }, options: [2] };
  const found = again(walked, 0.3, 10000, 3); // the target's own draws
  assert.ok(found.counts.every((count, i) => Math.abs(count - 10000 * rows[i].p) < 250));
  assert.equal(found.accepted, found.counts[1]);
});

// A tree: 7 and 8 behind the anchor, 9 behind 7, 10 and 11 behind 8. The target draws 8, then 12, which nobody drafted.
const PARENTS = [-1, -1, 0, 1, 1];
const candidates = [[8, 0.5, 7, 0.3, 6, 0.1], [9, 0.9], [12, 0.6, 10, 0.2], [1, 1], [1, 1], [1, 1]]
  .map((row) => row.flatMap((id, i) => i % 2 ? [] : [{ id, prob: row[i + 1] }]));
const walk = [
  make.test(0, 8, true, { kind: 'tree', p: 0.8, q: 1, threshold: 0.8, draw: null, wanted: 8 }),
  make.test(1, 10, false, { kind: 'tree', p: 0.3, q: 1, threshold: 0.3, draw: null, wanted: 12 }),
];
const treeOf = ({ draft, scored, verified, tests = walk }) =>
  buildLane(make.round([7, 8, 9, 10, 11], tests, [8, 12], {
    draft: { parents: PARENTS, q: [1, 1, 1, 1, 1], proposal: 'point_mass', ...draft },
    scored: { p: [0.3, 0.5, 0.9, 0.2, 0.1], ...scored },
    verified: { path: [1], source: 'target', ...verified },
  }));
const viewOf = (events) => stateAt(events, Infinity).window;
const full = treeOf({ draft: { node_q: [0.4, 0.5, 0.7, 0.6, 0.3] }, scored: { candidates } });
const shown = ({ rows }) =>
  rows.map((
    { id, p, q },
  ) => [id, ...[p, q].map((value) => value === null ? null : Math.round(100 * value) / 100)]);

test('a node of a tree stands among its siblings, with p behind their parent and q of each', () => {
  const what = inspected(viewOf(full), { node: 3 });
  assert.deepEqual(
    [what.position, what.drafted, what.options, what.reached, what.holds],
    [1, 10, [10, 11], true, 'all'],
  );
  assert.deepEqual(
    shown(what),
    [[12, 0.6, null], [10, 0.2, 0.6], [11, 0.1, 0.3], [null, 0.1, 0.1]],
  );
  assert.deepEqual([what.test, what.extra, what.source], [walk[1], 12, 'target']);
  const away = inspected(viewOf(full), { node: 2 }); // behind 7, where the target did not go
  assert.deepEqual(
    [away.reached, away.test, away.extra, shown(away)],
    [false, null, null, [[9, 0.9, 0.7], [null, 0.1, 0.3]]],
  );
});

test('a depth of a tree is the place on the way that the target took', () => {
  const [first, second, third] = [0, 1, 2].map((depth) => inspected(viewOf(full), depth));
  assert.deepEqual([first.drafted, first.node, first.test, first.extra], [8, 1, walk[0], null]);
  assert.deepEqual(
    [second.drafted, second.options, second.test, second.extra],
    [null, [10, 11], walk[1], 12],
  );
  assert.deepEqual([third.rows, third.test, third.options], [[], null, []]);
});

test('several drafts: the test of each, and of the one that was chosen its own way', () => {
  const several = {
    proposal: 'conditionals',
    q: [0.4, 0.5, 0.7, 0.6, 0.3],
    branches: [[0, 2], [1, 3], [1, 4]],
  };
  const tests = [
    make.test(0, 7, false),
    make.test(0, 8, true),
    make.test(1, 10, false),
    make.test(1, 11, false),
  ];
  const rounds = viewOf(treeOf({ draft: several, tests }));
  assert.deepEqual(
    [0, 1, 2, 3, 4].map((node) => inspected(rounds, { node }).test),
    [tests[0], tests[1], null, tests[2], tests[3]],
  );
  assert.deepEqual([inspected(rounds, 0).drafted, inspected(rounds, 1).drafted], [8, 11]); // the last that was tested
  assert.equal(inspected(rounds, { node: 3 }).rows.find(({ id }) => id === 10).q, 0.6);
  const own = [
    make.test(0, 8, true, { kind: 'delta' }),
    make.test(1, 10, false, { kind: 'delta' }),
  ];
  const chosen = viewOf(treeOf({ draft: several, tests: own, verified: { chosen: 1 } }));
  assert.deepEqual([
    inspected(chosen, 1).node,
    inspected(chosen, 1).test,
    inspected(chosen, { node: 4 }).test,
    inspected(chosen, { node: 0 }).test,
  ], [3, own[1], null, null]);
});

test('each token of a text leads to its round and its place there', () => {
  const { tokens } = stateAt(lane, Infinity);
  tokens.forEach((token, i) => {
    const { view, place } = tokenOf(lane, i);
    assert.equal(view.round, token.round);
    const what = inspected(view, place);
    assert.equal(token.source === 'draft' ? what.drafted : what.extra, token.id);
    assert.equal(what.source || 'draft', token.source);
  });
  assert.deepEqual(tokenOf(full, 1).place, 1);
  assert.equal(tokenOf(lane, tokens.length), null);
  const slim = buildLane(lane.events.filter(({ kind }) => kind === 'Committed'));
  assert.equal(tokenOf(slim, 0), null, 'of what was only heard, nothing is known');
});
