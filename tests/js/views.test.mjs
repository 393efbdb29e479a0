// Views, drawn from values, where a browser test doesn't draw them; and the store that draws them.

import assert from 'node:assert/strict';
import { readdirSync } from 'node:fs';
import test from 'node:test';
import { drawn } from './dom.mjs';
const { html } = await import('../../app/static/views/ui.js');
const { Bar: PresenterBar } = await import('../../app/static/views/presenter.js');
const { soon, store } = await import('../../app/static/store.js');

test('a view can be imported without the page', async () => {
  const views = new URL('../../app/static/views/', import.meta.url);
  for (const name of readdirSync(views)) await import(new URL(name, views));
  assert.equal(globalThis.specdiff, undefined);
});

test('values that are set together are drawn once, and not if nothing changed', async () => {
  let draws = 0;
  const state = store({ name: 'map', voice: '' }, soon(() => draws += 1));
  Object.assign(state, { name: 'coins', voice: 'Measured' });
  await null;
  state.name = 'coins';
  await null;
  assert.deepEqual([draws, state.name], [1, 'coins']);
});

test('the bar of a presentation has a button for each act, and the link of the room', async () => {
  const called = [];
  const props = {
    title: 'One round',
    place: 'Lesson 1 of 8: ',
    note: '',
    off: ['Play'],
    dialog: '',
    link: new URL('http://lab.example/?lesson=round&room=abc'),
    press: (key) => called.push(key),
  };
  const bar = drawn(html`<${PresenterBar} ...${props} />`);
  assert.ok(bar.all('button', 'Play')[0].attributes.disabled);
  for (const name of ['Reveal', 'Next', 'Leave']) await bar.all('button', name)[0].fire('click');
  assert.deepEqual(called, ['R', '→', 'Esc']);
  assert.equal(bar.all('a').length, 0);
  drawn(html`<${PresenterBar} ...${{ ...props, dialog: 'link' }} />`, bar);
  assert.deepEqual([bar.all('a').length, bar.all('img').length], [1, 1]);
  const long = new URL(`http://lab.example/?prompt=${'x'.repeat(1300)}`);
  drawn(html`<${PresenterBar} ...${{ ...props, dialog: 'link', link: long }} />`, bar);
  assert.match(bar.textContent, /too long for a QR code/);
  assert.equal(bar.all('img').length, 0);
});
