// The draft window as a table: its rows, its cells, and the tests below them.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { make } from './fixture.mjs';
import { besides, gridOf, placeAt, stopAt } from '../../app/static/state/grid.js';
import { verdictsOf } from '../../app/static/state/verdicts.js';
import { inspected } from '../../app/static/state/inspect.js';
import { buildLane } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import { aside, story, whyNothing } from '../../app/static/state/story.js';

/** The last round of some events, drawn with so many rows. */
function drawn(events, most = 8) {
  const lane = buildLane(events);
  const round = stateAt(lane, Infinity).window;
  return { lane, round, rows: gridOf(round, lane, most), verdicts: verdictsOf(round, lane) };
}
const labels = ({ rows }) => rows.map(({ label }) => label);
const steps = (count) => [
  make.started(),
  ...Array.from({ length: count }, (_, step) => make.step([1, 2], step ? [] : [0, 1], { step })),
];

test('many denoising steps share eight rows, evenly from the first to the last', () => {
  assert.deepEqual(labels(drawn(steps(3))), ['step 1', 'step 2', 'step 3']);
  const many = ['step 1', '2–5', '6–9', '10–13', '14–17', '18–21', '22–25', '26–29'];
  assert.deepEqual(labels(drawn(steps(29))), many);
  assert.equal(drawn(steps(29), Infinity).rows.length, 29);
});

test('a row of several steps shows what each of them revealed, and none is left out', () => {
  const reveal = (_, step) =>
    make.step(Array.from({ length: 16 }, (_, i) => i <= step ? i : null), [step], { step });
  const events = [make.started(), ...Array.from({ length: 16 }, reveal)];
  const { rows } = drawn(events);
  const known = rows.map(({ cells }) =>
    cells.filter(({ kind }) => !kind.includes('sd-cell-mask')).length
  );
  const last = rows.map(({ label }) => Number(label.replace('step ', '').split('–').at(-1)));
  assert.deepEqual(known, last);
  const fresh = rows.map(({ cells }) =>
    cells.filter(({ kind }) => kind === 'sd-cell-fresh').length
  );
  assert.deepEqual(fresh, known.map((count, i) => count - (known[i - 1] ?? 0)));
});

test('a bonus token has the last column, and the places beside a place end with the round', () => {
  const tests = [make.test(0, 1, true), make.test(1, 2, true)];
  const passes = [make.step([1, 2, 3], [0, 1, 2])];
  const { round } = drawn(make.round([1, 2], tests, [1, 2, 4], { passes }));
  assert.deepEqual([stopAt(round, 1), stopAt(round, 2)], ['t1', 't3']);
  assert.deepEqual([placeAt(round, 1), placeAt(round, 3)], [1, 2]);
  assert.deepEqual(
    [besides(round, 0, -1), besides(round, 0, 1), besides(round, 2, 1)],
    [null, 1, null],
  );
  assert.deepEqual(besides(round, { node: 0 }, 1), { node: 1 });
});

test('what was never tested says why', () => {
  const passes = [make.step([1, 2, 3], [0, 1, 2])];
  const why = (drafted, tests) =>
    drawn(make.round(drafted, tests, [1], { passes })).verdicts.map(({ title }) => title);
  assert.match(why([1, 2, 3], [make.test(0, 1, false)])[2], /never tested.*rejected/);
  assert.match(why([1], [make.test(0, 1, true)])[1], /never tested.*text ends/);
});

test('a trace that holds no p of a tree says so', () => {
  const refused = make.test(0, 7, false, { kind: 'tree', draw: null, wanted: 4 });
  const said = (draft, scored) => {
    const { round } = drawn([
      { kind: 'RunStarted', config: { temperature: 0 }, models: {}, prompt: '' },
      ...make.round([7, 8], [refused], [4], {
        draft: { parents: [-1, -1], proposal: 'point_mass', ...draft },
        scored: { p: [0, 0], ...scored },
        verified: { source: 'target' },
      }),
    ]);
    return aside(inspected(round, 0, true), true, true);
  };
  assert.match(said(), /no p of .*no q/);
  const row = (...ids) => ids.map((id) => ({ id, prob: 0.3 }));
  assert.doesNotMatch(
    said({ node_q: [0.5, 0.2] }, { candidates: [row(4, 7), row(1), row(1)] }),
    /trace has no/,
  );
});

