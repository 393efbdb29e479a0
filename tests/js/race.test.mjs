// A race of any lanes: who is in it, standings, rows, stops, labels.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { source, trace } from './fixture.mjs';
import { buildLane } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import {
  baselineOf,
  choose,
  complete,
  labelHeights,
  MOST_LANES,
  standings,
} from '../../app/static/state/race.js';
import { stopsOf } from '../../app/static/state/stops.js';
import { parse, serialise } from '../../app/static/state/trace.js';

const told = trace.lanes;
const cut = told.drafted.slice(
  0,
  told.drafted.findIndex((event) => event.kind === 'Committed' && event.round === 3) + 1,
);
const { ids } = told.drafted[told.drafted.length - 1];
const total = cut[cut.length - 1].total;
const end = {
  ...told.drafted[told.drafted.length - 1],
  ids: ids.slice(0, total),
  seconds: cut[cut.length - 1].at,
};
const failed = {
  kind: 'Failed',
  code: 'weights',
  message: 'model.safetensors is missing.',
  hint: 'Restore it.',
  run: 'r',
};
const lanes = {
  vanilla: buildLane(told.vanilla),
  whole: buildLane(told.drafted),
  short: buildLane([...cut, { ...end, reason: 'end_of_text' }]),
  stopped: buildLane([...cut, { ...end, reason: 'stopped' }]),
  broken: buildLane([...cut, failed]),
  unloaded: buildLane([failed]),
  absent: null,
};
const names = Object.keys(lanes);

test('a race is a trace of any lanes, in the order asked for, and not of endless ones', () => {
  assert.deepEqual(choose({ b: [], a: [] }), { names: ['b', 'a'], left: 0 });
  assert.deepEqual(choose({ b: [], a: [], 'x/1': [] }, ['x/1', 'gone', 'b']).names, ['x/1', 'b']);
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`l${i}`, []]));
  assert.deepEqual([choose(many).names.length, choose(many).left], [MOST_LANES, 30 - MOST_LANES]);
});

test('lanes may have the names of what every object has', () => {
  const odd = ['constructor', 'toString', '__proto__'];
  assert.deepEqual(choose({ a: [] }, odd).names, []);
  const lines = source.split('\n').filter(Boolean).map((line) => JSON.parse(line)).filter((line) =>
    line.lane !== 'drafted'
  );
  const named = (lanes) =>
    [{ ...lines[0], lanes }, ...lines.slice(1).map((line) => ({ ...line, lane: odd[2] }))].map((
      line,
    ) => JSON.stringify(line)).join('\n');
  const read = parse(named(odd)).lanes;
  assert.deepEqual(Object.keys(read), odd);
  assert.equal(read[odd[2]].length, lines.length - 1);
  assert.deepEqual(Object.keys(parse(serialise({ title: 't', lanes: read })).lanes), odd);
  assert.throws(() => parse(named(['vanilla'])), /unknown lane/);
  const built = Object.fromEntries(odd.map((name) => [name, buildLane(read[name])]));
  assert.equal(standings(built, odd)[odd[2]].place, 1);
  assert.equal(baselineOf(built, odd), odd[2]);
});

test('the baseline is vanilla, or whoever drafts nothing', () => {
  assert.equal(baselineOf(lanes, names), 'vanilla');
  assert.equal(
    baselineOf({ whole: lanes.whole, plain: lanes.vanilla }, ['whole', 'plain']),
    'plain',
  );
  assert.equal(baselineOf({ whole: lanes.whole }, ['whole']), null);
});

test('places go by the clock, and neither who wrote fewer tokens nor who did not come in has one', () => {
  const result = standings(lanes, names);
  const places = Object.fromEntries(names.map((name) => [name, result[name].place]));
  assert.deepEqual(places, {
    vanilla: 2,
    whole: 1,
    short: null,
    stopped: null,
    broken: null,
    unloaded: null,
    absent: null,
  });
  assert.deepEqual(names.filter((name) => result[name].unequal), ['short']);
  assert.deepEqual(names.filter((name) => result[name].done), ['vanilla', 'whole', 'short']);
  assert.deepEqual(names.filter((name) => complete(lanes[name])), ['vanilla', 'whole', 'short']);
  assert.deepEqual(names.map((name) => result[name].tokens), [40, 40, total, total, total, 0, 0]);
  const twins = { a: lanes.whole, b: lanes.whole };
  assert.deepEqual(Object.values(standings(twins, ['a', 'b'])).map((one) => one.place), [1, 1]);
});

