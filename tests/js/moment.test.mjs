// Links to a moment of a recording.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { buildLane } from '../../app/static/state/lane.js';
import {
  isRun,
  momentAt,
  momentQuery,
  readMoment,
  runQuery,
  stopOf,
} from '../../app/static/state/moment.js';
import { stopsOf } from '../../app/static/state/stops.js';
import { trace } from './fixture.mjs';

const lane = buildLane(trace.lanes.drafted);
const RUN = 'AbC_-6789012345678901z.jsonl';
const stops = stopsOf({ drafted: lane }, ['drafted'], 'drafted');

test('every stop of a lane has a name that finds it again', () => {
  assert.ok(stops.length > 6);
  for (const [index, stop] of stops.entries()) {
    const found = momentAt(lane, stop.n);
    assert.equal(stopOf(stops, lane, 'drafted', found), index);
    const recording = { tab: 'live', trace: 'a file.jsonl.gz', lane: 'drafted', settings: '' };
    const run = { ...recording, trace: RUN, settings: 'prompt=a+b%26&gamma=4' };
    for (const one of [recording, run]) {
      const moment = { ...one, ...found, whole: false };
      assert.deepEqual(readMoment(`?${momentQuery(moment)}`), moment);
    }
  }
});

test('before the first stop there is no moment, and a link may ask for what is not there', () => {
  assert.equal(momentAt(lane, 0), null);
  const { round } = momentAt(lane, stops[0].n);
  assert.equal(
    stopOf(stops, lane, 'drafted', { round, at: 'step99' }),
    stops.findLastIndex(({ n }) => lane.events[n - 1].round === round - 1),
    'the last stop of the round',
  );
  assert.equal(stopOf(stops, lane, 'drafted', { round: 9999, at: 'commit' }), -1);
  assert.equal(stopOf(stops, lane, 'another', { round, at: 'commit' }), -1);
});

test('a link to a whole run holds its settings', () => {
  const { trace: file, whole, settings, tab } = readMoment(`?${runQuery('race', RUN, 'prompt=x')}`);
  assert.deepEqual([file, whole, settings, tab], [RUN, true, 'prompt=x', 'race']);
  assert.ok(isRun(RUN));
  for (const other of ['', 'x.jsonl', '../secret', `${RUN}.gz`, `a${RUN}`]) {
    assert.ok(!isRun(other));
  }
});

test('an address without a recording asks for nothing, and a foreign one is read as far as it can be', () => {
  assert.equal(readMoment('?prompt=x&round=3'), null);
  assert.deepEqual(readMoment('?trace=x'), {
    tab: 'live',
    trace: 'x',
    lane: '',
    round: 1,
    at: 'commit',
    whole: true,
    settings: '',
  });
  for (const round of ['-1', '1.5', 'x', '']) {
    assert.equal(readMoment(`?trace=x&round=${round}`).round, 1);
  }
});
