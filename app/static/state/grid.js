// The draft window as a table: the rows and cells of a round, and their contents. Pure.

import { cell, exact } from './format.js';
import { linesShown } from './tree.js';
import { piece } from './detokenize.js';
/** @import { Place } from './inspect.js' */
/** @import { Lane, Round } from './lane.js' */
/** @import { PartialRound } from './progress.js' */
/** @import { Tree } from './tree.js' */

/** @typedef {{kind: string, words: string, title: string, heat?: number, node?: number}} Cell
 *  `heat`: 0–5 */
/** @typedef {{label: string, title: string, chosen: boolean, cells: Cell[]}} Row */

export const MOST_ROWS = 8; // of denoising steps or branches, until all are requested

/** Rows of a round: denoising steps, or branches of its tree. @param {Round} round */
export const countOf = (round) =>
  round.tree ? round.tree.count : round.copied || round.unrecorded ? 1 : round.steps;

/** How many rows the largest round of a lane has. @param {Lane} lane */
export const mostRows = (lane) => Math.max(0, ...lane.rounds.map(countOf));

/** At most `most` of the numbers 0 … count − 1, evenly spaced from first to last. */
const spaced = (count, most) =>
  count <= most
    ? Array.from({ length: count }, (_, i) => i)
    : Array.from({ length: most }, (_, i) => Math.round((i * (count - 1)) / (most - 1)));

/** The unit of a round's rows. @param {PartialRound} round */
export const unitOf = ({ tree }) =>
  tree ? `branches${tree.branches.length ? ` of ${tree.branches.length} drafts` : ''}` : 'steps';

/** The rows of a round. @param {PartialRound} round @param {Lane} lane @returns {Row[]} */
export function gridOf(round, lane, most) {
  const { tree, size } = round;
  const numbers = tree ? linesShown(tree, most) : spaced(countOf(round), most);
  return numbers.map((number, place) => {
    const from = place ? numbers[place - 1] + 1 : 0;
    const cellAt = tree
      ? branchCell(round, tree, lane, number)
      : round.copied || round.unrecorded
      ? copyCell(round, lane)
      : stepCell(round, lane, from, number);
    return {
      ...labelOf(round, place, from, number),
      cells: Array.from({ length: size }, (_, position) => cellAt(position)),
    };
  });
}

/** @param {PartialRound} round @param {number} place of the row
 *  @param {number} from the first step in it
 *  @param {number} number of its line, or of its last step */
function labelOf(round, place, from, number) {
  const { tree, draft, verified } = round;
  const plain = { title: '', chosen: false };
  if (!tree && round.copied) return { ...plain, label: 'copy' };
  if (!tree && round.unrecorded) return { ...plain, label: 'draft' };
  if (!tree && from === number) return { ...plain, label: `step ${number + 1}` };
  if (!tree) {
    const title = `steps ${from + 1} to ${number + 1}`;
    return { ...plain, label: `${from + 1}–${number + 1}`, title };
  }
  const drafts = draft
    ? tree.branches.flatMap((nodes, k) => tree.lines[nodes.at(-1) ?? -1] === number ? [k] : [])
    : [];
  const title = drafts.map((k) => {
    const score = verified?.scores[k];
    const words = score === undefined ? '' : `: S = ${exact(score)}, its expected accepted tokens`;
    return `draft ${k + 1}${words}`;
  });
  return {
    label: place ? '' : tree.branches.length ? 'drafts' : 'tree',
    title: title.join('; '),
    chosen: drafts.some((k) => k === verified?.chosen),
  };
}

/** Cells of a row of one or several denoising steps. @param {PartialRound} round
 *  @param {Lane} lane */
