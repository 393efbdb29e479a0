// What lessons say with measured numbers, and whose they say they are.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { FINDINGS, proven, runOf, watched } from '../../app/static/state/findings.js';
import { buildLane } from '../../app/static/state/lane.js';
import { near, trace } from './fixture.mjs';

const [vanilla, drafted] = [trace.lanes.vanilla, trace.lanes.drafted].map(buildLane);
const run = (more = {}, config = {}) => {
  const found = runOf(drafted, vanilla, []);
  return { ...found, ...more, config: { ...found.config, ...config } };
};
const recorded = (name) =>
  JSON.parse(readFileSync(new URL(`../../assets/explore/${name}.json`, import.meta.url), 'utf8'));
const ANSWERS = {
  'one-pass': 'what-it-takes',
  gamma: 'window-map.smollm2-0',
  temperature: 'temperature',
  lossless: 'losslessness.coins',
};
const answer = (name) => recorded(ANSWERS[name]);

test('a run in numbers: what was counted, and what a pass cost', () => {
  const found = run();
  const tests = drafted.events.flatMap((event) => event.kind === 'Verified' ? event.tests : []);
  assert.equal(found.tested, tests.length);
  near(found.odds, tests.reduce((sum, { threshold }) => sum + threshold, 0) / tests.length);
  assert.equal(found.parted < 0, vanilla.ids.join() === drafted.ids.join());
  for (const [more, rows] of [[{}, 7], [{ num_drafts: 4 }, 25], [{ tree_nodes: 12 }, 13]]) {
    const events = trace.lanes.drafted.map((event) =>
      event.kind === 'RunStarted' ? { ...event, config: { ...event.config, ...more } } : event
    );
    assert.equal(runOf(buildLane(events), vanilla, []).rows, rows);
  }
  assert.ok(found.c > 0 && found.v > 0);
  assert.equal(runOf(drafted, null, []), null);
  const stopped = trace.lanes.drafted.map((event) =>
    event.kind === 'Finished' ? { ...event, reason: 'stopped' } : event
  );
  assert.equal(runOf(buildLane(stopped), vanilla, []), null, 'a stopped run has no numbers');
});

test('a check has a number of a run', () => {
  const own = [run(), run({ kinds: ['delta'] }, { num_drafts: 4, selection: 'self' })];
  for (const lesson of Object.keys(FINDINGS)) {
    const mine = proven(lesson, own);
    assert.equal(mine.length, 1, lesson);
    assert.match(mine[0], /^Your run \(block · γ 6/);
    assert.doesNotMatch(mine[0], /NaN|undefined|null|Infinity|–/, lesson);
    assert.deepEqual(proven(lesson, []), [], 'a recording was told before');
  }
});

test('the latest run that has something to say is the one that is told', () => {
  const [words, ...others] = proven('one-pass', [
    run({ v: null }),
    run({ v: 1.25, c: 0.5 }),
    run({ v: 9 }),
  ]);
  assert.equal(others.length, 0);
  assert.match(
    words,
    /^Your run \(.*\): .* up to 7 rows cost v = 1\.25, and a drafter pass c = 0\.50\. .* 1\/v = 0\.80×\.$/,
  );
  assert.match(
    proven('one-pass', [run({ quiet: false })]).join(' '),
    /^Other programs disturbed the clock of your run, so its times aren’t used\.$/,
  );
});

/** @type {[string, string, object[], RegExp | null][]} what is said, lesson, runs, the latest first, the sentence */
const SAID = [
  [
    'by how much τ has to rise, beside a run that differs in T only',
    'gamma',
    [
      run({ c: 0.5, v: 1.5, tau: 3 }, { steps: 4 }),
      run({ prompt: 'another', tau: 9 }, { steps: 1 }),
      run({ tau: 2.5 }, { steps: 1 }),
    ],
    /c\/\(v \+ c\) = 25 %, and T = 4 over one step by more than 75 %\. At T = 4, τ was 3\.00\. With T = 1 it was 2\.50\.$/,
  ],
  ['the percentages are those of the shown costs', 'gamma', [
    run({ c: 0.366, v: 1.264, tau: 3 }, { steps: 4 }),
  ], /c = 0\.37 and v = 1\.26, .* = 23 %, and T = 4 over one step by more than 68 %/],
  ['at temperature 0 rounding may part texts', 'lossless', [
    run({ parted: 2, exactness: 'rounding' }, { temperature: 0 }),
  ], /differs from vanilla’s from token 3 on: rounding decided/],
  ['above it each run draws, and is marked', 'lossless', [
    run({ parted: 2 }, { temperature: 0.8, rule: 'ratio' }),
  ], /from token 3 on: each run makes its own draws\. The mark “lossless: true” comes from/],
  [
    'tests with p/q are counted',
    'accept',
    [run({ kinds: ['ratio'], odds: 0.5, alpha: 0.51, tested: 9 }, { temperature: 1 })],
    /9 tokens were tested with min\(1, p\/q\): 50 % on average, and 51\.0 % of them were accepted/,
  ],
  ['at temperature 0 nothing is drawn', 'accept', [run({}, { temperature: 0 })], null],
];
for (const [title, lesson, runs, sentence] of SAID) {
  test(`${lesson}: ${title}`, () => {
    const found = proven(lesson, runs);
    if (sentence) assert.match(found[0], sentence);
    else assert.deepEqual(found, []);
  });
}

test('the sliders of three tokens are computed, and say so', () => {
  const [words] = proven('accept', [], {
    p: [0.6, 0.3, 0.1],
    q: [0.3, 0.6, 0.1],
    tokens: ['cat', 'dog', 'owl'],
  });
  assert.match(
    words,
    /^The p and q on the sliders, computed: .* always proposed “dog” .* the result would be cat 0\.50, dog 0\.50, owl 0\.00\. It should be cat 0\.60, dog 0\.30, owl 0\.10\.$/,
  );
});

test('what a visitor measured of a panel is said, and whose it is', () => {
  for (const lesson of ['one-pass', 'gamma', 'temperature', 'lossless']) {
    assert.match(watched(lesson, answer(lesson)), /^Your measurement: .*\d/, lesson);
  }
  assert.match(
    watched('gamma', answer('gamma'), 'busy'),
    /^Your measurement, on a machine that other programs kept busy: /,
  );
});
