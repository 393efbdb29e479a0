// A race of any lanes: standings, rows, stops, labels, words that lanes share, and the few branches of many.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { buildLane, check, linesShown, sharePieces, stateAt, treeOf } from '../../app/static/fold.js';
import { baselineOf, choose, labelHeights, raceStops, rowAt, shortName, standings, MOST_LANES } from '../../app/static/standings.js';
import { narrate } from '../../app/static/words.js';
import { raceFigure, stylesOf } from '../../app/static/race_chart.js';
import { knowNoSteps, laneSubtitle } from '../../app/static/draw_lanes.js';
import { parse, serialise } from '../../app/static/trace.js';

globalThis.document = { body: {} };
globalThis.getComputedStyle = () => ({ fontFamily: 'sans' });

const fixture = JSON.parse(readFileSync(process.env.SPECDIFF_FIXTURE, 'utf8')); // written by tests/test_app_js.py
const { lanes: told } = parse(fixture.trace);
const cut = told.drafted.slice(0, told.drafted.findIndex((event) => event.kind === 'Committed' && event.round === 3) + 1);
const { ids } = told.drafted[told.drafted.length - 1];
const total = cut[cut.length - 1].total;
const end = { ...told.drafted[told.drafted.length - 1], ids: ids.slice(0, total), seconds: cut[cut.length - 1].at };
const failed = { kind: 'Failed', code: 'weights', message: 'model.safetensors is missing.', hint: 'Restore it.', run: 'r' };
const make = () => ({
  vanilla: buildLane(told.vanilla), whole: buildLane(told.drafted), short: buildLane([...cut, { ...end, reason: 'end_of_text' }]),
  stopped: buildLane([...cut, { ...end, reason: 'stopped' }]), broken: buildLane([...cut, failed]), unloaded: buildLane([failed]), absent: null,
});
const names = Object.keys(make());

test('a race is a trace of any lanes, in the order asked for, and not of endless ones', () => {
  assert.deepEqual(choose({ b: [], a: [] }), { names: ['b', 'a'], left: 0 });
  assert.deepEqual(choose({ b: [], a: [], 'x/1': [] }, ['x/1', 'gone', 'b']).names, ['x/1', 'b']);
  const many = Object.fromEntries(Array.from({ length: 30 }, (_, i) => [`l${i}`, []]));
  assert.deepEqual([choose(many).names.length, choose(many).left], [MOST_LANES, 30 - MOST_LANES]);
  assert.equal(shortName('prompt_lookup'), 'prompt lookup');
  assert.equal(shortName('block/9/1', { 'block/9/1': 'block γ 9' }), 'block γ 9');
});

test('lanes may have the names of what every object has', () => {
  const odd = ['constructor', 'toString', '__proto__'];
  assert.deepEqual(odd.map((name) => shortName(name)), ['constructor', 'toString', '  proto  ']);
  assert.deepEqual(choose({ a: [] }, odd).names, []);
  const lines = fixture.trace.split('\n').filter(Boolean).map((line) => JSON.parse(line)).filter((line) => line.lane !== 'drafted');
  const named = (lanes) => [{ ...lines[0], lanes }, ...lines.slice(1).map((line) => ({ ...line, lane: odd[2] }))].map((line) => JSON.stringify(line)).join('\n');
  const { lanes } = parse(named(odd));
  assert.deepEqual(Object.keys(lanes), odd);
  assert.equal(lanes[odd[2]].length, lines.length - 1);
  assert.deepEqual(Object.keys(parse(serialise({ title: 't', lanes })).lanes), odd);
  assert.throws(() => parse(named(['vanilla'])), /unknown lane/);
  const built = Object.fromEntries(odd.map((name) => [name, buildLane(lanes[name])]));
  assert.equal(standings(built, odd)[odd[2]].place, 1);
  assert.equal(baselineOf(built, odd), odd[2]);
});

