// Sentences and numbers.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { busyWords, cell, decisionWords, exact, milliseconds, narrate, quoted, rate, seconds, slowWords, testWords, times, tokenTitle } from '../../app/static/words.js';

const word = (id) => ({ 1: ' hill', 2: ' house', 3: '\n' })[id];
const view = (more) => ({ round: 4, size: 8, drafted: 8, extra: true, total: 2, anchor: 1, steps: [], draft: null, scored: null, verified: null, ...more });
const trial = { id: 1, p: 0.32, q: 1, threshold: 0.32, draw: 0.81, accepted: false, kind: 'ratio' };

test('a busy machine is named with its waiting threads', () => {
  assert.match(busyWords([['vanilla', 0.914], ['drafted', 0.6]]), /many times too large or too small.*vanilla 0.91, drafted 0.60/);
});

test('the narration says what happened, phase by phase', () => {
  assert.equal(narrate(null, word), 'The target reads the prompt.');
  assert.equal(narrate(view(), word), 'Round 5: the drafter faces 8 masks after “hill”.');
  assert.equal(narrate(view({ steps: [{ step: 0, revealed: [1, 0] }] }), word), 'Round 5: denoising step 1 of 2 reveals positions 1 and 2.');
  assert.equal(narrate(view({ steps: [{ step: 0, revealed: [2] }] }), word), 'Round 5: denoising step 1 of 2 reveals position 3.');
  assert.equal(narrate(view({ scored: {} }), word), 'Round 5: the target has read the 8 drafted tokens in one pass.');
  const refused = { accepted: 6, extra: 2, tests: [trial] };
  assert.equal(narrate(view({ verified: refused }), word), 'Round 5: the target keeps 6 of 8, refuses “hill” (u = 0.81 ≥ 0.32) and writes “house”.');
  const none = { accepted: 0, extra: 3, tests: [{ ...trial, kind: 'match', draw: null }] };
  assert.equal(narrate(view({ verified: none }), word), 'Round 5: the target keeps none, refuses “hill” (its own draw differs) and writes “↵”.');
  const ended = { accepted: 3, extra: 2, tests: [{ ...trial, accepted: true }] };
  assert.equal(narrate(view({ verified: ended, drafted: 3, extra: false }), word), 'Round 5: all 3 drafted tokens pass, and the text ends there.');
  assert.equal(narrate(view({ draft: { ids: [], nfe: 2 }, drafted: 0 }), word), 'Round 5: stopped while drafting.');
  assert.equal(narrate(view({ draft: { ids: [], nfe: 0 }, size: 0, drafted: 0 }), word), 'Round 5: one target pass for one token.');
  const all = { accepted: 8, extra: 2, tests: [trial] };
  assert.equal(narrate(view({ verified: all }), word), 'Round 5: all 8 drafted tokens pass; the target adds a bonus token, “house”.');
});

test('tests are told with every digit', () => {
  assert.equal(testWords({ ...trial, p: 0.1234567, q: 0.9, threshold: 0.137174, draw: 0.5 }), 'p = 0.1234567, q = 0.9, min(1, p/q) = 0.137174, drawn u = 0.5');
  assert.match(testWords({ ...trial, kind: 'match', draw: null }), /shared noise/);
  assert.equal(exact(1), '1');
  assert.equal(exact(null), '–');
});

test('cells show white space and the end of text', () => {
  assert.equal(cell(' hill'), 'hill');
  assert.equal(cell('    '), '␣␣␣␣');
  assert.equal(cell('\n\n'), '↵↵');
  assert.equal(cell('<|endoftext|>'), '∎');
  assert.equal(quoted('<|endoftext|>'), 'the end of the text');
  assert.equal(cell('<script>'), '<script>'); // text nodes make it harmless; it must not be mangled either
});

test('numbers keep a steady number of digits', () => {
  assert.equal(seconds(0.0421), '0.042');
  assert.equal(seconds(12.3456), '12.35');
  assert.equal(milliseconds(0.00042), '0.42 ms');
  assert.equal(milliseconds(0.0123), '12.3 ms');
  assert.equal(rate(null), '–');
  assert.equal(times(2.345), '2.35×');
  assert.equal(slowWords(1), 'real time');
  assert.equal(slowWords(26), '26× slower');
  assert.equal(slowWords(0.5), '2× faster');
});

test('titles tell where a token comes from', () => {
  assert.equal(tokenTitle({ round: 2, source: 'bonus', test: null }, false), 'round 3: bonus token');
  assert.equal(tokenTitle({ round: 2, source: 'target', test: null }, true), 'pass 3 of the target');
  assert.match(tokenTitle({ round: 0, source: 'draft', test: { ...trial, accepted: true } }, false), /accepted draft; p = 0.32/);
});

test('a decision says what it was chosen by, and whether the draft was cut', () => {
  const decided = { gamma: 9, steps: 1, best_gamma: 6, tokens: 4.23, seconds: 0.0141, rate: 291, row_seconds: 0.00035 };
  assert.equal(decisionWords(decided, null, ''), 'Auto, T 1: a whole window pays best at γ 6, 4.2 tokens expected in 14.1 ms; up to 9 while the drafter is sure.');
  assert.match(decisionWords(decided, { ids: [1, 2, 3] }, 'a'), /\. The draft ends after 3: .*0\.35 ms at 291 tokens\/s/);
  assert.doesNotMatch(decisionWords(decided, { ids: [1, 2, 3] }, '<|endoftext|>'), /ends after/);
  assert.doesNotMatch(decisionWords({ ...decided, best_gamma: 9 }, { ids: [1, 2, 3, 4, 5, 6, 7, 8, 9] }, 'a'), /ends after|up to/);
  assert.match(decisionWords({ ...decided, seconds: 0 }, null, ''), /to see what it costs/);
  const tree = { ids: [4, 5], parents: [-1, 0] };
  assert.match(decisionWords(decided, tree, 'a'), /^Auto: a tree of 2 nodes; one with a chance below 0\.10\d* is not worth its row \(0\.35 ms at 291 tokens\/s\)\.$/);
  assert.equal(decisionWords({ ...decided, best_gamma: 0, seconds: 0 }, null, ''), 'Auto: the tree will hold what is worth its rows.');
  assert.match(decisionWords({ ...decided, row_seconds: 0 }, tree, 'a'), /as large as may be, to see what it costs/);
});
