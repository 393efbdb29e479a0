import assert from 'node:assert/strict';
import { test } from 'node:test';
import { between, predictedWords } from '../../app/static/state/predicted.js';

const cells = [[0, 1, 2, 1.2, 2], [0, 1, 4, 1.6, 3], [0, 2, 4, 1.4, 3.2], [1, 1, 2, 1, 1.6], [
  1,
  1,
  4,
  1.2,
  2,
]];

test('a cell is itself, and a place between two cells is between their values', () => {
  assert.deepEqual(between(cells, [0, 1, 2]), [1.2, 2]);
  assert.deepEqual(between(cells, [0, 1, 3]).map((one) => one.toFixed(6)), [
    '1.400000',
    '2.500000',
  ]);
  assert.deepEqual(between(cells, [0.5, 1, 4]).map((one) => one.toFixed(6)), [
    '1.400000',
    '2.500000',
  ]);
});

test('nothing is said outside of what was measured', () => {
  for (const where of [[0, 1, 5], [0, 1, 1], [2, 1, 2], [0, 4, 4], [0.5, 2, 4]]) {
    assert.equal(between(cells, where), null, String(where));
  }
});

test('words for a plain window only', () => {
  const known = { toy: { block: { device: 'a CPU', cells } } };
  const plain = { pair: 'toy', drafter: 'block', temperature: 0, steps: 1, gamma: 4, top_p: 1 };
  const words = (more, denoises = true) =>
    predictedWords(known, new URLSearchParams({ ...plain, ...more }).toString(), denoises);
  assert.match(words({}), /1\.60×.*3\.00.*a CPU/);
  assert.match(words({ steps: 3 }, false), /1\.60×/);
  for (
    const other of [
      { pair: 'other' },
      { drafter: 'none' },
      { tree_nodes: 8 },
      { num_drafts: 4 },
      {
        auto: true,
      },
      { top_k: 5 },
      { temperature: 1, rule: 'match' },
      { gamma: 9 },
    ]
  ) assert.equal(words(other), '', JSON.stringify(other));
  assert.match(words({ temperature: 1, rule: 'ratio' }), /1\.20×/);
});
