// Recorded results for given settings: a prediction before the run, interpolated in a γ × T map,
// and the typical range after it. Pure.

import { ratio, times } from './format.js';
import { useOf } from './marks.js';
/** @import { RunStarted } from './events.d.ts' */

/** @typedef {[temperature: number, steps: number, gamma: number, speedUp: number, tau: number]} Cell */
/** @typedef {Record<string, Record<string, {device: string, cells: Cell[]}>>} Predictions by pair and drafter */
/** @typedef {[gamma: number, steps: number, nodes: number, drafts: number, low: number, high: number, words: string]} Range measured speed-ups of a setting */
/** @typedef {{pair: string, temperature: number, device: string, dtype: string, over: string, about: string, cells: Record<string, Range[]>}} Measured ranges by drafter and shape (app/content/predictions.py) */

/**
 * Speed-up and tokens per round between cells, interpolated linearly in one coordinate after the other; null outside the
 * measured range. @param {number[][]} cells the coordinates, then two values
 * @param {number[]} where as many coordinates @returns {number[] | null}
 */
export function between(cells, where) {
  if (!cells.length) return null;
  if (!where.length) return cells[0];
  const [at, ...rest] = where;
  const known = cells.map(([first]) => first);
  const low = Math.max(...known.filter((one) => one <= at));
  const high = Math.min(...known.filter((one) => one >= at));
  const values = (one) =>
    between(cells.filter(([first]) => first === one).map((cell) => cell.slice(1)), rest);
  if (low === high) return values(low);
  const [below, above] = [values(low), values(high)];
  const share = (at - low) / (high - low);
  return below && above && below.map((value, i) => value + share * (above[i] - value));
}

/** Whether settings sample as recorded results do. @param {Record<string, unknown>} settings */
const samplesAsUsual = ({ temperature, rule, top_k, top_p, draft_temperature }) =>
  !Number(top_k) && Number(top_p) === 1 && !draft_temperature &&
  (!Number(temperature) || rule === 'ratio');

/**
 * The prediction for a window in words; empty for trees, several drafts, a controller, or truncated sampling. @param {Predictions} known @param {string} asked settings as a link's query
 * @param {boolean} denoises whether the drafter uses T
 */
export function predictedWords(known, asked, denoises) {
  const query = new URLSearchParams(asked);
  const number = (name) => Number(query.get(name) ?? 0);
  const found = known[query.get('pair') ?? '']?.[query.get('drafter') ?? ''];
  const temperature = number('temperature');
  const window = !number('tree_nodes') && number('num_drafts') <= 1 && query.get('auto') !== 'true';
  if (!found || !window || !samplesAsUsual(Object.fromEntries(query))) return '';
  const steps = denoises ? number('steps') : 1;
  const [speedUp, tau] = between(found.cells, [temperature, steps, number('gamma')]) ?? [];
  return speedUp
    ? `Predicted: ${times(speedUp)} with ${
      ratio(tau)
    } tokens per round, from runs on ${found.device}.`
    : '';
}

/**
 * The measured range nearest to the settings of a run, in words, and its source; null if the pair,
 * the temperature, the kind of device or the method was not measured, or only with windows less
 * than half or more than twice the size. @param {Measured[]} known @param {RunStarted} header
 * @param {boolean} denoises whether the drafter uses T
 */
export function typicalWords(known, { config, device, dtype }, denoises) {
  if (!samplesAsUsual(config)) return null;
  const shape = useOf(config);
  const steps = denoises && shape.startsWith('window') ? config.steps : 1;
  const own = [config.gamma, steps, config.tree_nodes, config.num_drafts].map(Number);
  const [kind] = device.split(':');
  const near =
    known.flatMap((one) =>
      one.pair === config.pair && one.temperature === config.temperature &&
        one.device.startsWith(kind)
        ? (one.cells[`${config.drafter}/${shape}`] ?? []).map((cell) => ({
          one,
          cell,
          far: Math.max(
            ...own.map((value, i) => Math.abs(Math.log2((value || 1) / (+cell[i] || 1)))),
          ),
        }))
        : []
    ).sort((a, b) => a.far - b.far || +(b.one.dtype === dtype) - +(a.one.dtype === dtype))[0];
  if (!near || near.far > 1) return null;
  const { one, cell: [, , , , low, high, words], far } = near;
  const where = `${one.device === device ? 'here' : `on ${one.device.replace(/^\w+: /, '')}`}${
    one.dtype === dtype ? '' : ` in ${one.dtype}`
  }${far ? ` at ${words}` : ''}`;
  return {
    words: `Typical ${where}: ${ratio(low)}–${times(high)} ${one.over}`,
    about:
      `${one.about}. Settings: ${words}, temperature ${one.temperature}; measured on ${one.device}, ${one.dtype}.`,
  };
}
