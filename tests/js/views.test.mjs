// Views, drawn from values.

import assert from 'node:assert/strict';
import test from 'node:test';
import { drawn, element } from './dom.mjs';
import { make, trace } from './fixture.mjs';
const { html } = await import('../../app/static/views/ui.js');
const { Explored } = await import('../../app/static/views/explored.js');
const { Answer } = await import('../../app/static/views/answer.js');
const { Bar } = await import('../../app/static/views/bar.js');
const { Card } = await import('../../app/static/views/guide.js');
const { Bar: PresenterBar } = await import('../../app/static/views/presenter.js');
const { DraftWindow } = await import('../../app/static/views/window.js');
const { Sandbox } = await import('../../app/static/views/sandbox.js');
const { Tracks } = await import('../../app/static/views/tracks.js');
const { buildLane } = await import('../../app/static/state/lane.js');
const { stateAt } = await import('../../app/static/state/progress.js');
const { Playhead } = await import('../../app/static/state/playhead.js');
const { soon, store } = await import('../../app/static/store.js');

test('a question, its form and its origin are drawn from values', async () => {
  const called = [];
  const question = {
    forms: {
      map: { title: 'Map', question: 'Which γ?' },
      coins: { title: 'Coins', question: 'Exact?' },
    },
    name: 'map',
    choose: (name) => called.push(name),
  };
  const run = {
    busy: false,
    about: 'about a minute',
    bar: null,
    press: (button) => called.push(button),
    card: element('div'),
    status: element('div'),
  };
  const shown = {
    there: true,
    from: 'live',
    origin: 'measured at noon',
    available: [['recorded', 'one', 'Recorded: one'], ['live', 'one', 'Measured here']],
    at: 1,
    pick: ([, file]) => called.push(file),
  };
  const props = { question, run, shown };
  const page = drawn(html`<${Explored} ...${props} />`);
  assert.match(page.textContent, /Which γ\?.*Measured here.*measured at noon/s);
  await page.all('button', 'Coins')[0].fire('click');
  await page.all('button', 'Map')[0].fire('click'); // it is open
  await page.all('button', 'about a minute')[0].fire('click');
  page.all('select')[0].value = 0;
  await page.all('select')[0].fire('change');
  assert.deepEqual(called, ['coins', 'run', 'one']);
  drawn(html`<${Explored} ...${{ ...props, run: { ...run, busy: true } }} />`, page);
  assert.ok(page.all('button', 'about a minute')[0].attributes.disabled);
});

