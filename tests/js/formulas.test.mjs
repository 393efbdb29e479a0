// Figures whose data the page computes: by γ, by people served at once, by the drafter's temperature.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { aboutWords, racesOf } from '../../app/static/state/exploration.js';
import { expectedTau } from '../../app/static/state/sandbox.js';
import { blockOf, FORMULAS, heated } from '../../app/static/state/formulas.js';
import { near } from './fixture.mjs';

const lineOf = ({ data }, name) => data.find((one) => one.name === name && one.mode === 'lines');
const starOf = ({ data }, name) => data.find((one) => one.name === name && one.mode === 'markers');

const ALPHAS = [0.9, 0.8, 0.5, 0.2];
const CURVE = {
  target: [[1, 0.004], [5, 0.006]],
  draft: [[1, 0.002], [4, 0.002]],
  again: [[1, 0.001], [4, 0.001]],
};
const MAP = {
  rows: [
    {
      race: 'a',
      gamma: 4,
      steps: 1,
      speedup: 1.5,
      tau: 3,
      seconds_per_round: 0.013,
      draft_seconds: 0.002,
      verify_seconds: 0.008,
      tokens_per_second: 300,
      alpha_at: ALPHAS,
    },
    { race: 'b', gamma: 2, steps: 1, speedup: 1.4, tau: 2.5, tokens_per_second: 320 },
    { race: 'c', gamma: 4, steps: 2, speedup: 1.1, tau: 3.1, tokens_per_second: 250 },
  ],
  facts: { curve: CURVE },
};

test('drag γ over a block: tokens per round rise while the speed-up, prefill included, falls', () => {
  const found = FORMULAS.by_gamma(MAP, { race: 'a' }, { gamma: 2 }, null);
  const [tau, gain] = ['τ, predicted', 'speed-up, predicted'].map((name) => lineOf(found, name));
  assert.deepEqual(tau.x, [1, 2, 3, 4]);
  near(tau.y[3], expectedTau(ALPHAS));
  near(gain.y[1], (0.004 + 0.001) / ((0.002 + 0.005) / expectedTau([0.9, 0.8]) + 0.001));
  assert.ok(gain.y[3] < Math.max(...gain.y), 'the widest window is not the fastest');
  const measured = starOf(found, 'speed-up, measured');
  assert.deepEqual([measured.x, measured.y], [[4, 2], [1.5, 1.4]], 'of the same T only');
  near(starOf(found, 'this γ').y[0], tau.y[1]);
  assert.match(found.words[0], /predicted 2\.62 .* 1\.36×, measured 2\.50 and 1\.40×/);
  const slow = { ...MAP, rows: [{ ...MAP.rows[0], speedup: 1.2 }] };
  const said = (answer) => FORMULAS.by_gamma(answer, { race: 'a' }, { gamma: 4 }, null).words[0];
  assert.match(said(slow), /took 10\.0 ms a round/, 'alone the passes take less');
  assert.doesNotMatch(said(MAP), /took/, 'the measurement is above the prediction');
  assert.match(FORMULAS.by_gamma(MAP, { race: 'a' }, { gamma: 3 }, null).words[0], /not measured/);
  assert.match(found.words[1], /rise from .* while the speed-up falls/);
});

test('the block is one of the run, and γ cuts what it yields', () => {
  const round = (accepted, ids = [1, 2, 3, 4]) => ({
    round: 0,
    draft: { ids },
    verified: { accepted },
  });
  const lane = { rounds: [round(4), round(0, [1]), round(2)], pieces: { 1: 'a', 2: 'b', 3: 'c' } };
  assert.equal(blockOf(lane, 4), lane.rounds[2]);
  const kinds = (gamma) =>
    FORMULAS.by_gamma(MAP, { race: 'a' }, { gamma }, lane).block.map(({ kind }) => kind);
  assert.deepEqual(kinds(4), ['accepted', 'accepted', 'rejected', 'untested']);
  assert.deepEqual(kinds(1), ['accepted', 'untested', 'untested', 'untested']);
  const { words } = FORMULAS.by_gamma(MAP, { race: 'a' }, { gamma: 4 }, lane);
  assert.match(words[2], /it yields 3 tokens: 2 accepted/);
});

