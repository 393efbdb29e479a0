// Folding events to a moment: against the numbers that specdiff_core.schema.metrics counts on the same trace.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { buildLane, check, compare, countAt, joinPieces, predicted, stateAt, stopsOf, treeOf, waiting } from '../../app/static/fold.js';
import { parse, serialise, gzip, gunzip, fromBase64 } from '../../app/static/trace.js';

const fixture = JSON.parse(readFileSync(process.env.SPECDIFF_FIXTURE, 'utf8')); // written by tests/test_app_js.py
const trace = parse(fixture.trace);
const lanes = { drafted: buildLane(trace.lanes.drafted), vanilla: buildLane(trace.lanes.vanilla) };

test('the folded sums are those of metrics.fold', () => {
  for (const [name, expected] of Object.entries(fixture.metrics)) {
    const { sums } = stateAt(lanes[name], Infinity);
    assert.equal(sums.rounds, expected.rounds);
    assert.equal(sums.committed, expected.committed);
    assert.equal(sums.drafted, expected.drafted);
    assert.equal(sums.tested, expected.tested);
    assert.equal(sums.accepted, expected.accepted);
    assert.equal(sums.nfe, expected.nfe);
    assert.equal(sums.calls, expected.target_calls);
    assert.deepEqual(sums.testedAt, expected.tested_at);
    assert.deepEqual(sums.acceptedAt, expected.accepted_at);
    assert.ok(Math.abs(lanes[name].duration - expected.seconds) < 1e-9);
  }
});

test('threads waiting, on average, are waited seconds over clock seconds', () => {
  assert.equal(waiting({ finished: { seconds: 4, waited_seconds: 3 } }), 0.75);
  assert.ok(Math.abs(waiting(lanes.drafted) - 0.02) < 1e-9);
  for (const unknown of [null, {}, { finished: null }, { finished: { seconds: 4, waited_seconds: null } }, { finished: { seconds: 4 } }, { finished: { seconds: 0, waited_seconds: 1 } }]) {
    assert.equal(waiting(unknown), null);
  }
});

test('the text of a lane is the text of its Finished event', () => {
  for (const lane of Object.values(lanes)) assert.equal(lane.shown.join(''), lane.finished.text);
});

test('the slim news of a run being measured hold its whole text', () => {
  for (const lane of Object.values(lanes)) {
    const news = lane.events.filter((event) => ['RunStarted', 'PiecesSeen', 'Committed', 'Finished'].includes(event.kind));
    const live = buildLane(news);
    assert.equal(live.shown.join(''), lane.finished.text);
    assert.equal(stateAt(live, news.length).tokens.length, lane.finished.ids.length);
  }
});

test('a foreign trace whose events do not fit together is refused before it is drawn', () => {
  for (const lane of Object.values(lanes)) check(lane);
  const broken = [
    ['TargetScored', (event) => ({ ...event, p: event.p.slice(1) })],
    ['Verified', (event) => ({ ...event, tests: event.tests.map((test) => ({ ...test, kind: 'ratio', draw: null })) })],
    ['Verified', (event) => ({ ...event, tests: [...event.tests, ...event.tests, ...event.tests] })],
    ['DenoiseStep', (event) => ({ ...event, confidence: [] })],
    ['DenoiseStep', (event) => ({ ...event, candidates: undefined })],
    ['Committed', (event) => ({ ...event, sources: [] })],
  ];
  for (const [kind, change] of broken) {
    const events = trace.lanes.drafted.map((event) => (event.kind === kind ? change(event) : event));
    assert.throws(() => check(buildLane(events)), TypeError, kind);
  }
});

test('time never runs backwards, and every prefix folds to the same state from scratch or step by step', () => {
  const lane = lanes.drafted;
  for (let i = 1; i < lane.times.length; i += 1) assert.ok(lane.times[i] >= lane.times[i - 1]);
  let rolling = null;
  for (let n = 0; n <= lane.events.length; n += 1) {
    rolling = stateAt(lane, n, rolling);
    if (n % 17 === 0) assert.deepEqual(rolling, stateAt(lane, n));
  }
});

