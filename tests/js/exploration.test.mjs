// The sandbox, the playground and the tables of the Explore tab.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { acceptance, aligned, alphasOf, bestGamma, biasWords, breakEven, budgetFor, busyMachine, columnsOf, costAt, csvOf, drawTokens, expectedTau, normalized, originWords, paperShape, progressWords, readCurve, sandbox, tauAround, trackOf, treeTau } from '../../app/static/state/exploration.js';
import { make } from './fixture.mjs';
import { useFakePage } from './dom.mjs';
import { buildLane } from '../../app/static/state/lane.js';

useFakePage();
const { VIEWS } = await import('../../app/static/views/explorations.js');

const near = (a, b, eps = 1e-9) => assert.ok(Math.abs(a - b) < eps, `${a} is not ${b}`);
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
  near(treeTau([0.9, 0.2], 3), 1 + 0.9 + 0.9 * 0.2 + 0.9 * 0.2 * 0.8); // the second place is unsure: two candidates there
  for (const alpha of [0.2, 0.5, 0.8]) assert.ok(treeTau(same(alpha, 16), 16) >= expectedTau(same(alpha, 16)) - 1e-12);
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
  for (const words of ['', '1 4', '1 4, 1 5', '0 4, 2 5', '1 4, 2 x', '1 4, 2 0', '1 2 3, 4 5']) assert.equal(readCurve(words), null, words);
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
  near(sandbox({ ...own, shape: 'drafts', count: 2 }, CURVE).tau, 1 + 0.99 + 0.99 * 0.75);
  near(sandbox({ ...own, shape: 'tree', count: 2 }, CURVE).tau, 1 + 0.9 + 0.45);
  assert.equal(breakEven(own, CURVE), breakEven({ ...BOX, gamma: 2 }, CURVE)); // of one α for all
});

test('the seconds that a share of right answers takes lie between two budgets', () => {
  const rows = [{ method: 'a', budget: 1, accuracy: 0.2 }, { method: 'b', budget: 1, accuracy: 0.5 }, { method: 'a', budget: 4, accuracy: 0.6 }];
  near(budgetFor(rows, 'a', 0.4), 2);
  near(budgetFor(rows, 'a', 0.6), 4);
  assert.deepEqual([budgetFor(rows, 'a', 0.1), budgetFor(rows, 'a', 0.7), budgetFor(rows, 'b', 0.5), budgetFor(rows, 'c', 0.5)], [1, null, 1, null]);
});

test('τ before and behind a border is over rounds; a part across it is neither', () => {
  const part = (context, rounds, tau, method = 'a') => ({ method, context, rounds, tau });
  const rows = [part(0, 10, 4), part(64, 30, 8), part(192, 5, 1), part(256, 10, 3), part(320, 0, null), part(0, 10, 9, 'b')];
  assert.deepEqual(tauAround(rows, 'a', 64, 256), [(40 + 240 + 5) / 45, 3]);
  assert.deepEqual(tauAround(rows, 'a', 100, 256), [7, 3]);
  assert.deepEqual(tauAround(rows, 'b', 64, 256), [9, null]);
});

test('of a rule that is not exact both truths are told: where it shows, and below which bias it hides', () => {
  const row = { rule: 'naive', runs: 8000, distance: 0.25, floor_high: 0.02, bias_low: 0.23, bias_high: 0.27, p_value: 1e-30 };
  assert.match(biasWords(row, 'coins'), /0\.250 away .* 8,000 runs.*: it shows\. The true bias is 0\.230 to 0\.270 \(99 %\), p < 10⁻⁶.*may hide/);
  const hidden = biasWords({ ...row, distance: 0.011, bias_low: 0, bias_high: 0.031, p_value: 0.3 }, 'mdlm');
  assert.match(hidden, /0\.011 away .*stays below 0\.020 .*you would not see it\. A bias of up to 0\.031 .*Models: coins/);
  assert.doesNotMatch(hidden, /it shows\./);
});

test('break even is where the speed-up is 1, and the best γ beats its neighbours', () => {
  const even = breakEven(BOX, CURVE);
  near(sandbox({ ...BOX, alpha: even }, CURVE).speedup, 1, 1e-6);
  assert.equal(breakEven({ ...BOX, draft: 100 }, CURVE), null);
  const [gamma, speedup] = bestGamma(BOX, CURVE);
  for (const other of [gamma - 1, gamma + 1]) if (other > 0) assert.ok(sandbox({ ...BOX, gamma: other }, CURVE).speedup <= speedup);
});

