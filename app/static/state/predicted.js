// Recorded results for given settings: a prediction before the run, recorded or interpolated in a
// γ × T map, and the recorded mean after it. Pure.

import { plural, ratio, times } from './format.js';
import { useOf } from './marks.js';
/** @import { RunStarted } from './events.d.ts' */

/** @typedef {[temperature: number, steps: number, gamma: number, speedUp: number,
 *  tau: number]} Cell */
/** @typedef {Record<string, Record<string, {device: string, cells: Cell[]}>>} Predictions by pair
 *  and drafter */
/** @typedef {[gamma: number, steps: number, nodes: number, drafts: number, mean: number,
 *  low: number | null, high: number | null, prompts: number]} Mean speed-up over prompts, with its
 *  95 % interval */
/** @typedef {{pair: string, temperature: number, device: string, dtype: string, about: string,
 *  cells: Record<string, Mean[]>}} Measured means by drafter and shape
 *  (app/content/predictions.py) */

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

/** The recorded cells with exactly the settings of a run, the most prompts first.
 *  @param {Measured[]} tables @param {Record<string, any>} config
 *  @param {boolean} denoises whether the drafter uses T
 *  @param {string} [dtype] preferred */
function recorded(tables, config, denoises, dtype = '') {
  if (!samplesAsUsual(config)) return [];
  const shape = useOf(config);
  const steps = denoises && shape.startsWith('window') ? config.steps : 1;
  const size = [config.gamma, steps, config.tree_nodes || 0, config.num_drafts || 1];
  return tables.filter((table) =>
    table.pair === config.pair && table.temperature === config.temperature
  ).flatMap((table) =>
    (table.cells[`${config.drafter}/${shape}`] ?? []).filter((cell) =>
      size.every((value, i) => value === cell[i])
    ).map((cell) => ({ table, cell }))
  ).sort((a, b) =>
    +(b.table.dtype === dtype) - +(a.table.dtype === dtype) || b.cell[7] - a.cell[7]
  );
}

/** A mean in words. @param {Mean} cell */
function meanWords([, , , , mean, low, high, prompts]) {
  const ends = low === null || high === null ? '' : `95 % interval ${ratio(low)}–${ratio(high)}, `;
  return `mean ${times(mean)} (${ends}${plural(prompts, 'prompt')})`;
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
 * The prediction for settings, in words: recorded, or interpolated between recorded windows. Empty
 * without a drafter. @param {Predictions} predictions
 * @param {Measured[]} typical
 * @param {string} settings settings as a link's query
 * @param {boolean} denoises whether the drafter uses T
 */
export function predictedWords(predictions, typical, settings, denoises) {
  const config = settingsOf(settings);
  const { pair, drafter, temperature, gamma } = config;
  if (!drafter || drafter === 'none') return '';
  const [same] = recorded(typical, config, denoises);
  if (same) return `Recorded on ${named(same.table.device)}: ${meanWords(same.cell)}.`;
  const map = predictions[pair]?.[drafter];
  const steps = denoises ? config.steps : 1;
  const [speedUp, tau] = (map && samplesAsUsual(config) && useOf(config) === 'window' &&
    between(map.cells, [temperature, steps, gamma])) || [];
  return speedUp
    ? `Predicted: ${times(speedUp)} with ${
      ratio(tau)
    } tokens per round, between recorded windows ` +
      `on ${map.device}.`
    : 'These settings were not recorded, so there is no prediction.';
}

/** The effect of a window and its steps on whole answers, in words: measured, where they were recorded,
 *  else computed from the tokens per round between recorded windows and the costs of a run. Empty
 *  where neither is known. @param {Predictions} predictions @param {Record<string, any>} config
 *  @param {{cost: number, verify: number} | null} costs c and v */
export function effectWords(predictions, config, costs) {
  const { device = '', cells = [] } = predictions[config.pair]?.[config.drafter] ?? {};
  const here = cells.filter(([temperature]) => temperature === config.temperature);
  if (!samplesAsUsual(config) || !here.length) return '';
  const [most, widest] = [1, 2].map((i) => Math.max(...here.map((cell) => cell[i])));
  const [steps, gamma] = [Math.min(config.steps, most), Math.min(config.gamma, widest)];
  const [speedUp, tau] = between(here, [config.temperature, steps, gamma]) ?? [];
  if (!speedUp) return '';
  const at = (T) => here.find((cell) => cell[1] === T && cell[2] === config.gamma);
  if (at(config.steps)) {
    const [, , , one] = (config.steps > 1 && at(1)) || [];
    return `Whole answers, measured on ${device}: ${ratio(tau)} tokens per round, in the ` +
      `time of ${ratio(tau / speedUp)} vanilla tokens: ${times(speedUp)}${
        one ? `, against ${times(one)} with one step` : ''
      }.`;
  }
  if (!costs) return '';
  const { verify, cost } = costs;
  const elsewhere = steps === config.steps && gamma === config.gamma
    ? ''
    : `, with the τ of γ ${gamma}, T ${steps}`;
  return `Whole answers, computed${elsewhere}: τ / (v + c·T) = ${ratio(tau)} / (${
    ratio(verify)
  } + ` +
    `${ratio(cost)}·${config.steps}) = ${times(tau / (verify + cost * config.steps))}.`;
}

/** The recorded mean of a run's settings, in words, and its source; null if this kind of device
 *  or these settings were not recorded. @param {Measured[]} tables
 *  @param {RunStarted} header
 *  @param {boolean} denoises whether the drafter uses T */
export function typicalWords(tables, { config, device, dtype }, denoises) {
  const [kind] = device.split(':');
  const [same] = recorded(
    tables.filter((table) => table.device.startsWith(kind)),
    config,
    denoises,
    dtype,
  );
  if (!same) return null;
  const { table, cell } = same;
  const precision = table.dtype === dtype ? '' : ` in ${table.dtype}`;
  return {
    words: `Recorded on ${named(table.device)}${precision}: ${meanWords(cell)}`,
    about: `${table.about}; temperature ${table.temperature}, ${table.dtype}.`,
  };
}