test('going back gives an earlier state, not the later one', () => {
  const late = stateAt(lanes.drafted, lanes.drafted.events.length);
  const early = stateAt(lanes.drafted, 10, late);
  assert.equal(early.n, 10);
  assert.ok(early.tokens.length < late.tokens.length);
});

test('countAt finds all events known at a time, ends included', () => {
  const lane = lanes.drafted;
  assert.equal(countAt(lane, -1), 0);
  assert.equal(countAt(lane, lane.duration), lane.events.length);
  const committed = lane.events.findIndex((event) => event.kind === 'Committed');
  assert.ok(countAt(lane, lane.events[committed].at) > committed);
  assert.ok(countAt(lane, lane.events[committed].at - 1e-6) <= committed);
});

test('stops walk through the drafted lane, then through what vanilla has left', () => {
  const stops = stopsOf(lanes);
  for (let i = 1; i < stops.length; i += 1) assert.ok(stops[i].t >= stops[i - 1].t);
  const last = stops[stops.length - 1];
  assert.equal(last.lane, 'vanilla');
  assert.equal(stateAt(lanes.vanilla, last.n).tokens.length, lanes.vanilla.shown.length);
});

test('characters spread over tokens appear at the token that completes them; literal text is untouched', () => {
  assert.deepEqual(joinPieces(['\\xe2\\x9c', '\\x93', ' ok']), ['', '✓', ' ok']);
  assert.deepEqual(joinPieces([' a\\xc3', '\\xa9b']), ['', ' aéb']);
  assert.deepEqual(joinPieces(['\\x41', 'x']), ['\\x41', 'x']); // an ASCII escape is text that a program wrote
  assert.deepEqual(joinPieces(['\\xff', 'x']), ['\\xff', 'x']); // never completes: stays as it was written
});

test('a draft that the end of the text cuts keeps its window and claims no bonus', () => {
  const span = { start: 0, seconds: 0.1 };
  const step = { kind: 'DenoiseStep', round: 0, step: 0, ids: [5, 6, 0, 7], revealed: [0, 1, 2, 3], confidence: [1, 1, 1, 1], candidates: [[], [], [], []], span };
  const tests = [5, 6, 0].map((id, position) => ({ position, id, p: 1, q: 1, threshold: 1, draw: 0.5, accepted: true, kind: 'ratio' }));
  const events = [
    { kind: 'RoundStarted', round: 0, length: 1, anchor: 9 }, step,
    { kind: 'DraftReady', round: 0, ids: [5, 6, 0], nfe: 1, span },
    { kind: 'TargetScored', round: 0, p: [1, 1, 1], span },
    { kind: 'Verified', round: 0, tests, accepted: 3, extra: 4, source: 'bonus', span },
    { kind: 'Committed', round: 0, ids: [5, 6, 0], sources: ['draft', 'draft', 'draft'], total: 3, at: 0.3 },
  ];
  const lane = buildLane(events);
  check(lane);
  const { size, drafted, extra } = stateAt(lane, events.length).window;
  assert.deepEqual({ size, drafted, extra }, { size: 4, drafted: 3, extra: false });
  const refused = events.map((event) => (event.kind === 'Verified' ? { ...event, tests: [], accepted: 0 } : event));
  assert.throws(() => check(buildLane(refused)), /ended the run/);
});

test('compare finds the first difference', () => {
  assert.deepEqual(compare([1, 2, 3], [1, 2, 3]), { same: true, first: -1 });
  assert.deepEqual(compare([1, 2, 3], [1, 9, 3]), { same: false, first: 1 });
  assert.deepEqual(compare([1, 2], [1, 2, 3]), { same: false, first: 2 });
});

