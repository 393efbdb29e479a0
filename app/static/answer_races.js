// The races behind an answer of Explore or Compare: their traces, the lane that a formula replays,
// and the Race tab, which plays them.

import { BASELINE, DRAFTED } from './state/declared.js';
import { buildLane } from './state/lane.js';
import { fetchTrace } from './files.js';
import { openRace } from './page.js';
/** @import { Explore } from './explore.js' */
/** @import { Lane } from './state/lane.js' */
/** @import { Races } from './views/answer.js' */

export class AnswerRaces {
  /** @param {string} folder of recorded answers
   *  @param {Pick<Explore, 'question' | 'measures' | 'job' | 'changed'>} tab */
  constructor(folder, tab) {
    this.folder = folder;
    this.tab = tab;
    this.lane = /** @type {Lane | null} */ (null); // that formulas replay
    this.laneUrl = /** @type {string | undefined} */ ('');
  }

  /** The address of a race's trace; undefined until the exploration ends. */
  async urlOf(race) {
    const { from, answer } = this.tab.question.shown;
    const file = answer.files?.[race];
    return file && (from === 'live' ? file : this.folder + file);
  }

  /** Load the drafted lane of a race, once. @param {string} race */
  async loadLane(race) {
    const url = await this.urlOf(race);
    if (url === this.laneUrl) return;
    Object.assign(this, { laneUrl: url, lane: null });
    const trace = url && await fetchTrace(url).catch(() => null); // shown without it
    if (trace && this.laneUrl === url) this.lane = buildLane(trace.lanes[DRAFTED] ?? []);
    this.tab.changed();
  }

  /** As the answer's view takes them. @returns {Races} */
  get values() {
    const { from, answer } = this.tab.question.shown;
    const there = (from === 'live' && this.tab.measures) ||
      Object.keys(answer?.files ?? {}).length > 0;
    const { lane } = this;
    return {
      there,
      lane,
      open: (race) => this.open(race),
      loadLane: (race) => this.loadLane(race),
    };
  }

  /** Let the Race tab play a race; `RACE#LANE` plays vanilla and that lane of it. */
  async open(race) {
    const [file, drafted = DRAFTED] = race.split('#');
    const { from, answer } = this.tab.question.shown;
    const url = await this.urlOf(file);
    if (!url) {
      const missing = from !== 'live'
        ? 'There is no recording of this race here.'
        : this.tab.measures
        ? 'You can open the race when the measurement is done.'
        : 'This race is missing: the measurement ended before it was sent.';
      this.tab.job.status.show(missing, false);
      return;
    }
    const { titles = {}, lanes } = answer.report;
    const title = titles[race] ??
      race.replace(/^[^@]*/, (key) => titles[key] ?? key).replace('@', ', ');
    const labels = lanes && Object.keys(lanes).length
      ? Object.fromEntries(Object.entries(lanes).map(([lane, label]) => [lane, { label }]))
      : { [BASELINE]: { label: 'Vanilla' }, [drafted]: { label: title } };
    const source = from === 'live' ? 'measured' : 'recording';
    openRace({ url, lanes: Object.keys(labels), title, labels, source });
  }
}
