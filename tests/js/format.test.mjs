// Sentences and numbers.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { busyWords, cell, decisionWords, exact, milliseconds, narrate, percent, plural, queueWords, quoted, rate, ratio, reasonWords, seconds, settingsWords, short, slowWords, testFigures, testWords, times, tokenTitle } from '../../app/static/state/format.js';

const word = (id) => ({ 1: ' hill', 2: ' house', 3: '\n' })[id];
const view = (more) => ({
  round: 4, size: 8, drafted: 8, extra: true, steps: 2, anchor: 1, passes: [], tree: null, copied: false, unrecorded: false, draft: null, scored: null, verified: null, ...more,
});
const trial = { id: 1, p: 0.32, q: 1, threshold: 0.32, draw: 0.81, accepted: false, kind: 'ratio' };
const passed = { ...trial, accepted: true, draw: 0.1 };
const draft = (more) => ({ ids: [1, 2, 3], nfe: 1, parents: [], branches: [], ...more });
const say = (more, greedy = false) => narrate(view(more), word, greedy);

test('a busy machine is named with its waiting threads', () => {
  const words = busyWords([['Vanilla', 0.914], ['DFlash', null]]);
  assert.match(words, /many times too large or too small.*Vanilla 0[.]91, DFlash unknown/);
});

test('the narration says what happened, phase by phase', () => {
  assert.equal(narrate(null, word, false), 'The target reads the prompt.');
  assert.equal(say(), 'Round 5: the drafter faces 8 masks after “hill”.');
  assert.equal(say({ passes: [{ step: 0, revealed: [1, 0] }] }), 'Round 5: denoising step 1 of 2 reveals positions 1 and 2.');
  assert.equal(say({ passes: [{ step: 0, revealed: [2] }] }), 'Round 5: denoising step 1 of 2 reveals position 3.');
  assert.equal(say({ passes: [{}, { step: 1, revealed: [0, 1, 2, 3, 4, 5] }] }), 'Round 5: denoising step 2 of 2 reveals 6 positions.');
  assert.equal(say({ scored: {} }), 'Round 5: the target has read the 8 drafted tokens in one pass.');
  const refused = { accepted: 6, extra: 2, tests: [passed, trial] };
  assert.equal(say({ verified: refused }), 'Round 5: the target keeps 6 of 8, refuses “hill” (u = 0.81 ≥ 0.32) and writes “house”.');
  assert.equal(say({ verified: refused }, true), 'Round 5: the target keeps 6 of 8; instead of “hill” it says “house”.');
  const none = { accepted: 0, extra: 3, tests: [{ ...trial, kind: 'match', draw: null }] };
  assert.equal(say({ verified: none }), 'Round 5: the target keeps none, refuses “hill” (its own draw differs) and writes “↵”.');
  const ended = { accepted: 3, extra: 2, tests: [passed, passed, passed] };
  assert.equal(say({ verified: ended, drafted: 3, extra: false }), 'Round 5: all 3 drafted tokens pass, and the text ends there.');
  assert.equal(say({ verified: { ...ended, accepted: 1, tests: [passed] }, drafted: 1 }), 'Round 5: the drafted token passes; the target adds a bonus token, “house”.');
  assert.equal(say({ draft: draft({ ids: [], nfe: 2 }), drafted: 0 }), 'Round 5: stopped while drafting.');
  assert.equal(say({ draft: draft({ ids: [], nfe: 0 }), size: 0, drafted: 0 }), 'Round 5: one target pass for one token.');
  assert.equal(say({ verified: { accepted: 0, extra: 2, tests: [] }, size: 0, drafted: 0 }), 'Round 5: the target writes “house”.');
});

test('the narration knows trees, several drafts, copies and passes that were not recorded', () => {
  assert.equal(say({ tree: {}, draft: draft({ nfe: 1 }) }), 'Round 5: one drafter pass has grown a tree of 3 nodes.');
  assert.equal(say({ tree: {}, draft: draft({ nfe: 4 }) }), 'Round 5: 4 drafter passes have grown a tree of 3 nodes.');
  assert.equal(say({ tree: {}, draft: draft({ branches: [[0, 1], [2]] }) }), 'Round 5: 2 drafts are drawn from one drafter pass, 3 nodes in all.');
  const walk = (source, extra = true) => say({ draft: draft(), tree: {}, verified: { accepted: 2, extra: 2, source, tests: [{ ...passed, kind: 'tree' }] }, extra });
  assert.match(walk('target'), /the tree of 3 nodes for 2 tokens, then leave it with “house”[.]$/);
  assert.match(walk('bonus'), /to the end of a branch; it adds a bonus token, “house”[.]$/);
  assert.match(walk('bonus', false), /for 2 tokens, and the text ends there[.]$/);
  assert.equal(say({ copied: true, drafted: 1 }), 'Round 5: 1 token to copy, because the text last went on like that.');
  assert.equal(say({ copied: true, drafted: 3, draft: draft({ nfe: 0 }) }), 'Round 5: 3 tokens are copied, because the text last went on like that.');
  assert.equal(say({ unrecorded: true, drafted: 6, draft: draft({ nfe: 3 }) }), 'Round 5: 6 tokens drafted in 3 passes of the drafter.');
});

