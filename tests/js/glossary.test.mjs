// The glossary: which letters of a text are symbols, and what each says.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { glossAxis, know, means, parts } from '../../app/static/views/glossary.js';

class FakeElement {
  constructor() {
    const classes = new Set();
    this.attributes = {};
    this.classList = {
      toggle: (name, on) => classes[on ? 'add' : 'delete'](name),
      contains: (name) => classes.has(name),
    };
  }

  append() {}

  setAttribute(name, value) {
    this.attributes[name] = value;
  }

  removeAttribute(name) {
    delete this.attributes[name];
  }

  getAttribute(name) {
    return this.attributes[name] ?? null;
  }
}

globalThis.document = {
  createElement: () => new FakeElement(),
  body: new FakeElement(),
  addEventListener: () => {},
};
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
  assert.deepEqual(parts('τ and γ'), ['τ and γ']);
  assert.equal(means('τ'), '');
});

test('symbols are found where they stand alone, the longer one first, and each once', () => {
  know(symbols);
  assert.deepEqual(
    parts('τ is at most γ + 1, and τ at least 1.'),
    ['', 'τ', ' is at most ', 'γ', ' + 1, and τ at least 1.'],
  );
  assert.deepEqual(parts('Σ Π α_j, not α'), ['Σ Π ', 'α_j', ', not ', 'α', '']);
  assert.deepEqual(parts('min(1, p(x)/q(x))'), ['min(1, ', 'p', '(x)/', 'q', '(x))']);
  assert.deepEqual(parts('c/(v + c)'), ['', 'c', '/(', 'v', ' + c)']);
});

test('the title of an axis says what its symbols mean, and is a stop of the Tab key where its panel has none', () => {
  const panel = { querySelectorAll: () => stops };
  const stops = [];
  const title = Object.assign(new FakeElement(), { closest: () => panel });
  const is = () =>
    ['data-symbol', 'tabindex', 'role', 'aria-label'].map((name) => title.getAttribute(name));
  glossAxis(title, 'τ at γ 8, tokens per round');
  assert.deepEqual(
    [is(), title.classList.contains('sd-axis-sym')],
    [['τ γ', '0', 'img', 'τ at γ 8, tokens per round'], true],
  );
  stops.push(Object.assign(new FakeElement(), { attributes: { 'data-symbol': 'E[τ]' } }), title);
  glossAxis(title, 'E[τ] of the α_j');
  assert.deepEqual(is().slice(0, 2), ['E[τ] α_j', '0'], 'E[τ] was said, α_j was not');
  glossAxis(title, 'E[τ], predicted');
  assert.deepEqual(is(), ['E[τ]', null, null, null]);
  glossAxis(title, 'decode time, s');
  assert.deepEqual([is(), title.classList.contains('sd-axis-sym')], [
    [null, null, null, null],
    false,
  ]);
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
  ) assert.deepEqual(parts(words), [words], words);
});

test('a symbol says its meaning and its unit; a name of the language is no symbol', () => {
  assert.equal(means('γ'), 'γ: draft window (tokens)');
  assert.equal(means('α'), 'α: rate');
  assert.equal(means('N'), 'N: passes');
  assert.equal(means('constructor'), '');
});
