// The stage: what its tiles may show at each moment, what a round took, and the same block drafted
// with other windows and steps.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { make, near, trace } from './fixture.mjs';
import {
  aloneSeconds,
  captionOf,
  resultsOf,
  stateAfter,
  tailOf,
  tilesOf,
} from '../../app/static/state/blanks.js';
import { longest, readBlock, stepsOf, stepsWords } from '../../app/static/state/block.js';
import { buildLane, extend } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import { stagedRound } from '../../app/static/state/stops.js';
import { framesOf } from '../../app/static/views/card.js';

const lane = buildLane(trace.lanes.drafted);
const vanilla = buildLane(trace.lanes.vanilla);
const kinds = (tiles) => tiles.map(({ kind }) => kind);
const mixed = lane.rounds.find(({ accepted, drafted }) => accepted > 0 && accepted < drafted).round;

test('a blank is filled by the step that reveals it, and no later event shows before its time', () => {
  for (const index of lane.stops) {
    const { window } = stateAt(lane, index + 1);
    const known = window.draft ?? window.passes.at(-1);
    const tiles = tilesOf(lane, window);
    if (!window.size) continue;
    assert.equal(
      tiles.filter(({ kind }) => kind === 'blank').length,
      known ? known.ids.filter((id) => id === null).length : window.size,
    );
    const judged = kinds(tiles).some((kind) => ['right', 'wrong', 'own', 'cut'].includes(kind));
    assert.equal(judged, Boolean(window.verified));
  }
});

test('results appear from left to right: tests, then the target’s own token in place of the rejected one', () => {
  const { window } = stateAfter(lane, mixed);
  const { accepted, drafted } = lane.rounds[mixed];
  assert.equal(resultsOf(window), accepted + 2);
  const seen = (checked) => kinds(tilesOf(lane, window, checked));
  assert.ok(!seen(0).some((kind) => ['right', 'wrong', 'own', 'cut'].includes(kind)));
  assert.equal(seen(accepted).filter((kind) => kind === 'right').length, accepted);
  assert.equal(seen(accepted + 1)[accepted], 'wrong');
  const last = seen(accepted + 2);
  assert.deepEqual([last[accepted], last.length], ['own', drafted]);
  assert.ok(last.slice(accepted + 1).every((kind) => kind === 'cut'));
});

test('the same tokens alone take the time that the other lane measured for them', () => {
  const ends = vanilla.rounds.map(({ committed }) => committed.at);
  near(aloneSeconds(vanilla, 2, 3), ends[4] - ends[1]);
  assert.equal(aloneSeconds(vanilla, ends.length - 1, 2), null, 'it has not written them');
  assert.equal(aloneSeconds(lane, 0, 1), null, 'a lane that drafts is no baseline');
  const { window } = stateAfter(lane, mixed);
  const { draft, scored, verified } = window;
  const seconds = draft.span.seconds + scored.span.seconds + verified.span.seconds;
  const milliseconds = Number(captionOf(lane, window, null).match(/: ([\d.]+) ms/)?.[1]);
  near(milliseconds, 1000 * seconds, 0.06);
});

test('the staged round is an early mixed one, but not the first', () => {
  const rounds = (...accepted) =>
    accepted.map((count, round) => ({ round, size: 4, drafted: 4, accepted: count }));
  const staged = (...accepted) => stagedRound({ rounds: rounds(...accepted) });
  assert.deepEqual(
    [staged(2, 1, 4, 3, 2), staged(3, 4, 1), staged(2, 4), staged(1), staged()],
    [3, 1, 1, 0, -1],
  );
  assert.equal(stagedRound(vanilla), -1);
});

test('a clip has a frame for each step and each result, and ends with the number', () => {
  const frames = framesOf({ lane, baseline: vanilla, number: '1.50×' });
  const round = lane.rounds[stagedRound(lane)];
  const { window } = stateAfter(lane, round.round);
  assert.equal(frames.length, 1 + round.steps + 1 + (resultsOf(window) + 1) + 1 + 1);
  assert.deepEqual(frames.map(({ number }) => number).filter(Boolean), ['1.50×']);
  const text = lane.texts.slice(0, round.first).join('').replace(/\s+/g, ' ');
  assert.ok(text && frames.every(({ before }) => before === tailOf(text)), 'the text before it');
});

test('a block is compared by tokens per second', () => {
  const round = (accepted, seconds) => {
    const events = make.round([1, 2], [make.test(0, 1, true), make.test(1, 2, accepted > 1)], [
      1,
      2,
    ]);
    const found = events.find(({ kind }) => kind === 'DraftReady');
    found.span = { ...found.span, seconds };
    return [make.started(0), ...events.slice(1)];
  };
  const block = readBlock({ '1/1': round(1, 0.01), '2/1': round(1, 0.01), '2/2': round(2, 0.011) });
  assert.deepEqual([longest(block), stepsOf(block, 2)], [2, [1, 2]]);
  assert.ok(
    stepsWords(block.get('2/2'), block.get('2/1'), 1).includes('slower'),
  );
  const dear = readBlock({ '2/1': round(1, 0.01), '2/2': round(2, 9) });
  assert.ok(stepsWords(dear.get('2/2'), dear.get('2/1'), 1).includes('faster'));
});

test('in a race under way, a round learns its place in the text when it is committed', () => {
  const { events } = lane;
  const growing = buildLane([]);
  let state = null;
  for (const event of events) {
    extend(growing, [event]);
    state = stateAt(growing, growing.events.length, state);
  }
  const whole = stateAt(lane, events.length).window;
  assert.ok(whole.first > 0);
  assert.equal(state.window.first, whole.first);
});

test('a step says which blanks it fills', () => {
  const words = (order, steps) => {
    const header = { ...lane.header, config: { ...lane.header.config, order } };
    const round = { ...stateAfter(lane, mixed).window, draft: null, steps };
    return captionOf({ ...lane, header }, round, null);
  };
  const said = ['left_to_right', 'random', 'max_prob'].map((order) => words(order, 4));
  assert.equal(new Set(said).size, 3, 'reveal orders differ');
  assert.equal(words('left_to_right', 1), words('max_prob', 1), 'one step fills all');
});
