// The notice that the server is gone, on a clock that the test moves.
import assert from 'node:assert/strict';
import { test } from 'node:test';

globalThis.window = { specdiffTimes: { quiet: 80, patience: 50, again: 30 } };
const { Watchdog } = await import('../../app/static/watchdog.js');

const here = () => Promise.resolve({ status: 200 });
const gone = () => Promise.reject(new TypeError('fetch failed'));
const proxy = () => Promise.resolve({ status: 502 });
/** Until everything that waits for no timer has happened. */
const settle = () => new Promise(setImmediate);

/** A watchdog that waits for a server; `answers` are what the server does each time it is asked, the last one from then on. */
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
    assert.match(String(address), /watchdog[.]js$/);
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

test('a quiet server that answers is asked again after the next silence', async (t) => {
  const { dog, seen, pass } = watch(t, [here]);
  dog.restart();
  await pass(80);
  assert.deepEqual([seen.asked, seen.lost], [1, 0]);
  await pass(79);
  assert.equal(seen.asked, 1);
  await pass(1);
  assert.deepEqual([seen.asked, seen.lost], [2, 0]);
});

test('a server that does not answer twice is lost, and that is said once', async (t) => {
  for (const answer of [gone, proxy]) {
    const { dog, seen, pass } = watch(t, [answer]);
    dog.restart();
    await pass(80);
    assert.deepEqual([seen.asked, seen.lost], [1, 0]);
    await pass(29);
    assert.equal(seen.asked, 1, 'it has a moment to come back');
    await pass(1);
    assert.deepEqual([seen.asked, seen.lost], [2, 1]);
    await pass(1000);
    assert.deepEqual([seen.asked, seen.lost], [2, 1]);
    t.mock.reset();
    t.mock.timers.reset();
  }
});

test('a server that is back at the second try is not lost; one that says it lacks the file is there', async (t) => {
  const { dog, seen, pass } = watch(t, [gone, () => Promise.resolve({ status: 404 })]);
  dog.restart();
  await pass(80);
  await pass(30);
  assert.deepEqual([seen.asked, seen.lost], [2, 0]);
  await pass(80);
  assert.equal(seen.asked, 3, 'it is listened to again');
});

test('an answer that does not come is waited for no longer than the patience', async (t) => {
  const hangs = (signal) =>
    new Promise((_, refuse) => {
      signal.addEventListener('abort', () => refuse(signal.reason));
    });
  const { dog, seen, pass } = watch(t, [hangs]);
  dog.restart();
  await pass(80);
  await pass(50);
  await pass(29);
  assert.equal(seen.asked, 1, 'the second try comes a moment after the first has failed');
  await pass(1);
  assert.equal(seen.asked, 2);
  await pass(49);
  assert.equal(seen.lost, 0);
  await pass(1);
  assert.equal(seen.lost, 1);
});

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

test('where nothing else is said, the server has seconds, not milliseconds', () => {
  const { window } = globalThis;
  globalThis.window = {};
  const { times } = new Watchdog(() => true, () => {});
  assert.ok(times.quiet > 2000, 'it speaks once a second while a lane runs');
  assert.ok(times.patience >= 5000 && times.again >= 1000);
  globalThis.window = { specdiffTimes: { quiet: 7 } };
  assert.deepEqual(new Watchdog(() => true, () => {}).times, { ...times, quiet: 7 });
  globalThis.window = window;
});
