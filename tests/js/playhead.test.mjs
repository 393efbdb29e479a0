// The playhead: pacing, stepping, ends, and a race that is still under way.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Playhead, roundSeconds } from '../../app/static/state/playhead.js';

const stops = [0.1, 0.2, 0.2, 0.5].map((t, n) => ({ t, lane: 'drafted', n, dwell: 0 }));
const make = (more = {}) => new Playhead({ duration: 1, stops, ...more });

/** Plays in frames of `step` ms, at most so long. Returns the seconds that it took. */
function play(playhead, seconds, step = 20) {
  let wall = 0;
  playhead.play();
  while (playhead.playing && wall < seconds) {
    playhead.tick(step);
    wall += step / 1000;
  }
  return wall;
}

test('without rounds to look at, a race plays in real time, or as slowly as one chooses', () => {
  const near = (value, wanted) => assert.ok(Math.abs(value - wanted) < 0.05, `${value}`);
  near(play(make(), 9), 0.9); // from the first stop on
  const slow = make();
  slow.slow = 4;
  near(play(slow, 9), 4);
});

test('a person sees each step of the first rounds, and the clock never stands still for long', () => {
  const seen = [0.1, 0.11, 0.14, 0.14].map((t, n) => ({ t, lane: 'drafted', n, dwell: 0.5 }));
  const playhead = make({ stops: [...seen, ...stops.slice(3)] });
  const order = [];
  playhead.play();
  for (let i = 0; i < 500 && playhead.playing; i += 1) {
    const before = playhead.t;
    playhead.tick(20);
    assert.ok(playhead.t >= before, 'time runs forward');
    if (playhead.stop >= 0 && order.at(-1) !== playhead.stop) order.push(playhead.stop);
  }
  assert.deepEqual(order, [0, 1, 2, 3]);
  assert.equal(playhead.t, 1);
  assert.ok(roundSeconds(0) > 2 && roundSeconds(9) < 0.1, 'later rounds run in real time');
});

test('a race under way plays to its edge, waits there, and goes on', () => {
  const playhead = new Playhead({ growing: true });
  playhead.play();
  playhead.tick(500);
  assert.deepEqual([playhead.t, playhead.playing], [0, true], 'nothing has arrived');
  playhead.grow(0.3, true);
  playhead.tick(1000);
  assert.deepEqual([playhead.t, playhead.atEdge], [0.3, true]);
  playhead.grow(0.4, true);
  assert.ok(playhead.atEdge, 'a leap of the race does not take it off the edge');
  playhead.pauseAt(0.1);
  playhead.grow(0.8, true);
  playhead.tick(1000);
  assert.deepEqual([playhead.t, playhead.atEdge], [0.1, false], 'who looks back is left alone');
  playhead.toEdge();
  assert.deepEqual([playhead.t, playhead.playing], [0.8, true]);
  playhead.grow(1, false);
  playhead.tick(1000);
  assert.deepEqual([playhead.t, playhead.playing], [1, false], 'and ends with the race');
});

test('it does not go to a step that some lane has not reached', () => {
  const seen = [0.1, 0.2].map((t, n) => ({ t, lane: 'drafted', n, dwell: 0.5 }));
  const playhead = new Playhead({ growing: true, stops: seen });
  playhead.grow(0.15, true);
  playhead.play();
  for (let i = 0; i < 100; i += 1) playhead.tick(20);
  assert.deepEqual([playhead.stop, playhead.t], [0, 0.15]);
  playhead.grow(0.25, true);
  for (let i = 0; i < 10; i += 1) playhead.tick(20);
  assert.deepEqual([playhead.stop, playhead.t], [1, 0.2]);
});

test('it stops at the end, and play starts again from the beginning', () => {
  const playhead = make();
  playhead.play();
  playhead.tick(1e9);
  assert.equal(playhead.t, 1);
  assert.equal(playhead.playing, false);
  playhead.toggle();
  assert.equal(playhead.t, 0);
  assert.equal(playhead.playing, true);
});

test('stepping from between two stops goes to the neighbours', () => {
  const from = (t, count) => {
    const playhead = make();
    playhead.seek(t);
    playhead.step(count);
    return playhead.stop;
  };
  assert.deepEqual(
    [from(0.3, 1), from(0.3, -1), from(0, -1), from(0.2, -1), from(0.2, 1)],
    [3, 2, 0, 1, 3],
  );
});

test('seek stays inside the race, and leaves the stop', () => {
  const playhead = make();
  playhead.goToStop(2);
  assert.equal(playhead.t, 0.2);
  playhead.seek(-5);
  assert.deepEqual([playhead.t, playhead.stop], [0, -1]);
  playhead.seek(5);
  assert.equal(playhead.t, 1);
});

test('the staged round plays again, and can be skipped', () => {
  const seen = [0.1, 0.11, 0.14].map((t, n) => ({ t, lane: 'drafted', n, dwell: 0.5 }));
  const playhead = make({ stops: [...seen, ...stops.slice(3)] });
  playhead.play();
  while (playhead.playing) playhead.tick(50);
  playhead.playStaged();
  assert.deepEqual([playhead.stop, playhead.t, playhead.isSlow], [0, 0.1, true]);
  playhead.tick(250);
  assert.ok(Math.abs(playhead.share - 0.5) < 1e-9);
  playhead.skip();
  assert.ok(Math.abs(play(playhead, 9) - 0.86) < 0.05, 'the rest in real time');
});

test('a step is staged also if the playhead waits where it begins', () => {
  const playhead = new Playhead({ growing: true });
  playhead.grow(0.1, true);
  playhead.play();
  playhead.tick(200);
  assert.equal(playhead.t, 0.1);
  playhead.stops = [{ t: 0.1, lane: 'drafted', n: 1, dwell: 0.5 }];
  playhead.tick(20);
  assert.equal(playhead.stop, 0);
});
