// The comparison's values, captions and figures.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { MEAN, axisEnd, busyMachine, check, doubted, exactness, intervalWords, leaderboard, marksOf, meanWords, numbersOf, origin, placeLabels, progressWords, raceOf, sourceWords, typicalFlavour, withoutRaces } from '../../app/static/compare_fold.js';

globalThis.document = { body: {} };
globalThis.getComputedStyle = () => ({ fontFamily: 'sans' });
const { acceptanceCurves, costFigure, flavourBars } = await import('../../app/static/compare_charts.js');

const part = (value, tau, low = value - 0.1, high = value + 0.2) => ({ value, low, high, tau, alpha: 0.5, cost: tau / value });
function cell(drafter, shape, key, speeds, more = {}) {
  const value = (speeds.code + speeds.stories) / 2;
  const tau = drafter === 'none' ? 1 : 4;
  return {
    key, drafter, shape, group: `${drafter}/${shape}`, label: `${drafter} ${shape}`, short: drafter, words: drafter === 'none' ? '' : 'γ 9, T 1',
    speedup: { value, low: value - 0.2, high: value + 0.3, level: 0.95 }, tau, alpha: 0.5, cost: tau / value, alpha_at: [0.9, 0.8], tested_at: [100, 10],
    by_flavour: { code: part(speeds.code, tau), stories: part(speeds.stories, tau / 2) }, target_passes_per_token: 1 / tau, drafter_passes_per_round: 1,
    peak_bytes: 6.5e8, same_text_as_vanilla: 20, texts: 20, ...more,
  };
}
const table = (temperature = 0) => ({
  temperature, rule: 'ratio', lossless: true, prompts: { code: 10, stories: 10 }, flavours: ['code', 'stories'], repeats: 2, left_out: [], settings: { max_new_tokens: 96, ignore_eos: true },
  origin: { device: 'cpu: X', cpu: 'A processor', cores: 2, gpu: '', system: 'Linux', dtype: 'fp32', threads: 2, versions: { torch: '2', numpy: '' }, date: '2026-01-02T03:04+00:00', commit: 'abc', dirty: true, command: 'python -m specdiff_core bench', sittings: 2 },
  cells: [cell('none', 'window', 'none/1/1', { code: 1, stories: 1 }), cell('block', 'window', 'block/9/1', { code: 3, stories: 2 }), cell('block', 'tree', 'block/9/1/9', { code: 2, stories: 3.5 }), cell('mdlm', 'window', 'mdlm/4/1', { code: 0.8, stories: 0.9 })],
  races: { code: { file: 'races/0-code.jsonl.gz', lanes: ['vanilla', 'block/9/1', 'block/9/1/9'], title: 'code race', data: 'AA==' }, stories: { file: 'races/0-stories.jsonl.gz', lanes: ['vanilla', 'block/9/1', 'block/9/1/9'], title: 'stories race' } },
});
const c = new Proxy({}, { get: () => '#336699' });

test('rows are sorted by the speed-up of the chosen flavour, vanilla in its place', () => {
  const keys = (flavour) => leaderboard(table(), flavour).map((row) => row.cell.key);
  assert.deepEqual(keys(MEAN), ['block/9/1/9', 'block/9/1', 'none/1/1', 'mdlm/4/1']);
  assert.deepEqual(keys('code'), ['block/9/1', 'block/9/1/9', 'none/1/1', 'mdlm/4/1']);
  const [first] = leaderboard(table(), 'stories');
  assert.equal(first.passes, 50); // τ = 2
  assert.equal(leaderboard(table(), MEAN)[0].passes, 25);
  assert.equal(axisEnd(leaderboard(table(), 'stories')), 4);
});

test('a bar of the mean opens the race of the flavour closest to the mean', () => {
  const one = table();
  one.cells[1].by_flavour.code.value = 2.4;
  assert.equal(typicalFlavour(one, one.cells[1]), 'code');
  const found = raceOf(one, one.cells[1], MEAN);
  assert.deepEqual([found.flavour, found.lanes, found.title], ['code', ['vanilla', 'block/9/1'], 'code race']);
  assert.equal(found.labels['block/9/1'], 'block window');
  assert.equal(raceOf(one, one.cells[2], 'stories').race.file, 'races/0-stories.jsonl.gz');
  assert.deepEqual(raceOf(one, one.cells[0], 'code').lanes, ['vanilla', 'block/9/1']); // vanilla's own bar: against the fastest
  assert.equal(raceOf(one, one.cells[3], 'code'), null); // not recorded
});

