// Links to a moment of a recording.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { buildLane } from '../../app/static/state/lane.js';
import { momentAt, momentQuery, readMoment, stopOf } from '../../app/static/state/moment.js';
import { stopsOf } from '../../app/static/state/race.js';
import { trace } from './fixture.mjs';

const lane = buildLane(trace.lanes.drafted);
const stops = stopsOf({ drafted: lane }, ['drafted'], 'drafted');

test('every stop of a lane has a name that finds it again', () => {
  assert.ok(stops.length > 6);
  for (const [index, stop] of stops.entries()) {
    const found = momentAt(lane, stop.n);
    assert.equal(stopOf(stops, lane, 'drafted', found), index);
    const moment = { tab: 'live', trace: 'a file.jsonl.gz', lane: 'drafted', ...found };
    assert.deepEqual(readMoment(`?${momentQuery(moment)}`), moment);
  }
});

test('before the first stop there is no moment, and a link may ask for what is not there', () => {
  assert.equal(momentAt(lane, 0), null);
  const { round } = momentAt(lane, stops[0].n);
  assert.ok(
    stopOf(stops, lane, 'drafted', { round, at: 'step99' }) >= 0,
    'the last stop of the round',
  );
  assert.equal(stopOf(stops, lane, 'drafted', { round: 9999, at: 'commit' }), -1);
  assert.equal(stopOf(stops, lane, 'another', { round, at: 'commit' }), -1);
});

test('an address without a recording asks for nothing, and a foreign one is read as far as it can be', () => {
  assert.equal(readMoment('?prompt=x&round=3'), null);
  assert.deepEqual(readMoment('?trace=x'), {
    tab: 'live',
    trace: 'x',
    lane: '',
    round: 1,
    at: 'commit',
  });
  for (const round of ['-1', '1.5', 'x', '']) {
    assert.equal(readMoment(`?trace=x&round=${round}`).round, 1);
  }
});
