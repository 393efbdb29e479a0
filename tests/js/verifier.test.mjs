// You are the verifier: what is shown before an answer, what after it, and the score.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { make, trace } from './fixture.mjs';
import { gridOf } from '../../app/static/state/grid.js';
import { verdictsOf } from '../../app/static/state/verdicts.js';
import { buildLane } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import { isJudged, Verifier } from '../../app/static/state/verifier.js';

const lane = buildLane(trace.lanes.drafted);
const word = (id) => `<${id}>`;
const kinds = (game) => verdictsOf(game.judgedView, lane).map(({ kind }) => kind);

test('every token that the rule tested is judged once, and agreeing with the rule is the whole score', () => {
  const game = new Verifier(lane, 0);
  const verdicts = lane.events.filter((one) => one.kind === 'Verified' && one.tests.length);
  for (const { round, tests } of verdicts) {
    assert.equal(game.view.round, round);
    for (const one of tests) {
      assert.equal(game.test.position, one.position);
      assert.deepEqual(game.tokens, [one.id]);
      game.judge(one.accepted);
      assert.equal(game.next(), one === tests.at(-1), 'the next round follows the last token');
    }
  }
  assert.deepEqual([game.agreed, game.judged], [
    game.judged,
    verdicts.flatMap((one) => one.tests).length,
  ]);
  assert.equal(game.view.round, verdicts[0].round, 'and then the first again');
});

test('nothing gives a verdict away before its answer', () => {
  const at = lane.rounds.find(({ accepted, drafted }) => accepted > 0 && accepted < drafted).round;
  const game = new Verifier(lane, at);
  assert.ok(kinds(game).every((kind) => kind === 'none'));
  assert.ok(!game.words(word).includes('p ='));
  assert.equal(game.score, '');
  assert.equal(game.next(), false);
  assert.equal(game.at, 0, 'there is no next token before an answer');
  game.judge(!game.test.accepted);
  game.judge(game.test.accepted); // too late
  assert.deepEqual([game.agreed, game.judged], [0, 1]);
  assert.deepEqual(kinds(game).map((kind) => kind === 'none').slice(0, 2), [false, true]);
  assert.match(game.words(word), /p = .*q = .*0 of 1/);
  const before = stateAt(lane, lane.events.findIndex((one) => one.round === at)).tokens.length;
  game.next();
  assert.ok(
    game.before.endsWith(lane.texts.slice(0, before + 1).join('').replace(/\s+/g, ' ').slice(-20)),
  );
  assert.ok(
    game.time < lane.times[
      lane.events.findIndex((one) => one.kind === 'TargetScored' && one.round === at)
    ],
  );
});

test('of a tree all tokens at one depth are judged together, and its way is not drawn ahead', () => {
  const walk = [
    make.test(0, 8, true, { kind: 'tree', draw: null, wanted: 8 }),
    make.test(1, 9, false, { kind: 'tree', draw: null, wanted: 4 }),
  ];
  const tree = buildLane(make.round([7, 8, 9], walk, [8, 4], {
    draft: { parents: [-1, -1, 1] },
    verified: { path: [1], source: 'target' },
  }));
  const game = new Verifier(tree, 0);
  assert.deepEqual(game.tokens, [7, 8]);
  const walked = () =>
    gridOf(game.judgedView, tree, 8).flatMap(({ cells }) =>
      cells.flatMap(({ node, kind }) => kind === 'sd-cell-fresh' ? [node] : [])
    );
  assert.deepEqual(walked(), []);
  game.judge(true);
  assert.deepEqual(walked(), [1]);
  assert.equal(game.agreed, 1);
  game.next();
  assert.deepEqual([game.tokens, game.last], [[9], true]);
  assert.ok(!isJudged(buildLane(trace.lanes.vanilla)) && isJudged(tree) && !isJudged(null));
});