test('of several drafts one that ends the text may be shorter than the others: nothing was refused', () => {
  const verified = { accepted: 3, extra: 2, source: 'bonus', tests: [passed, passed, passed] };
  const branches = [[0, 1, 2], [0, 1, 3, 4, 5]];
  assert.equal(say({ tree: {}, drafted: 5, extra: false, draft: draft({ branches }), verified }), 'Round 5: all 3 drafted tokens of a shorter draft pass, and the text ends there.');
  assert.equal(say({ tree: {}, drafted: 5, extra: false, draft: draft({ branches }), verified: { ...verified, accepted: 1 } }, true), 'Round 5: the drafted token of a shorter draft passes, and the text ends there.');
});

test('tests are told with every digit', () => {
  assert.equal(testWords({ ...trial, p: 0.1234567, q: 0.9, threshold: 0.137174, draw: 0.5 }, false), 'p = 0.1234567, q = 0.9, min(1, p/q) = 0.137174, drawn u = 0.5');
  assert.equal(testWords({ ...trial, kind: 'delta' }, false), 'p = 0.32, q = 1, p = 0.32, drawn u = 0.81');
  assert.match(testWords({ ...trial, kind: 'match', draw: null }, false), /shared noise/);
  assert.match(testWords({ ...trial, kind: 'tree', draw: null }, true), /p = 0[.]32 together; the target drew another token/);
  assert.match(testWords(trial, true), /^temperature 0: .* is another$/);
  assert.match(testWords(passed, true), /^temperature 0: .* is the same$/);
  assert.equal(exact(1), '1');
  assert.equal(exact(null), '–');
});

test('a test fits where there is little room', () => {
  assert.equal(testFigures(trial, false), 'u .81 ≥ .32');
  assert.equal(testFigures(passed, false), 'u .10 < .32');
  assert.equal(testFigures(trial, true), 'differs');
  assert.equal(testFigures({ ...passed, kind: 'match', draw: null }, false), 'same');
  assert.equal(testFigures({ ...passed, kind: 'tree', draw: null }, false), 'Σp .32');
  assert.deepEqual([short(0.07), short(0), short(1), short(0.9996), short(0.0004)], ['.07', '0', '1', '1', '0']);
});

test('cells show white space and the end of text', () => {
  assert.equal(cell(' hill'), 'hill');
  assert.equal(cell('    '), '␣␣␣␣');
  assert.equal(cell('\n\n'), '↵↵');
  assert.equal(cell('a\tb'), 'a⇥b');
  assert.equal(cell('<|endoftext|>'), '∎');
  assert.equal(quoted('<|endoftext|>'), 'the end of the text');
  assert.equal(cell('<script>'), '<script>'); // text nodes make it harmless; it must not be mangled either
});

test('numbers keep a steady number of digits', () => {
  assert.equal(seconds(0.0421), '0.042');
  assert.equal(seconds(12.3456), '12.35');
  assert.equal(seconds(9.9951), '10.00');
  assert.equal(milliseconds(0.00042), '0.42 ms');
  assert.equal(milliseconds(0.0123), '12.3 ms');
  assert.equal(milliseconds(0.5), '500 ms');
  assert.deepEqual([rate(null), rate(99.96), rate(123.4)], ['–', '100.0', '123']);
  assert.deepEqual([times(2.345), times(null), percent(0.5), percent(null), ratio(1), ratio(null)], ['2.35×', '–', '50.0 %', '–', '1.00', '–']);
  assert.equal(slowWords(1), 'real time');
  assert.equal(slowWords(26), '26× slower');
  assert.equal(slowWords(0.5), '2× faster');
  assert.deepEqual([plural(1, 'pass'), plural(2, 'pass'), plural(0, 'token')], ['1 pass', '2 passes', '0 tokens']);
});

