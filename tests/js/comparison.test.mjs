// The comparison's values and captions.
import assert from 'node:assert/strict';
import { existsSync, readFileSync } from 'node:fs';
import { test } from 'node:test';

import { MEAN, axisEnd, busyMachine, check, doubted, exactness, fitLabels, intervalWords, leaderboard, marksOf, meanWords, numbersOf, origin, placeLabels, progressWords, raceOf, sourceWords, typicalFlavour, withoutRaces } from '../../app/static/state/comparison.js';
import { methods } from './fixture.mjs';
import { table } from './comparison.mjs';

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
  assert.deepEqual(found.labels, { vanilla: { label: 'Vanilla' }, 'block/9/1': { label: 'block window', method: 'dflash' } });
  assert.equal(raceOf(one, one.cells[2], 'stories').race.file, 'races/0-stories.jsonl.gz');
  assert.deepEqual(raceOf(one, one.cells[0], 'code').lanes, ['vanilla', 'block/9/1']); // vanilla's own bar: against the fastest
  assert.equal(raceOf(one, one.cells[3], 'code'), null); // not recorded
});

test('a method has the mark of its record, every other use one that is left, the same in every table', () => {
  const marks = marksOf([table(0), table(1)], methods);
  assert.equal(marks.size, 4);
  const look = (group) => [marks.get(group).symbol, marks.get(group).role];
  assert.deepEqual(look('block/window'), [methods.dflash.mark, methods.dflash.colour]);
  assert.deepEqual(look('none/window'), [methods.vanilla.mark, 'target']);
  assert.equal(new Set([...marks.values()].map((mark) => mark.glyph)).size, 4);
  assert.ok(!Object.values(methods).some((method) => method.mark === marks.get('block/tree').symbol), 'this table calls it no method');
  assert.deepEqual(marks.get('block/window'), marksOf([table(1)], methods).get('block/window'));
});

test('no two uses look the same, and those of one drafter differ in dash and pattern too', () => {
  const uses = ['window', 'window/auto', 'tree', 'drafts/self', 'drafts/trie', 'drafts/multi_round', 'tree/auto'];
  const cells = ['block', 'eagle', 'newer'].flatMap((drafter) => uses.map((use) => ({ drafter, group: `${drafter}/${use}`, method: '' })));
  const marks = marksOf([{ cells }], methods);
  assert.equal(new Set([...marks.values()].map((mark) => `${mark.symbol} ${mark.role}`)).size, cells.length);
  const own = uses.map((use) => marks.get(`block/${use}`));
  for (const part of ['dash', 'pattern']) assert.equal(new Set(own.map((mark) => mark[part])).size, uses.length, part);
});

test('a busy machine casts doubt on its cells, and through vanilla on all', () => {
  const one = table();
  one.cells.forEach((each) => { each.waiting = 0.05; });
  assert.equal(busyMachine(one, 0.2), '');
  one.cells[1].waiting = 0.2;
  assert.deepEqual([...doubted(one, 0.2)], ['block/9/1']);
  assert.match(busyMachine(one, 0.2), /worst of these rows: 0[.]20/);
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
  assert.equal(exactness(one, { ...one.cells[1], same_text_as_vanilla: null })[0], '✓ same distribution');
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

test('labels of points that lie close do not cover each other', () => {
  const spots = [{ x: 100, y: 100, text: 'one' }, { x: 104, y: 103, text: 'two' }, { x: 100, y: 110, text: 'three' }];
  const places = placeLabels(spots, (text) => 6 * text.length, { width: 300, height: 200 });
  assert.equal(new Set(places).size, 3);
  assert.deepEqual(placeLabels([{ x: 295, y: 100, text: 'at the edge' }], (text) => 6 * text.length, { width: 300, height: 200 }), ['middle left']);
  assert.equal(numbersOf(table().cells[1], MEAN).value, 2.5);
});

test('of labels that do not fit beside each other some are left out, but none that must stay', () => {
  const width = (text) => 6 * text.length;
  const size = { width: 300, height: 200 };
  const crowd = Array.from({ length: 12 }, (_, i) => ({ x: 150 + 2 * (i % 4), y: 100 + 2 * Math.floor(i / 4), text: `method ${i}` }));
  const places = fitLabels([...crowd, { x: 152, y: 102, text: 'here', kept: true }], width, size);
  const shown = places.filter(Boolean);
  assert.ok(shown.length >= 4 && shown.length < 10, `${shown.length}`);
  assert.equal(new Set(shown).size, shown.length, 'each at another side of the crowd');
  assert.ok(places[12]);
  const apart = [{ x: 50, y: 50, text: 'one' }, { x: 200, y: 150, text: 'two' }];
  assert.deepEqual(fitLabels(apart, width, size), ['middle right', 'middle right']);
  assert.deepEqual(apart.map(({ text }) => text), ['one', 'two'], 'what is given stays as it is');
});

test('the comparison that ships is of a known form: each bar opens a race that is there, each method has a mark of its own', () => {
  const folder = new URL('../../assets/compare/', import.meta.url);
  const { tables } = check(JSON.parse(readFileSync(new URL('results.json', folder), 'utf8')));
  for (const table of tables) {
    for (const flavour of [MEAN, ...table.flavours]) {
      for (const { cell, passes, value } of leaderboard(table, flavour)) {
        assert.ok(passes > 0 && value > 0, cell.key);
        const found = raceOf(table, cell, flavour);
        assert.ok(found && existsSync(new URL(found.race.file, folder)) && found.lanes.every((lane) => found.race.lanes.includes(lane)), `${cell.key} ${flavour}`);
      }
    }
  }
  const marks = marksOf(tables, methods);
  assert.equal(new Set([...marks.values()].map((mark) => `${mark.symbol} ${mark.role}`)).size, marks.size);
});
