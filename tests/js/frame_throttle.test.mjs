// The head's script that holds frames back while a lane is measured, on a page whose time stands still.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import test from 'node:test';

const SOURCE = readFileSync(new URL('../../app/static/frame_throttle.js', import.meta.url), 'utf8');

/** A window with the script in it; `frames` and `timers` are what it asked the browser for. */
function page(live, player = 'live') {
  const frames = new Map();
  const timers = new Map();
  const heard = {};
  const clock = { now: 5000 };
  let next = 0;
  const window = {
    specdiff: { players: { live: { live: null }, [player]: { live } } },
    performance: { now: () => clock.now },
    requestAnimationFrame: (callback) => {
      frames.set(next += 1, callback);
      return next;
    },
    cancelAnimationFrame: (number) => frames.delete(number),
    setTimeout: (callback, wait) => {
      timers.set(next += 1, { callback, wait });
      return next;
    },
    clearTimeout: (number) => timers.delete(number),
    addEventListener: (name, callback) => {
      heard[name] = callback;
    },
  };
  new Function('window', SOURCE)(window);
  const fire = (map, get) => {
    for (const [key, value] of [...map]) {
      map.delete(key);
      get(value)(7);
    }
  };
  return {
    window,
    frames,
    timers,
    heard,
    clock,
    draw: () => fire(frames, (v) => v),
    wait: () => fire(timers, (v) => v.callback),
  };
}

test('frames pass untouched while nothing is measured, the stage is cleared, or no player is there', () => {
  for (const live of [null, { run: 'a', warming: true }, undefined]) {
    const { window, frames, timers, draw } = page(live);
    if (live === undefined) delete window.specdiff;
    const seen = [];
    window.requestAnimationFrame((now) => seen.push(now));
    assert.deepEqual([frames.size, timers.size], [1, 0]);
    draw();
    assert.deepEqual(seen, [7]);
  }
});

test('a lane that is shown between two clocks is not drawn again at once', () => {
  const { window, timers, clock, draw } = page({ run: 'a', warming: true, hasEvents: true });
  window.requestAnimationFrame(() => {});
  draw();
  clock.now += 200;
  window.specdiff.players.live.live.warming = false;
  window.requestAnimationFrame(() => {});
  assert.deepEqual([...timers.values()].map((timer) => timer.wait), [800]);
});

test('while a lane is measured the page is drawn at once, and then once a second', () => {
  const { window, frames, timers, clock, draw, wait } = page({ run: 'a' });
  const seen = [];
  const ask = (name) => window.requestAnimationFrame(() => seen.push(name));
  ask('first');
  ask('with it');
  assert.deepEqual([...timers.values()].map((timer) => timer.wait), [0]);
  wait();
  draw();
  assert.deepEqual(seen, ['first', 'with it']);
  clock.now += 300;
  ask('soon');
  ask('with that');
  assert.equal(frames.size, 0);
  assert.deepEqual([...timers.values()].map((timer) => timer.wait), [700]);
  wait();
  draw();
  draw();
  assert.deepEqual(seen.slice(2), ['soon', 'with that']);
});

test('the end of the measurement frees what waits', () => {
  const { window, frames, timers, heard, draw, wait } = page({ run: 'a' }, 'race'); // as any player
  const seen = [];
  window.requestAnimationFrame(() => seen.push('first'));
  wait();
  draw();
  window.requestAnimationFrame(() => seen.push('held'));
  assert.equal(frames.size, 0);
  window.specdiff.players.race.live = null;
  heard['specdiff:measured']();
  assert.equal(timers.size, 0);
  heard['specdiff:measured'](); // and only once
  draw();
  assert.deepEqual(seen, ['first', 'held']);
  window.requestAnimationFrame(() => seen.push('free'));
  draw();
  assert.equal(seen.length, 3);
});

test('a frame can be taken back: before its timer, after it, or asked for before the measurement', () => {
  for (const when of ['before', 'early', 'late']) {
    const { window, frames, timers, draw, wait } = page(when === 'before' ? null : { run: 'a' });
    const number = window.requestAnimationFrame(() => assert.fail('was cancelled'));
    window.specdiff.players.live.live = { run: 'a' };
    if (when === 'late') wait();
    window.cancelAnimationFrame(number);
    if (when === 'early') wait();
    assert.equal(frames.size + timers.size, 0);
    draw();
  }
});
