// What the Live tab does for lessons: it shows a round of a recorded race, and runs the race again.

import { DRAFTED } from './state/declared.js';
/** @import { PlayerTab } from './player_tab.js' */
/** @import { LessonTab } from './page.js' */

const VERDICT = { tab: 'live', lane: DRAFTED, at: 'verify', settings: '' }; // of a round

/** @param {PlayerTab} tab @returns {LessonTab} */
export const raceLesson = (tab) => ({
  playback: tab.playback,
  async show({ watch: { trace, area }, round }, moment) {
    const { root, staging } = tab;
    if (!(moment && (await staging.openMoment(moment)))) {
      await staging.openMoment({ ...VERDICT, trace, round });
    }
    tab.draw(); // the element must exist now, not in the next frame
    return root.querySelector(area) ?? document.querySelector(area);
  },
  findings: () => [],
  run() {
    const { form, job, shown: { settings } } = tab;
    if (settings) form.settings.take(settings);
    job.press('run');
  },
  progress: () => tab.job.progressNow,
  query: () => tab.momentQuery(),
  settings() {
    const {
      options: { recordings: [opening] },
      shown: { file, settings },
      state: { formSettings },
    } = tab;
    return [opening?.settings, file && settings].includes(formSettings) ? '' : formSettings;
  },
});
