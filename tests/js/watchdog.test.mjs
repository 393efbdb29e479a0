// The notice that the server is gone, on a clock that the test moves.
import assert from 'node:assert/strict';
import { test } from 'node:test';

globalThis.window = { specdiffTimes: { quiet: 80, patience: 50, again: 30 } };
globalThis.document = { baseURI: 'http://lab.example/' };
const { Watchdog } = await import('../../app/static/watchdog.js');

const here = () => Promise.resolve({ status: 200 });
const gone = () => Promise.reject(new TypeError('fetch failed'));
const proxy = () => Promise.resolve({ status: 502 });
const lacks = () => Promise.resolve({ status: 404 });
/** Until everything that waits for no timer has happened. */
const settle = () => new Promise(setImmediate);

/** A watchdog that waits for a server; `answers` are what the server does each time it is asked,
 *  the last one from then on. */
function watch(t, answers) {
  t.mock.timers.enable({ apis: ['setTimeout'] });
  t.mock.method(console, 'info', () => {});
  t.mock.method(AbortSignal, 'timeout', (patience) => {
    const control = new AbortController();
    setTimeout(() => control.abort(new Error('timeout')), patience);
    return control.signal;
  });
  const seen = { asked: 0, lost: 0, waits: true };
  t.mock.method(globalThis, 'fetch', (address, { method, signal }) => {
    assert.equal(String(address), `${document.baseURI}healthz`);
    assert.equal(method, 'HEAD');
    const answer = answers[Math.min(seen.asked, answers.length - 1)];
    seen.asked += 1;
    return answer(signal);
  });
  const dog = new Watchdog(() => seen.waits, () => {
    seen.lost += 1;
  });
  const pass = async (milliseconds) => {
    t.mock.timers.tick(milliseconds);
    await settle();
  };
  return { dog, seen, pass };
}

test('while the server speaks it is not asked', async (t) => {
  const { dog, seen, pass } = watch(t, [gone]);
  for (let i = 0; i < 5; i += 1) {
    dog.restart();
    await pass(79);
  }
  assert.deepEqual([seen.asked, seen.lost], [0, 0]);
});

const hangs = (signal) =>
  new Promise((_, refuse) => signal.addEventListener('abort', () => refuse(signal.reason)));
const twice = [[80, 1, 0], [29, 1, 0], [1, 2, 1], [1000, 2, 1]];
/** @type {[string, Function[], number[][]][]} what the server does; milliseconds that pass, and how
 *  often it was then asked and lost */
const SERVERS = [
  ['answers: it is asked again after the next silence', [here], [[80, 1, 0], [79, 1, 0], [
    1,
    2,
    0,
  ]]],
  ['is gone: it has a moment to come back, and is lost once', [gone], twice],
  ['is gone behind a proxy: it is lost once', [proxy], twice],
  ['is back, without the file: it is asked again', [gone, lacks], [[80], [30, 2, 0], [80, 3, 0]]],
  ['hangs: each answer is waited for, no longer than the patience', [hangs], [
    [80, 1, 0],
    [50, 1, 0],
    [29, 1, 0],
    [1, 2, 0],
    [49, 2, 0],
    [1, 2, 1],
  ]],
];
for (const [title, answers, course] of SERVERS) {
  test(`a quiet server ${title}`, async (t) => {
    const { dog, seen, pass } = watch(t, answers);
    dog.restart();
    for (const [milliseconds, asked = 1, lost = 0] of course) {
      await pass(milliseconds);
      assert.deepEqual([seen.asked, seen.lost], [asked, lost], `${milliseconds} ms later`);
    }
  });
}

test('a word that comes while the server is asked counts more than its silence', async (t) => {
  const { dog, seen, pass } = watch(t, [gone]);
  dog.restart();
  await pass(80);
  dog.restart();
  await pass(30);
  assert.deepEqual([seen.asked, seen.lost], [2, 0]);
});

test('nobody is told of a silence that nobody waits in', async (t) => {
  const { dog, seen, pass } = watch(t, [gone]);
  seen.waits = false;
  dog.restart();
  await pass(500);
  assert.deepEqual([seen.asked, seen.lost], [0, 0]);
  seen.waits = true;
  dog.restart();
  await pass(80);
  seen.waits = false; // the run ended while the server was asked
  await pass(30);
  assert.deepEqual([seen.asked, seen.lost], [2, 0]);
});
