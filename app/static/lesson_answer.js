// What the Explore and the Compare tab do for lessons: they show a part of a recorded answer, say
// what it found, and measure it again.

import { busyMachine } from './state/exploration.js';
import { watched } from './state/findings.js';
/** @import { Explore } from './explore.js' */
/** @import { LessonTab } from './page.js' */

/** @param {Explore} tab @returns {LessonTab} */
export const answerLesson = (tab) => ({
  async show({ watch: { explore, answer, panel, lines } }) {
    const { question: { answers }, root } = tab;
    answers.chosen[explore] = answers.fileOf(explore, answer);
    tab.question.showOnly(lines.length ? { panel, lines } : null);
    tab.showQuestion(explore);
    await tab.question.fetchRecorded();
    const panelOf = (key) =>
      root.querySelector(`[data-figure="${key}"]`)?.closest('.sd-panel') ?? null;
    panelOf(panel)?.closest('details')?.setAttribute('open', '');
    const selector = { board: '.sd-board', widget: '.sd-answer-aside' }[panel];
    return selector ? root.querySelector(selector) : panelOf(panel);
  },
  findings({ name, watch: { explore } }) {
    const live = tab.question.answers.live[explore];
    const sentence = live ? watched(name, live, busyMachine(live, tab.options.crowded)) : '';
    return sentence ? [sentence] : [];
  },
  run({ watch: { query } }) {
    const { job, question: { answer, form } } = tab;
    if (!job.free) return;
    form.repeat({ ...answer.settings, ...query });
    job.press('run');
  },
  progress: () => tab.job.progressNow,
  query(question) {
    const changed = tab.question.name === question ? tab.query() : '';
    return new URLSearchParams(changed).size > 1 ? changed : '';
  },
  sliders: (question) => tab.widgets.of(question)?.sliders,
  leave: () => tab.question.showOnly(null),
});
