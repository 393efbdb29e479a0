// A walk of steps alone and before a room: what waits until it is revealed, and where the keys lead.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { FakeElement, useFakePage } from './dom.mjs';

useFakePage();
let heard = () => {}; // what the presenter does with a key
let address = 'http://lab/';
Object.assign(globalThis.document, { baseURI: 'http://lab/', addEventListener: (name, callback) => { if (name === 'keydown') heard = callback; } });
Object.assign(globalThis, { Element: FakeElement, HTMLElement: FakeElement, location: { href: 'http://lab/', pathname: '/', search: '' }, history: { replaceState: (_, __, to) => { address = String(to); } } });
const { Guide } = await import('../../app/static/views/guide.js');
const { Presenter } = await import('../../app/static/views/presenter.js');
const { h } = await import('../../app/static/views/dom.js');

const LESSONS = [{ name: 'one', title: 'One' }, { name: 'two', title: 'Two' }];
const steps = ({ title }) => [
  { title: 'Predict', words: [title], options: [{ words: 'many' }, { words: 'few' }] },
  { title: 'Explain', words: ['Because.'], instead: 'What did you see?', extra: h('p', {}, 'formula') },
  { title: 'Check', words: ['Is it?'], options: [{ words: 'Yes', right: true, why: 'it is' }, { words: 'No', right: false, why: 'it is not' }], proof: h('p', {}, 'measured') },
];
const told = (guide) => guide.body.textContent;
const proof = (guide) => guide.body.all('sd-guide-proof')[0];
const options = (guide) => guide.body.all('sd-guide-option');

test('alone all is told at once, and measured numbers come with the verdict', async () => {
  const guide = new Guide(() => {});
  await guide.start('One', steps(LESSONS[0]), 1);
  assert.match(told(guide), /Because\..*formula/);
  await guide.go(2);
  assert.equal(proof(guide).hidden, true);
  options(guide)[1].click();
  assert.match(told(guide), /✕ it is not/);
  assert.equal(proof(guide).hidden, false);
});

test('a guess is remembered and not judged', async () => {
  const guide = new Guide((_, chosen) => assert.deepEqual(chosen, { 0: 1 }));
  await guide.start('One', steps(LESSONS[0]));
  options(guide)[1].click();
  assert.match(told(guide), /Remembered/);
  guide.end(true);
});

const presented = async (number = 0, at = 0) => {
  let left = null;
  const guide = new Guide(() => {});
  const query = ({ name }, step) => new URLSearchParams({ lesson: name, step: String(step + 1) });
  const presenter = new Presenter(guide, LESSONS, { steps, query, left: (lesson) => { left = lesson; } });
  await presenter.start(number, at);
  const key = async (name, within = '') => {
    const target = Object.assign(new FakeElement('div'), { closest: (wanted) => (within && wanted.split(/,\s*/).includes(within) ? target : null) });
    heard({ target, key: name, preventDefault() {}, stopPropagation() {} });
    await null;
  };
  return { guide, presenter, key, left: () => left };
};

test('before a room explanation and verdicts wait until they are revealed, for all answers at once', async () => {
  const { guide, key } = await presented(0, 1);
  assert.match(told(guide), /^What did you see\?$/);
  assert.ok(guide.hides);
  await key('r');
  assert.match(told(guide), /Because\..*formula/);
  assert.ok(!guide.hides);
  await key('ArrowRight');
  options(guide)[0].click();
  assert.doesNotMatch(told(guide), /it is/);
  assert.equal(proof(guide).hidden, true);
  await key('R');
  assert.match(told(guide), /✓ it is.*✕ it is not/);
  assert.deepEqual(options(guide).map((one) => one.attributes['data-right']), ['true', 'false']);
  assert.equal(proof(guide).hidden, false);
});

test('keys lead from step to step and from lesson to lesson, back to the last step, and the address follows', async () => {
  const { guide, presenter, key } = await presented(0, 2);
  await key('PageDown');
  assert.deepEqual([presenter.number, guide.at], [1, 0]);
  assert.match(address, /lesson=two&step=1&present=1/);
  await key('ArrowLeft');
  assert.deepEqual([presenter.number, guide.at], [0, 2]);
  await key('p');
  assert.deepEqual([presenter.number, guide.at], [0, 2], 'before the first lesson there is none');
  await key('n');
  await key('ArrowRight');
  await key('n');
  assert.deepEqual([presenter.number, guide.at], [1, 1], 'behind the last there is none');
});

test('keys that write or move a slider stay with their field, and Escape leaves', async () => {
  const { guide, presenter, key, left } = await presented(0, 0);
  await key('ArrowRight', 'input');
  await key('n', 'textarea');
  assert.deepEqual([presenter.number, guide.at], [0, 0]);
  await key('Escape', 'textarea');
  assert.equal(left(), LESSONS[0]);
  assert.equal(guide.room, false);
  await key('ArrowRight');
  assert.equal(presenter.number, -1, 'who has left hears no key');
});