test('every method has a mark of its own, the same in every table', () => {
  const marks = marksOf([table(0), table(1)]);
  assert.equal(marks.size, 4);
  assert.equal(new Set([...marks.values()].map((mark) => mark.glyph)).size, 4);
  assert.notEqual(marks.get('block/window').dash, marks.get('block/tree').dash);
  assert.equal(marks.get('block/window').role, marks.get('block/tree').role);
});

test('uses of one drafter differ in dash and pattern, drafters in colour', () => {
  const uses = ['window', 'window/auto', 'tree', 'drafts/self', 'drafts/trie', 'drafts/multi_round', 'tree/auto'];
  const cells = [...uses.map((use) => ({ drafter: 'block', group: `block/${use}` })), { drafter: 'eagle', group: 'eagle/window' }, { drafter: 'newer', group: 'newer/window' }];
  const marks = marksOf([{ cells }]);
  const own = uses.map((use) => marks.get(`block/${use}`));
  for (const part of ['dash', 'pattern', 'glyph']) assert.equal(new Set(own.map((mark) => mark[part])).size, uses.length, part);
  assert.equal(new Set(['block/window', 'eagle/window', 'newer/window'].map((group) => marks.get(group).role)).size, 3);
});

test('a busy machine casts doubt on its cells, and through vanilla on all', () => {
  const one = table();
  one.cells.forEach((each) => { each.waiting = 0.05; });
  assert.equal(busyMachine(one, 0.2), '');
  one.cells[1].waiting = 0.2;
  assert.deepEqual([...doubted(one, 0.2)], ['block/9/1']);
  assert.match(busyMachine(one, 0.2), /worst of these cells: 0[.]20/);
  one.cells[0].waiting = 0.9;
  assert.equal(doubted(one, 0.2).size, one.cells.length);
  one.cells.forEach((each) => { each.waiting = null; });
  assert.equal(doubted(one, 0.2).size, 0);
});

test('numbers say where they come from', () => {
  assert.equal(sourceWords(table(), false), 'Recorded on A processor, 2026-01-02 03:04 UTC, not on this machine.');
  assert.match(sourceWords(table(), true), /^Measured on this machine, .*: cpu: X, fp32, 2 threads\.$/);
  const stopped = { ...table(), asked: { runs: 24, finished: 9, used: 8, prompts: 4 }, prompts: { code: 1 } };
  assert.match(sourceWords(stopped, true), /Stopped early: 9 of 24 runs were finished, 8 belong to whole turns and are shown \(code 1\)/);
  const lacking = { ...table(), left_out: ['SpecDiff: its weights are missing.', 'Auto: no memory'] };
  assert.match(sourceWords(lacking, true), /2 threads[.] Left out: SpecDiff: its weights are missing; Auto: no memory[.]$/);
  assert.doesNotMatch(sourceWords(lacking, false), /Left out/);
  assert.deepEqual(meanWords(table())[0], 'Mean');
  assert.deepEqual(meanWords({ ...table(), asked: { flavours: 4 } })[0], 'Mean of 2 flavours');
  assert.deepEqual(meanWords({ ...table(), asked: { flavours: 2 } })[0], 'Mean');
  const facts = Object.fromEntries(origin(table()));
  assert.equal(facts.commit, 'abc with local changes');
  assert.equal(facts.software, 'torch 2');
  assert.match(facts.measured, /in 2 sittings/);
  assert.match(facts.prompts, /code 10, stories 10; 2 repeats, 96 new tokens/);
});

test('exactness is what was measured, or what the rule claims', () => {
  const one = table();
  assert.equal(exactness(one, one.cells[1])[0], '✓ 20 of 20 texts');
  assert.equal(exactness(one, { ...one.cells[1], same_text_as_vanilla: 19 })[0], '≈ 19 of 20 texts');
  assert.match(exactness(one, { ...one.cells[1], same_text_as_vanilla: 19 })[1], /the cause was not examined here/);
  assert.equal(exactness(one, { ...one.cells[1], same_text_as_vanilla: null })[0], '✓ same law');
  assert.equal(exactness({ ...one, lossless: false }, one.cells[1])[0], '✕ not exact');
  assert.equal(intervalWords(one.cells[1].speedup, one.cells[1]), '95 % interval 2.30 to 2.80');
  assert.equal(intervalWords({ low: null }, one.cells[1]), 'no interval: fewer than two prompts of a flavour');
});

