// What happens in a round, in a sentence: for its window. Pure.

import { END, TEST_KINDS } from './declared.js';
import { exact, milliseconds, plural, quoted, rate, ratio } from './format.js';
import { isGreedy, isServed, isVanilla } from './lane.js';
import { piece } from './detokenize.js';
import { whyNothing } from './story.js';
/** @import { Decided, DraftReady, Verified } from './events.d.ts' */
/** @import { Lane } from './lane.js' */
/** @import { PartialRound } from './progress.js' */
/** @import { Scene } from './stage.js' */

const NO_DRAFT = 'Vanilla drafts nothing: every token costs one pass of the target.';
const SERVED = 'Attached servers don’t report drafts; only tokens and arrival times are known.';
export const OTHERS = 'all others';

/** A token in a sentence. @param {Lane} lane */
export const wordsOf = (lane) => (id) => id === null ? OTHERS : quoted(piece(lane, id));

/** A sentence on the window, or on why there is none. @param {Scene} scene */
export function sentenceOf({ names, lanes, selected, lane, state, shown, view, absent }) {
  if (!names.length) return '';
  if (isVanilla(lanes[selected ?? ''])) return NO_DRAFT;
  if (!lane?.header || !state) {
    return lane?.failed ? `This lane has no window: ${lane.failed.message}` : absent;
  }
  if (isServed(lane)) return SERVED;
  const round = shown.older ? state.window : view;
  const greedy = isGreedy(lane);
  return [
    narrate(round, (id) => piece(lane, id), greedy),
    whyNothing(round, greedy, wordsOf(lane)),
    shown.older,
  ].filter(Boolean).join(' ');
}

/** A controller's decision for a round, and whether it cut the draft.
 *  @param {Decided} decided @param {DraftReady | null} draft
 *  @param {string} last the piece that the draft ends with */
export function decisionWords(decided, draft, last) {
  const row = `(${milliseconds(decided.row_seconds)} at ${rate(decided.rate)} tokens/s)`;
  if (draft && draft.parents.length) {
    const least = decided.row_seconds * decided.rate;
    const nodes = plural(draft.ids.length, 'node');
    return least > 0
      ? `Auto: a tree of ${nodes}; a node with a probability below ${exact(least)} costs more ` +
        `than it saves ${row}.`
      : `Auto: a tree of ${nodes}, the largest allowed, to measure its cost.`;
  }
  const { gamma, steps, best_gamma: best } = decided;
  if (!best && decided.row_seconds > 0 && !decided.seconds) {
    return 'Auto: the tree will hold the nodes that save more than they cost.';
  }
  const why = decided.seconds > 0
    ? `a whole window pays best at γ ${best || gamma}, ${ratio(decided.tokens, 1)} tokens ` +
      `expected in ${milliseconds(decided.seconds)}`
    : 'to measure its cost';
  const room = best && gamma > best ? `; up to ${gamma} while the drafter is confident` : '';
  const cut = draft && draft.ids.length < gamma && last !== END
    ? `. The draft ends after ${draft.ids.length}: given the drafter’s confidence, the next ` +
      `position would cost more than it saves ${row}`
    : '';
  return `Auto, T ${steps}: ${why}${room}${cut}.`;
}

/** `1, 2 and 3` */
const list = (numbers) => new Intl.ListFormat('en-GB').format(numbers.map(String));

/** A sentence on the window. @param {PartialRound | null} view
 *  @param {(id: number) => string} word */
export function narrate(view, word, greedy) {
  if (!view) return 'The target reads the prompt.';
  const name = `Round ${view.round + 1}`;
  const { draft } = view;
  if (view.verified) return `${name}: ${verdict(view, view.verified, word, greedy)}`;
  if (draft && draft.nfe && !view.drafted) return `${name}: stopped while drafting.`;
  if (view.size === 0) return `${name}: one target pass writes one token.`;
  if (view.scored) {
    return `${name}: the target has read the ${
      plural(draft ? draft.ids.length : view.drafted, 'drafted token')
    } in one pass.`;
  }
  if (draft && draft.branches.length) {
    return `${name}: ${draft.branches.length} drafts are drawn from one drafter pass, ` +
      `${plural(draft.ids.length, 'node')} in all.`;
  }
  if (view.tree && draft) {
    return `${name}: ${
      draft.nfe > 1 ? `${draft.nfe} drafter passes have` : 'one drafter pass has'
    } grown a tree of ${plural(draft.ids.length, 'node')}.`;
  }
  if (view.copied) {
    const what = plural(view.drafted, 'token');
    return `${name}: ${
      draft ? `${what} ${view.drafted === 1 ? 'is' : 'are'} copied` : `${what} to copy`
    }, because an earlier passage continued like that.`;
  }
  if (view.unrecorded && draft) {
    return `${name}: ${plural(view.drafted, 'token')} drafted in ${plural(draft.nfe, 'pass')} ` +
      'of the drafter.';
  }
  const step = view.passes[view.passes.length - 1];
  if (step) {
    const where = list([...step.revealed].sort((a, b) => a - b).map((position) => position + 1));
    const what = step.revealed.length > 5
      ? `${step.revealed.length} positions`
      : `position${step.revealed.length > 1 ? 's' : ''} ${where}`;
    return `${name}: denoising step ${step.step + 1} of ${view.steps || view.passes.length} ` +
      `reveals ${what}.`;
  }
  return `${name}: the drafter has ${plural(view.size, 'mask')} to fill after ` +
    `${quoted(word(view.anchor))}.`;
}

/** @param {PartialRound} view @param {Verified} verified @param {(id: number) => string} word */
function verdict(view, verified, word, greedy) {
  const { drafted: size, draft } = view;
  const extra = quoted(word(verified.extra));
  if (size === 0) return `the target writes ${extra}.`;
  const last = verified.tests[verified.tests.length - 1];
  if (last && TEST_KINDS[last.kind].walks) {
    const own = greedy ? 'the target’s most probable tokens' : 'the target’s draws';
    const walked = `${own} follow the tree of ` +
      `${plural(draft ? draft.ids.length : 0, 'node')} for ` +
      `${plural(verified.accepted, 'token')}`;
    if (!view.extra) return `${walked}, and the text ends there.`;
    return verified.source === 'bonus'
      ? `${walked}, to the end of a branch; it adds a bonus token, ${extra}.`
      : `${walked}, then leave it with ${extra}.`;
  }
  if (!last || last.accepted) { // nothing was rejected
    if (!view.extra && !view.tree && verified.accepted < size) {
      return `the first ${verified.accepted} of ${size} drafted tokens pass, and the text ends there.`;
    }
    const rest = verified.accepted < size ? 'of a shorter draft ' : '';
    const all = verified.accepted === 1
      ? `the drafted token ${rest}passes`
      : `all ${verified.accepted} drafted tokens ${rest}pass`;
    return view.extra
      ? `${all}; the target adds a bonus token, ${extra}.`
      : `${all}, and the text ends there.`;
  }
  const accepted = verified.accepted === 0
    ? 'the target accepts none'
    : `the target accepts ${verified.accepted} of ${size}`;
  if (greedy) return `${accepted}; instead of ${quoted(word(last.id))} it writes ${extra}.`;
  const why = last.draw === null
    ? 'its own draw differs'
    : `u = ${ratio(last.draw)} ≥ ${ratio(last.threshold)}`;
  return `${accepted}, rejects ${quoted(word(last.id))} (${why}) and writes ${extra}.`;
}
