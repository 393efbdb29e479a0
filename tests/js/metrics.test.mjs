// The numbers by hand. That they are Python's is checked on whole traces by tests/test_js.py.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { make } from './fixture.mjs';
import { buildLane, stateAt } from '../../app/static/state/lane.js';
import {
  alpha,
  clockOf,
  firstDifference,
  predicted,
  speedUp,
  tau,
  waiting,
} from '../../app/static/state/metrics.js';

test('the prediction is τ / (v + c·NFE/round)', () => {
  const lane = (seconds_by, nfe) =>
    buildLane([
      make.started(),
      make.draft([1, 2], { nfe }),
      make.scored([1, 1]),
      make.verified([make.test(0, 1, true), make.test(1, 2, true)]),
      make.committed([1, 2, 3], ['draft', 'draft', 'bonus']),
      make.finished({ seconds_by }),
    ]);
  const drafted = lane({ draft: 0.2, score: 1 }, 2);
  const vanilla = lane({ draft: 0, score: 0.5 }, 0);
  // vanilla's pass 0.5 s, a verifying one 1 s: v = 2; a drafter pass 0.1 s: c = 0.2; τ = 3; 3 / (2 + 0.2·2)
  const { cost, verify, value } = predicted(drafted, vanilla);
  assert.deepEqual([cost, verify], [0.2, 2]);
  assert.ok(Math.abs(value - 3 / 2.4) < 1e-12);
  assert.equal(predicted(drafted, null), null);
  assert.equal(predicted(vanilla, drafted), null, 'without a drafter pass there is no cost of one');
  assert.equal(predicted(drafted, lane({}, 0)), null);
});

test('threads waiting, on average, are waited seconds over clock seconds', () => {
  const lane = (more) => buildLane([make.finished(more)]);
  assert.equal(waiting(lane({ seconds: 4, waited_seconds: 3 })), 0.75);
  assert.equal(waiting(lane({ seconds: 4, waited_seconds: 0 })), 0);
  for (
    const unknown of [
      null,
      buildLane([make.started()]),
      lane({ seconds: 4, waited_seconds: null }),
      lane({ seconds: 0, waited_seconds: 1 }),
    ]
  ) assert.equal(waiting(unknown), null);
});

test('a clock stops when its lane ends, and has no rate before the first token', () => {
  const events = [
    make.started(),
    make.committed([1, 2], ['target', 'target'], { at: 0.5 }),
    make.finished({ seconds: 2 }),
  ];
  const lane = buildLane(events);
  assert.deepEqual(clockOf(lane, stateAt(lane, 1), 0.25), {
    seconds: 0.25,
    rate: null,
    done: false,
  });
  assert.deepEqual(clockOf(lane, stateAt(lane, 2), 1), { seconds: 1, rate: 2, done: false });
  assert.deepEqual(clockOf(lane, stateAt(lane, 3), 99), { seconds: 2, rate: 1, done: true });
});

test('a ratio of what is not there is not defined', () => {
  const empty = stateAt(buildLane([make.started()]), 1);
  assert.deepEqual([tau(empty), alpha(empty)], [null, null]);
  assert.deepEqual([
    speedUp({ rate: 3 }, { rate: 2 }),
    speedUp({ rate: null }, { rate: 2 }),
    speedUp({ rate: 3 }, { rate: null }),
    speedUp(null, { rate: 2 }),
    speedUp({ rate: 3 }, null),
  ], [1.5, null, null, null, null]);
});

test('the first difference of two texts', () => {
  assert.equal(firstDifference([1, 2, 3], [1, 2, 3]), -1);
  assert.equal(firstDifference([1, 2, 3], [1, 9, 3]), 1);
  assert.equal(firstDifference([1, 2], [1, 2, 3]), 2);
  assert.equal(firstDifference([], []), -1);
});
