// The visitor's own runs, in this browser: each has a link.

import { keep, recallValue } from '../storage.js';

/** @typedef {{query: string, title: string, at: number}} Kept a run; `at`: its end, ms */

const KEY = 'specdiff-runs';
const MOST = 30;

/** The runs that the server still keeps, latest first. @param {number} seconds it keeps them */
export const keptRuns = (seconds) =>
  recallValue(KEY, []).filter(({ at }) => Date.now() - at < 1000 * seconds);

/** @param {Kept} run */
export function keepRun(run) {
  const earlier = keptRuns(Infinity).filter(({ query }) => query !== run.query);
  keep(KEY, JSON.stringify([run, ...earlier].slice(0, MOST)));
}
