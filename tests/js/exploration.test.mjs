// The sandbox, the playground, the tables and the figures of the Explore and the Compare tab.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import {
  alphasOf,
  bestGamma,
  breakEven,
  expectedTau,
  measuredBox,
  sandbox,
  treeTau,
} from '../../app/static/state/sandbox.js';
import { costAt, readCurve, rising } from '../../app/static/state/costs.js';
import { acceptance, drawTokens, withProbability } from '../../app/static/state/draws.js';
import { aligned, trackOf } from '../../app/static/state/tracks.js';
import { columnsOf, csvOf } from '../../app/static/state/exploration.js';
import { make, near } from './fixture.mjs';
import { buildLane } from '../../app/static/state/lane.js';
import { download } from '../../app/static/views/dom.js';
import { applies, settled, styledFigure } from '../../app/static/views/figure.js';

const CURVE = [[1, 0.004], [9, 0.005], [17, 0.007]];
const BOX = { alpha: 0.7, gamma: 8, passes: 1, draft: 0.5, shape: 'window', count: 4 };

test('tokens per round: 1 + Σ Π α_j', () => {
  near(expectedTau([]), 1);
  near(expectedTau([0.5, 0.5]), 1.75);
  near(expectedTau([1, 0, 1]), 2);
});

test('a tree takes the most probable nodes: a chain where α is high, siblings where it is low', () => {
  const same = (alpha, depth) => Array(depth).fill(alpha);
  near(treeTau(same(0.9, 4), 4), expectedTau([0.9, 0.9, 0.9, 0.9]));
  near(treeTau(same(0.3, 4), 2), 1 + 0.3 + 0.3 * 0.7);
  near(treeTau(same(0.5, 1), 3), 1 + 0.5 + 0.25 + 0.125);
  near(treeTau(same(0.5, 8), 0), 1);
  near(treeTau([], 4), 1);
  // the second place is unsure: two candidates there
  near(treeTau([0.9, 0.2], 3), 1 + 0.9 + 0.9 * 0.2 + 0.9 * 0.2 * 0.8);
  for (const alpha of [0.2, 0.5, 0.8]) {
    assert.ok(treeTau(same(alpha, 16), 16) >= expectedTau(same(alpha, 16)) - 1e-12);
  }
});

test('the cost of a pass lies on straight lines between what was measured', () => {
  near(costAt(CURVE, 1), 0.004);
  near(costAt(CURVE, 5), 0.0045);
  near(costAt(CURVE, 13), 0.006);
  near(costAt(CURVE, 25), 0.009);
  near(costAt([[1, 2]], 7), 2);
});

test('a typed curve is read, or refused', () => {
  assert.deepEqual(readCurve('17 7.0, 1 4'), [[1, 0.004], [17, 0.007]]);
  assert.deepEqual(readCurve('1: 4\n9: 5'), [[1, 0.004], [9, 0.005]]);
  for (const words of ['', '1 4', '1 4, 1 5', '0 4, 2 5', '1 4, 2 x', '1 4, 2 0', '1 2 3, 4 5']) {
    assert.equal(readCurve(words), null, words);
  }
});

const RECORDED = JSON.parse(
  readFileSync(new URL('../../assets/explore/what-it-takes.json', import.meta.url), 'utf8'),
);

test('a measured method comes out as it was measured', () => {
  const curve = rising(RECORDED.facts.curve);
  for (const row of RECORDED.rows.filter(({ alpha }) => typeof alpha === 'number')) {
    const { tau, speedup } = sandbox(measuredBox(row), curve);
    near(tau, row.tau, 0.01);
    assert.ok(
      speedup / row.speedup < 1.15 && speedup / row.speedup > 0.8,
      `${row.method}: ${speedup}`,
    );
  }
});

test('a pass over more rows is never cheaper, and nothing pays without an accepted draft', () => {
  const curve = rising([[1, 27.2], [4, 25], [9, 30]]);
  assert.deepEqual(curve, [[1, 26.1], [4, 26.1], [9, 30]]);
  for (const gamma of [1, 3, 8]) {
    const box = { ...BOX, alpha: 0, alphas: null, draft: 0, gamma };
    assert.ok(sandbox(box, curve).speedup <= 1 + 1e-9, `γ ${gamma}`);
  }
});