test('one token: Σ min(p, q) and the residual (papers: p = (.6, .3, .1), q = (.3, .6, .1))', () => {
  const { alpha, residual, kept } = acceptance([0.6, 0.3, 0.1], [0.3, 0.6, 0.1]);
  near(alpha, 0.7);
  assert.deepEqual(residual.map((value) => Math.round(value * 1e9) / 1e9), [1, 0, 0]);
  assert.deepEqual(kept, [0.3, 0.3, 0.1]);
  assert.equal(acceptance([0.5, 0.5], [0.5, 0.5]).residual, null);
  assert.deepEqual(normalized([1, 1, 2]), [0.25, 0.25, 0.5]);
  assert.deepEqual(normalized([0, 0]), [0.5, 0.5]);
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
  assert.equal(csvOf([{ a: '=1+1', b: -1.5, c: 'x=1' }, { a: '\tx', b: '-x', c: '@' }]), `a,b,c\n'=1+1,-1.5,x=1\n'\tx,'-x,'@\n`); // a spreadsheet calculates none
});

test('words', () => {
  const answer = { rows: [{ waiting: 0.5 }, { waiting: 0.1 }, {}], facts: {}, done: 3, total: 10, origin: { date: '2026-11-23T16:38+00:00' }, machine: { device: 'cpu: X', dtype: 'fp32', threads: 2 }, choice: {} };
  assert.match(busyMachine(answer, 0.2), /worst row: 0.50/);
  assert.equal(busyMachine(answer, 0.6), '');
  assert.equal(originWords(answer), '2026-11-23 16:38 UTC: cpu: X, fp32, 2 threads. 3 of 10 steps so far.');
  assert.equal(progressWords({ phase: 'exploring', message: '', doing: 'γ 4', done: 2, total: 9, left: 130 }), '2 of 9: γ 4, about 3 minutes left');
  assert.match(progressWords({ phase: 'waiting', message: '', left: null }), /A race or a comparison goes first/);
  assert.equal(progressWords({ phase: 'exploring', message: 'Measuring the first step', left: null }), 'Measuring the first step…');
  assert.equal(progressWords({ phase: 'loading', message: 'Loading', left: null }), 'Loading…');
});

test('the papers’ curves beside a map: the widest column, the best window of the fewest steps', () => {
  const cell = (gamma, steps, speedup, tau) => ({ gamma, steps, speedup, tau, tokens_per_second: 100 * speedup });
  const rows = [cell(2, 1, 1.2, 1.5), cell(10, 1, 1.5, 2), cell(10, 2, 1.4, 2.2), cell(10, 3, 1.3, 2.3), cell(16, 1, 1.45, 2), cell(16, 2, 1.1, 2.1), { gamma: 20, steps: 1, failed: 'x' }];
  const [tau, speed, best] = paperShape(rows).map(([, , here]) => here);
  assert.equal(tau, 'T 1: 2.00, T 2: 2.20, T 3: 2.30');
  assert.equal(speed, 'T 1: 150, T 2: 140, T 3: 130');
  assert.equal(best, '10; within 5 % of it: 10, 16');
  assert.deepEqual(paperShape(rows.slice(0, 1)), []);
});

/** Rounds by hand: the first refuses 8 and writes 9, the second keeps all and adds a bonus. */
const twoRounds = (last) => buildLane([
  make.started(0), make.draft([7, 8]), make.scored([0.4, 0.4]), make.verified([make.test(0, 7, true), make.test(1, 8, false)], { extra: 9, source: 'residual' }), make.committed([7, 9], ['draft', 'residual']),
  make.started(1), make.draft([5], { round: 1 }), make.scored([0.4], { round: 1 }), make.verified([make.test(0, 5, true)], { round: 1, extra: last }), make.committed([5, last], ['draft', 'bonus'], { round: 1 }),
]);

test('a track: each round begins once, and its refused draft stands at the token that the target wrote instead', () => {
  const track = trackOf(twoRounds(4), 11);
  assert.deepEqual(track.map(({ position, id, kind, round, begins, refused }) => [position, id, kind, round, begins, refused]), [
    [11, 7, 'draft', 0, true, null], [12, 9, 'residual', 0, false, 8], [13, 5, 'draft', 1, true, null], [14, 4, 'bonus', 1, false, null]]);
});

test('tracks share columns by position, and differ only where the run that they are held against has another token', () => {
  const columns = aligned({ a: trackOf(twoRounds(4)), b: trackOf(twoRounds(6)), branch: trackOf(twoRounds(6), 3) }, { b: 'a', branch: 'b' });
  assert.deepEqual(columns.map((cells) => Object.keys(cells).join(' ')), ['a b', 'a b', 'a b branch', 'a b branch', 'branch', 'branch']);
  assert.deepEqual(columns.map(({ b }) => b?.[0].differs), [false, false, false, true, undefined, undefined]);
  assert.deepEqual(columns.map(({ branch }) => branch?.[0].differs), [undefined, undefined, true, true, false, false]);
  assert.ok(columns.every(({ a }) => !a?.[0].differs));
});

