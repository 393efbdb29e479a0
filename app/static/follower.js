// A page that joined a room: it shows the step that the room's projector shows, unless the visitor
// closed it.

import { html, render } from './views/ui.js';
import { page } from './page.js';
import { PARTS } from './lesson_steps.js';
import { seated } from './room.js';
/** @import { Guide } from './guide.js' */
/** @import { Lesson } from './learn.js' */

export class Follower {
  /** @param {Guide} guide @param {Lesson[]} lessons
   *  @param {{lesson: () => Lesson | null, start: (lesson: Lesson, at: number) => void,
   *  draw: () => void}} tab of the lessons */
  constructor(guide, lessons, tab) {
    this.guide = guide;
    this.lessons = lessons;
    this.tab = tab;
    this.left = ''; // the question of a room whose card was closed
    guide.about = () => this.notice();
    addEventListener('specdiff:room', () => this.follow());
  }

  /** The lesson and the step that the room's projector shows; null before it shows one.
   *  @returns {[Lesson, number] | null} */
  get projected() {
    const { question } = page.room;
    const dash = question.lastIndexOf('-');
    const lesson = this.lessons.find(({ name }) => name === question.slice(0, dash));
    const at = PARTS.indexOf(question.slice(dash + 1));
    return lesson && at >= 0 ? [lesson, at] : null;
  }

  /** Show what the projector shows. */
  follow() {
    const { closed, question, revealed } = page.room;
    const { guide, projected, tab } = this;
    guide.led = !closed;
    if (projected && !closed && question !== this.left) {
      const [lesson, at] = projected;
      if (guide.at < 0 || lesson !== tab.lesson() || at !== guide.at) tab.start(lesson, at);
      if (guide.open !== revealed) guide.reveal(revealed);
    }
    tab.draw();
  }

  /** The visitor closed the card: stay away until the projector goes on. */
  leave() {
    this.left = page.room.question;
  }

  /** Where the page is, and the way back to what the projector shows. */
  notice() {
    const { closed } = page.room;
    if (!seated || (closed && this.guide.note)) return null; // the note says it
    const { projected } = this;
    const back = () => {
      this.left = '';
      this.follow();
    };
    const away = !closed && projected && this.guide.at < 0;
    return html`
      <p class="sd-sub" role="status">${closed ||
        'You’re in the room: your answers count there, without your name.'} ${away &&
        html`
          <button type="button" class="sd-link"
            onclick=${back}>Back to the projector: ${projected[0].title}</button>
        `}</p>
    `;
  }

  /** @param {Element | null} place for the notice */
  draw(place) {
    if (place) render(this.notice(), place);
  }
}
