// Numbers and sentences: which facts they hold, not how they are worded.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import * as format from '../../app/static/state/format.js';
import { decisionWords, narrate } from '../../app/static/state/narrate.js';

const { cell, exact, plural, queueWords, quoted } = format;
const { seconds, milliseconds, rate, times, percent, ratio, slowWords, speedWords } = format;
const word = (id) => ({ 1: ' hill', 2: ' house', 3: '\n' })[id];
const view = (more) => ({
  round: 4,
  size: 8,
  drafted: 8,
  extra: true,
  steps: 2,
  anchor: 1,
  passes: [],
  tree: null,
  copied: false,
  unrecorded: false,
  draft: null,
  scored: null,
  verified: null,
  ...more,
});
const trial = { id: 1, p: 0.32, q: 1, threshold: 0.32, draw: 0.81, accepted: false, kind: 'ratio' };
const passed = { ...trial, accepted: true, draw: 0.1 };
const draft = (more) => ({ ids: [1, 2, 3], nfe: 1, parents: [], branches: [], ...more });
const say = (more, greedy = false) => narrate(view(more), word, greedy);
/** A text holds all of these parts, in this order. */
const holds = (text, ...parts) => {
  const places = parts.map((part) => text.indexOf(part));
  assert.ok(
    places.every((place, i) => place >= (places[i - 1] ?? 0)),
    `${text} lacks one of ${parts}`,
  );
};

test('the narration names the round and what happened, phase by phase', () => {
  assert.ok(narrate(null, word, false));
  holds(say(), 'Round 5', '8 masks', 'hill');
  holds(say({ passes: [{ step: 0, revealed: [1, 0] }] }), 'step 1 of 2', 'positions 1 and 2');
  holds(
    say({ passes: [{}, { step: 1, revealed: [0, 1, 2, 3, 4, 5] }] }),
    'step 2 of 2',
    '6 positions',
  );
  holds(say({ scored: {} }), 'target', '8 drafted tokens', 'one pass');
  const rejected = { accepted: 6, extra: 2, tests: [passed, trial] };
  holds(say({ verified: rejected }), '6 of 8', 'hill', 'u = 0.81 ≥ 0.32', 'house');
  assert.ok(
    !say({ verified: rejected }, true).includes('u ='),
    'at temperature 0 nothing is drawn',
  );
  const none = { accepted: 0, extra: 3, tests: [{ ...trial, kind: 'match', draw: null }] };
  holds(say({ verified: none }), 'none', 'hill', '↵');
  const whole = { accepted: 3, extra: 2, tests: [passed, passed, passed] };
  holds(say({ verified: whole, drafted: 3 }), 'all 3', 'bonus', 'house');
  assert.ok(
    !say({ verified: whole, drafted: 3, extra: false }).includes('house'),
    'nothing was added',
  );
  holds(say({ draft: draft({ ids: [], nfe: 2 }), drafted: 0 }), 'stopped');
  holds(say({ draft: draft({ ids: [], nfe: 0 }), size: 0, drafted: 0 }), 'one target pass');
  holds(say({ verified: { accepted: 0, extra: 2, tests: [] }, size: 0, drafted: 0 }), 'house');
});

test('the narration knows trees, several drafts, copies and passes that were not recorded', () => {
  holds(say({ tree: {}, draft: draft({ nfe: 4 }) }), '4 drafter passes', '3 nodes');
  holds(say({ tree: {}, draft: draft({ branches: [[0, 1], [2]] }) }), '2 drafts', '3 nodes');
  const tests = [{ ...passed, kind: 'tree' }];
  const walk = (source, extra = true) =>
    say({ draft: draft(), tree: {}, verified: { accepted: 2, extra: 2, source, tests }, extra });
  holds(walk('target'), '3 nodes', '2 tokens', 'house');
  holds(walk('bonus'), '2 tokens', 'bonus', 'house');
  assert.ok(!walk('bonus', false).includes('house'));
  holds(say({ copied: true, drafted: 3, draft: draft({ nfe: 0 }) }), '3 tokens', 'copied');
  holds(say({ unrecorded: true, drafted: 6, draft: draft({ nfe: 3 }) }), '6 tokens', '3 passes');
  const short = { accepted: 3, extra: 2, source: 'bonus', tests: [passed, passed, passed] };
  const branches = [[0, 1, 2], [0, 1, 3, 4, 5]];
  holds(
    say({ tree: {}, drafted: 5, extra: false, draft: draft({ branches }), verified: short }),
    'all 3',
    'shorter',
  );
  holds(say({ drafted: 5, extra: false, draft: draft(), verified: short }), 'first 3 of 5', 'ends');
});