const METHODS = { vanilla: { label: 'Vanilla', short: 'vanilla', colour: 'target', mark: 'circle' }, dflash: { label: 'Block diffusion', short: 'DFlash', colour: 'draft', mark: 'square' }, eagle: { label: 'EAGLE', short: 'EAGLE', colour: 'bonus', mark: 'cross' } };
const singleOf = (difference, noise) => ({ accuracy: 0.5 + difference, attempts: 8, seconds: 0.1, no_answer: 0, difference, noise });
const budgetAnswer = (others) => ({ rows: [], choice: { temperature: 0.5, given: 'all' }, facts: { votes: [], single: { vanilla: singleOf(0, null), ...others } } });

test('a budget has a verdict only over methods that were compared', () => {
  const words = (others) => VIEWS.budget.notes(budgetAnswer(others), METHODS).join(' ');
  assert.doesNotMatch(words({ dflash: singleOf(-0.5, null) }), /noise|±|chance/);
  assert.match(words({ dflash: singleOf(-0.5, null), eagle: singleOf(0.1, 0.2) }), /Within the 99 % noise of vanilla: EAGLE\./);
  assert.match(words({ dflash: singleOf(-0.5, 0.2), eagle: singleOf(0.1, 0.2) }), /Differs from vanilla by more than the 99 % noise: DFlash\./);
  assert.match(words({ dflash: singleOf(0, 0.2) }), /should be as often right/);
});

test('the lines of a budget are named and marked as the page marks methods', () => {
  const row = { method: 'dflash', budget: 1, accuracy: 0.5, low: 0.4, high: 0.6, attempts: 1, used_up: 0 };
  const { data } = VIEWS.budget.panels[0].figure({ answer: { rows: [row], facts: {} }, methods: METHODS }, { draft: '#123456' });
  assert.deepEqual([data[1].name, data[1].line.color, data[1].marker.symbol], ['DFlash', '#123456', ['square']]);
  assert.equal(VIEWS.budget.titleOf({}, 'dflash', METHODS), 'Block diffusion');
});

test('a method has its own colour and mark in every chart, whatever stands before it', () => {
  const c = { target: 'grey', draft: 'blue', bonus: 'green' };
  const panel = (view, key) => VIEWS[view].panels.find((one) => one.key === key).figure;
  const known = { label: '', speedup: 2, low: 1, high: 3, cost: 1, tau: 2, seconds_per_round: 0.01, alpha: 0.5, gamma: 8, nodes: 0, drafts: 1, rounds: 9, context: 0 };
  const rows = [{ ...known, method: 'eagle', drafter: 'eagle' }, { ...known, method: 'dflash', drafter: 'block' }];
  const facts = { lengths: { dflash: [[1, 2]], eagle: [[1, 2]] }, curve: [[1, 0.1]], drafts: { block: [[1, 0.1]] }, labels: { dflash: '', eagle: '' }, width: 64 };
  const looks = (view, key, wanted) => panel(view, key)({ answer: { rows, facts }, widget: { point: { cost: 1, tau: 1, speedup: 1 } }, methods: METHODS }, c).data.filter((one) => one.marker && wanted(one)).map(({ marker }) => [marker.color, marker.symbol]);
  const both = [['green', 'cross'], ['blue', 'square']];
  assert.deepEqual(looks('what-it-takes', 'plane', (one) => one.marker.symbol !== 'star'), both);
  assert.deepEqual(looks('what-it-takes', 'lengths', () => true), both);
  assert.deepEqual(looks('what-it-takes', 'passes', (one) => one.name.startsWith('block')), [['blue', 'square']]);
  assert.deepEqual(looks('length', 'tau', () => true), both);
});

test('an alignment has a verdict only with an interval of its change', () => {
  const words = (facts, rows = [{ step: 0, seconds: 0, tau: 2 }, { step: 10, seconds: 5, tau: 3 }]) => VIEWS.align.notes({ rows, choice: { drafter: 'mdlm' }, facts: { learnt: ['a'], held_out: ['b'], ...facts } }).join(' ');
  for (const change of [undefined, null]) assert.match(words({ change }), /τ went from 2\.00 to 3\.00\. The weights/);
  assert.match(words({ change: { value: 1.5, low: 0.9, high: 2 } }), /to 3\.00 \(× 1\.50, 95 % interval over these texts 0\.90 to 2\.00\)\. .*may be chance/);
  assert.match(words({ change: { value: 1.5, low: 1.2, high: 2 } }), /trained this way for hours/);
  assert.match(words({ change: { value: 0.8, low: 0.7, high: 0.9 } }), /can also harm/);
  const rows = (loss) => [{ step: 0, seconds: 0, tau: 2 }, { step: 10, seconds: 5, tau: 1.5, loss }];
  assert.match(words({ diverged: true }, rows(null)), /The loss became NaN/);
  const lost = words({ diverged: true, change: { value: 0.75, low: 0.7, high: 0.8 } }, rows(7));
  assert.match(lost, /less than two thirds .* survived .*diverged, and was stopped/);
  assert.doesNotMatch(lost, /can also harm/);
});

