import assert from 'node:assert/strict';
import { test } from 'node:test';
import {
  between,
  effectWords,
  predictedWords,
  recordedWords,
} from '../../app/static/state/predicted.js';

const cells = [
  [0, 1, 2, 1.2, 2],
  [0, 1, 4, 1.6, 3],
  [0, 2, 4, 1.4, 3.2],
  [1, 1, 2, 1, 1.6],
  [1, 1, 4, 1.2, 2],
];

test('a cell is itself, and a place between two cells is between their values', () => {
  assert.deepEqual(between(cells, [0, 1, 2]), [1.2, 2]);
  for (const where of [[0, 1, 3], [0.5, 1, 4]]) {
    assert.deepEqual(between(cells, where).map((one) => one.toFixed(6)), ['1.400000', '2.500000']);
  }
});

const PLAIN = { pair: 'toy', drafter: 'block', temperature: 0, steps: 1, top_p: 1 };

const one = {
  pair: 'toy',
  temperature: 0,
  order: 'max_prob',
  device: 'cpu: A',
  dtype: 'fp32',
  about: 'Races',
};

/** Those cells as maps, one for each temperature. */
const maps = (order) =>
  [0, 1].map((temperature) => ({
    ...one,
    temperature,
    order,
    cells: {
      'block/window': cells.filter(([degree]) => degree === temperature)
        .map(([, steps, gamma, mean, tau]) => [gamma, steps, 0, 1, mean, null, null, 3, tau]),
    },
  }));

test('nothing is said outside of what was measured', () => {
  for (const where of [[0, 1, 5], [0, 1, 1], [2, 1, 2], [0, 4, 4], [0.5, 2, 4]]) {
    assert.equal(between(cells, where), null, String(where));
  }
});

test('a recorded setting has its speed-up, a window between recorded ones is interpolated, all else is not recorded', () => {
  const race = {
    'block/tree': [[8, 1, 8, 1, 1.2, 0.9, 1.4, 5]],
    'block/window': [[4, 4, 0, 1, 1.17, 1.1, 1.3, 4]],
  };
  const known = [{ ...one, cells: race }, ...maps('left_to_right')];
  const plain = { ...PLAIN, gamma: 4, order: 'max_prob' };
  const words = (more, denoises = true) =>
    predictedWords(known, new URLSearchParams({ ...plain, ...more }).toString(), denoises);
  assert.match(words({}), /^Recorded on A: 1\.60× over 3 prompts\.$/);
  assert.match(words({ gamma: 3 }), /^Predicted: 1\.40×.*2\.50.*on A/);
  assert.match(words({ steps: 3, gamma: 3 }, false), /1\.40×/);
  assert.match(words({ steps: 4 }), /on A: 1\.17× over 4 prompts, 95 % interval 1\.10–1\.30/);
  for (
    const other of [
      { gamma: 8, steps: 8 }, // once the number of γ 4, T 4
      { steps: 4, order: 'random' },
      { gamma: 6, tree_nodes: 8 },
      { pair: 'other' },
      { tree_nodes: 64 },
      { tree_nodes: 8, temperature: 1, rule: 'block' },
      { num_drafts: 4, selection: 'self' },
      { auto: true },
      { top_k: 5 },
      { temperature: 1, rule: 'match' },
      { gamma: 9 },
      { tree_nodes: 8, gamma: 9 },
      { temperature: 1, rule: 'block', draft_temperature: 0 },
    ]
  ) assert.doesNotMatch(words(other), /\d×/, JSON.stringify(other));
  assert.equal(words({ drafter: 'none' }), '', 'vanilla has no speed-up');
  assert.match(words({ tree_nodes: 8, gamma: 8 }), /1\.20× over 5 prompts.*0\.90–1\.40/);
  assert.match(words({ temperature: 1, rule: 'block' }), /1\.20×/);
});

test('after a run stands the recorded speed-up of its own settings, and where it was recorded', () => {
  const known = [
    { ...one, cells: { 'block/window': [[8, 1, 0, 1, 1.3, 1.1, 1.6, 5]] } },
    { ...one, cells: { 'block/window': [[8, 1, 0, 1, 1.4, null, null, 2]] } },
    { ...one, dtype: 'bf16', cells: { 'block/tree': [[8, 1, 8, 1, 1.2, 0.9, 1.4, 8]] } },
  ];
  const plain = { ...PLAIN, gamma: 8, tree_nodes: 0, num_drafts: 1, top_k: 0 };
  const found = (more, device = 'cpu: A', denoises = true) =>
    recordedWords(known, { config: { ...plain, ...more }, device, dtype: 'fp32' }, denoises);
  assert.match(found({}).words, /on A: 1\.30× over 5 prompts, 95 % interval 1\.10–1\.60/);
  assert.match(found({}, 'cpu: B').words, /on A: /);
  assert.doesNotMatch(found({}).words, /here/, 'another session recorded it');
  assert.match(found({ tree_nodes: 8, steps: 4 }).words, /in bf16: 1\.20×/, 'a tree has no T');
  assert.match(found({ steps: 4 }, 'cpu: A', false).words, /1\.30×/);
  for (
    const other of [
      { pair: 'other' },
      { temperature: 1, rule: 'block' },
      { drafter: 'masked' },
      { gamma: 5 },
      { steps: 2 },
      { num_drafts: 4, selection: 'self' },
      { auto: true },
      { top_k: 5 },
    ]
  ) assert.equal(found(other), null, JSON.stringify(other));
  assert.equal(found({}, 'cuda: C'), null);
});

test('the effect of a setting is measured where it was recorded, else τ / (v + c·T)', () => {
  const words = (more) =>
    effectWords(maps('left_to_right'), { ...PLAIN, order: 'left_to_right', ...more });
  assert.match(words({ gamma: 4 }), /measured on A.* 3\.00 .* 1\.88 .*1\.60×/);
  assert.match(words({ gamma: 4, steps: 2 }), /1\.40×.*1\.60×/);
  assert.match(words({ gamma: 3 }), /computed.*2\.50 \/ \(1\.79 \+ 0\.00·1\) = 1\.40×/);
  // τ / speed-up is 1.875 with T 1 and 2.286 with T 2: c is 0.41, v 1.46
  assert.match(words({ gamma: 4, steps: 4 }), /T 2.*3\.20 \/ \(1\.46 \+ 0\.41·4\) = 1\.03×/);
  assert.equal(words({ gamma: 4, order: 'random' }), words({ gamma: 4 }), 'one step has no order');
  for (const other of [{ pair: 'b' }, { gamma: 1 }, { temperature: 2 }, { top_k: 3 }]) {
    assert.equal(words({ gamma: 4, ...other }), '', JSON.stringify(other));
  }
});
