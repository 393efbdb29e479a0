// Views, drawn from values.

import assert from 'node:assert/strict';
import test from 'node:test';
import { drawn, element } from './dom.mjs';
const { html } = await import('../../app/static/views/ui.js');
const { Explored } = await import('../../app/static/views/explored.js');
const { Answer } = await import('../../app/static/views/answer.js');
const { Bar } = await import('../../app/static/views/bar.js');
const { Playhead } = await import('../../app/static/state/playhead.js');
const { soon, store } = await import('../../app/static/store.js');

test('a question, its form and its origin are drawn from values', async () => {
  const called = [];
  const props = {
    forms: {
      map: { title: 'Map', question: 'Which γ?' },
      coins: { title: 'Coins', question: 'Exact?' },
    },
    name: 'map',
    choose: (name) => called.push(name),
    press: (button) => called.push(button),
    pick: ([, file]) => called.push(file),
    about: 'about a minute',
    runs: false,
    bar: null,
    card: element('div'),
    status: element('div'),
    available: [['recorded', 'one', 'Recorded: one'], ['live', 'one', 'Measured here']],
    at: 1,
    from: 'live',
    there: true,
    origin: 'measured at noon',
  };
  const page = drawn(html`<${Explored} ...${props} />`);
  assert.match(page.textContent, /Which γ\?.*Measured here.*measured at noon/s);
  await page.all('button', 'Coins')[0].fire('click');
  await page.all('button', 'Map')[0].fire('click'); // it is open
  await page.all('button', 'about a minute')[0].fire('click');
  page.all('select')[0].value = 0;
  await page.all('select')[0].fire('change');
  assert.deepEqual(called, ['coins', 'run', 'one']);
  drawn(html`<${Explored} ...${{ ...props, runs: true }} />`, page);
  assert.ok(page.all('button', 'about a minute')[0].attributes.disabled);
});

test('switches choose the board of an answer, and stay chosen while another is shown', async () => {
  const row = (label) => ({ mark: ['●', '@draft', ''], label, words: '', value: 2, cells: [] });
  const board = (title, when) => ({ title, when, columns: [], rows: [row(title)] });
  const answer = {
    rows: [],
    facts: {},
    origin: { date: '2026-11-28', versions: {} },
    choice: {},
    machine: { device: 'cpu', dtype: 'bf16', threads: 2 },
    report: {
      answer: 'DFlash.',
      boards: [board('chat', { on: 'chat' }), board('code', { on: 'code' })],
      switches: [{ name: 'on', title: 'Texts', options: [['chat', 'Chat'], ['code', 'Code']] }],
    },
  };
  const props = {
    name: 'compare',
    answer,
    from: 'recorded',
    columns: {},
    widget: null,
    only: null,
  };
  const page = drawn(html`<${Answer} ...${props} />`);
  const rows = () => page.all('th').map((head) => head.textContent).join(' ');
  assert.match(rows(), /chat/);
  await page.all('button', 'Code')[0].fire('click');
  assert.match(rows(), /code/);
  drawn(html`<${Answer} ...${{ ...props, name: 'other', answer: undefined }} />`, page);
  assert.equal(page.textContent, '');
  drawn(html`<${Answer} ...${props} />`, page);
  assert.match(rows(), /code/);
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

test('the bar of a playhead moves it', async () => {
  const player = new Playhead({ duration: 2 });
  let edges = 0;
  const props = { player, move: (change) => change(player), toEdge: () => edges += 1 };
  const bar = drawn(html`<${Bar} ...${props} />`);
  const [scrub] = bar.all('input');
  scrub.value = 500;
  await scrub.fire('input');
  assert.deepEqual([player.t, player.playing], [1, false]);
  await bar.all('button').find(({ className, attributes }) =>
    /sd-play/.test(className ?? attributes.class)
  ).fire('click');
  assert.ok(player.playing);
  drawn(
    html`<${Bar} ...${{ ...props, player: new Playhead({ duration: 2, growing: true }) }} />`,
    bar,
  );
  await bar.all('button', 'go live')[0].fire('click');
  assert.equal(edges, 1);
});