test('a lane says its settings in short', () => {
  knowNoSteps(['eagle']);
  const words = (config) => laneSubtitle('drafted', { config: { drafter: 'block', gamma: 16, steps: 1, rule: 'ratio', tree_nodes: 0, num_drafts: 1, selection: 'self', ...config } });
  assert.equal(words({}), 'block · γ 16 · T 1 · ratio');
  assert.equal(words({ auto: true }), 'block · γ ≤ 16 · auto · ratio');
  assert.equal(words({ auto: true, steps: 4 }), 'block · γ ≤ 16 · T ≤ 4 · auto · ratio');
  assert.equal(words({ drafter: 'eagle' }), 'eagle · γ 16 · ratio');
  assert.equal(words({ num_drafts: 4, selection: 'multi_round' }), 'block · γ 16 · K 4 · multi-round · ratio');
});

test('the baseline is vanilla, or whoever drafts nothing', () => {
  const lanes = make();
  assert.equal(baselineOf(lanes, names), 'vanilla');
  assert.equal(baselineOf({ whole: lanes.whole, plain: lanes.vanilla }, ['whole', 'plain']), 'plain');
  assert.equal(baselineOf({ whole: lanes.whole }, ['whole']), null);
});

test('places go by the clock, and neither who wrote fewer tokens nor who did not come in has one', () => {
  const result = standings(make(), names);
  const places = Object.fromEntries(names.map((name) => [name, result[name].place]));
  assert.deepEqual(places, { vanilla: 2, whole: 1, short: null, stopped: null, broken: null, unloaded: null, absent: null });
  assert.deepEqual(names.filter((name) => result[name].short), ['short']);
  const twins = { a: make().whole, b: make().whole };
  assert.deepEqual(Object.values(standings(twins, ['a', 'b'])).map((one) => one.place), [1, 1]);
});

test('a row holds clock, share, tau and the speed-up over the baseline at that moment', () => {
  const lanes = make();
  const t = lanes.whole.duration / 2;
  const states = Object.fromEntries(names.map((name) => [name, lanes[name] ? stateAt(lanes[name], Infinity) : null]));
  const at = (name, time) => rowAt(lanes, states, name, 'vanilla', time, 40);
  const over = at('whole', 99);
  assert.ok(Math.abs(over.speedup - (40 / lanes.whole.duration) / (40 / lanes.vanilla.duration)) < 1e-9);
  assert.equal(at('vanilla', 99).speedup, 1);
  assert.equal(over.clock.seconds, lanes.whole.duration);
  assert.equal(at('whole', t).clock.seconds, t);
  assert.equal(at('short', 99).share, total / 40);
  assert.equal(over.tau, 40 / fixture.metrics.drafted.rounds);
  assert.equal(at('unloaded', 99).clock.rate, null);
  assert.equal(at('absent', 99), null);
  assert.equal(rowAt(lanes, states, 'whole', null, 99, 40).speedup, null);
});

test('stepping goes through the rounds of the selected lane, then to the ends of those behind it', () => {
  const lanes = make();
  const stops = raceStops(lanes, names, 'short');
  const own = stops.filter((stop) => stop.lane === 'short');
  assert.equal(own.length, lanes.short.stops.length);
  assert.deepEqual(stops.slice(own.length).map((stop) => stop.lane), ['whole', 'vanilla']);
  assert.ok(stops.every((stop, i) => !i || stop.t >= stops[i - 1].t));
  const last = stops[stops.length - 1];
  assert.equal(last.n, lanes.vanilla.events.length);
  assert.deepEqual(raceStops(lanes, names, 'absent').map((stop) => stop.n > 0).includes(false), false);
  assert.deepEqual(raceStops({ a: null }, ['a'], 'a'), []);
});

test('labels of lines stand apart: the runners side by side, the finished in a stack without crossing', () => {
  const running = labelHeights([{ x: 1, y: 10, done: false }, { x: 1, y: 11, done: false }, { x: 1, y: 40, done: false }], 40, 3);
  const sorted = [...running].sort((a, b) => a - b);
  assert.ok(sorted.every((height, i) => !i || height - sorted[i - 1] >= 3 - 1e-9) && sorted[2] <= 40);
  const done = labelHeights([{ x: 3, y: 40, done: true }, { x: 1, y: 40, done: true }, { x: 2, y: 40, done: true }], 40, 3);
  assert.deepEqual(done, [43, 49, 46], 'the first to come in is highest');
});

