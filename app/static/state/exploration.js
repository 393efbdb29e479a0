// Values and sentences about an answer of the Explore tab. Pure: no element, no chart, no request.

import { busyWords, plural, ratio, roughly } from './format.js';
import { placeOf } from './report.js';
/** @import { Report } from './events.d.ts' */

/** @typedef {import('./events.d.ts').Figure & {added?: {data: object[],
 *  reach?: {x: number, y: number}}}} Figure one panel; `added`: by a widget */
/** @typedef {{rows: Record<string, any>[], facts: Record<string, any>, done: number, total: number,
 *  provenance: any, machine: any, settings: Record<string, any>, report: Report,
 *  runs?: Record<string, any>[], files?: Record<string, string>, seconds?: number}} Answer `runs`:
 *  the counts of each setting on each prompt */

/** The columns of a table, in order of appearance. @param {Record<string, any>[]} rows */
export const columnsOf = (rows) => [...new Set(rows.flatMap((row) => Object.keys(row)))];

/** A table as a CSV file; a list takes one cell, and a text that a spreadsheet would calculate has
 *  an apostrophe before it. @param {Record<string, any>[]} rows */
export function csvOf(rows) {
  const columns = columnsOf(rows);
  const cell = (value) => {
    const joined = [value].flat().join(' '); // null is empty
    const words = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${joined}` : joined;
    return /[",\n\r]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((line) =>
    line.map(cell).join(',')
  ).join('\n') + '\n';
}

/** `2026-11-22 09:43 UTC` */
export const when = (date) => date.replace('T', ' ').replace(/([+]00:00|Z)$/, ' UTC');

/** The origin of an answer. @param {Answer} answer @returns {[string, string][]} */
export function originOf({ provenance, machine }) {
  const versions = Object.entries(provenance.versions ?? {}).flatMap(([name, version]) =>
    version ? [`${name} ${version}`] : []
  );
  return [
    [
      'machine',
      `${
        machine.device.startsWith('cuda')
          ? provenance.gpu || machine.device
          : `${provenance.cpu}, ${plural(provenance.cores, 'core')}`
      }; ${provenance.system}`,
    ],
    ['numbers', `${machine.dtype}, ${plural(machine.threads, 'thread')}`],
    ['software', versions.join(', ')],
    ['measured', when(provenance.date)],
    [
      'commit',
      `${provenance.commit || 'no repository'}${provenance.dirty ? ' with local changes' : ''}`,
    ],
    ['command', provenance.command],
  ];
}

/** A sentence on where, when and how completely an answer was measured. @param {Answer} answer */
export function originWords({ provenance, machine, done, total, rows }) {
  const most = Math.max(0, ...rows.map(({ prompts = 0 }) => prompts));
  const part = done < total ? ` ${done} of ${total} steps.` : '';
  const prompts = most ? `, ${plural(most, 'prompt')}` : '';
  return `${when(provenance.date)}: ${placeOf(machine)}${prompts}.${part}`;
}

/** A warning if threads had to wait for a processor; otherwise empty. @param {Answer} answer */
export function busyMachine({ rows }, crowded) {
  const worst = Math.max(0, ...rows.map((row) => row.waiting ?? 0));
  return worst < crowded ? '' : busyWords('these times', `, in the worst row: ${ratio(worst)}`);
}

/** The size of a setting: a number, or the entries of a list. */
function sizeOf(value) {
  const count = Array.isArray(value) ? value.length : String(value).split(',').length;
  return count > 1 || Array.isArray(value) ? Math.max(1, count) : Number(value) || 1;
}

/**
 * About how long a measurement takes, scaled from one with other settings: "about 2 minutes".
 * @param {Record<string, any>} values of the form
 * @param {string[]} scales fields that multiply the time
 * @param {{settings: Record<string, any>, seconds: number}} measured a measurement with its time
 * @param {(pair: string) => number} weight of a pair's target: its relative time per token
 */
export function aboutWords(values, scales, measured, weight) {
  const share = scales.reduce(
    (product, name) =>
      product * sizeOf(values[name] ?? 1) / sizeOf(measured.settings[name] ?? values[name] ?? 1),
    1,
  );
  const pairs = weight(values.pair ?? 'embedded') / weight(measured.settings.pair ?? 'embedded');
  return `about ${roughly(measured.seconds * share * pairs)}`;
}

/** The races of a mark: its own, and those of other prompts. @param {Answer | null} answer
 *  @returns {[race: string, prompt: string][]} */
export const racesOf = (answer, race) =>
  Object.keys(answer?.files ?? {}).flatMap((name) =>
    name === race || name.startsWith(`${race}@`)
      ? [[name, name.slice(race.length + 1) || 'first prompt']]
      : []
  );

/** One line about an exploration under way.
 *  @param {{phase: string, message: string, doing?: string, done?: number, total?: number,
 *  left: number | null}} message */
export function progressWords({ phase, message, doing, done = 0, total = 0, left }) {
  if (phase === 'loading') return `${message}…`;
  if (phase === 'waiting') return 'Waiting for a race to finish…';
  if (!total) return `${message}…`;
  return `${done} of ${total}: ${doing}${left === null ? '' : `, about ${roughly(left)} left`}`;
}
