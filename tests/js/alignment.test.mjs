// Two opened traces along their texts. That rows and facts are Python's is checked on whole traces by tests/test_js.py.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import {
  alignmentWords,
  answerOf,
  BRANCH,
  columnsOfTokens,
  commonOf,
  Opened,
} from '../../app/static/state/alignment.js';
import { buildLane } from '../../app/static/state/lane.js';
import { make, trace } from './fixture.mjs';

/** A run that writes words, each a token of its own, two in a round. */
function run(
  prompt,
  words,
  {
    target = 't',
    pair = 'embedded',
    ids = (word) => [...word].reduce((sum, letter) => 31 * sum + letter.codePointAt(0), 7) % 1e9,
    ...more
  } = {},
) {
  const events = [{
    kind: 'RunStarted',
    config: { temperature: 0, pair, drafter: 'block', max_new_tokens: 9, rule: 'ratio', seed: 0 },
    prompt,
    prompt_ids: [1],
    models: { target },
    device: 'cpu: X',
    dtype: 'fp32',
    threads: 1,
    started_at: '2026-11-23T10:00',
    lossless: true,
    ...more,
  }, { kind: 'PiecesSeen', pieces: Object.fromEntries(words.map((word) => [ids(word), word])) }];
  for (let i = 0; i < words.length; i += 2) {
    const [round, own] = [i / 2, words.slice(i, i + 2).map(ids)];
    const drafted = own.slice(0, -1);
    const tests = drafted.map((id, k) => make.test(k, id, true));
    events.push(...make.round(drafted, tests, own, { round }));
  }
  return { lane: buildLane(events), events };
}
const held = (a, b) => {
  const common = commonOf(a.lane, b.lane);
  return { common, columns: columnsOfTokens(a.lane, b.lane, common) };
};
const fileOf = (...runs) => ({
  title: '',
  lanes: Object.fromEntries(runs.map(({ events }, i) => [`lane${i}`, events])),
});
const said = (a, b) =>
  alignmentWords(answerOf({ a: { file: 'x', name: 'a', ...a }, b: { file: 'y', name: 'b', ...b } }))
    .join(' ');

test('after one prompt, of one target, token stands below token', () => {
  const [a, b] = [
    run('P', [' one', ' two', ' three']),
    run('P', [' one', ' 2', ' three', ' four']),
  ];
  const { common, columns } = held(a, b);
  assert.deepEqual([common.by, common.agree, common.parted], ['tokens', 1, 2]);
  assert.deepEqual(columns, { a: [1, 2, 3], b: [1, 2, 3, 4] });
  assert.match(said(a, b), /differ from token 2/);
  assert.match(said(a, a), /Both wrote the same 3 tokens/);
});

test('drawn texts must be equal only under match with one seed', () => {
  const drawn = (rule, seed) =>
    run('P', ['a'], { config: { temperature: 1, max_new_tokens: 9, rule, seed } });
  const must = (a, b) => answerOf({ a, b }).facts.must_be_equal;
  const [match, other, ratio] = [drawn('match', 1), drawn('match', 2), drawn('ratio', 1)];
  const found = [[match, match], [match, other], [match, ratio], [ratio, match]].map((pair) =>
    must(...pair)
  );
  assert.deepEqual(found, [true, false, false, false]);
});

test('tokens of two targets share a column where their words end together', () => {
  const [a, b] = [
    run('P', [' un', 'like', 'ly', ' so', 'x']),
    run('P', [' unlikely', ' s', 'o', 'y'], { target: 'other', pair: 'gpt2' }),
  ];
  const { common, columns } = held(a, b);
  assert.deepEqual([common.by, common.agree, common.target], ['texts', 12, false]);
  assert.deepEqual(columns, { a: [1, 1, 1, 2, 3], b: [1, 2, 2, 3] });
  assert.match(said(a, b), /The targets differ, and so do their tokens/);
  // the texts part inside a token
  const over = held(run('P', ['ab', 'cd']), run('P', ['abc', 'X'], { target: 'other' }));
  assert.deepEqual(over.columns, { a: [1, 2], b: [1, 2] });
});

