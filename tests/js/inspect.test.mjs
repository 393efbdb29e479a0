// One position, looked at closely.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { again, inspected, residual, rules } from '../../app/static/state/inspect.js';
import { buildLane, stateAt } from '../../app/static/state/lane.js';
import { trace } from './fixture.mjs';

const lane = buildLane(trace.lanes.drafted);
const whole = (round) => {
  const n = lane.events.findIndex((event) => event.kind === 'Verified' && event.round === round) + 1;
  return stateAt(lane, n).window;
};
const rounds = lane.events.filter((event) => event.kind === 'Verified' && event.tests.length).map((event) => event.round);

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

test('p is the target\'s and q is the drafter\'s', () => {
  const view = {
    round: 3, tree: null, verified: null,
    passes: [{ step: 1, revealed: [0], ids: [7], candidates: [[{ id: 7, prob: 0.6 }, { id: 9, prob: 0.1 }]] }],
    draft: { ids: [7], q: [0.6], proposal: 'distribution' },
    scored: { p: [0.2], candidates: [[{ id: 9, prob: 0.7 }, { id: 7, prob: 0.2 }]] },
  };
  const rows = inspected(view, 0).rows.map(({ id, p, q }) => [id, p, q].map((value) => (value === null ? null : Math.round(value * 10) / 10)));
  assert.deepEqual(rows, [[9, 0.7, 0.1], [7, 0.2, 0.6], [null, 0.1, 0.3]]);
});

test('before it is scored a position has no p, and before it is revealed no token', () => {
  const first = lane.events.findIndex((event) => event.kind === 'RoundStarted') + 1;
  const what = inspected(stateAt(lane, first).window, 0);
  assert.deepEqual([what.drafted, what.rows, what.test], [null, [], null]);
});

test('what the rules would do', () => {
  assert.deepEqual(rules(0.3, 0.6), { ratio: 0.5, delta: 0.3, match: 0.3 });
  assert.equal(rules(0.6, 0.3).ratio, 1);
  assert.equal(rules(0.6, 0).ratio, 0);
});

test('the residual is what p still lacks', () => {
  const rows = [{ id: 1, p: 0.6, q: 0.3 }, { id: 2, p: 0.3, q: 0.6 }, { id: null, p: 0.1, q: 0.1 }];
  assert.deepEqual(residual(rows).map((value) => Math.round(value * 1e9) / 1e9), [1, 0, 0]);
  assert.equal(residual([{ id: 1, p: 1, q: 1 }]), null);
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
});
