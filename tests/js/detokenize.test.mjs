// Words of ids. That they are Python's is checked on random pieces by tests/test_js.py.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { make, trace } from './fixture.mjs';
import { buildLane } from '../../app/static/state/lane.js';
import { isMessage, piece, sharePieces } from '../../app/static/state/detokenize.js';

test('lanes of one target share their words; without any, ids stay', () => {
  const silent = trace.lanes.drafted.filter((event) =>
    !['PiecesSeen', 'DenoiseStep'].includes(event.kind)
  );
  const lane = buildLane(silent);
  assert.ok(lane.wordless);
  assert.equal(lane.texts[0], `<${lane.ids[0]}>`);
  const speaker = buildLane(trace.lanes.vanilla);
  sharePieces([speaker, lane]);
  assert.ok(!lane.wordless);
  assert.equal(lane.texts.join(''), lane.finished.text);
  const stranger = buildLane(
    silent.map((event) =>
      event.kind === 'RunStarted' ? { ...event, models: { target: 'another' } } : event
    ),
  );
  sharePieces([speaker, stranger]);
  assert.ok(stranger.wordless, 'another target has other words');
});

test('an id without words is told by its number', () => {
  const lane = buildLane([
    { kind: 'PiecesSeen', pieces: { 1: ' a', 3: '' } },
    make.committed([1, 2, 3], ['target', 'target', 'target']),
  ]);
  assert.deepEqual(lane.texts, [' a', '<2>', '']);
  assert.deepEqual([piece(lane, 3), lane.wordless], ['', false]);
});

test('a prompt that the target read as a chat message is told from the beginning of a text', () => {
  const lane = (/** @type {string[]} */ ...pieces) =>
    buildLane([
      { kind: 'PiecesSeen', pieces: Object.fromEntries(pieces.map((one, i) => [i, one])) },
      {
        ...trace.lanes.vanilla.find(({ kind }) => kind === 'RunStarted'),
        prompt: 'Why café?',
        prompt_ids: pieces.map((_, i) => i),
      },
    ]);
  assert.ok(isMessage(lane('◇', 'user', '\n', 'Why', ' caf', '\\xc3', '\\xa9', '?', '∎', '\n')));
  assert.ok(
    !isMessage(lane('∎', 'Why', ' caf', '\\xc3', '\\xa9', '?')),
    'a document begins with the end of the one before',
  );
  assert.ok(
    !isMessage(buildLane(trace.lanes.vanilla.filter(({ kind }) => kind !== 'PiecesSeen'))),
    'nobody knows',
  );
  assert.ok(!isMessage(null));
});