test('switches choose the board of an answer, and stay chosen while another is shown', async () => {
  const row = (label) => ({ mark: ['●', '@draft', ''], label, words: '', value: 2, cells: [] });
  const board = (title, when) => ({ title, when, columns: [], rows: [row(title)] });
  const answer = {
    rows: [],
    facts: {},
    provenance: { date: '2026-11-28', versions: {} },
    settings: {},
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
  const playhead = new Playhead({ duration: 2 });
  let edges = 0;
  const props = { playhead, move: (change) => change(playhead), toEdge: () => edges += 1 };
  const bar = drawn(html`<${Bar} ...${props} />`);
  const [scrub] = bar.all('input');
  scrub.value = 500;
  await scrub.fire('input');
  assert.deepEqual([playhead.t, playhead.playing], [1, false]);
  await bar.all('button').find(({ className, attributes }) =>
    /sd-play/.test(className ?? attributes.class)
  ).fire('click');
  assert.ok(playhead.playing);
  drawn(
    html`<${Bar} ...${{ ...props, playhead: new Playhead({ duration: 2, growing: true }) }} />`,
    bar,
  );
  await bar.all('button', 'go live')[0].fire('click');
  assert.equal(edges, 1);
});

test('a card waits for the answer to its question, and hides from a room what is right', async () => {
  const called = [];
  const step = {
    title: 'Guess',
    words: ['The target rejects it.'],
    instead: 'Will it be rejected?',
    options: [{ words: 'yes', right: true, why: 'p is small' }, { words: 'no', right: false }],
  };
  const guide = {
    steps: [step, { title: 'End', words: [] }],
    at: 0,
    open: true,
    chosen: {},
    votes: null,
    present: 0,
    onward: '',
    note: '',
    about: () => null,
  };
  const act = { choose: (option) => called.push(option), go: (at) => called.push(`step ${at}`) };
  const card = drawn(html`<${Card} guide=${guide} act=${act} />`);
  const next = () => card.all('button', 'Next')[0];
  assert.ok(next().attributes.disabled);
  await card.all('button', 'yes')[0].fire('click');
  assert.doesNotMatch(card.textContent, /p is small/);
  drawn(html`<${Card} guide=${{ ...guide, chosen: { 0: 0 } }} act=${act} />`, card);
  assert.match(card.textContent, /✓ p is small/);
  await next().fire('click');
  assert.deepEqual(called, [0, 'step 1']);
  const room = { ...guide, room: true, open: false, votes: [3, 1], present: 5 };
  drawn(html`<${Card} guide=${room} act=${act} />`, card);
  assert.match(card.textContent, /Will it be rejected\?.*4 of 5 answered/s);
  assert.doesNotMatch(card.textContent, /rejects it|p is small/);
  drawn(html`<${Card} guide=${{ ...room, open: true }} act=${act} />`, card);
  assert.match(card.textContent, /rejects it.*p is small/s);
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

const ROUND = [make.test(0, 3, true), make.test(1, 4, false)];

test('two runs are drawn along their text, and a rejection can be picked', async () => {
  const picked = [];
  const [a, b] = [[3, 7], [3, 8]].map((ids) => buildLane(make.round([3, 4, 5], ROUND, ids)));
  const tracks = drawn(html`
    <${Tracks} lanes=${{ a, b }} answer=${{ facts: { labels: { a: 'EAGLE', b: 'DFlash' } } }}
      pinned="" pick=${(key) => picked.push(key)} />
  `);
  assert.match(tracks.textContent, /EAGLE.*DFlash.*≠/s);
  await tracks.all('button')[1].fire('click');
  assert.deepEqual(picked, ['b/0']);
});

test('the window draws a round: a row for each step, its tests, and the position that is inspected', () => {
  const passes = [make.step([3, null, null], [0]), make.step([3, 4, 5], [1, 2], { step: 1 })];
  const header = trace.lanes.drafted.find(({ kind }) => kind === 'RunStarted');
  const more = { passes, verified: { source: 'residual' } };
  const lane = buildLane([header, ...make.round([3, 4, 5], ROUND, [3, 7], more)]);
  const state = stateAt(lane, Infinity);
  const view = state.window;
  const scene = { names: ['a'], lanes: { a: lane }, selected: 'a', lane, state, view, moment: '' };
  const pinned = { lane, view, place: 1, who: '' };
  const page = drawn(html`
    <${DraftWindow} scene=${{ ...scene, shown: { older: '' } }} prefix="live"
      study=${{ game: null, pinned }} />
  `);
  assert.match(page.textContent, /round 1 of 1.*step 1.*step 2.*accept\?.*Round 1, position 2/s);
  const kinds = page.all('div').map(({ attributes }) => attributes.class).join(' ');
  assert.match(kinds, /sd-v-ok.*sd-v-no sd-pinned.*sd-v-cut.*sd-v-fix/);
});

test('the sandbox computes its result from the curve and the sliders', async () => {
  let draws = 0;
  const sandbox = new Sandbox(() => draws += 1);
  sandbox.show({ rows: [], facts: { curve: [[1, 0.004], [9, 0.005]] } });
  const page = drawn(sandbox.view());
  assert.match(page.textContent, /9 rows in the target’s/);
  const gamma = page.all('input').find(({ attributes }) => attributes['aria-label'] === 'γ');
  gamma.value = 4;
  await gamma.fire('input');
  assert.match(drawn(sandbox.view(), page).textContent, /5 rows in the target’s/);
  assert.equal(draws, 1);
});
