// Recorded results for given settings: a prediction before the run, interpolated in a γ × T map, or
// the recorded range of the same settings, also after it. Pure.

import { ratio, times } from './format.js';
import { useOf } from './marks.js';
/** @import { RunStarted } from './events.d.ts' */

/** @typedef {[temperature: number, steps: number, gamma: number, speedUp: number,
 *  tau: number]} Cell */
/** @typedef {Record<string, Record<string, {device: string, cells: Cell[]}>>} Predictions by pair
 *  and drafter */
/** @typedef {[gamma: number, steps: number, nodes: number, drafts: number, low: number,
 *  high: number, words: string]} Range measured speed-ups of a setting */
/** @typedef {{pair: string, temperature: number, device: string, dtype: string, spread: boolean,
 *  over: string, about: string, cells: Record<string, Range[]>}} Measured ranges by drafter and
 *  shape; `spread`: over prompts, not of means (app/content/predictions.py) */

/** Speed-up and tokens per round between cells, interpolated linearly in one coordinate after the
 *  other; null outside the measured range.
 *  @param {number[][]} cells the coordinates, then two values
 *  @param {number[]} where as many coordinates @returns {number[] | null} */
export function between(cells, where) {
  if (!cells.length) return null;
  if (!where.length) return cells[0];
  const [at, ...rest] = where;
  const coordinates = cells.map(([first]) => first);
  const low = Math.max(...coordinates.filter((coordinate) => coordinate <= at));
  const high = Math.min(...coordinates.filter((coordinate) => coordinate >= at));
  const values = (coordinate) =>
    between(cells.filter(([first]) => first === coordinate).map((cell) => cell.slice(1)), rest);
  if (low === high) return values(low);
  const [below, above] = [values(low), values(high)];
  const share = (at - low) / (high - low);
  return below && above && below.map((value, i) => value + share * (above[i] - value));
}

/** Whether settings sample as recorded results do. @param {Record<string, any>} settings */
const samplesAsUsual = ({ temperature, rule, top_k, top_p, draft_temperature }) =>
  !top_k && top_p === 1 && (draft_temperature ?? '') === '' && (!temperature || rule === 'ratio');

/** The measured range of the settings of a run; null if they were not measured. A neighbour's range
 *  says nothing: T 8 costs twice as many drafter passes as T 4.
 *  @param {Measured[]} tables @param {Record<string, any>} config
 *  @param {boolean} denoises whether the drafter uses T
 *  @param {string} [dtype] preferred */
function recorded(tables, config, denoises, dtype = '') {
  if (!samplesAsUsual(config)) return null;
  const shape = useOf(config);
  const steps = denoises && shape.startsWith('window') ? config.steps : 1;
  const size = [config.gamma, steps, config.tree_nodes, config.num_drafts];
  const [found] = tables.filter((table) =>
    table.pair === config.pair && table.temperature === config.temperature
  ).flatMap((table) =>
    (table.cells[`${config.drafter}/${shape}`] ?? []).filter((cell) =>
      size.every((value, i) => (value || 1) === (Number(cell[i]) || 1))
    ).map((cell) => ({ table, cell }))
  ).sort((a, b) => +(b.table.dtype === dtype) - +(a.table.dtype === dtype));
  return found ?? null;
}

/** The settings of a link's query. @param {string} settings @returns {Record<string, any>} */
const settingsOf = (settings) =>
  Object.fromEntries([...new URLSearchParams(settings)].map(([name, value]) => [
    name,
    value === 'true' ? true : value === 'false' ? false : Number.isNaN(+value) ? value : +value,
  ]));

/** @param {string} device without its kind */
const named = (device) => device.replace(/^\w+: /, '');

/**
 * The prediction for settings, in words: interpolated for a plain window, otherwise the measured
 * range of the same settings. Empty without a drafter. @param {Predictions} predictions
 * @param {Measured[]} typical
 * @param {string} settings settings as a link's query
 * @param {boolean} denoises whether the drafter uses T
 */
export function predictedWords(predictions, typical, settings, denoises) {
  const config = settingsOf(settings);
  const { pair, drafter, temperature, gamma } = config;
  if (!drafter || drafter === 'none') return '';
  const map = predictions[pair]?.[drafter];
  const steps = denoises ? config.steps : 1;
  const [speedUp, tau] = (map && samplesAsUsual(config) && useOf(config) === 'window' &&
    between(map.cells, [temperature, steps, gamma])) || [];
  if (speedUp) {
    return `Predicted: ${times(speedUp)} with ${ratio(tau)} tokens per round, from runs on ` +
      `${map.device}.`;
  }
  const found = recorded(typical, config, denoises);
  if (!found) return 'No prediction: these settings haven’t been recorded.';
  const { table, cell: [, , , , low, high] } = found;
  return `Recorded on ${named(table.device)}: ${ratio(low)}–${times(high)} ${table.over}.`;
}

/** The measured range of the settings of a run, in words, and its source: a range over prompts, which
 *  a single prompt can be compared with, or else a range of means. Null if there is none.
 *  @param {Measured[]} tables @param {RunStarted} header
 *  @param {boolean} denoises whether the drafter uses T */
export function typicalWords(tables, { config, device, dtype }, denoises) {
  const [kind] = device.split(':');
  const among = (spread) => tables.filter((a) => a.spread === spread && a.device.startsWith(kind));
  const found = recorded(among(true), config, denoises, dtype) ??
    recorded(among(false), config, denoises, dtype);
  if (!found) return null;
  const { table, cell: [, , , , low, high, words] } = found;
  const type = table.dtype === dtype ? '' : ` in ${table.dtype}`;
  return {
    spread: table.spread,
    words: `Recorded on ${named(table.device)}${type}: ${ratio(low)}–${times(high)} ${table.over}`,
    about: `${table.about}. Settings: ${words}, temperature ${table.temperature}; measured on ` +
      `${table.device}, ${table.dtype}.`,
  };
}