test('the story of a position names the verdict and what the target drew', () => {
  const word = (id) => `<${id}>`;
  const walked = make.test(0, 8, true, { kind: 'tree', draw: null, wanted: 8 });
  const { round } = drawn(make.round([7, 8, 9], [walked], [8, 4], {
    draft: { parents: [-1, -1, 0] },
    verified: { path: [1] },
  }));
  const said = (place) => story(inspected(round, place), false, true, word);
  assert.match(said(0), /^✓ Accepted.*<8>/);
  assert.match(said({ node: 0 }), /^✕ Rejected.*<8>, not <7>/);
  assert.match(said({ node: 2 }), /^Not tested/);
});

test('a tree and several drafts are named, and the draft that was tested is marked', () => {
  const round = (draft, verified) =>
    drawn(make.round([7, 8], [make.test(0, 7, true)], [7, 4], {
      draft: { parents: [-1, -1], ...draft },
      verified,
    }));
  assert.deepEqual(labels(round({}, {})), ['tree', '']);
  const { rows } = round({ branches: [[0], [1]] }, { chosen: 1 });
  assert.deepEqual(rows.map(({ label, chosen }) => [label, chosen]), [['drafts', false], [
    '',
    true,
  ]]);
});

test('a rejected token says why, as far as the trace holds it', () => {
  const word = (id) => `<${id}>`;
  const round = (test, candidates = [], { greedy = false, confidence = null } = {}) => {
    const best = (of) => [of.map(([id, prob]) => ({ id, prob }))];
    const lane = drawn(make.round([7], [test], [8], {
      passes: confidence === null
        ? []
        : [make.step([7], [0], { candidates: best([[7, confidence]]) })],
      draft: { q: [test.q], proposal: greedy ? 'point_mass' : 'conditionals' },
      scored: { p: [test.p], candidates: best(candidates) },
      verified: { source: 'residual' },
    }));
    return whyNothing(lane.round, greedy, word);
  };
  const no = (p, q, draw = 0.9) =>
    make.test(0, 7, false, { p, q, threshold: Math.min(1, p / q), draw });
  assert.match(round(no(0.4, 0.5)), /chance: 80 of 100/);
  const wide = [[8, 0.25], [9, 0.25], [6, 0.25]];
  const unsure = round(no(0.1, 0.4), wide);
  assert.match(
    unsure,
    /unsure.*<8>, p = 0\.25.*1\.5 nats/,
    'three of a quarter, one of 0.1, and what is left at most a quarter',
  );
  assert.match(round(no(0.1, 0.9), wide), /q = 0\.90.*p = 0\.10/, 'the drafter was too sure');
  assert.match(round(no(0.01, 0.2), [[8, 0.9]]), /drafter was unsure.*0\.20.*<8>, p = 0\.90/);
  assert.match(round(no(0.01, 0.8), [[8, 0.9]]), /q = 0\.80.*p = 0\.01.*<8>/);
  const greedy = { greedy: true, confidence: 0.7 };
  assert.match(round(no(0, 1), [[8, 0.6], [7, 0.2]], greedy), /q = 0\.70.*p = 0\.20/);
  assert.match(round(no(0, 1), [[8, 0.6]], greedy), /q = 0\.70; the target has likelier/);
  assert.equal(round(no(0, 1), [], { greedy: true }), '', 'nothing is held');
  assert.equal(round(make.test(0, 7, true), [[8, 0.9]]), '', 'it was accepted');
});