const colours = new Proxy({}, { get: (_, name) => String(name) });
const change = (declaration, tau, low) => ({ declaration, declared: 'z', change: '<x> & y', texts: 8, drafts: 80, tau, ratio: tau / 2, low, high: low === undefined ? undefined : 2 * low, alpha_at: [0.5, 0.25, null], alpha_low: [0.4, 0.2], alpha_high: [0.6, 0.3] });
const figureOf = (name, key, answer) => VIEWS[name].panels.find((panel) => panel.key === key).figure({ answer }, colours);

test('the doctor marks a change that brings more than chance, and names it as it is', () => {
  const rows = [change('', 2), change('shift', 3, 1.2), change('mask id', 2.4, 0.9), { declaration: 'dtype', change: 'bf16', texts: 0, failed: 'no number' }];
  const { data, layout: shape } = figureOf('doctor', 'tau', { rows });
  assert.deepEqual(data[0].marker.color, ['target', 'residual', 'draft-tint']);
  assert.deepEqual(data[0].x, [2, 3, 2.4]);
  near(data[0].error_x.arrayminus[1], 3 - 1.2 * 2);
  assert.deepEqual(shape.yaxis.ticktext, ['as declared', 'shift &lt;x&gt; &amp; y', 'mask id &lt;x&gt; &amp; y']);
  assert.equal(shape.shapes[0].x0, 2);
  assert.deepEqual(figureOf('doctor', 'alpha', { rows }).data.map((one) => [one.name, one.x]), [['as declared', [1, 2]], ['shift &lt;x&gt; &amp; y', [1, 2]]]);
  assert.match(figureOf('doctor', 'tau', { rows: [{ declaration: '', texts: 0 }] }), /as soon as/);
  const notes = VIEWS.doctor.notes({ facts: { told: ['The shift looks wrong.'], not_changed: { positions: 'they are relative' } } });
  assert.deepEqual(notes.slice(0, 2), ['The shift looks wrong.', 'Not changed: positions (they are relative).']);
});

test('the microscope draws each kind of pass, the runs themselves, and the band of rounding', () => {
  const row = (rows, place, lead, ulps) => ({ rows, place, lead, best: ' a', ulps_at: ulps });
  const rows = [row(1, 'alone', 1, [0, 0]), row(2, 'last', 1, [0, 3]), row(3, 'last', 2, [1, 2]), row(null, 'in run A', 1), row(null, 'in run B', -1)];
  const { data, layout: shape } = figureOf('diverge', 'leads', { rows, facts: { limit: 0.5 } });
  assert.deepEqual(data.map((one) => [one.name, one.y]), [['alone', [1]], ['last', [1, 2]], ['in run A', [1, 1]], ['in run B', [-1, -1]]]);
  assert.deepEqual([shape.shapes[0].y0, shape.shapes[0].y1], [-0.5, 0.5]);
  assert.deepEqual(figureOf('diverge', 'layers', { rows }).data.map((one) => [one.name, one.y]), [['last', [1, 3]]]);
  assert.match(figureOf('diverge', 'leads', { rows: [], facts: {} }), /as soon as/);
  const aligned = [{ same: true, at: [1, 1], a: 'Once', b: 'Once' }, { same: false, at: [5, 6], a: '', b: ' a' }];
  assert.deepEqual(VIEWS.diverge.beside.rows({ facts: { aligned } }), [['1', 'Once', 'the same'], ['5 / 6', '–', ' a']]);
  assert.deepEqual(VIEWS.diverge.beside.rows({ facts: {} }), []);
});

test('what is known of the embedded pair only is said of no other', () => {
  const part = (method, context, tau) => ({ method, context, tau, rounds: 20, seconds_per_token: 0.001 });
  const rows = [part('vanilla', 0, 1), part('vanilla', 64, 1), part('dflash', 0, 4), part('dflash', 256, 2)];
  const words = (choice) => VIEWS.length.notes({ rows, facts: { width: 64, labels: { dflash: 'Block diffusion' } }, choice }).join(' ');
  for (const choice of [{}, { pair: 'embedded' }]) assert.match(words(choice), /Beyond 256 tokens .* from 4\.00 to 2\.00/);
  assert.doesNotMatch(words({ pair: 'qwen3-dflash' }), /256/);
});
