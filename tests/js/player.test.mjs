// The playhead: pacing, stepping, ends.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Player, RACE_SECONDS, autoSlow } from '../../app/static/player.js';

const stops = [0.1, 0.2, 0.2, 0.5].map((t, n) => ({ t, lane: 'drafted', n }));
const make = () => new Player({ duration: 1, stops });

test('a race lasts between 8 and 16 seconds, whatever its real duration', () => {
  for (const duration of [0.02, 0.1, 0.46, 1, 3.3, 12, 60]) {
    const shown = duration * autoSlow(duration);
    assert.ok(shown > RACE_SECONDS * 0.6 && shown < RACE_SECONDS * 1.4, `${duration} s is shown in ${shown} s`);
  }
  assert.equal(autoSlow(0), 1);
});

test('tick moves decode time by wall time over the slow-motion factor', () => {
  const player = make();
  player.slow = 10;
  player.play();
  assert.ok(player.tick(500));
  assert.ok(Math.abs(player.t - 0.05) < 1e-12);
});

test('it stops at the end, and play starts again from the beginning', () => {
  const player = make();
  player.play();
  player.tick(1e9);
  assert.equal(player.t, 1);
  assert.equal(player.playing, false);
  player.toggle();
  assert.equal(player.t, 0);
  assert.equal(player.playing, true);
});

test('paused, time stands', () => {
  const player = make();
  assert.equal(player.tick(1000), false);
  assert.equal(player.t, 0);
});

test('stepping visits every stop, those that share a time too, and stops playing', () => {
  const player = make();
  player.play();
  const seen = [];
  for (let i = 0; i < 6; i += 1) {
    player.step(1);
    seen.push(player.stop);
  }
  assert.deepEqual(seen, [0, 1, 2, 3, 3, 3]);
  assert.equal(player.playing, false);
  player.step(-1);
  assert.equal(player.stop, 2);
  player.step(-10);
  assert.equal(player.stop, 0);
});

test('stepping from between two stops goes to the neighbours', () => {
  const player = make();
  player.seek(0.3);
  player.step(1);
  assert.equal(player.stop, 3);
  player.seek(0.3);
  player.step(-1);
  assert.equal(player.stop, 2);
  player.seek(0);
  player.step(-1);
  assert.equal(player.stop, 0);
});

test('seek stays inside the race', () => {
  const player = make();
  player.seek(-5);
  assert.equal(player.t, 0);
  player.seek(5);
  assert.equal(player.t, 1);
});
