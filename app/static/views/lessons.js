// The lessons on their tab, which the server wrote: what was answered, and how far the visitor is.

/** @import { Lesson } from '../learn.js' */

/** @param {HTMLElement} root
 *  @param {{lessons: Lesson[], core: boolean, done: (name: string) => boolean,
 *  guessed: (lesson: Lesson) => string}} shown `core`: only the short path; `done`: whether a check
 *  was answered; `guessed`: the guess in words, empty before there is one, and behind the card */
export function markLessons(root, { lessons, core, done, guessed }) {
  root.classList.toggle('sd-workshop-core', core);
  for (const button of root.querySelectorAll('[data-path]')) {
    const path = /** @type {HTMLElement} */ (button).dataset.path;
    button.setAttribute('aria-pressed', String((path === 'core') === core));
  }
  for (const lesson of lessons.filter(({ predict }) => predict)) {
    const { name } = lesson;
    const article = root.querySelector(`#lesson-${name}`);
    if (!article) continue;
    const words = guessed(lesson);
    article.toggleAttribute('data-open', Boolean(words));
    const part = (selector) => /** @type {Element} */ (article.querySelector(selector));
    part('.sd-lesson-start').textContent = done(name) ? '✓ Again' : 'Start';
    part('.sd-lesson-guessed').textContent = words;
    const mark = root.querySelector(`[data-done="${name}"]`);
    if (mark) mark.textContent = done(name) ? '✓ done' : '';
  }
  const asked = lessons.filter((lesson) => lesson.predict && (!core || lesson.core));
  const count = asked.filter(({ name }) => done(name)).length;
  const progress = root.querySelector('.sd-workshop-progress');
  if (progress) progress.textContent = `${count} of ${asked.length} lessons done. `;
}