test('titles tell where a token comes from', () => {
  assert.equal(tokenTitle({ round: 2, source: 'bonus', test: null }, false, false), 'round 3: bonus token');
  assert.equal(tokenTitle({ round: 2, source: 'target', test: null }, true, false), 'pass 3 of the target');
  assert.match(tokenTitle({ round: 0, source: 'draft', test: passed }, false, false), /accepted draft; p = 0.32/);
  assert.equal(tokenTitle({ round: 0, source: 'newer', test: null }, false, false), 'round 1: newer');
});

test('an ending is told in words, one of a newer version by its own name', () => {
  assert.deepEqual(['length', 'stopped', 'newer', 'constructor'].map(reasonWords), ['length reached', 'stopped', 'newer', 'constructor']);
});

test('a lane says its settings in short', () => {
  const words = (config) => settingsWords({ drafter: 'block', gamma: 16, steps: 1, rule: 'ratio', tree_nodes: 0, num_drafts: 1, selection: 'self', auto: false, ...config }, new Set(['eagle']));
  assert.equal(words({}), 'block · γ 16 · T 1 · ratio');
  assert.equal(words({ auto: true }), 'block · γ ≤ 16 · auto · ratio');
  assert.equal(words({ auto: true, steps: 4 }), 'block · γ ≤ 16 · T ≤ 4 · auto · ratio');
  assert.equal(words({ drafter: 'eagle' }), 'eagle · γ 16 · ratio');
  assert.equal(words({ tree_nodes: 8, auto: true }), 'block · γ ≤ 16 · B ≤ 8 · auto · ratio');
  assert.equal(words({ num_drafts: 4, selection: 'multi_round' }), 'block · γ 16 · K 4 · multi-round · ratio');
  assert.equal(words({ drafter: 'none' }), 'one target pass per token');
});

test('a decision says what it was chosen by, and whether the draft was cut', () => {
  const decided = { gamma: 9, steps: 1, best_gamma: 6, tokens: 4.23, seconds: 0.0141, rate: 291, row_seconds: 0.00035 };
  const cut = (ids) => draft({ ids });
  assert.equal(decisionWords(decided, null, ''), 'Auto, T 1: a whole window pays best at γ 6, 4.2 tokens expected in 14.1 ms; up to 9 while the drafter is confident.');
  assert.match(decisionWords(decided, cut([1, 2, 3]), 'a'), /\. The draft ends after 3: .*0\.35 ms at 291 tokens\/s/);
  assert.doesNotMatch(decisionWords(decided, cut([1, 2, 3]), '<|endoftext|>'), /ends after/);
  assert.doesNotMatch(decisionWords({ ...decided, best_gamma: 9 }, cut([1, 2, 3, 4, 5, 6, 7, 8, 9]), 'a'), /ends after|up to/);
  assert.match(decisionWords({ ...decided, seconds: 0 }, null, ''), /to see what it costs/);
  const tree = draft({ ids: [4, 5], parents: [-1, 0] });
  assert.match(decisionWords(decided, tree, 'a'), /^Auto: a tree of 2 nodes; a node with a probability below 0\.10\d* is not worth its row \(0\.35 ms at 291 tokens\/s\)\.$/);
  assert.equal(decisionWords({ ...decided, best_gamma: 0, seconds: 0 }, null, ''), 'Auto: the tree will hold the nodes that are worth their rows.');
  assert.match(decisionWords({ ...decided, row_seconds: 0 }, tree, 'a'), /as large as may be, to see what it costs/);
});

test('a place in the queue is told with an estimate, where the server has one', () => {
  const told = { 'queue: 2/5 | 3.1/42.0s': '; done in about 40 seconds, an estimate from earlier runs here', 'queue: 2/5 |3.1/4.0s': '; done in about 10 seconds, an estimate from earlier runs here', 'queue: 2/5 | 0.5/100.5s': '; done in about 2 minutes, an estimate from earlier runs here', 'queue: 2/5 | 3.1s': '', 'queue: 2/5 | 42.0/41.0s': '', 'queue: 2/5': '' };
  for (const [text, estimate] of Object.entries(told)) assert.equal(queueWords(text), `Yours is number 2 of 5 in the queue${estimate}.`);
  for (const text of ['', 'processing | 1.0/2.0s', 'queue:']) assert.equal(queueWords(text), '');
});