test('progress is told with an estimate that is called one', () => {
  const frame = { phase: 'measuring', count: 3, total: 24, doing: 'DFlash', left: 12.2 };
  assert.equal(progressWords(frame), 'Measuring run 4 of 24: DFlash. Estimate: about 13 seconds left.');
  assert.match(progressWords({ ...frame, left: 200 }), /about 4 minutes left/);
  assert.match(progressWords({ ...frame, left: null }), /not known yet/);
  assert.match(progressWords({ phase: 'warming', doing: 'Vanilla' }), /off the record: Vanilla/);
});

test('only a comparison of a known form is taken, and a download holds no packed race', () => {
  const whole = { schema: 1, kind: 'comparison', tables: [table()] };
  assert.equal(check(whole), whole);
  for (const wrong of [null, {}, { ...whole, schema: 2 }, { ...whole, tables: [] }]) assert.throws(() => check(wrong));
  const bare = withoutRaces(whole);
  assert.ok(!('data' in bare.tables[0].races.code));
  assert.equal(bare.tables[0].races.code.title, 'code race');
  assert.ok('data' in whole.tables[0].races.code);
});

test('points lie on the line of their speed-up', () => {
  const one = table();
  const shown = new Set(['block/window', 'block/tree']);
  const figure = costFigure({ table: one, flavour: 'code', marks: marksOf([one]), shown, size: { width: 500, height: 300 }, place: (spots) => spots.map(() => 'top center') }, c);
  const points = figure.data[figure.data.length - 1];
  points.x.forEach((x, i) => assert.ok(Math.abs(points.y[i] / x - [1, 3, 2][i]) < 1e-9));
  for (const line of figure.data.slice(0, -1)) assert.ok(line.x[1] <= figure.layout.xaxis.range[1] + 1e-9 && line.y[1] <= figure.layout.yaxis.range[1] + 1e-9);
  assert.equal(figure.layout.annotations.length, figure.data.length - 1);
  assert.ok(points.customdata.every((data, i) => data[2] === `speed-up = τ / cost = ${[1, 3, 2][i].toFixed(2)}×`));
  const mean = costFigure({ table: one, flavour: MEAN, marks: marksOf([one]), shown, size: { width: 500, height: 300 }, place: (spots) => spots.map(() => 'top center') }, c);
  assert.match(mean.data[mean.data.length - 1].customdata[1][2], /pooled .*mean of the flavours: 2[.]50×/);
});

test('curves and bars hold the stored numbers', () => {
  const tables = [table(0), table(1)];
  const scene = { tables, table: tables[0], flavour: MEAN, marks: marksOf(tables), shown: new Set(['block/window', 'mdlm/window']) };
  const curves = acceptanceCurves(scene, c).data;
  assert.deepEqual(curves.map((curve) => curve.y), [[0.9, 0.8], [0.9, 0.8]]);
  assert.deepEqual(curves[0].marker.symbol, ['circle', 'circle-open']); // fewer than 20 tests
  const bars = flavourBars(scene, c).data;
  assert.deepEqual(bars[0].y, [3, 2, 3, 2]);
  assert.deepEqual(bars[0].x, [['temperature 0', 'temperature 0', 'temperature 1', 'temperature 1'], ['code', 'stories', 'code', 'stories']]);
  assert.ok(Math.abs(bars[0].error_y.array[0] - 0.2) < 1e-9 && Math.abs(bars[0].error_y.arrayminus[0] - 0.1) < 1e-9);
  assert.deepEqual(bars[0].marker.opacity, [1, 1, 0.5, 0.5]);
});

test('labels of points that lie close do not cover each other', () => {
  const spots = [{ x: 100, y: 100, text: 'one' }, { x: 104, y: 103, text: 'two' }, { x: 100, y: 110, text: 'three' }];
  const places = placeLabels(spots, (text) => 6 * text.length, { width: 300, height: 200 });
  assert.equal(new Set(places).size, 3);
  assert.deepEqual(placeLabels([{ x: 295, y: 100, text: 'at the edge' }], (text) => 6 * text.length, { width: 300, height: 200 }), ['middle left']);
  assert.equal(numbersOf(table().cells[1], MEAN).value, 2.5);
});
