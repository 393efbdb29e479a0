// The window as large blanks: filled by the drafter, checked from left to right, and turned into
// text. Pure.

import { isVanilla } from './lane.js';
import { decisive, stateAt } from './progress.js';
import { milliseconds, plural, short } from './format.js';
import { piece } from './detokenize.js';
/** @import { Candidate } from './events.d.ts' */
/** @import { Lane } from './lane.js' */
/** @import { PartialRound, State } from './progress.js' */

/** @typedef {'blank' | 'fresh' | 'known' | 'right' | 'wrong' | 'cut' | 'own'} Kind `own`: the
 *  target's own token */
/** @typedef {{kind: Kind, words: string, heat: number, mark: string, said: string,
 *  others: string[]}} Tile `heat`: the drafter's confidence, 0 to 5; `others`: the tokens that it
 *  found probable, with their probabilities */

/** What a denoising step fills, by reveal order; in all others, what the drafter is surest of.
 *  @type {Record<string, string>} */
const REVEALED = { left_to_right: 'the next blanks from the left', random: 'blanks at random' };
const MARKS = { right: '✓', wrong: '✕', own: '↻' };
const SAID = {
  blank: 'blank',
  fresh: 'guessed now',
  known: 'guessed',
  right: 'accepted',
  wrong: 'rejected',
  cut: 'discarded, not checked',
  own: 'written by the big model',
};

/** @param {Lane} lane @param {readonly Candidate[] | undefined} candidates */
const othersOf = (lane, candidates) =>
  (candidates ?? []).slice(0, 4).map(({ id, prob }) =>
    `${piece(lane, id).trim() || '␣'} ${short(prob)}`
  );

/** The ids that a window shows, by position: of a tree, its first branch, or the accepted one.
 *  @param {PartialRound} round @returns {(number | null)[]} */
export function idsOf({ tree, draft, passes, verified, size }) {
  if (tree && draft) {
    const path = verified?.path ?? [];
    const line = draft.ids.flatMap((id, node) =>
      tree.lines[node] === 0 ? [{ id, depth: tree.depths[node] }] : []
    );
    const ids = line.map(({ id }) => id);
    return path.length ? path.map((node) => draft.ids[node]) : ids;
  }
  return draft?.ids ?? passes.at(-1)?.ids ?? Array(size).fill(null);
}

const SHOWN = 120; // characters of the text before the blanks

/** The end of a text, in one line. @param {string} text @param {number} [most] characters */
export function tailOf(text, most = SHOWN) {
  const line = text.replace(/\s+/g, ' ');
  return line.length > most ? `…${line.slice(-most).replace(/^\S*/, '')}` : line;
}

/** The tiles of a round. @param {Lane} lane @param {PartialRound} round
 *  @param {number} checked how many of its results may be shown, tests first
 *  @returns {Tile[]} */
export function tilesOf(lane, round, checked = Infinity) {
  const { passes, draft, verified, extra } = round;
  const tests = decisive(verified?.tests ?? []);
  const last = passes.at(-1);
  const tiles = idsOf(round).map((id, position) => {
    const pass = passes.findLast(({ revealed }) => revealed.includes(position));
    const heat = pass && id !== null ? Math.max(1, Math.ceil(5 * pass.confidence[position])) : 0;
    const test = verified && position < checked ? tests.get(position) : undefined;
    const cut = verified && !test && checked > tests.size && position >= verified.accepted;
    const shown = test?.accepted ? 'right' : test ? 'wrong' : cut ? 'cut' : '';
    const drafted = id === null ? 'blank' : pass === last && !draft ? 'fresh' : 'known';
    const kind = /** @type {Kind} */ (shown || drafted);
    return tileOf(lane, kind, id, heat, pass?.candidates[position]);
  });
  if (!verified || !extra || checked <= tests.size) return tiles;
  const own = tileOf(lane, 'own', verified.extra, 0, round.scored?.candidates[verified.accepted]);
  const bonus = verified.source === 'bonus' || verified.accepted >= tiles.length;
  if (bonus) return [...tiles, { ...own, mark: '+' }];
  return [...tiles.slice(0, verified.accepted), own, ...tiles.slice(verified.accepted + 1)];
}

