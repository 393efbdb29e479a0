// What tests/test_js.py hands to the node tests: a race of two lanes as a trace, how lanes look, and
// what is claimed about texts.
import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';

import { DEFAULTS } from '../../app/static/state/declared.js';
import { parse } from '../../app/static/state/trace.js';

export const { trace: source, looks, exactness } = JSON.parse(
  readFileSync(process.env.SPECDIFF_FIXTURE, 'utf8'),
);
export const near = (a, b, eps = 1e-9) => assert.ok(Math.abs(a - b) < eps, `${a} is not ${b}`);
export const { methods } = looks;
export const trace = parse(source);

const span = { name: 'draft', start: 0, seconds: 0.001 };
const test = (position, id, accepted, more = {}) => ({
  position,
  id,
  p: 0.4,
  q: 0.8,
  threshold: 0.5,
  draw: accepted ? 0.1 : 0.9,
  wanted: null,
  accepted,
  kind: 'ratio',
  ...more,
});

/** Events of one round by hand: whatever a test does not care about is filled in. */
export const make = {
  test,
  /** All of them: the drafted tokens, their tests, and the tokens that the round adds to the text. */
  round: (drafted, tests, ids, { round = 0, passes = [], draft, scored, verified } = {}) => {
    const verdict = make.verified(tests, { round, extra: ids.at(-1), ...verified });
    return [
      make.started(round),
      ...passes,
      make.draft(drafted, { round, ...draft }),
      make.scored(drafted.map(() => 0.4), { round, ...scored }),
      verdict,
      make.committed(ids, ids.map((_, i) => i < verdict.accepted ? 'draft' : verdict.source), {
        round,
      }),
    ];
  },
  started: (round = 0) => ({ kind: 'RoundStarted', round, length: 3 + round, anchor: 5 }),
  step: (ids, revealed, more = {}) => ({
    kind: 'DenoiseStep',
    round: 0,
    step: 0,
    ids,
    revealed,
    confidence: ids.map(() => 0.5),
    candidates: ids.map(() => []),
    span,
    ...more,
  }),
  draft: (ids, more = {}) => ({
    kind: 'DraftReady',
    round: 0,
    ids,
    q: ids.map(() => 0.8),
    proposal: 'conditionals',
    nfe: 1,
    span,
    ...DEFAULTS.DraftReady,
    ...more,
  }),
  scored: (p, more = {}) => ({ kind: 'TargetScored', round: 0, p, candidates: [], span, ...more }),
  verified: (tests, more = {}) => ({
    kind: 'Verified',
    round: 0,
    tests,
    accepted: tests.filter((one) => one.accepted).length,
    extra: 4,
    source: 'bonus',
    extra_candidates: [],
    span,
    ...DEFAULTS.Verified,
    ...more,
  }),
  committed: (ids, sources, more = {}) => ({
    kind: 'Committed',
    round: 0,
    ids,
    sources,
    total: ids.length,
    at: 0.004,
    ...more,
  }),
  finished: (more = {}) => ({
    kind: 'Finished',
    reason: 'length',
    text: '',
    ids: [],
    rounds: 1,
    seconds: 0.005,
    ...DEFAULTS.Finished,
    ...more,
  }),
};
