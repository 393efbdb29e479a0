// What the controls may gain before they are run, between the cells of a recorded γ × T map. Pure.
// @ts-check

import { ratio, times } from './format.js';

/** @typedef {[temperature: number, steps: number, gamma: number, speedUp: number, tau: number]} Cell */
/** @typedef {Record<string, Record<string, {device: string, cells: Cell[]}>>} Predictions by pair and drafter */

/**
 * Speed-up and tokens per round at a place among cells, linear between the nearest on both sides, one coordinate after
 * the other; null outside of what was measured. @param {number[][]} cells the coordinates, then two values
 * @param {number[]} where as many coordinates @returns {number[] | null}
 */
export function between(cells, where) {
  if (!cells.length) return null;
  if (!where.length) return cells[0];
  const [at, ...rest] = where;
  const known = cells.map(([first]) => first);
  const low = Math.max(...known.filter((one) => one <= at));
  const high = Math.min(...known.filter((one) => one >= at));
  const values = (/** @type {number} */ one) =>
    between(cells.filter(([first]) => first === one).map((cell) => cell.slice(1)), rest);
  if (low === high) return values(low);
  const [below, above] = [values(low), values(high)];
  const share = (at - low) / (high - low);
  return below && above && below.map((value, i) => value + share * (above[i] - value));
}

/**
 * The prediction of a window in words; empty where there is none: of trees, several drafts, a controller, or a target
 * that is cut short. @param {Predictions} known @param {string} asked settings as a link holds them
 * @param {boolean} denoises whether T means anything to the drafter
 */
export function predictedWords(known, asked, denoises) {
  const query = new URLSearchParams(asked);
  const number = (/** @type {string} */ name) => Number(query.get(name) ?? 0);
  const found = known[query.get('pair') ?? '']?.[query.get('drafter') ?? ''];
  const temperature = number('temperature');
  const plain = !number('tree_nodes') && number('num_drafts') <= 1 && !number('top_k') &&
    query.get('auto') !== 'true' && query.get('top_p') === '1' &&
    (!temperature || query.get('rule') === 'ratio') && !query.get('draft_temperature');
  if (!found || !plain) return '';
  const steps = denoises ? number('steps') : 1;
  const [speedUp, tau] = between(found.cells, [temperature, steps, number('gamma')]) ?? [];
  return speedUp
    ? `Predicted: ${times(speedUp)} with ${
      ratio(tau)
    } tokens per round, from runs on ${found.device}.`
    : '';
}
