// One block, drafted with every window and number of denoising steps. Pure.

import { buildLane } from './lane.js';
import { stateAt } from './progress.js';
import { milliseconds, plural } from './format.js';
/** @import { Event } from './events.d.ts' */
/** @import { Lane } from './lane.js' */
/** @import { PartialRound } from './progress.js' */

/** @typedef {{lane: Lane, round: PartialRound, accepted: number, size: number, draft: number,
 *  timed: number, check: number}} Variant the round with one γ and T; `draft`: seconds; `timed`: of its
 *  check, `check`: of those with its γ, the median */
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
      timed: (scored?.span.seconds ?? 0) + (verified?.span.seconds ?? 0),
      check: 0,
    }];
  });
  const block = new Map(/** @type {[string, Variant][]} */ (variants));
  for (const one of block.values()) { // it reads the same rows with each T: their median
    const alike = [...block.values()].filter(({ size }) => size === one.size).map(({ timed }) =>
      timed
    );
    one.check = alike.sort((a, b) => a - b)[Math.floor(alike.length / 2)];
  }
  return block;
}

/** The steps with which a window was drafted, ascending. @param {Block} block @param {number} gamma */
export const stepsOf = (block, gamma) =>
  [...block.keys()].map((key) => key.split('/').map(Number)).filter(([most]) => most === gamma)
    .map(([, steps]) => steps);

/** The longest window. @param {Block} block */
export const longest = (block) => Math.max(...[...block.keys()].map(parseFloat));

/** What a variant of the block did, and what it cost. @param {Variant} variant */
export function variantWords({ accepted, size, draft, check }) {
  return `Drafted again: ${accepted} of ${plural(size, 'guess')} right in ${
    milliseconds(draft + check)
  }, ${milliseconds(draft)} of it to draft.`;
}

const SAME = 1.05; // a pace that is larger by less is no lead

/** How the block went with other steps. @param {Variant} here @param {Variant} other
 *  @param {number} steps of `other` */
export function stepsWords(here, other, steps) {
  const pace = ({ accepted, draft, check }) => (accepted + 1) / (draft + check);
  const lead = pace(other) / pace(here);
  const faster = lead > SAME ? 'faster' : lead < 1 / SAME ? 'slower' : 'about as fast';
  return `With ${plural(steps, 'step')}: ${other.accepted} right, ${
    milliseconds(other.draft)
  } to ` +
    `draft; ${faster} on this block.`;
}
