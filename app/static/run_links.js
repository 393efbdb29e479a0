// Links to a race on the stage, the list of the visitor's runs, and the trace as a file.

import { download } from './views/dom.js';
import { fits } from './views/link.js';
import { gzip, serialise } from './state/trace.js';
import { keepRuns, keptRuns } from './storage.js';
import { times } from './state/format.js';
import { beginEntry } from './page.js';
/** @import { ShownRace } from './state/shown_race.js' */

/** Note the visitor's own run in the list of runs: what ran, and what came out.
 *  @param {ShownRace} shown @param {string} tab @param {string[]} noSteps drafters that don't denoise */
export function listRun(shown, tab, noSteps) {
  const query = shown.link(tab);
  if (!fits(query)) return;
  const run = shown.growing ? null : shown.run(shown.stage.first ?? '', noSteps);
  const settings = new URLSearchParams(shown.settings);
  const [gamma, steps] = [settings.get('gamma'), settings.get('steps')];
  const title = [
    new Date().toLocaleTimeString([], { hour: '2-digit', minute: '2-digit' }),
    run?.quiet && run.speedup ? times(run.speedup) : '',
    gamma && `γ ${gamma}, T ${steps}`,
    (settings.get('prompt') ?? '').slice(0, 40),
  ];
  const kept = { query, at: Date.now(), title: title.filter(Boolean).join(' · ') };
  keepRuns([kept, ...keptRuns(Infinity).filter((one) => one.query !== query)]);
}

/** Put a link to the visitor's own run into the address and the list of runs, as soon as it begins:
 *  a reload finds it again, and the browser's Back button the one before.
 *  @param {ShownRace} shown @param {string} tab @param {string[]} noSteps */
export function linkRun(shown, tab, noSteps) {
  const query = shown.link(tab);
  if (!query || !fits(query)) return;
  listRun(shown, tab, noSteps);
  const lesson = new URLSearchParams(location.search).has('lesson'); // keeps its own address
  if (!lesson) beginEntry(query);
}

/** Download the trace: the server's bytes, or the same format after a stopped run.
 *  @param {ShownRace} shown */
export async function save({ trace, lanes }) {
  if (!trace) return;
  const bytes = trace.bytes || (await gzip(new TextEncoder().encode(serialise(trace))));
  const header = Object.values(lanes).find((lane) => lane?.header)?.header;
  const stamp = header ? header.started_at.slice(0, 19).replace(/[^0-9]/g, '') : '';
  download(
    /** @type {BlobPart} */ (bytes),
    'application/gzip',
    `specdiff-${stamp || 'trace'}.jsonl.gz`,
  );
}
