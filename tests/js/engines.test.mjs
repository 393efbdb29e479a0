// "Which engine is broken?": an answer is shown only after a guess.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { test } from 'node:test';

import { Engines } from '../../app/static/views/engines.js';

const file = new URL('../../assets/explore/losslessness.engines.json', import.meta.url);
const answer = JSON.parse(readFileSync(file, 'utf8'));

test('the first guess counts, and is judged by what is hidden', () => {
  const game = new Engines(() => {});
  game.show(answer);
  const { hidden } = answer.facts;
  assert.equal(game.judged('A'), undefined);
  game.guess('A', hidden.A);
  game.guess('B', hidden.A);
  game.guess('B', hidden.B);
  assert.deepEqual([game.judged('A'), game.judged('B')], [true, false]);
  game.show({ ...answer, rows: answer.rows.slice(7) });
  assert.equal(game.judged('A'), true, 'the same engines: guesses stay while more is measured');
  game.show({
    ...answer,
    facts: { ...answer.facts, hidden: { ...hidden, A: hidden.B, B: hidden.A } },
  });
  assert.equal(game.judged('A'), undefined, 'others: a new game');
});
