// The result of a race: the number, what it is called, and when it may be shown.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { exactness, looks, make, trace } from './fixture.mjs';
import { numbers, outcome, sameText, verdict } from '../../app/static/state/headline.js';
import { leadOf, leadWords } from '../../app/static/state/lead.js';
import { whySlow } from '../../app/static/state/slow.js';
import { buildLane } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import { Playhead } from '../../app/static/state/playhead.js';
import { markOf, ranksOf } from '../../app/static/state/race.js';
import { Stage } from '../../app/static/state/stage.js';

const lanes = { drafted: buildLane(trace.lanes.drafted), vanilla: buildLane(trace.lanes.vanilla) };
const changed = (lane, kind, change) =>
  buildLane(lane.events.map((one) => one.kind === kind ? { ...one, ...change(one) } : one));
const busy = (lane) => changed(lane, 'Finished', ({ seconds }) => ({ waited_seconds: seconds }));
const without = (lane) => buildLane(lane.events.filter((event) => event.kind !== 'Finished'));

/** A race of two lanes, and what is shown of it at a time. */
function sceneAt(pair, t) {
  const stage = new Stage(['vanilla', 'drafted'], pair, { ...looks, crowded: 0.2 });
  const player = new Playhead({ duration: stage.duration, stops: [] });
  player.seek(t);
  return { stage, scene: stage.scene(player, 'drafted') };
}

/** The headline of a race at a share of the drafted lane's time; by default at its end. */
function headline(pair, share = Infinity) {
  const { stage, scene } = sceneAt(pair, share * lanes.drafted.duration);
  const [states, clocks] = [scene.states, scene.clocks].map((of) => stage.pair(of, 'drafted'));
  const race = verdict(pair, stage.doubt('drafted'), exactness);
  const [speed, words, slower = false] = outcome(pair, clocks, race, false);
  return {
    race,
    speed,
    words,
    slower,
    same: sameText(pair, states, clocks),
    numbers: numbers(pair, states),
  };
}

test('the headline is the measured speed-up, once the replay is over', () => {
  const final = lanes.vanilla.finished.seconds / lanes.drafted.finished.seconds; // of equally many tokens
  const { speed, race } = headline(lanes);
  assert.equal(speed, `${final.toFixed(2)}×`);
  assert.ok(race.predicted && !race.busy);
  const half = headline(lanes, 0.5);
  assert.match(half.words, /so far/);
  assert.notEqual(half.speed, speed);
  assert.equal(headline(lanes, 0.1).speed, '–', 'a few tokens say little');
  const [tau, v, c, passes, value] = half.race.predicted.match(/\d+\.\d+/g).map(Number);
  assert.equal(tau.toFixed(2), headline(lanes).numbers.tau, 'of the whole run, at any moment');
  assert.ok(Math.abs(tau / (v + c * passes) / value - 1) < 0.02, 'the formula gives its number');
});

test('the first sentence keeps its numbers for the end, and leaves out a time that cannot be trusted', () => {
  const { drafted, vanilla } = lanes;
  const speed = `${(vanilla.finished.seconds / drafted.finished.seconds).toFixed(2)}×`;
  const { before, after } = leadWords(drafted, vanilla, 'A drafter', 2, true);
  assert.ok(!/\d{2}/.test(before) && after.includes(speed) && after.includes('40 tokens'));
  assert.ok(!leadWords(drafted, vanilla, 'A drafter', 2, false).after.includes('×'));
  const grown = drafted.events.map((event) =>
    event.kind === 'DraftReady' ? { ...event, parents: event.ids.map((_, i) => i - 1) } : event
  );
  assert.match(
    leadWords(buildLane(grown), vanilla, 'A drafter', 2, true).before,
    /guesses trees of up to \d+ tokens,/,
    'of a tree its nodes are counted, not its depth, which looks like a wrong γ',
  );
  assert.doesNotMatch(
    leadWords(vanilla, vanilla, 'A drafter', 2, true).after,
    /in (\d+) passes instead of \1\b/,
    'no passes are saved',
  );
  const many = leadWords(drafted, vanilla, 'EAGLE', 6, true);
  assert.ok(
    !many.before.includes('EAGLE') && many.after.includes('EAGLE'),
    'the winner is not named before the end',
  );
  const named = { drafted: { label: 'Markov head (DSpark)', short: 'DSpark' } };
  const stage = {
    first: 'drafted',
    names: ['vanilla', 'drafted', 'absent'],
    lanes: { ...lanes, absent: null },
    baseline: 'vanilla',
    named,
    disturbed: () => [],
  };
  assert.match(leadOf({ stage }).after, /DSpark/);
  assert.doesNotMatch(leadOf({ stage }).after, /Markov/, 'the table has the long name');
  const beside = leadWords(drafted, vanilla, 'EAGLE', 6, true, ['tiny, served at host:1']).before;
  assert.match(beside, /^5 lanes .*same target model, .*its own: tiny, served at host:1/);
  assert.deepEqual(leadWords(without(drafted), vanilla, 'A drafter', 2, true), {});
  assert.match(leadWords(vanilla, drafted, 'A drafter', 2, true).after, /slower: 0\.\d\d×/);
});

