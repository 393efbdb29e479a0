// The playhead: pacing, stepping, ends.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { autoSlow, Playhead, RACE_SECONDS } from '../../app/static/state/playhead.js';

const stops = [0.1, 0.2, 0.2, 0.5].map((t, n) => ({ t, lane: 'drafted', n }));
const make = () => new Playhead({ duration: 1, stops });

test('a race lasts about twelve seconds, whatever its real duration', () => {
  for (const duration of [0.02, 0.1, 0.46, 1, 3.3, 12, 60]) {
    const shown = duration * autoSlow(duration);
    assert.ok(
      shown > RACE_SECONDS * 0.6 && shown < RACE_SECONDS * 1.4,
      `${duration} s is shown in ${shown} s`,
    );
  }
  assert.equal(autoSlow(0), 1);
  assert.equal(autoSlow(3.4, 28), 1, 'slow enough to be felt: real time');
  assert.equal(autoSlow(60, 2), autoSlow(60), 'nobody waits a minute for a slow one');
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
  playhead.stand(2);
  assert.equal(playhead.t, 0.2);
  playhead.seek(-5);
  assert.deepEqual([playhead.t, playhead.stop], [0, -1]);
  playhead.seek(5);
  assert.equal(playhead.t, 1);
});