/** @param {Lane} lane @param {Kind} kind @param {number | null} id @param {number} heat
 *  @param {readonly Candidate[]} [candidates] @returns {Tile} */
function tileOf(lane, kind, id, heat, candidates) {
  const words = id === null ? '' : piece(lane, id).trim() || '↵';
  const said = `${words || 'blank'}: ${SAID[kind]}`;
  return { kind, words, heat, mark: MARKS[kind] ?? '', said, others: othersOf(lane, candidates) };
}

/** How many results a round has: a test for each position that was checked, then the target's own
 *  token. @param {PartialRound} round */
export const resultsOf = ({ verified }) => decisive(verified?.tests ?? []).size + 1;

/** What a round's tokens are called: words, if each begins one. @param {string[]} texts
 *  @param {number} first their place in the text */
function unitOf(texts, first) {
  return texts.every((text, i) => first + i === 0 || /^[\s\p{P}]|^$/u.test(text))
    ? 'word'
    : 'token';
}

/** The seconds in which a lane without drafts wrote some of its tokens; null if it hasn't.
 *  @param {Lane | null} lane @param {number} first @param {number} count */
export function aloneSeconds(lane, first, count) {
  if (!lane || !isVanilla(lane)) return null;
  const ends = lane.rounds.flatMap(({ committed }) => committed ? [committed.at] : []);
  if (ends.length < first + count || !count) return null;
  const begin = first
    ? ends[first - 1]
    : lane.times[Math.max(0, (lane.rounds[0].ends.RoundStarted ?? 1) - 1)];
  return ends[first + count - 1] - begin;
}

/** What happens in a round now, in a sentence or two with its times.
 *  @param {Lane} lane @param {PartialRound} round @param {Lane | null} baseline
 *  @param {number} checked */
export function captionOf(lane, round, baseline, checked = Infinity) {
  const { passes, steps, draft, scored, verified, committed, size, first } = round;
  const pass = passes.at(-1);
  const texts = lane.texts.slice(first, first + (committed?.ids.length ?? 0));
  if (!draft && !pass) {
    return `${plural(size, 'blank')}${steps ? `, to be filled in ${plural(steps, 'step')}` : ''}.`;
  }
  if (!draft && pass) {
    const which = REVEALED[String(lane.header?.config.order)] ?? 'the blanks that it is surest of';
    return `Step ${passes.length} of ${steps}: the small model fills ${
      steps > 1 ? which : 'them all'
    }. ${milliseconds(pass.span.seconds)}.`;
  }
  if (!draft || !scored || !verified) {
    const time = scored ? ` ${milliseconds(scored.span.seconds)}.` : '';
    return `The big model reads all ${plural(size, 'guess')} in one pass.${time}`;
  }
  if (checked < resultsOf(round)) {
    const results = decisive(verified.tests);
    const marks = [...results.values()].slice(0, checked).map(({ accepted }) =>
      accepted ? '✓' : '✕'
    );
    return `Would it have written them, too? ${marks.join(' ')}`;
  }
  const count = verified.accepted + Number(round.extra);
  const seconds = draft.span.seconds + scored.span.seconds + verified.span.seconds;
  const alone = aloneSeconds(baseline, first, count);
  const unit = unitOf(texts, first);
  const what = `${plural(count, unit)}, one check: ${milliseconds(seconds)} with the drafting.`;
  return alone === null
    ? what
    : `${what} Without drafts: ${plural(count, 'pass')}, ${milliseconds(alone)}.`;
}

/** A lane's state at the end of a round, by its number. @param {Lane} lane @param {number} round
 *  @returns {State} */
export const stateAfter = (lane, round) =>
  stateAt(lane, Math.max(...Object.values(lane.rounds[round].ends)));
