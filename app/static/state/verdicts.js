// The bottom row of the draft window: an acceptance test for each position, the token that the target
// adds, and a note on how the round was drafted or tested. Pure.

import { cell, exact, ratio, short, testFigures, testWords } from './format.js';
import { decisionWords } from './narrate.js';
import { isGreedy } from './lane.js';
import { decisive } from './progress.js';
import { piece } from './detokenize.js';
/** @import { Test } from './events.d.ts' */
/** @import { Lane } from './lane.js' */
/** @import { PartialRound } from './progress.js' */

/** @typedef {{kind: string, title: string, mark?: string, words?: string, height?: number,
 *  draw?: number | null, figures?: string}} Verdict below a position; `height`: the probability to
 *  accept, 0 to 1 */

export const EXTRA =
  'The token that the target itself adds: a correction after a rejection, a bonus after a ' +
  'full window.';

/** The bottom row: an acceptance test for each position, and the token that the target adds.
 *  @param {PartialRound} round @param {Lane} lane */
export function verdictsOf(round, lane) {
  const tests = decisive(round.verified ? round.verified.tests : []);
  const greedy = isGreedy(lane);
  const at = (_, position) => verdictOf(round, lane, position, tests.get(position), greedy);
  return [...Array.from({ length: round.size }, at), extraOf(round, lane)];
}

/** @param {PartialRound} round @param {Lane} lane */
function extraOf({ verified, extra, judged }, lane) {
  if (!verified || judged < Infinity) return { kind: 'none', title: EXTRA };
  if (!extra) return { kind: 'none', title: 'nothing is added: an accepted token ended the text' };
  const word = piece(lane, verified.extra);
  const named = JSON.stringify(word);
  const look = verified.source === 'bonus'
    ? { kind: 'bonus', title: `bonus token ${named}, drawn from the target`, figures: 'bonus' }
    : { kind: 'fix', title: `the target writes ${named} instead`, figures: 'instead' };
  return { ...look, mark: look.kind === 'bonus' ? '+' : '↻', words: cell(word) };
}

/** @param {PartialRound} round @param {Lane} lane @param {Test | undefined} test that decided it */
function verdictOf(round, lane, position, test, greedy) {
  const { verified, scored, size, drafted, tree, judged } = round;
  if (!verified || position >= judged) {
    if (!scored || position >= drafted || tree) return { kind: 'none', title: 'not scored yet' };
    const p = scored.p[position];
    return {
      kind: 'scored',
      title: `the target gives p = ${exact(p)}`,
      height: p,
      figures: `p ${short(p)}`,
    };
  }
  if (!test) {
    const why = tree
      ? 'the walk ended before it'
      : position < drafted
      ? 'because an earlier token was rejected'
      : 'because the text ends before it';
    return { kind: 'cut', title: `never tested: ${why}`, figures: size > 12 ? '' : 'not tested' };
  }
  const common = {
    words: cell(piece(lane, test.id)),
    height: test.threshold,
    draw: greedy ? null : test.draw,
    figures: testFigures(test, greedy),
  };
  if (test.accepted) return { kind: 'ok', mark: '✓', title: testWords(test, greedy), ...common };
  const [word, extra] = [test.id, verified.extra].map((id) => JSON.stringify(piece(lane, id)));
  return {
    kind: 'no',
    mark: '✕',
    title: `${word} rejected: ${testWords(test, greedy)}; the target writes ${extra}`,
    ...common,
  };
}

/** A note on how the round was drafted or tested. @param {PartialRound} round @param {Lane} lane */
export function noteOf({ verified, decided, draft }, lane) {
  const last = draft?.ids.length ? piece(lane, draft.ids[draft.ids.length - 1]) : '';
  if (decided && (!verified || (verified.lossless && !verified.fallback))) {
    return decisionWords(decided, draft, last);
  }
  if (!verified) return '';
  const { scores, chosen } = verified;
  if (scores.length) {
    const all = scores.map((score, k) => `${k === chosen ? '★ ' : ''}${ratio(score)}`).join(
      ', ',
    );
    const why = chosen === null
      ? 'all drafts share one tree'
      : `draft ${chosen + 1} has the largest and was tested`;
    return `S, the expected accepted tokens of each of the ${scores.length} drafts: ${all}; ` +
      `${why}. ` +
      `${verified.fallback}`;
  }
  if (!verified.lossless) {
    return '⚠ Not lossless: with several steps this rule can change the distribution of the text.';
  }
  return verified.fallback ? `Note: ${verified.fallback}` : '';
}

/** Whether some round of a lane has a note. @param {Lane} lane */
export const isNoted = (lane) =>
  lane.rounds.some(({ decided, verified }) =>
    decided || (verified && (verified.fallback || verified.scores.length || !verified.lossless))
  );
