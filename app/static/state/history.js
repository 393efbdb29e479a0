// The visitor's own runs, in this browser: each has a link.

/** @typedef {{query: string, title: string, at: number}} Kept a run: its link, its title, and when it ended (ms) */

const KEY = 'specdiff-runs';
const MOST = 30;

/** The kept runs, latest first, without those that the server has deleted. @param {number} seconds that it keeps them @returns {Kept[]} */
export function keptRuns(seconds) {
  try {
    const known = JSON.parse(localStorage.getItem(KEY) ?? '[]');
    return known.filter((/** @type {Kept} */ { at }) => Date.now() - at < 1000 * seconds);
  } catch (error) {
    console.info('no runs kept:', error); // storage may be forbidden
    return [];
  }
}

/** @param {Kept} run */
export function keepRun(run) {
  const known = keptRuns(Infinity).filter(({ query }) => query !== run.query);
  try {
    localStorage.setItem(KEY, JSON.stringify([run, ...known].slice(0, MOST)));
  } catch (error) {
    console.info('run not kept:', error);
  }
}