test('a server that writes a longer text takes no place from the lanes of this lab', () => {
  const served = {
    ...lanes.whole,
    header: { ...lanes.whole.header, server: 'llama.cpp at host:1' },
  };
  const race = { vanilla: lanes.short, drafted: lanes.short, served };
  const result = standings(race, Object.keys(race));
  assert.deepEqual(Object.values(result).map(({ place, unequal }) => [place, unequal]), [
    [1, false],
    [1, false],
    [null, true],
  ]);
});

test('a disturbed clock ranks no lane, also not the one with more passes that came in first', () => {
  const late = { ...end, seconds: 2 * lanes.whole.duration, waited_seconds: 1 };
  const disturbed = {
    vanilla: lanes.vanilla,
    fast: lanes.whole,
    slow: buildLane([...told.drafted.slice(0, -1), late]),
  };
  const places = (crowded) =>
    Object.values(standings(disturbed, Object.keys(disturbed), crowded)).map(({ place }) => place);
  assert.deepEqual(places(0.2), [null, null, null]);
  assert.ok(places(Infinity).includes(1), 'on a quiet machine one of them is first');
});

test('a stopped lane with more tokens than those that came in sets no measure for them', () => {
  const result = standings({
    short: lanes.short,
    stopped: buildLane([...told.drafted.slice(0, -1), { ...end, reason: 'stopped' }]),
  }, ['short', 'stopped']);
  assert.ok(result.stopped.tokens > result.short.tokens);
  assert.deepEqual(
    [result.short.place, result.short.unequal, result.stopped.place],
    [1, false, null],
  );
});

test('stepping goes through the rounds of the selected lane, then to the ends of those behind it', () => {
  const stops = stopsOf(lanes, names, 'short');
  const own = stops.filter((stop) => stop.lane === 'short');
  assert.equal(own.length, lanes.short.stops.length);
  assert.deepEqual(stops.slice(own.length).map((stop) => stop.lane), ['whole', 'vanilla']);
  assert.ok(stops.every((stop, i) => !i || stop.t >= stops[i - 1].t));
  const last = stops[stops.length - 1];
  assert.equal(last.n, lanes.vanilla.events.length);
  assert.ok(stopsOf(lanes, names, 'absent').every((stop) => stop.n > 0));
  assert.deepEqual(stopsOf({ a: null }, ['a'], 'a'), []);
});

test('in a race of two, stepping goes on through what the slower lane has left, commit by commit', () => {
  const { vanilla, whole } = lanes;
  const stops = stopsOf({ vanilla, whole }, ['vanilla', 'whole'], 'whole');
  const after = stops.slice(whole.stops.length);
  assert.ok(
    after.length > 1 && after.every((stop) =>
      stop.lane === 'vanilla' && stop.t > whole.duration &&
      vanilla.events[stop.n - 1].kind === 'Committed'
    ),
  );
  assert.equal(stateAt(vanilla, after[after.length - 1].n).tokens.length, 40);
});

test('labels of lines stand apart, in the order of their lines, and the first to finish is the highest', () => {
  const running = labelHeights([10, 11, 40].map((y) => ({ x: 1, y })), 3);
  assert.deepEqual(running, [8, 11, 40]);
  const begun = labelHeights([0, 1, 0].map((y) => ({ x: 1, y })), 3);
  assert.deepEqual([...begun].sort((a, b) => a - b), [0, 3, 6], 'none is below the axis');
  assert.equal(begun[1], 6);
  assert.deepEqual(labelHeights([8, 1, 6].map((x) => ({ x, y: 40 })), 3), [34, 40, 37]);
});