test('a lane of an attached server is what came and when, and what it reports; nothing is claimed for it', () => {
  const quoted = {
    steps: 8,
    drafted: 24,
    accepted: 12,
    tokens_per_second: 99.5,
    drafts: 8,
    by_position: [6, 4, 2],
  };
  const kinds = ['RunStarted', 'PiecesSeen', 'Committed', 'Finished'];
  const served = (report) =>
    buildLane(
      lanes.vanilla.events.filter(({ kind }) => kinds.includes(kind)).map((event) =>
        ({
          RunStarted: {
            ...event,
            server: 'vLLM at host:1',
            lossless: false,
            exactness: 'unchecked',
            threads: 0,
            config: { temperature: 0 },
          },
          Committed: { ...event, sources: event.ids?.map(() => 'server') },
          Finished: { ...event, quoted: report },
        })[event.kind] ?? event
      ),
    );
  const pair = { ...lanes, drafted: served(quoted) };
  const { sums } = stateAt(pair.drafted, Infinity);
  assert.deepEqual([sums.rounds, sums.committed], [0, lanes.vanilla.ids.length]);
  const found = headline(pair);
  for (const part of ['τ 2.50', '12 of 24', '75 % 50 % 25 %', '99.5 tokens/s']) {
    assert.ok(found.race.claim.includes(part), part);
  }
  assert.deepEqual(found.numbers, { tau: '–', alpha: '–', calls: '–', nfe: '–', against: '' });
  assert.doesNotMatch(found.same, /^=/, 'its text is not compared');
  const silent = headline({ ...lanes, drafted: served(null) });
  assert.match(silent.race.claim, /nothing about its drafts/);
});

test('what is claimed about a text depends on its rule, then on its exactness', () => {
  const claim = (header) => {
    const drafted = changed(lanes.drafted, 'RunStarted', () => header);
    return verdict({ ...lanes, drafted }, '', exactness).claim;
  };
  const { bitwise, biased, '': plain } = exactness;
  const greedy = { temperature: 0, rule: 'ratio', drafter: 'block' };
  assert.equal(claim({ lossless: true, exactness: 'bitwise', config: greedy }), bitwise);
  assert.equal(claim({ lossless: true, exactness: 'of a later version' }), plain);
  const draws = (rule) => ({
    lossless: true,
    exactness: 'bitwise',
    config: { temperature: 1, rule, drafter: 'block' },
  });
  assert.equal(claim(draws('ratio')), plain, 'two draws of one distribution: the texts differ');
  assert.equal(claim(draws('match')), bitwise);
  assert.equal(claim({ lossless: false, exactness: 'bitwise' }), biased);
});

test('a place is shown when its lane has come in, and before only how it stands', () => {
  const { ends } = sceneAt(lanes, 0).stage;
  const at = (t) => {
    const { rows } = sceneAt(lanes, t).scene;
    return markOf(lanes.drafted, rows.drafted, ends.drafted, ranksOf(rows).drafted, 'absent');
  };
  assert.equal(at(0).place, '', 'nobody leads at the start');
  assert.deepEqual(
    [at(lanes.drafted.duration / 2).place, at(lanes.drafted.duration / 2).kind],
    ['1', 'now'],
  );
  assert.deepEqual([at(99).place, at(99).kind], ['1', 'first']);
  assert.equal(markOf(null, null, undefined, null, 'absent').words, 'absent');
});

/** The first events of a lane, as Stop leaves them. */
const stoppedAt = (lane, count) =>
  buildLane([
    ...lane.events.filter(({ kind }) => kind !== 'Finished').slice(0, count),
    { ...lane.finished, reason: 'stopped', ids: [] },
  ]);

