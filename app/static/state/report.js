// Named facts on how a race was measured. Pure.

import { OWN_TARGETS } from './declared.js';
import { isServed } from './lane.js';
import { waiting } from './metrics.js';
import { plural, quotedWords, ratio } from './format.js';
/** @import { Finished, RunStarted } from './events.d.ts' */
/** @import { Lanes } from './race.js' */

const GRAINS = {
  step: 'every denoising step (on a GPU the clock waits for it at both ends)',
  total: 'the whole run only',
  chunk: 'each piece of the server’s stream, when it arrived here',
};
const CLOCK =
  'Decode time: prefill, drafting, scoring, verification and the loop between them. Events, ' +
  'the network, this page and model loading do not count. Compare lanes of one recording: the ' +
  'same machine runs faster or slower at another time.';
const REPLAY =
  'The player slows all lanes down alike. All times shown are decode times, as measured.';
const APART = 2; // seconds between the starts of lanes that did not run together

export function dateOf(iso) {
  const date = new Date(iso);
  return Number.isNaN(date.getTime())
    ? 'date unknown'
    : date.toLocaleDateString('en-GB', { day: 'numeric', month: 'long', year: 'numeric' });
}

/** The target's name: this project's own by its pair, others by file or folder, without the folders above and
 *  the revision. @param {RunStarted} header */
export const modelOf = ({ server, config: { pair }, models: { target = '' } }) =>
  (!server && OWN_TARGETS[String(pair)]) ||
  (target.split('/').at(-1)?.replace(/@.*|\.gguf$/g, '') || 'unknown model');

/** @param {RunStarted} header */
export const placeOf = (header) =>
  `${header.device}, ${header.dtype}${
    header.server ? '' : `, ${plural(header.threads, 'thread')}`
  }`;

/** The lanes that started. @param {Lanes} lanes */
const headersOf = (lanes) =>
  Object.entries(lanes).flatMap(([name, lane]) => lane?.header ? [{ name, run: lane.header }] : []);

/** What each attached server says about its model, and where it is. @param {Lanes} lanes */
export const serverModels = (lanes) =>
  headersOf(lanes).flatMap(({ run }) => run.server ? [run.models.target ?? run.server] : []);

/** The run that represents the race, a server's only if alone. @param {Lanes} lanes */
export function headerOf(lanes) {
  const headers = headersOf(lanes).map(({ run }) => run);
  return headers.filter((header) => !header.server).at(-1) ?? headers.at(-1) ?? null;
}

/** @param {Lanes} lanes @param {boolean} together whether it is a race, not runs of an exploration */
function orderOf(lanes, together) {
  const begun = headersOf(lanes).map(({ name, run }) => [run.started_at, name]).sort();
  if (begun.length < 2) return 'Only this lane was measured.';
  const [first, last] = [begun[0][0], begun.at(-1)?.[0]].map((at) => Date.parse(at ?? ''));
  if (last - first >= 1000 * APART) {
    return `The lanes were measured one after the other, ${begun[0][1]} first.`;
  }
  if (!together) return 'The player shows the lanes on one axis of decode time.';
  return 'The lanes ran together: always the one whose decode clock was furthest behind went on, ' +
    'until its next event. So whatever slowed the machine down for a while slowed all of them.';
}

/** @param {Lanes} lanes */
function processorOf(lanes) {
  const averages = Object.entries(lanes).filter(([, lane]) => waiting(lane) !== null).map((
    [name, lane],
  ) => `${name} ${ratio(waiting(lane))}`);
  if (!averages.length) return 'Whether threads had to wait for a processor was not measured.';
  return `Threads that waited for a processor, on average: ${averages.join(', ')}. On a quiet ` +
    'machine it is about 0.';
}

/** @param {Lanes} lanes @returns {[string, string][]} */
const serversOf = (lanes) =>
  Object.entries(lanes).flatMap(([name, lane]) =>
    !lane || !isServed(lane) ? [] : [[
      name,
      'Measured here: its tokens, and when they arrived, network included. It reports: ' +
      `${quotedWords(lane.finished && lane.finished.quoted)}. ` +
      'Not checked: its distribution, what else it is serving, and whether it has the ' +
      'model, tokenizer and machine of the other lanes.',
    ]]
  );

/** @param {Lanes} lanes @param {RunStarted} header of the run that represents the race */
export function factsOf(lanes, header, title, together = false) {
  const drafted = headersOf(lanes).filter(({ run }) => run.config.drafter !== 'none');
  const several = drafted.length > 1;
  const listOf = (/** @type {Record<string, unknown>} */ values) =>
    Object.entries(values).map(([name, value]) => `${name} ${(value ?? '') === '' ? '–' : value}`)
      .join(', ');
  const model = ({ name = '', run = header }) =>
    `${several || run.server ? name : 'drafter'}: ` +
    `${run.server ? run.models.target : run.models.drafter}`;
  return [
    ['Order', orderOf(lanes, together)],
    ['Clock', CLOCK],
    ['Replay', REPLAY],
    ['Timed', GRAINS[header.grain] || header.grain],
    ['Device', `${placeOf(header)} (${header.reason})`],
    ['Target run by', header.network || 'not recorded'],
    ['Processor', processorOf(lanes)],
    ...serversOf(lanes),
    ['Models', [`target: ${header.models.target || 'unknown'}`, ...drafted.map(model)].join('; ')],
    ['Versions', listOf(header.versions)],
    [
      'Settings',
      several
        ? drafted.map(({ name, run }) => `${name}: ${listOf(run.config)}`).join('; ')
        : listOf(header.config),
    ],
    ['Started', header.started_at || 'unknown'],
    ['Trace', title || 'untitled'],
  ];
}

/** Finished lanes and their ends. @param {Lanes} lanes @returns {[string, Finished][]} */
export const endsOf = (lanes) =>
  Object.entries(lanes).flatMap(([name, lane]) =>
    lane && lane.finished ? [[name, lane.finished]] : []
  );
