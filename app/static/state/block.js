// One block, drafted with every window and number of denoising steps. Pure.

import { buildLane, stateAt } from './lane.js';
import { milliseconds, plural } from './format.js';
/** @import { Event } from './events.d.ts' */
/** @import { Lane, PartialRound } from './lane.js' */

/** @typedef {{lane: Lane, round: PartialRound, accepted: number, size: number, draft: number,
 *  check: number}} Variant the round with one γ and T; `draft`, `check`: seconds */
/** @typedef {Map<string, Variant>} Block by `γ/T` */

/** @param {Record<string, Event[]>} lanes of the block's trace @returns {Block} */
export function readBlock(lanes) {
  const variants = Object.entries(lanes).map(([key, events]) => {
    const lane = buildLane(events);
    const round = /** @type {PartialRound} */ (stateAt(lane, events.length).window);
    const { draft, scored, verified, accepted, size } = round;
    return [key, {
      lane,
      round,
      accepted,
      size,
      draft: draft?.span.seconds ?? 0,
      check: (scored?.span.seconds ?? 0) + (verified?.span.seconds ?? 0),
    }];
  });
  return new Map(/** @type {[string, Variant][]} */ (variants));
}

/** The steps with which a window was drafted, ascending. @param {Block} block @param {number} gamma */
export const stepsOf = (block, gamma) =>
  [...block.keys()].map((key) => key.split('/').map(Number)).filter(([most]) => most === gamma)
    .map(([, steps]) => steps);

/** The longest window. @param {Block} block */
export const longest = (block) => Math.max(...[...block.keys()].map(parseFloat));

/** What a variant of the block did, and what it cost. @param {Variant} variant */
export function variantWords({ accepted, size, draft, check }) {
  const written = plural(accepted + 1, 'token');
  return `${accepted} of ${plural(size, 'guess')} right, so ${written} in ${
    milliseconds(draft + check)
  }: ${milliseconds(draft)} to draft, ${milliseconds(check)} to check.`;
}

const SAME = 1.05; // a pace that is larger by less is no lead

/** Whether more steps paid on this block. The check reads the same rows either way, so it is taken to
 *  cost the same. @param {Variant} many @param {Variant} one */
export function stepsWords(many, one) {
  const check = (many.check + one.check) / 2;
  const pace = ({ accepted, draft }) => (accepted + 1) / (draft + check);
  const right = many.accepted === one.accepted
    ? 'both got as many guesses right'
    : `${plural(many.accepted, 'guess')} against ${one.accepted} were right`;
  const cost =
    `Each step is another pass of the small model: ${milliseconds(many.draft)} against ` +
    `${milliseconds(one.draft)} to draft, and ${right}.`;
  const lead = pace(many) / pace(one);
  return `${cost} ${
    lead > SAME
      ? 'On this block, more steps were faster.'
      : lead < 1 / SAME
      ? 'On this block, one step was faster.'
      : 'On this block, both were about as fast.'
  }`;
}
