// Recorded results for given settings: a prediction before the run, recorded or interpolated in a
// γ × T map, and the recorded speed-up after it. Pure.

import { SAMPLING } from './declared.js';
import { plural, ratio, times } from './format.js';
import { useOf } from './marks.js';
/** @import { RunStarted } from './events.d.ts' */

/** @typedef {[gamma: number, steps: number, nodes: number, drafts: number, mean: number,
 *  low: number | null, high: number | null, prompts: number, tau?: number]} Mean speed-up over prompts,
 *  with its 95 % interval; `tau`: in a γ × T map */
/** @typedef {{pair: string, temperature: number, order: string, device: string, dtype: string,
 *  about: string, cells: Record<string, Mean[]>}} Measured means by drafter and shape
 *  (app/content/measured.py) */

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
const samplesAsUsual = (settings) =>
  Object.entries(SAMPLING).every(([name, usual]) =>
    (settings[name] ?? usual) === usual || (name === 'rule' && !settings.temperature)
  );

/** The γ × T maps of a run's drafter and reveal order, as cells of temperature, T, γ, speed-up and τ, and
 *  their device. @param {Measured[]} tables @param {Record<string, any>} config */
function mapOf(tables, { pair, drafter, order }) {
  const found = tables.filter((table) => table.pair === pair).flatMap((table) =>
    (table.cells[`${drafter}/window`] ?? []).flatMap(([gamma, steps, , , mean, , , , tau]) =>
      tau && (steps === 1 || table.order === order)
        ? [{ table, cell: [table.temperature, steps, gamma, mean, tau] }]
        : []
    )
  );
  return { cells: found.map(({ cell }) => cell), device: named(found[0]?.table.device ?? '') };
}

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
    table.pair === config.pair && table.temperature === config.temperature &&
    (steps === 1 || table.order === config.order)
  ).flatMap((table) =>
    (table.cells[`${config.drafter}/${shape}`] ?? []).filter((cell) =>
      size.every((value, i) => value === cell[i])
    ).map((cell) => ({ table, cell }))
  ).sort((a, b) =>
    +(b.table.dtype === dtype) - +(a.table.dtype === dtype) || b.cell[7] - a.cell[7]
  );
}

/** A recorded speed-up in words. @param {Mean} cell */
function meanWords([, , , , mean, low, high, prompts]) {
  const ends = low === null || high === null ? '' : `, 95 % interval ${ratio(low)}–${ratio(high)}`;
  return `${times(mean)} over ${plural(prompts, 'prompt')}${ends}`;
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
 * without a drafter. @param {Measured[]} tables
 * @param {string} settings settings as a link's query
 * @param {boolean} denoises whether the drafter uses T
 */
export function predictedWords(tables, settings, denoises) {
  const config = settingsOf(settings);
  const { drafter, temperature, gamma } = config;
  if (!drafter || drafter === 'none') return '';
  const [same] = recorded(tables, config, denoises);
  if (same) return `Recorded on ${named(same.table.device)}: ${meanWords(same.cell)}.`;
  const { cells, device } = mapOf(tables, config);
  const [speedUp, tau] = (samplesAsUsual(config) && useOf(config) === 'window' &&
    between(cells, [temperature, denoises ? config.steps : 1, gamma])) || [];
  return speedUp
    ? `Predicted: ${times(speedUp)} with ${ratio(tau)} tokens per round, between recorded ` +
      `windows on ${device}.`
    : 'These settings were not recorded, so there is no prediction.';
}

/** The effect of a window and its steps on whole answers, in words: measured, where they were recorded,
 *  else τ / (v + c·T) from the recorded windows around them. Empty outside of those.
 *  @param {Measured[]} tables @param {Record<string, any>} config */
export function effectWords(tables, config) {
  const { temperature, steps, gamma } = config;
  const { cells, device } = mapOf(tables, config);
  const here = cells.filter(([degree]) => degree === temperature);
  if (!samplesAsUsual(config)) return '';
  const at = (T) => between(here, [temperature, T, gamma]);
  const counts = [...new Set(here.map(([, T]) => T))].sort((a, b) => a - b).filter(at);
  const [first, last] = [counts[0], counts[counts.length - 1]];
  const [speedUp, tau] = (counts.length && at(Math.min(steps, last))) || [];
  if (!speedUp) return '';
  if (here.some(([, T, size]) => T === steps && size === gamma)) {
    const [one] = (steps > 1 && at(1)) || [];
    return `Whole answers, measured on ${device}: ${ratio(tau)} tokens per round / ` +
      `${ratio(tau / speedUp)} vanilla tokens of time = ${times(speedUp)}${
        one ? `; with one step ${times(one)}` : ''
      }.`;
  }
  const cost = (T) => {
    const [speed, tokens] = at(T) ?? [];
    return tokens / speed;
  };
  const c = last > first ? (cost(last) - cost(first)) / (last - first) : 0;
  const v = cost(first) - c * first;
  const as = steps > last ? `, with the τ of T ${last}` : '';
  return `Whole answers, computed from the windows measured on ${device}${as}: τ / (v + c·T) = ` +
    `${ratio(tau)} / (${ratio(v)} + ${ratio(c)}·${steps}) = ${times(tau / (v + c * steps))}.`;
}

/** The recorded speed-up of a run's settings, in words, and its source; null if this kind of device
 *  or these settings were not recorded. @param {Measured[]} tables
 *  @param {RunStarted} header
 *  @param {boolean} denoises whether the drafter uses T */
export function recordedWords(tables, { config, device, dtype }, denoises) {
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
