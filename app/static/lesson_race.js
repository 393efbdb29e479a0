// What the Live tab does for lessons: it shows a round of a recorded race, and runs the race again.

/** @import { App } from './app.js' */
/** @import { LessonTab } from './page.js' */

const VERDICT = { tab: 'live', lane: 'drafted', at: 'verify', settings: '' }; // of a round

/** @param {App} app @returns {LessonTab} */
export const raceLesson = (app) => ({
  playback: app.playback,
  async show({ watch: { trace, area }, round }, moment) {
    const { root, staging } = app;
    if (!(moment && (await staging.openMoment(moment)))) {
      await staging.openMoment({ ...VERDICT, trace, round });
    }
    app.draw(); // the element must exist now, not in the next frame
    return root.querySelector(area) ?? document.querySelector(area);
  },
  findings: () => [],
  run() {
    const { form, job, shown: { settings } } = app;
    if (settings) form.settings.take(settings);
    job.press('run');
  },
  progress: () => app.job.progressNow,
  query: () => app.momentQuery(),
  settings() {
    const { recordings: [opening], shown: { file, settings }, state: { formSettings } } = app;
    return [opening?.settings, file && settings].includes(formSettings) ? '' : formSettings;
  },
});
