// The steps of a lesson, for a visitor or for a room, and the link to one.

import { ElementSlot, html } from './views/ui.js';
import { lessonTab } from './page.js';
/** @import { Lesson } from './learn.js' */
/** @import { LessonExhibit } from './lesson_exhibit.js' */
/** @import { Step } from './views/guide.js' */

/** Names of the steps; in a room, a lesson's name and one of these are a question. */
export const PARTS = ['guess', 'watch', 'explain', 'answer'];

/** @param {Lesson} lesson @param {HTMLElement} root of the tab, which the server wrote
 *  @param {LessonExhibit} exhibit what it shows in another tab
 *  @param {() => string} guessed the right guess, and the visitor's @returns {Step[]} */
export function stepsOf(lesson, root, exhibit, guessed) {
  const { name, title, predict, guesses, watch, explain, check, answers } = lesson;
  const copyOf = (selector) => {
    const element = root.querySelector(`#lesson-${name} ${selector}`)?.cloneNode(true);
    return element && html`<${ElementSlot} element=${element} />`;
  };
  if (!predict) return [{ title, words: explain, extra: () => copyOf('.sd-formula') }];
  return [
    {
      title: 'Predict',
      words: [predict],
      options: guesses.map((words) => ({ words })),
      skips: true,
    },
    {
      title: 'Watch',
      words: [watch.words],
      extra: () =>
        html`
          <p class="sd-lesson-truth">${guessed()} ${lesson.truth}</p>
          ${exhibit.numbers && html`<div class="sd-guide-numbers">${exhibit.numbers}</div>`}
        `,
      show: () => exhibit.open(lesson),
    },
    {
      title: 'Explain',
      words: explain,
      instead: `${predict} What did you see?`,
      scene: () => copyOf('.sd-scene'),
      extra: () => copyOf('.sd-formula'),
    },
    {
      title: 'Check',
      words: [check],
      options: answers,
      proof: () => exhibit.proof,
      show: () => exhibit.prove(lesson),
    },
  ];
}

/** The query of a link to a step: the moment or the form on the screen, and the settings of the Live
 *  tab that differ from the defaults. @param {Lesson} lesson @param {number} at the step
 *  @param {string} pending a moment that was requested and is not shown yet
 *  @param {Record<string, unknown>} defaults */
export function linkQuery({ name, watch: { explore, trace } }, at, pending, defaults) {
  const live = lessonTab('live');
  const query = { lesson: name, step: String(at + 1) };
  const changed = at && explore ? lessonTab('explore')?.query(explore) : '';
  if (changed) {
    return new URLSearchParams({ ...query, ...Object.fromEntries(new URLSearchParams(changed)) });
  }
  const moment = trace ? pending || (at ? live?.query('') : '') : '';
  const settings = [...new URLSearchParams(live?.settings?.())].filter(([key, value]) =>
    key === 'drafter' || value !== String(defaults?.[key] ?? '')
  );
  return new URLSearchParams({
    ...query,
    ...Object.fromEntries(new URLSearchParams(moment)),
    ...Object.fromEntries(settings),
  });
}