test('the prediction is τ / (v + c·NFE/round), by hand', () => {
  const lane = (finished, sums) => {
    const events = [
      { kind: 'RoundStarted', round: 0, length: 1, anchor: 0 },
      { kind: 'DraftReady', round: 0, ids: [1, 2], nfe: sums.nfe, span: { start: 0, seconds: 0.2 } },
      { kind: 'TargetScored', round: 0, p: [], span: { start: 0.2, seconds: 1 } },
      { kind: 'Verified', round: 0, tests: [], accepted: 2, source: 'bonus', span: { start: 1.2, seconds: 0 } },
      { kind: 'Committed', round: 0, ids: [1, 2, 3], sources: ['draft', 'draft', 'bonus'], total: 3, at: 1.2 },
      { kind: 'Finished', ...finished },
    ];
    return buildLane(events);
  };
  const drafted = lane({ seconds: 1.2, seconds_by: { draft: 0.2, score: 1 } }, { nfe: 2 });
  const vanilla = lane({ seconds: 1, seconds_by: { draft: 0, score: 0.5 } }, { nfe: 0 });
  // vanilla's pass 0.5 s, a verifying one 1 s: v = 2; a drafter pass 0.1 s: c = 0.2; τ = 3; 3 / (2 + 0.2·2)
  assert.ok(Math.abs(predicted(drafted, vanilla).value - 3 / 2.4) < 1e-12);
  assert.equal(predicted(drafted, null), null);
});

test('a trace survives serialise and parse, gzip and base64', async () => {
  const text = serialise(trace);
  assert.deepEqual(parse(text), trace);
  const bytes = await gzip(new TextEncoder().encode(text));
  assert.equal(new TextDecoder().decode(await gunzip(fromBase64(Buffer.from(bytes).toString('base64')))), text);
});

test('foreign text is refused', () => {
  assert.throws(() => parse('{"a":1}\n'), /not a trace/);
  assert.throws(() => parse('hello'));
  assert.throws(() => parse('{"kind":"Trace","lanes":["a"]}\n{"kind":"Finished","lane":"b"}\n'), /unknown lane/);
});

test('a tree is laid out so that its first line is its most probable window', () => {
  // −1 ─ 0 ─ 2 ─ 3     line 0
  //          └─ 5      line 1, below node 2
  //      └─ 1 ─ 4      line 2, another first token
  assert.deepEqual(treeOf([-1, -1, 0, 2, 1, 2]), { depths: [0, 0, 1, 2, 1, 2], lines: [0, 2, 0, 0, 2, 1], count: 3, deepest: 3 });
  assert.deepEqual(treeOf([]), { depths: [], lines: [], count: 0, deepest: 0 });
});

test('a round that drafted a tree knows its columns, and a path outside the tree is refused', () => {
  const span = { start: 0, seconds: 0.001 };
  const verified = { kind: 'Verified', round: 0, tests: [{ kind: 'tree', position: 0, id: 7, p: 0.9, q: 1, threshold: 0.9, draw: null, wanted: 7, accepted: true }], accepted: 1, path: [0], extra: 4, source: 'bonus', residual: [], rule: 'match', fallback: '', lossless: true, span };
  const events = (last) => [
    { kind: 'RoundStarted', round: 0, length: 3, anchor: 5 },
    { kind: 'DraftReady', round: 0, ids: [7, 8, 9], parents: [-1, -1, 1], q: [1, 1, 1], reveal_steps: [0, 0, 0], soft: [false, false, false], nfe: 1, span },
    { kind: 'TargetScored', round: 0, p: [0.9, 0.05, 0.1], candidates: [], span },
    last,
    { kind: 'Committed', round: 0, ids: [7, 4], sources: ['draft', 'bonus'], total: 2, at: 0.004 },
  ];
  const lane = buildLane(events(verified));
  check(lane);
  assert.equal(lane.rounds[0].size, 2);
  assert.equal(lane.rounds[0].drafted, 2);
  assert.equal(stateAt(lane, 5).sums.drafted, 3);
  assert.throws(() => check(buildLane(events({ ...verified, path: [3] }))), /path outside/);
});