test('the sandbox: tokens over the cost of a round', () => {
  const found = sandbox(BOX, CURVE);
  near(found.tau, expectedTau(Array(8).fill(0.7)));
  near(found.cost, 0.5 + 0.005 / 0.004);
  near(found.speedup, found.tau / found.cost);
  assert.equal(sandbox({ ...BOX, shape: 'drafts' }, CURVE).rows, 33);
  near(sandbox({ ...BOX, shape: 'drafts', count: 1 }, CURVE).tau, found.tau);
  assert.equal(sandbox({ ...BOX, shape: 'tree', count: 16 }, CURVE).rows, 17);
  near(sandbox({ ...BOX, alpha: 0 }, CURVE).tau, 1);
});

test('each position may have its own α, and what is behind the last goes on with it', () => {
  const own = { ...BOX, alphas: [0.9, 0.5], gamma: 2 };
  near(sandbox(own, CURVE).tau, 1 + 0.9 + 0.45);
  assert.deepEqual(alphasOf({ ...own, gamma: 4 }), [0.9, 0.5, 0.5, 0.5]);
  assert.deepEqual(alphasOf({ ...own, gamma: 1 }), [0.9]);
  assert.deepEqual(alphasOf({ ...BOX, gamma: 2 }), [0.7, 0.7]);
  near(sandbox({ ...own, shape: 'drafts', count: 2 }, CURVE).tau, 1 + 0.99 + (1 - 0.55 ** 2));
  near(sandbox({ ...own, shape: 'tree', count: 2 }, CURVE).tau, 1 + 0.9 + 0.45);
  assert.equal(breakEven(own, CURVE), breakEven({ ...BOX, gamma: 2 }, CURVE)); // of one α for all
});

test('break even is where the speed-up is 1, and the best γ beats its neighbours', () => {
  const even = breakEven(BOX, CURVE);
  near(sandbox({ ...BOX, alpha: even }, CURVE).speedup, 1, 1e-6);
  assert.equal(breakEven({ ...BOX, draft: 100 }, CURVE), null);
  const [gamma, speedup] = bestGamma(BOX, CURVE);
  for (const other of [gamma - 1, gamma + 1]) {
    if (other > 0) assert.ok(sandbox({ ...BOX, gamma: other }, CURVE).speedup <= speedup);
  }
});

test('one token: Σ min(p, q) and the residual (papers: p = (.6, .3, .1), q = (.3, .6, .1))', () => {
  const { alpha, residual, kept } = acceptance([0.6, 0.3, 0.1], [0.3, 0.6, 0.1]);
  near(alpha, 0.7);
  assert.deepEqual(residual.map((value) => Math.round(value * 1e9) / 1e9), [1, 0, 0]);
  assert.deepEqual(kept, [0.3, 0.3, 0.1]);
  assert.equal(acceptance([0.5, 0.5], [0.5, 0.5]).residual, null);
});

test('what is drawn follows p, and as many drafts are accepted as Σ min(p, q) says', () => {
  const [p, q] = [[0.6, 0.3, 0.1], [0.2, 0.2, 0.6]];
  const { counts, accepted } = drawTokens(p, q, 20000, 7);
  assert.equal(counts.reduce((a, b) => a + b), 20000);
  counts.forEach((count, i) => near(count / 20000, p[i], 0.015));
  near(accepted / 20000, acceptance(p, q).alpha, 0.015);
  assert.notDeepEqual(drawTokens(p, q, 100, 1).counts, drawTokens(p, q, 100, 2).counts);
});

test('tables', () => {
  const rows = [{ a: 1, b: [0.5, null] }, { a: 'x, "y"', c: null }];
  assert.deepEqual(columnsOf(rows), ['a', 'b', 'c']);
  assert.equal(csvOf(rows), 'a,b,c\n1,0.5 ,\n"x, ""y""",,\n');
  assert.equal(
    csvOf([{ a: '=1+1', b: -1.5, c: 'x=1' }, { a: '\tx', b: '-x', c: '@' }]),
    `a,b,c\n'=1+1,-1.5,x=1\n'\tx,'-x,'@\n`,
  ); // a spreadsheet calculates none
});

/** Rounds by hand: the first rejects 8 and writes 9, the second keeps all and adds a bonus. */
const twoRounds = (last) =>
  buildLane([
    ...make.round([7, 8], [make.test(0, 7, true), make.test(1, 8, false)], [7, 9], {
      verified: { source: 'residual' },
    }),
    ...make.round([5], [make.test(0, 5, true)], [5, last], { round: 1 }),
  ]);