test('stopped lanes are compared up to there, with a text worth comparing; others claim nothing', () => {
  const { drafted, vanilla } = lanes;
  const none = stoppedAt(drafted, 3); // its header, its pieces, the prompt
  assert.equal(leadWords(none, vanilla, 'A drafter', 2, true).after, undefined);
  assert.equal(leadWords(none, busy(vanilla), 'A drafter', 2, false).after, undefined);
  assert.doesNotMatch(headline({ drafted: none, vanilla: busy(vanilla) }).speed, /:/);
  const cut = (lane) => {
    const kept = lane.events.filter(({ kind }, i) =>
      kind !== 'Finished' && lane.times[i] <= 0.6 * drafted.duration
    );
    const seconds = 0.6 * drafted.duration;
    return buildLane([...kept, { ...lane.finished, reason: 'stopped', seconds, ids: [] }]);
  };
  const pair = { drafted: cut(drafted), vanilla: cut(vanilla) };
  const [fast, slow] = [pair.drafted, pair.vanilla].map((lane) => lane.texts.length);
  assert.ok(fast > slow && slow >= 8);
  assert.equal(verdict(pair, '', exactness).final, fast / slow, 'both ran equally long');
  assert.doesNotMatch(verdict(pair, '', exactness).predicted, /whole run/);
  assert.match(headline(pair).words, /stopped/);
  const race = verdict({ drafted: none, vanilla }, '', exactness);
  assert.equal(race.claim, '');
  const nothing = { drafted: null, vanilla: stoppedAt(vanilla, 3) };
  const clocks = { drafted: null, vanilla: null };
  const [speed] = outcome(nothing, clocks, race, true);
  assert.equal(
    outcome(nothing, clocks, race, false, 'run', 'Not started yet.')[1],
    'Not started yet.',
  );
  assert.doesNotMatch(speed, /×/);
});

test('a disturbed clock sells no loss as a win: the drafter’s passes count, and slower is said', () => {
  const { drafted, vanilla } = lanes;
  const late = { seconds: 3 * vanilla.duration, waited_seconds: 3 * vanilla.duration };
  const slow = changed(drafted, 'Finished', () => late);
  const { speed, words } = headline({ drafted: slow, vanilla });
  assert.match(speed, /^\d+ passes?$/);
  assert.match(words, new RegExp(`needs ${drafted.texts.length} `));
  assert.match(words, /plus \d+ drafter passes/);
  assert.match(words, /slower/);
  assert.match(
    leadWords(slow, vanilla, 'A drafter', 2, false).after,
    /plus \d+ drafter passes; slower/,
  );
  assert.doesNotMatch(headline({ drafted: busy(drafted), vanilla }).words, /slower/);
});

// Rounds with as many tokens as `accepted` says and one of the target's own; passes last as long as `by` says.
function slowed(accepted, { draft = 0.1, score = 1, prefill = 0.1, calls = 10 }) {
  const by = { prefill, draft, score, verify: 0, other: 0 };
  const span = (seconds) => ({ name: 'draft', start: 0, seconds });
  const ids = (count) => Array.from({ length: count }, (_, i) => i);
  return buildLane([
    { kind: 'RunStarted', config: { drafter: calls ? 'block' : 'none' } },
    ...accepted.flatMap((count, round) => [
      make.started(round),
      ...(calls ? [make.draft(ids(4), { round, nfe: calls, span: span(draft) })] : []),
      make.scored([], { round, span: span(score) }),
      make.verified(ids(calls ? count + 1 : 0).map((i) => make.test(i, i, i < count)), { round }),
      make.committed(ids(count + 1), ids(count + 1).map(() => 'draft'), { round }),
    ]),
    make.finished({
      rounds: accepted.length,
      seconds: prefill + accepted.length * (draft + score),
      seconds_by: Object.fromEntries(
        Object.entries(by).map((
          [name, each],
        ) => [name, name === 'prefill' ? each : each * accepted.length]),
      ),
    }),
  ]);
}

test('a slower lane says which of its costs slows it most, and where that shows', () => {
  const vanilla = (tokens, prefill = 0.1) =>
    slowed(Array(tokens).fill(0), { draft: 0, prefill, calls: 0 });
  const said = (accepted, costs, base = vanilla(accepted.reduce((sum, one) => sum + one + 1, 0))) =>
    whySlow(slowed(accepted, costs), base);
  assert.equal(said([3, 3, 3, 3], {}), null, 'it is faster');
  const dear = said([3, 3, 3, 3], { draft: 4 });
  assert.match(dear.words, /Drafting takes 80 %.*40 drafter passes, each as long as 0\.4 vanilla/);
  assert.match(
    said([3, 3, 3, 3], { score: 5 }).words,
    /verifying pass.*5 vanilla passes.*5 tokens/,
  );
  const rejected = said([2, 0, 0, 0, 0], { draft: 0.5 });
  assert.match(rejected.words, /first drafted token in 4 of 5 rounds/);
  assert.equal(rejected.round, 1, 'the first of them');
  const close = said([2, 0, 0, 0, 0], { draft: 0.5, score: 3, prefill: 40 }, vanilla(7, 40));
  assert.match(close.words, /verifying pass/, 'rejections cost 4/3 of 7 s of passes, no prompt');
  assert.match(said([1], { prefill: 40 }, vanilla(2, 40)).words, /prompt takes 9\d %.*2 tokens/);
  assert.notEqual(dear.question, said([1], { prefill: 40 }, vanilla(2, 40)).question);
  assert.equal(whySlow(without(lanes.drafted), lanes.vanilla), null);
  assert.equal(whySlow(null, lanes.vanilla), null);
});
