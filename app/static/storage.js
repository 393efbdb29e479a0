// What the browser keeps for this page. If storage is forbidden, nothing is kept.

/** The kept text; null if there is none, undefined if storage is forbidden. */
export function recall(key, area = 'localStorage') {
  try {
    return globalThis[area].getItem(key);
  } catch (error) {
    console.info(`${key} cannot be read:`, error);
    return undefined;
  }
}

/** A kept value; ``fallback`` if there is none or it is damaged. */
export function recallValue(key, fallback, area = 'localStorage') {
  try {
    return JSON.parse(recall(key, area)) ?? fallback;
  } catch (error) {
    console.info(`${key} is damaged:`, error);
    return fallback;
  }
}

/** Keep a text; null removes it. */
export function keep(key, text, area = 'localStorage') {
  try {
    if (text === null) globalThis[area].removeItem(key);
    else globalThis[area].setItem(key, text);
  } catch (error) {
    console.info(`${key} is not kept:`, error);
  }
}

const RUNS = 'specdiff-runs';
const MOST_RUNS = 30;

/** @typedef {{query: string, title: string, at: number}} KeptRun `at`: its end, ms */
/** The visitor's runs that the server still keeps, latest first. @param {number} seconds it keeps them
 *  @returns {KeptRun[]} */
export const keptRuns = (seconds) =>
  recallValue(RUNS, []).filter(({ at }) => Date.now() - at < 1000 * seconds);

/** @param {KeptRun[]} runs */
export const keepRuns = (runs) => keep(RUNS, JSON.stringify(runs.slice(0, MOST_RUNS)));
