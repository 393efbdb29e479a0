// Runs along one text: a cell for each token, and what differs. Pure.

import { BASELINE } from './declared.js';
import { isVanilla, rejectedOf } from './lane.js';
import { stateAt } from './progress.js';
/** @import { Answer } from './exploration.js' */
/** @import { Lane } from './lane.js' */

export const BRANCH = 'what if'; // the name of the lane that branches off a run

/** @typedef {{position: number, id: number, text: string, kind: string, round: number,
 *  begins: boolean, rejected: number | null, differs: boolean}} Cell a new token of a run;
 *  `rejected`: the rejected draft token that it replaces */

/** A run along the text: a cell for each new token. @param {Lane} lane
 *  @param {number} start position of its first token, from 1 */
export function trackOf(lane, start = 1) {
  const { tokens } = stateAt(lane, Infinity);
  const vanilla = isVanilla(lane);
  return tokens.map(({ id, source, round }, i) => ({
    position: start + i,
    id,
    text: lane.texts[i],
    kind: vanilla ? BASELINE : source,
    round,
    differs: false,
    begins: tokens[i - 1]?.round !== round,
    rejected: tokens[i + 1]?.round === round // the target's own token ends a round
      ? null
      : rejectedOf(lane.rounds[round]?.verified)?.id ?? null,
  }));
}

/** A token that the visitor chose. */
const FORCED = { kind: 'forced', round: -1, begins: true, rejected: null, differs: true };

/** The cells of each run, and a branch's chosen token. @param {Record<string, Lane>} lanes
 *  @param {Pick<Answer, 'facts'>} answer */
export function tracksOf(lanes, { facts: { branch } }) {
  const forced = branch && branch.take >= 0
    ? [{ ...FORCED, position: branch.position, id: branch.take, text: branch.token }]
    : [];
  return Object.fromEntries(
    Object.entries(lanes).map(([name, lane]) => [
      name,
      name === BRANCH
        ? [...forced, ...trackOf(lane, branch.position + forced.length)]
        : trackOf(lane),
    ]),
  );
}

/** The tracks in columns by position. A cell `differs` if its `base` has another token.
 *  @param {Record<string, Cell[]>} tracks
 *  @param {Record<string, string>} base track -> the one it is compared with */
export function aligned(tracks, base) {
  const names = Object.keys(tracks);
  const most = Math.max(0, ...names.flatMap((name) => tracks[name].map((cell) => cell.position)));
  const at = (/** @type {string} */ track, i) =>
    tracks[track]?.find((cell) => cell.position === i + 1);
  return Array.from({ length: most }, (_, i) =>
    Object.fromEntries(names.flatMap((name) => {
      const [cell, other] = [name, base[name]].map((track) => at(track, i));
      return cell ? [[name, { ...cell, differs: Boolean(other) && other?.id !== cell.id }]] : [];
    })));
}