test('texts of other prompts are aligned from their beginnings, and without words not at all', () => {
  const { common, columns } = held(run('Q: 1', [' yes', ' no']), run('Q: 2', [' yes', ' so']));
  assert.deepEqual([common.by, common.prompt, common.agree], ['texts', 4, 5]);
  assert.deepEqual(columns, { a: [1, 2], b: [1, 2] });
  const wordless = buildLane(
    run('P', ['a', 'b']).events.filter(({ kind }) => kind !== 'PiecesSeen'),
  );
  const against = (prompt) => commonOf(wordless, run(prompt, ['a']).lane).by;
  assert.deepEqual(
    [against('Q'), against('P')],
    ['nothing', 'tokens'],
    'ids say enough after one prompt',
  );
});

test('files are opened one after the other, and a wrong one takes nothing away', () => {
  const opened = new Opened();
  opened.add('x', fileOf(run('P', ['a', 'b'])));
  assert.equal(opened.answer, null, 'one lane is not two');
  opened.add('y', fileOf(run('P', ['a', 'c']), run('P', ['a', 'd'])));
  assert.deepEqual([opened.chosen, opened.answer.facts.labels.b], [
    { a: 0, b: 2 },
    'lane1 of y (block, temperature 0)',
  ]);
  const kept = opened.answer;
  const good = run('P', ['a', 'b']).events;
  for (
    const events of [
      good.filter(({ kind }) => kind !== 'Verified'),
      good.map((event) => event.kind === 'Committed' ? { ...event, ids: 7 } : event),
      good.map((event) => event.kind === 'RunStarted' ? { kind: 'RunStarted' } : event),
      good.slice(0, 2),
    ]
  ) {
    assert.throws(() => opened.add('z', { title: '', lanes: { a: events } }), /are inconsistent/);
  }
  assert.throws(() => opened.add('z', { title: '', lanes: { a: [] } }), /no events of a run/);
  assert.deepEqual([opened.answer, opened.lanes.length], [kept, 3]);
  opened.choose('b', 1);
  assert.match(opened.answer.facts.labels.b, /^lane0 of y/);
  assert.deepEqual(Object.keys(opened.trace.lanes), ['a', 'b']);
});

test('a run of a file goes on where the server has its pair, and else the page says why not', () => {
  const opened = new Opened();
  assert.match(opened.given('a', 1, ['embedded']).why, /no longer open/);
  const whole = run('P', ['a', 'b', 'c', 'd']);
  const nameless = trace.lanes.drafted.filter(({ kind }) => kind !== 'RunStarted');
  opened.add('x', fileOf(run('P', ['a', 'e']), whole));
  assert.deepEqual(opened.chosen, { a: 0, b: 1 }, 'of one file, its last two lanes');
  const { given, pair } = opened.given('b', 2, ['gpt2', 'embedded']);
  assert.equal(pair, 'embedded');
  const asked = JSON.parse(given);
  assert.deepEqual([asked.after, asked.prompt, asked.target], [
    whole.lane.ids.slice(0, 3),
    'P',
    't',
  ]);
  assert.match(opened.given('b', 2, ['gpt2']).why, /used the pair embedded/);
  assert.match(opened.given('b', 9, ['embedded']).why, /doesn’t contain all of that round/);
  const other = new Opened();
  other.add('y', fileOf(whole, { events: nameless }));
  assert.match(other.given('b', 1, ['embedded']).why, /has no settings/);
  const branch = { run: 'b', round: 1, position: 2, take: 5, token: 'z', tokens: 2, seed: 1 };
  const { events } = run('Paz', ['c', 'q']);
  assert.equal(opened.goOn(`${given} `, branch, events), false, 'nobody asked for it');
  const own = opened.given('b', 1, ['embedded']).given;
  assert.ok(opened.goOn(own, branch, events));
  const { facts, rows } = opened.answer;
  assert.deepEqual([
    facts.branch.run,
    facts.branch.instead_of,
    facts.branch.same,
    facts.branch.column,
    facts.columns[BRANCH],
  ], ['b', 'b', 1, 2, [3, 4]]);
  assert.deepEqual(
    rows.filter((row) => row.run === BRANCH).map((
      { position, milliseconds },
    ) => [position, milliseconds]),
    [[3, null]],
  );
  assert.ok(Object.hasOwn(opened.trace.lanes, BRANCH));
  opened.choose('a', 0);
  assert.equal(opened.answer.facts.branch, undefined, 'it belonged to the runs before');
});
