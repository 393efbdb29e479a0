// The glossary: which letters of a text are symbols, and what each says.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { meaningOf, setSymbols, splitSymbols } from '../../app/static/views/glossary.js';

const element = { classList: { toggle: () => {} }, append: () => {}, setAttribute: () => {} };
globalThis.document = { createElement: () => element, body: element, addEventListener: () => {} };
const told = (meaning, unit = '', prose = true) => ({ meaning, unit, prose });
const symbols = {
  γ: told('draft window', 'tokens'),
  τ: told('block efficiency', 'tokens'),
  α: told('rate'),
  α_j: told('rate at j'),
  T: told('steps'),
  p: told('target'),
  q: told('drafter'),
  c: told('cost'),
  v: told('cost'),
  N: told('passes', '', false),
  B: told('nodes of a draft tree'),
  'E[τ]': told('the expected τ'),
};

test('before anything is known, a text is only words', () => {
  assert.deepEqual(splitSymbols('τ and γ'), ['τ and γ']);
  assert.equal(meaningOf('τ'), '');
});

test('symbols are found where they stand alone, the longer one first, and each once', () => {
  setSymbols(symbols);
  assert.deepEqual(
    splitSymbols('τ is at most γ + 1, and τ at least 1.'),
    ['', 'τ', ' is at most ', 'γ', ' + 1, and τ at least 1.'],
  );
  assert.deepEqual(splitSymbols('Σ Π α_j, not α'), ['Σ Π ', 'α_j', ', not ', 'α', '']);
  assert.deepEqual(splitSymbols('min(1, p(x)/q(x))'), ['min(1, ', 'p', '(x)/', 'q', '(x))']);
  assert.deepEqual(splitSymbols('c/(v + c)'), ['', 'c', '/(', 'v', ' + c)']);
});

test('letters of words, of compounds and of other formulas are no symbols', () => {
  for (
    const words of [
      'The Tab, top-p and p-values',
      'it’s c’s',
      'v.2 of vocab',
      'τ_T',
      'N runs',
      'eq',
      'GPTs',
    ]
  ) assert.deepEqual(splitSymbols(words), [words], words);
});

test('a symbol says its meaning and its unit; a name of the language is no symbol', () => {
  assert.equal(meaningOf('γ'), 'γ: draft window (tokens)');
  assert.equal(meaningOf('α'), 'α: rate');
  assert.equal(meaningOf('N'), 'N: passes');
  assert.equal(meaningOf('constructor'), '');
});
