// The head's script that holds frames back while a lane is measured, on a clock that the test moves.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

const SOURCE = readFileSync(new URL('../../app/static/frame_throttle.js', import.meta.url), 'utf8');

/** A window with the script in it; `frames` are what it asked the browser for. */
function page(t, live, player = 'live') {
  t.mock.timers.enable({ apis: ['setTimeout', 'Date'], now: 5000 });
  const frames = new Map();
  const heard = {};
  let next = 0;
  const window = {
    specdiff: { players: { live: { live: null }, [player]: { live } } },
    performance: { now: () => Date.now() },
    requestAnimationFrame: (callback) => {
      frames.set(next += 1, callback);
      return next;
    },
    cancelAnimationFrame: (number) => frames.delete(number),
    setTimeout: (...given) => setTimeout(...given),
    clearTimeout: (timer) => clearTimeout(timer),
    addEventListener: (name, callback) => {
      heard[name] = callback;
    },
  };
  new Function('window', SOURCE)(window);
  const draw = () => {
    for (const [number, callback] of [...frames]) {
      frames.delete(number);
      callback(7);
    }
  };
  /** Whether the browser is asked for a frame after this time, and not a millisecond earlier. */
  const waits = (milliseconds) => {
    if (milliseconds) t.mock.timers.tick(milliseconds - 1);
    assert.equal(frames.size, 0);
    t.mock.timers.tick(1);
    assert.ok(frames.size);
  };
  return { window, frames, heard, draw, waits, pass: (ms) => t.mock.timers.tick(ms) };
}

test('frames pass untouched while nothing is measured, the stage is cleared, or no player is there', (t) => {
  for (const live of [null, { run: 'a', warming: true }, undefined]) {
    const { window, frames, draw } = page(t, live);
    if (live === undefined) delete window.specdiff;
    const seen = [];
    window.requestAnimationFrame((now) => seen.push(now));
    assert.equal(frames.size, 1);
    draw();
    assert.deepEqual(seen, [7]);
    t.mock.timers.reset();
  }
});

test('a lane that is shown between two clocks is not drawn again at once', (t) => {
  const { window, draw, pass, waits } = page(t, { run: 'a', warming: true, hasEvents: true });
  window.requestAnimationFrame(() => {});
  draw();
  pass(200);
  window.specdiff.players.live.live.warming = false;
  window.requestAnimationFrame(() => {});
  waits(800);
});

test('while a lane is measured the page is drawn at once, and then once a second', (t) => {
  const { window, draw, pass, waits } = page(t, { run: 'a' });
  const seen = [];
  const ask = (name) => window.requestAnimationFrame(() => seen.push(name));
  ask('first');
  ask('with it');
  waits(0);
  draw();
  assert.deepEqual(seen, ['first', 'with it']);
  pass(300);
  ask('soon');
  ask('with that');
  waits(700);
  draw();
  draw();
  assert.deepEqual(seen.slice(2), ['soon', 'with that']);
});

test('the end of the measurement frees what waits', (t) => {
  const { window, frames, heard, draw, pass } = page(t, { run: 'a' }, 'race'); // as any player
  const seen = [];
  window.requestAnimationFrame(() => seen.push('first'));
  pass(1);
  draw();
  window.requestAnimationFrame(() => seen.push('held'));
  assert.equal(frames.size, 0);
  window.specdiff.players.race.live = null;
  for (let i = 0; i < 2; i += 1) heard['specdiff:measured'](); // it is asked for once
  assert.equal(frames.size, 1);
  pass(5000);
  draw();
  assert.deepEqual(seen, ['first', 'held']);
  window.requestAnimationFrame(() => seen.push('free'));
  draw();
  assert.equal(seen.length, 3);
});

test('a frame can be taken back: before its timer, after it, or asked for before the measurement', (t) => {
  for (const when of ['before', 'early', 'late']) {
    const { window, frames, draw, pass } = page(t, when === 'before' ? null : { run: 'a' });
    const number = window.requestAnimationFrame(() => assert.fail('was cancelled'));
    window.specdiff.players.live.live = { run: 'a' };
    if (when === 'late') pass(1);
    window.cancelAnimationFrame(number);
    if (when === 'early') pass(1);
    assert.equal(frames.size, 0);
    draw();
    t.mock.timers.reset();
  }
});
