// What happened at one position of a round, in words. Pure.

import { TEST_KINDS } from './declared.js';
import { inspected } from './inspect.js';
import { exact, plural, ratio, testWords } from './format.js';
/** @import { Inspected } from './inspect.js' */
/** @import { PartialRound } from './progress.js' */

/** @typedef {(id: number | null) => string} Word a token in a sentence */

/** Describe a position in a sentence or two, including why a token was rejected.
 *  @param {Inspected} what @param {boolean} judged whether the round's verdict is known
 *  @param {Word} word */
export const story = (what, greedy, judged, word) =>
  [event(what, greedy, judged, word), why(what, greedy, word)].filter(Boolean).join(' ');

/** Why a round accepts nothing, if so. @param {PartialRound | null} view @param {Word} word */
export const whyNothing = (view, greedy, word) =>
  view?.verified && view.drafted && !view.verified.accepted
    ? why(inspected(view, 0, greedy), greedy, word)
    : '';

const SURE = 0.5; // the probability from which a model is called sure, or a test likely to pass

/** A lower bound of the entropy in nats, assuming that no missing token is likelier than the
 *  recorded ones. @param {Inspected} what */
function entropy({ rows, options }) {
  const probs = rows.flatMap(({ id, p }) => id !== null && p && !options.includes(id) ? [p] : []);
  const least = Math.min(1, ...probs);
  return -rows.reduce((sum, { id, p }) => sum + (p ? p * Math.log(id === null ? least : p) : 0), 0);
}

/** Why the drafted token is rejected, if known. @param {Inspected} what @param {Word} word */
function why(what, greedy, word) {
  const { test, rows, drafted, options, holds } = what;
  if (!test || test.accepted) return '';
  const chance = TEST_KINDS[test.kind].draws ? test.threshold : test.p;
  if (!greedy && chance >= SURE) {
    return `It was chance: ${Math.round(100 * chance)} of 100 draws would accept it.`;
  }
  const draftedRows = rows.filter(({ id }) => id === drafted || options.includes(Number(id)));
  const [guess] = draftedRows.sort((a, b) => (b.q ?? 0) - (a.q ?? 0));
  const [q, p] = [guess?.q ?? null, guess?.p ?? (greedy ? null : test.p)];
  const sure = q !== null && q >= SURE;
  const likely = holds === 'all' ? rows[0] : null;
  const best = likely?.p ? `${word(likely.id)}, p = ${ratio(likely.p)}` : '';
  if (likely?.p && likely.p < SURE && (greedy || !sure)) {
    return `The target was unsure: its likeliest token is ${best}, and its entropy at least ` +
      `${ratio(entropy(what), 1)} nats.`;
  }
  const prefers = best && likely !== guess ? `the target prefers ${best}` : '';
  if (q === null) return prefers && `T${prefers.slice(1)}.`;
  if (!sure) {
    return `The drafter was unsure: its token has q = ${ratio(q)}${prefers && `; ${prefers}`}.`;
  }
  const gives = p === null ? 'the target has likelier ones' : `the target gives it p = ${ratio(p)}`;
  return `The drafter gives its token q = ${ratio(q)}; ${gives}${
    prefers && ` and prefers ${best}`
  }.`;
}

/** @param {Inspected} what @param {Word} word */
function event(what, greedy, judged, word) {
  const { test, extra, tree, rows } = what;
  if (!rows.length && !test && extra === null) {
    return judged && tree
      ? 'Not tested: the target’s walk ended before it.'
      : 'Nothing is recorded for this position yet. Step forward, or choose a later round.';
  }
  if (!test) return untested(what, judged, word);
  if (TEST_KINDS[test.kind].walks) return walked(what, greedy, word);
  const instead = extra === null || test.accepted
    ? ''
    : ` The target wrote ${word(extra)} instead.`;
  const verdict = test.accepted ? '✓ Accepted' : '✕ Rejected';
  return `${verdict}: ${testWords(test, greedy)}.${instead}`;
}

/** @param {Inspected} what @param {Word} word */
function untested({ extra, source, tree, options, reached, rows }, judged, word) {
  if (extra !== null) {
    const p = rows.find(({ id }) => id === extra)?.p ?? null;
    const why = source === 'bonus' && !options.length
      ? 'nothing was drafted here, so the token is the target’s own'
      : 'it is the target’s own token';
    return `The target wrote ${word(extra)}${p === null ? '' : `, p = ${exact(p)}`}: ${why}.`;
  }
  if (!tree || !judged) {
    return 'Not tested: an earlier token was rejected, or the test is still to come.';
  }
  return reached
    ? 'Not tested: another draft was chosen, or another token was accepted here first.'
    : 'Not tested: the target’s walk doesn’t reach it.';
}

/** @param {Inspected} what tested by a step of a walk down a tree @param {Word} word */
function walked({ test, drafted, options }, greedy, word) {
  if (!test) return '';
  const mismatch = test.accepted && drafted !== null && drafted !== test.wanted
    ? `, not ${word(drafted)}`
    : '';
  const single = options.length === 1;
  const none = single
    ? 'another token is drafted here'
    : 'none of the tokens drafted here is the same';
  const then = test.accepted
    ? 'it is drafted here, so the walk continues from it'
    : `${none}, so the walk ends and the target writes it`;
  const verdict = test.accepted && !mismatch ? '✓ Accepted' : '✕ Rejected';
  if (greedy) {
    return `${verdict}: at temperature 0 the target takes its likeliest token, ` +
      `${word(test.wanted)}${mismatch}; ${then}.`;
  }
  const drawn = `the ${single ? 'token' : plural(options.length, 'token')} drafted here ` +
    `${single ? 'has' : 'have together'} p = ${exact(test.threshold)}`;
  return `${verdict}: ${drawn}. The target drew ${word(test.wanted)}${mismatch}; ${then}.`;
}

/** What p and q are here, and what the trace lacks. @param {Inspected} what */
export function aside(what, greedy, judged) {
  const { rows, test, tree, certain, holds } = what;
  if (!rows.length && !test && what.extra === null) return '';
  const softmax = holds === 'all'
    ? 'These are the probabilities at temperature 1; the target takes the largest. All rules ' +
      'decide alike at temperature 0.'
    : '';
  const mass = certain && !tree
    ? 'The draft is a point mass: q counts as 1, and the q shown is the drafter’s confidence.'
    : '';
  return [greedy ? softmax : mass, judged ? missing(what) : ''].filter(Boolean).join(' ');
}

/** A note on numbers of a place that the trace lacks. @param {Inspected} what */
function missing({ tree, holds, rows, options, reached, test }) {
  const branches = tree && options.length > 0;
  if (!branches && !(rows.length && (reached || test))) return '';
  const hasQ = rows.some(({ id, q }) => id !== null && q !== null);
  const lacks = [
    holds === 'none' && 'p of the target’s likeliest tokens',
    branches && holds === 'drafted' && 'p of tokens that were not drafted',
    branches && !hasQ && 'q of the drafted ones',
  ].filter(Boolean);
  return lacks.length ? `This trace has no ${lacks.join(' and no ')} here.` : '';
}
