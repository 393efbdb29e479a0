// How lanes are told apart.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { looks, methods, trace } from './fixture.mjs';
import { nameLanes, spare } from '../../app/static/state/marks.js';
import { MOST_LANES } from '../../app/static/state/race.js';
import { buildLane } from '../../app/static/state/lane.js';

const look = ({ colour, mark }) => `${colour} ${mark}`;
const nothing = (names) => Object.fromEntries(names.map((name) => [name, null]));
const name = (names, own = {}, lanes = nothing(names)) =>
  nameLanes(names, lanes, names.includes('vanilla') ? 'vanilla' : null, looks, own);

test('no two lanes of a race have the same colour and mark', () => {
  const foreign = Array.from({ length: MOST_LANES }, (_, i) => `foreign ${i}`);
  const races = [Object.keys(methods), foreign, ['vanilla', ...foreign], ['vanilla', 'drafted'], [
    'vanilla',
    'drafted',
    ...Object.keys(methods).slice(1),
  ], [...Object.keys(methods), 'drafted', ...foreign]];
  for (const names of races) {
    assert.equal(new Set(Object.values(name(names)).map(look)).size, names.length, names.join());
  }
  const twins = name(['vanilla', 'a', 'b'], {
    a: { label: 'One', method: 'dflash' },
    b: { label: 'Other', method: 'dflash' },
  });
  assert.notEqual(look(twins.a), look(twins.b));
});

test('a method looks the same in every race, whoever else is in it', () => {
  const alone = name(['vanilla', 'eagle']);
  const among = name(['drafted', 'x', 'eagle', 'vanilla', 'y']);
  assert.equal(look(alone.eagle), look(among.eagle));
  assert.equal(look(alone.eagle), look(methods.eagle));
  const recorded = name(['vanilla', 'eagle/4/4'], {
    'eagle/4/4': { label: 'EAGLE', method: 'eagle' },
  });
  assert.deepEqual([look(recorded['eagle/4/4']), recorded['eagle/4/4'].label], [
    look(methods.eagle),
    'EAGLE',
  ]);
});

test('marks that are left are those of no method, and every mark has a glyph of its own', () => {
  const { glyphs } = looks;
  const free = spare(looks);
  const taken = new Set(Object.values(methods).map((method) => method.mark));
  for (let i = 0; i < 2 * MOST_LANES; i += 1) {
    assert.ok(glyphs[free(i).mark] && !taken.has(free(i).mark) && free(i).colour !== 'target');
  }
  for (const mark of taken) assert.ok(glyphs[mark], mark);
  assert.equal(new Set(Object.values(glyphs)).size, Object.keys(glyphs).length);
});

test('the baseline is dotted in the colour of the target, whatever it is called', () => {
  const lanes = { plain: buildLane(trace.lanes.vanilla), drafted: buildLane(trace.lanes.drafted) };
  const named = nameLanes(['plain', 'drafted'], lanes, 'plain', looks, {});
  assert.deepEqual(
    [named.plain.colour, named.plain.dash, named.plain.label],
    ['target', 'dot', 'plain'],
  );
  assert.equal(named.drafted.colour === 'target', false);
});

test('uses of one drafter differ in dash', () => {
  const uses = [{}, { auto: true }, { tree_nodes: 8 }, { tree_nodes: 8, auto: true }];
  const drafts = ['self', 'trie', 'multi_round', 'something newer'].map((selection) => ({
    num_drafts: 4,
    selection,
  }));
  const lanes = [...uses, ...drafts].map((config) => buildLane([{ kind: 'RunStarted', config }]));
  const named = Object.values(name(Object.keys(lanes), {}, { ...lanes }));
  assert.equal(new Set(named.map(({ dash }) => dash)).size, lanes.length);
});