test('serving load: where rows are free it always pays, where each costs a pass it never does', () => {
  const rows = [{ race: 'm', label: 'M', drafter: 'd', gamma: 4, steps: 1, alpha_at: ALPHAS }];
  const at = (curve) =>
    FORMULAS.serving({ rows, facts: { curve, drafts: { d: [[1, 0.001], [4, 0.001]] } } }, {
      race: 'm',
    }, { people: 2 });
  const free = at([[1, 0.004], [128, 0.004]]);
  assert.match(free.words[1], /γ 4 still pays at 25, the most that was measured/);
  near(lineOf(free, 'γ 4').y[0], expectedTau(ALPHAS) * 0.004 / 0.005);
  assert.equal(lineOf(free, 'γ 1').x.length, 64, 'as far as 128 rows go');
  assert.match(at([[1, 0.004], [128, 0.512]]).words[1], /γ 4 never pays/);
  const knee = at([[1, 0.004], [16, 0.004], [128, 0.5]]);
  assert.match(knee.words[1], /γ 4 stops paying at [34]/);
  assert.match(knee.words[2], /assumed/);
  const published = (name) => lineOf(knee, `${name} on an H100`);
  const { x, y } = published('EAGLE');
  assert.match(
    knee.words.at(-1),
    new RegExp(`stops paying at ${x[y.findIndex((one) => one < 1)]} people`),
  );
  assert.ok(Math.min(...published('EAGLE-3').y) > 1 && published('EAGLE-3').x.at(-1) === 64);
  const noisy = at([[1, 0.004], [9, 0.004], [10, 0.02], [11, 0.005], [16, 0.005], [128, 0.5]]);
  assert.match(noisy.words[1], /γ 4 stops paying between 2 and 3\b/);
});

test('temperature acts on the recorded probabilities, and the matched one is found', () => {
  const logs = [0.6, 0.3, 0.1].map(Math.log);
  heated([1, 1, 1], logs, 1).forEach((one, i) => near(one, [0.6, 0.3, 0.1][i]));
  near(heated([1, 1, 1], logs, 0.5)[0], 0.36 / 0.46);
  assert.deepEqual(heated([1, 1, 1], logs, 0), [1, 0, 0]);
  near(heated([1, 2], [Math.log(0.5), Math.log(0.25)], 1)[1], 0.5); // a group of two tokens
  near(heated([1, 2], [Math.log(0.5), Math.log(0.25)], 0.5)[1], 1 / 3);
  const cold = logs.map((one) => one / 0.5); // as if the drafter had been measured at half the temperature
  const places = [{ counts: [1, 1, 1], p: logs, q: cold }];
  const answer = {
    rows: [{ temperature: 1, draft_temperature: 2, alpha: 0.9 }],
    facts: { places },
  };
  const found = FORMULAS.matched(answer, {}, { target: 1, drafter: 1 }, null);
  near(starOf(found, 'matched').x[0], 2, 1e-6);
  near(starOf(found, 'matched').y[0], 1, 1e-6);
  assert.deepEqual(starOf(found, 'α, measured').x, [2]);
  assert.match(found.words[0], /for a target at 1\.00: 2\.00, where α is 1\.00. At 1\.00 it is/);
  const same = FORMULAS.matched(answer, {}, { target: 1, drafter: 2 }, null);
  assert.match(same.words[0], /where α is 1\.00\.$/, 'it is said once');
});

test('a measurement says about how long it takes: by its settings and its pair', () => {
  const known = { settings: { gammas: [1, 2], tokens: 64, pair: 'embedded' }, seconds: 60 };
  const about = (values) =>
    aboutWords(values, ['gammas', 'tokens'], known, (pair) => pair === 'large' ? 5 : 1);
  assert.equal(about({ gammas: '1, 2', tokens: '64' }), 'about 60 seconds');
  assert.equal(about({ gammas: ['4'], tokens: '64' }), 'about 30 seconds');
  assert.equal(about({ gammas: '1,2,3,4', tokens: '64', pair: 'large' }), 'about 10 minutes');
  assert.equal(about({ gammas: '1', tokens: '8' }), 'about 10 seconds');
  const none = { settings: { gammas: [], tokens: 64 }, seconds: 60 };
  const again = aboutWords({ gammas: [], tokens: '64' }, ['gammas', 'tokens'], none, () => 1);
  assert.equal(again, 'about 60 seconds', 'no kind of text, but the visitor’s own prompts');
});

test('a cell lists the races of its prompts', () => {
  const files = { 'b/4/1': '', 'b/4/1@code': '', 'b/4/10': '' };
  assert.deepEqual(racesOf({ files }, 'b/4/1'), [['b/4/1', 'first prompt'], [
    'b/4/1@code',
    'code',
  ]]);
  assert.deepEqual(racesOf(null, 'b'), []);
});