test('a track: each round begins once, and its rejected draft stands at the token that the target wrote instead', () => {
  const track = trackOf(twoRounds(4), 11);
  assert.deepEqual(
    track.map((
      { position, id, kind, round, begins, rejected },
    ) => [position, id, kind, round, begins, rejected]),
    [
      [11, 7, 'draft', 0, true, null],
      [12, 9, 'residual', 0, false, 8],
      [13, 5, 'draft', 1, true, null],
      [14, 4, 'bonus', 1, false, null],
    ],
  );
  const plain = { ...twoRounds(4), header: { config: { drafter: 'none' } } };
  assert.deepEqual([...new Set(trackOf(plain).map(({ kind }) => kind))], ['vanilla']);
});

test('tracks share columns by position, and differ only where the run that they are held against has another token', () => {
  const columns = aligned({
    a: trackOf(twoRounds(4)),
    b: trackOf(twoRounds(6)),
    branch: trackOf(twoRounds(6), 3),
  }, { b: 'a', branch: 'b' });
  assert.deepEqual(
    columns.map((cells) => Object.keys(cells).join(' ')),
    ['a b', 'a b', 'a b branch', 'a b branch', 'branch', 'branch'],
  );
  assert.deepEqual(
    columns.map(({ b }) => b?.differs),
    [false, false, false, true, undefined, undefined],
  );
  assert.deepEqual(
    columns.map(({ branch }) => branch?.differs),
    [undefined, undefined, true, true, false, false],
  );
  assert.ok(columns.every(({ a }) => !a?.differs));
});

test('a probability that is set takes from the others, and all of them stay a distribution', () => {
  const moved = withProbability([0.6, 0.3, 0.1], 0, 0.2);
  moved.forEach((value, i) => near(value, [0.2, 0.6, 0.2][i]));
  withProbability([1, 0, 0], 0, 0.4).forEach((value, i) => near(value, [0.4, 0.3, 0.3][i]));
});

const c = new Proxy({}, { get: (_, role) => `colour of ${String(role)}` });

test('a figure: its data, its axes in the theme, what a widget adds, and the axes reach as far', () => {
  const figure = {
    data: [{ type: 'scatter', x: [1], y: [2], marker: { color: '@lane-1' } }],
    layout: {
      xaxis: { title: 'γ', range: [0, 3] },
      yaxis: { title: 'τ' },
      showlegend: true,
      annotations: [{ font: { color: '@muted' } }],
    },
  };
  const added = { data: [{ x: [9], marker: { color: '@accent' } }], reach: { x: 10, y: 1 } };
  const { data, layout } = styledFigure({ ...figure, added }, c);
  assert.deepEqual(data.map(({ marker }) => marker.color), [
    'colour of lane-1',
    'colour of accent',
  ]);
  assert.deepEqual([
    layout.xaxis.title.text,
    layout.xaxis.range,
    layout.yaxis.title.text,
    layout.annotations[0].font.color,
  ], ['γ', [0, 10], 'τ', 'colour of muted']);
  assert.equal(styledFigure({ layout: {}, empty: 'Not yet.' }, c), 'Not yet.');
});

test('switches choose what is shown, and a value that is gone is the first again', () => {
  const report = { switches: [{ name: 't', title: '', options: [['0', '', ''], ['1', '', '']] }] };
  assert.deepEqual(
    [settled(report, { t: '1', other: 'x' }), settled(report, { t: '9' }), settled({}, { t: '1' })],
    [{ t: '1' }, { t: '0' }, {}],
  );
  assert.deepEqual([
    applies({ when: { t: '1' } }, { t: '1' }),
    applies({ when: { t: '1' } }, { t: '0' }),
    applies({}, { t: '0' }),
    applies({ when: { t: '1' } }, {}),
  ], [true, false, true, true]);
});

test('the address of a download is freed a second later', (t) => {
  const freed = t.mock.method(URL, 'revokeObjectURL');
  t.mock.timers.enable({ apis: ['setTimeout'] });
  globalThis.document = { createElement: () => ({ setAttribute() {}, click() {} }) };
  t.after(() => delete globalThis.document);
  download('{}', 'application/json', 'answer.json');
  t.mock.timers.tick(1000);
  assert.equal(freed.mock.callCount(), 1);
});