test('the figure has a line, a dash and a label for each lane that wrote', () => {
  const lanes = make();
  const styles = stylesOf(names, 'vanilla');
  const states = Object.fromEntries(names.map((name) => [name, lanes[name] ? stateAt(lanes[name], Infinity) : null]));
  const clocks = Object.fromEntries(names.map((name) => [name, rowAt(lanes, states, name, 'vanilla', 99, 40)?.clock ?? null]));
  const labels = Object.fromEntries(names.map((name) => [name, name === 'whole' ? '<b>whole' : name]));
  const c = new Proxy({}, { get: (_, role) => `colour of ${role}` });
  const { data, layout } = raceFigure({ names, labels, styles, states, clocks, duration: 1, total: 40, selected: 'whole' }, c);
  assert.deepEqual(data.map((line) => line.name), ['vanilla', '<b>whole', 'short', 'stopped', 'broken']);
  assert.ok(layout.annotations.some((note) => note.text === '&lt;b&gt;whole'), 'a foreign name is text');
  const { vanilla, ...others } = styles; // the stage is cleared for a race that has other lanes
  const cleared = raceFigure({ names, labels, styles: { vanilla }, states, clocks, duration: 1, total: 40, selected: 'whole' }, c);
  assert.deepEqual([cleared.data.map((line) => line.name), Object.keys(others).length > 0], [['vanilla'], true]);
  const looks = Object.values(styles).map((style) => [style.role, style.dash, style.glyph].join());
  assert.equal(new Set(looks).size, names.length);
  assert.equal(styles.vanilla.dash, 'dot');
  for (const [i, note] of layout.annotations.entries()) assert.equal(note.font.color, c[styles[data[i].name.replace('<b>', '')].role]);
});

test('lanes of one target share their words; without any, ids stay and the text comes at the end', () => {
  const silent = told.drafted.filter((event) => !['PiecesSeen', 'DenoiseStep'].includes(event.kind))
    .map((event) => (event.kind === 'TargetScored' ? { ...event, candidates: [] } : event));
  const lane = buildLane(silent);
  check(lane);
  assert.ok(lane.wordless);
  assert.equal(lane.shown[0], `<${lane.ids[0]}>`);
  const speaker = buildLane(told.vanilla);
  sharePieces([speaker, lane]);
  assert.ok(!lane.wordless);
  assert.equal(lane.shown.join(''), lane.finished.text);
  const stranger = buildLane(silent.map((event) => (event.kind === 'RunStarted' ? { ...event, models: { target: 'another' } } : event)));
  sharePieces([speaker, stranger]);
  assert.ok(stranger.wordless, 'another target has other words');
});

test('a window whose passes were not recorded says how many there were', () => {
  const silent = told.drafted.filter((event) => event.kind !== 'DenoiseStep');
  const lane = buildLane(silent);
  const draft = silent.findIndex((event) => event.kind === 'DraftReady');
  const { window: view } = stateAt(lane, draft + 1);
  assert.ok(view.untold && !view.copied);
  assert.match(narrate(view, String), /^Round 1: 6 tokens drafted in 3 passes of the drafter\.$/);
});

test('of many branches the first, the walked, the chosen and the longest are drawn', () => {
  // a comb: the first line is 0-1-2, and each other node begins a branch at the anchor; one branch is long
  const parents = [-1, 0, 1, ...Array.from({ length: 12 }, () => -1), 14, 15, 16];
  const tree = { ...treeOf(parents), branches: [], path: [], chosen: null };
  assert.equal(tree.count, 13);
  assert.deepEqual(linesShown(tree, 20), Array.from({ length: 13 }, (_, i) => i));
  const long = tree.lines[17];
  assert.deepEqual(linesShown(tree, 2), [0, long]);
  const walked = tree.lines[8];
  assert.deepEqual(linesShown({ ...tree, path: [8] }, 3), [0, walked, long].sort((a, b) => a - b));
  const chosen = tree.lines[5];
  assert.deepEqual(linesShown({ ...tree, branches: [[0, 1, 2], [5]], chosen: 1 }, 3), [0, chosen, long].sort((a, b) => a - b));
  assert.equal(linesShown({ ...tree, path: [8], branches: [[3]], chosen: 0 }, 5).length, 5);
});
