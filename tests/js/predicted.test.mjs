import assert from 'node:assert/strict';
import { test } from 'node:test';
import { between, predictedWords, typicalWords } from '../../app/static/state/predicted.js';

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

const one = {
  pair: 'toy',
  temperature: 0,
  device: 'cpu: A',
  dtype: 'fp32',
  spread: true,
  over: 'over 5 prompts',
  about: 'Races',
};

test('nothing is said outside of what was measured', () => {
  for (const where of [[0, 1, 5], [0, 1, 1], [2, 1, 2], [0, 4, 4], [0.5, 2, 4]]) {
    assert.equal(between(cells, where), null, String(where));
  }
});

test('a plain window is interpolated; a tree has the range of its own settings, or a reason', () => {
  const known = { toy: { block: { device: 'a CPU', cells } } };
  const similar = [{
    ...one,
    cells: { 'block/tree': [[8, 1, 8, 1, 0.9, 1.4, 'γ 8, B 8']] },
  }];
  const plain = { pair: 'toy', drafter: 'block', temperature: 0, steps: 1, gamma: 4, top_p: 1 };
  const words = (more, denoises = true) =>
    predictedWords(known, similar, new URLSearchParams({ ...plain, ...more }).toString(), denoises);
  assert.match(words({}), /1\.60×.*3\.00.*a CPU/);
  assert.match(words({ steps: 3 }, false), /1\.60×/);
  for (
    const other of [
      { pair: 'other' },
      { tree_nodes: 64 },
      { tree_nodes: 8, temperature: 1, rule: 'ratio' },
      { num_drafts: 4, selection: 'self' },
      { auto: true },
      { top_k: 5 },
      { temperature: 1, rule: 'match' },
      { gamma: 9 },
      { tree_nodes: 8, gamma: 9 },
      { temperature: 1, rule: 'ratio', draft_temperature: 0 },
    ]
  ) assert.match(words(other), /^No prediction/, JSON.stringify(other));
  assert.equal(words({ drafter: 'none' }), '', 'vanilla has no speed-up');
  assert.match(words({ tree_nodes: 8, gamma: 8 }), /on A: 0\.90–1\.40× over 5 prompts/);
  assert.match(words({ temperature: 1, rule: 'ratio' }), /1\.20×/);
});

test('what is typical was measured: same pair, temperature, kind of device and settings', () => {
  const known = [{ ...one, cells: { 'block/window': [[8, 1, 0, 1, 1.1, 1.6, 'γ 8, T 1']] } }, {
    ...one,
    cells: { 'block/window': [[4, 1, 0, 1, 1.2, 1.3, 'γ 4, T 1']] },
  }, { ...one, cells: { 'block/tree': [[8, 1, 8, 1, 0.9, 1.4, 'γ 8, B 8']] } }];
  const plain = {
    pair: 'toy',
    drafter: 'block',
    temperature: 0,
    steps: 1,
    gamma: 8,
    tree_nodes: 0,
    num_drafts: 1,
    top_k: 0,
    top_p: 1,
  };
  const told = (more, device = 'cpu: A', denoises = true, dtype = 'fp32') =>
    typicalWords(known, { config: { ...plain, ...more }, device, dtype }, denoises);
  assert.match(told({}).words, /on A: 1\.10–1\.60× over 5 prompts/);
  assert.match(told({}).about, /γ 8, T 1.*A/);
  assert.match(told({}, 'cpu: A', true, 'bf16').words, /in fp32: 1\.10/);
  assert.match(told({}, 'cpu: B').words, /on A: 1\.10/);
  assert.match(told({ gamma: 4 }).words, /1\.20/);
  assert.match(told({ tree_nodes: 8, steps: 4 }).words, /0\.90/, 'a tree has no T');
  assert.match(told({ steps: 4 }, 'cpu: A', false).words, /1\.10/);
  for (
    const other of [
      { pair: 'other' },
      { temperature: 1, rule: 'ratio' },
      { drafter: 'mdlm' },
      { gamma: 1 },
      { gamma: 5 },
      { steps: 4 },
      { steps: 2 },
      { num_drafts: 4, selection: 'self' },
      { auto: true },
      { top_k: 5 },
    ]
  ) assert.equal(told(other), null, JSON.stringify(other));
  assert.equal(told({}, 'cuda: C'), null);
  known.splice(1, 1, { ...known[0], spread: false, over: '(mean of 8 prompts)' }, {
    ...known[1],
    spread: false,
    over: '(mean of 8 prompts)',
  });
  assert.ok(told({}).spread, 'a range over prompts before one of a mean');
  assert.ok(!told({ gamma: 4 }).spread && /1\.20.*of 8/.test(told({ gamma: 4 }).words));
});