function stepCell(round, lane, from, to) {
  const events = round.passes.slice(from, to + 1);
  const last = events.at(-1);
  return (position) => {
    if (!last) return { kind: 'sd-cell-mask sd-cell-later', words: '', title: 'still masked' };
    const event = events.find(({ revealed }) => revealed.includes(position)) ?? last;
    const id = event.ids[position];
    const fresh = event.revealed.includes(position);
    const confidence = event.confidence[position];
    const best = event.candidates[position].map((candidate) =>
      `${JSON.stringify(piece(lane, candidate.id))} ${exact(candidate.prob)}`
    ).join(', ');
    const what = id === null
      ? 'masked'
      : `${fresh ? 'revealed' : 'known'} ${JSON.stringify(piece(lane, id))}`;
    return {
      kind: id === null ? 'sd-cell-mask' : fresh ? 'sd-cell-fresh' : 'sd-cell-kept',
      heat: fresh ? Math.max(1, Math.ceil(confidence * 5)) : 0,
      words: id === null ? '' : cell(piece(lane, id)),
      title: `position ${position + 1}, step ${event.step + 1}: ${what}; confidence ${
        exact(confidence)
      }${best ? `; best: ${best}` : ''}`,
    };
  };
}

/** Cells of tokens that were copied, or whose passes weren't recorded. @param {PartialRound} round
 *  @param {Lane} lane */
function copyCell(round, lane) {
  const how = round.copied ? 'copied' : 'drafted';
  return (position) => {
    const id = round.draft?.ids[position];
    if (id === undefined) return { kind: 'sd-cell-nothing', words: '', title: `nothing ${how}` };
    const word = piece(lane, id);
    const note = round.copied ? '' : '; the drafter’s passes were not recorded';
    return {
      kind: 'sd-cell-kept',
      words: cell(word),
      title: `position ${position + 1}: ${how} ${JSON.stringify(word)}${note}`,
    };
  };
}

/** Cells of one line of a draft tree: a branch, from where it splits off another one.
 *  @param {PartialRound} round @param {Tree} tree @param {Lane} lane */
function branchCell({ draft, verified, scored, judged }, tree, lane, line) {
  return (depth) => {
    const node = tree.lines.findIndex((drawnOn, i) => drawnOn === line && tree.depths[i] === depth);
    if (!draft) {
      return {
        kind: line ? 'sd-cell-nothing' : 'sd-cell-mask sd-cell-later',
        words: '',
        title: 'still masked',
      };
    }
    if (node < 0) return { kind: 'sd-cell-nothing', words: '', title: 'no node' };
    const parent = draft.parents[node];
    const branch = parent >= 0 ? tree.lines[parent] !== line : line > 0;
    const walked = depth < judged && verified?.path.includes(node);
    const word = piece(lane, draft.ids[node]);
    const after = parent >= 0
      ? `after ${JSON.stringify(piece(lane, draft.ids[parent]))}`
      : 'after the anchor';
    const score = scored ? `; the target gives p = ${exact(scored.p[node])}` : '';
    return {
      kind: walked ? 'sd-cell-fresh' : 'sd-cell-node',
      heat: walked ? 5 : 2,
      node,
      words: `${walked ? '✓ ' : branch ? '└ ' : ''}${cell(word)}`,
      title: `node ${node + 1}, position ${depth + 1}, ${after}: ` +
        `${JSON.stringify(word)}${score}${walked ? '; the target drew it' : ''}`,
    };
  };
}

/** The cell of a place of a round: a node's, or that of a column's test; a bonus token has the last
 *  column. @param {PartialRound} round @param {Place} place */
export function stopAt({ verified, size }, place) {
  if (typeof place !== 'number') return `n${place.node}`;
  return `t${verified?.source === 'bonus' && place === verified.accepted ? size : place}`;
}

/** The place that a column of the tests shows; null if it shows none.
 *  @param {PartialRound} round */
export function placeAt({ verified, extra, size }, column) {
  if (column < size) return column;
  return verified && extra ? verified.accepted : null;
}

/** The place so many positions before or after another one; null beyond the ends of the round.
 *  @param {PartialRound} round @param {Place} place */
export function besides({ drafted, draft, verified, extra }, place, by) {
  const [from, last] = typeof place === 'number'
    ? [place, Math.max(drafted, verified && extra ? verified.accepted + 1 : 0)]
    : [place.node, draft?.ids.length ?? 0];
  const to = from + by;
  return to < 0 || to >= last ? null : typeof place === 'number' ? to : { node: to };
}