test('a test holds every digit; at temperature 0 there is no draw', () => {
  const words = format.testWords(
    { ...trial, p: 0.1234567, q: 0.9, threshold: 0.137174, draw: 0.5 },
    false,
  );
  holds(words, '0.1234567', '0.9', 'min(1, p/q)', '0.137174', '0.5');
  assert.ok(!format.testWords({ ...trial, kind: 'delta' }, false).includes('p/q'));
  holds(format.testWords({ ...trial, kind: 'match', draw: null }, false), 'shared noise');
  assert.ok(!format.testWords(trial, true).includes('u ='));
  assert.deepEqual([exact(1), exact(null)], ['1', '–']);
});

test('cells show white space and the end of text', () => {
  assert.deepEqual([' hill', '    ', '\n\n', 'a\tb'].map(cell), ['hill', '␣␣␣␣', '↵↵', 'a⇥b']);
  assert.equal(cell('<script>'), '<script>'); // text nodes make it harmless; it must not be mangled either
  for (const mark of ['∎', '◇']) assert.ok(!quoted(mark).includes(mark), 'a mark is said in words');
});

test('numbers keep a steady number of digits, and a speed-up has a direction', () => {
  assert.deepEqual([0.0421, 12.3456, 9.9951].map(seconds), ['0.042', '12.35', '10.00']);
  assert.deepEqual([0.00042, 0.0123, 0.5].map(milliseconds), ['0.42 ms', '12.3 ms', '500 ms']);
  assert.deepEqual([null, 99.96, 123.4].map(rate), ['–', '100.0', '123']);
  assert.deepEqual(
    [times(2.345), times(null), percent(0.5), ratio(1), ratio(null)],
    ['2.35×', '–', '50.0 %', '1.00', '–'],
  );
  assert.deepEqual(
    [1, 26, 0.5].map((slow) => slowWords(slow).match(/\d+×|$/)[0]),
    ['', '26×', '2×'],
  );
  assert.deepEqual(
    [plural(1, 'pass'), plural(2, 'pass'), plural(0, 'token')],
    ['1 pass', '2 passes', '0 tokens'],
  );
  const words = [0.68, 0.994, 0.996, 1.004, 1.5].map((value) => speedWords(value).split(':')[0]);
  assert.deepEqual(words, ['slower', 'slower', words[2], words[2], 'faster']);
  assert.match(words[2], /as fast/);
});

test('a decision says what it was based on, and whether the draft was cut', () => {
  const decided = {
    gamma: 9,
    steps: 1,
    best_gamma: 6,
    tokens: 4.23,
    seconds: 0.0141,
    rate: 291,
    row_seconds: 0.00035,
  };
  holds(decisionWords(decided, null, ''), 'γ 6', '4.2 tokens', '14.1 ms', '9');
  holds(decisionWords(decided, draft(), 'a'), 'after 3', '0.35 ms', '291');
  assert.ok(!decisionWords(decided, draft(), '∎').includes('after 3'), 'the text ended');
  holds(decisionWords(decided, draft({ parents: [-1, 0, 1] }), 'a'), '3 nodes', '0.10', '0.35 ms');
});

test('a place in the queue has an estimate, where the server has one', () => {
  holds(queueWords({ number: 2, waiting: 5, left: 38.9 }), '2', '5', '40 seconds');
  holds(queueWords({ number: 2, waiting: 5, left: 99.5 }), '2 minutes');
  assert.ok(!queueWords({ number: 2, waiting: 5, left: null }).includes('second'));
});
