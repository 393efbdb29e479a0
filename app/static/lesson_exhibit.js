// What a lesson shows in another tab: opens it there, offers to run it, and quotes its numbers.

import { canRun } from './room.js';
import { lessonTab, openLessonTab, page } from './page.js';
import { glossed, html } from './views/ui.js';
import { momentQuery } from './state/moment.js';
import { proven } from './state/findings.js';
import { until } from './views/dom.js';
/** @import { Child } from './vendor/preact.d.ts' */
/** @import { Guide } from './guide.js' */
/** @import { Lesson } from './learn.js' */
/** @import { LessonTab } from './page.js' */
/** @import { Moment } from './state/moment.js' */
/** @import { Run } from './state/findings.js' */
/** @import { Watch } from './state/events.d.ts' */

/** The tab that a lesson points at. @param {Watch} watch */
const tabOf = ({ trace, explore }) => trace ? 'live' : explore === 'compare' ? explore : 'explore';

const paragraphs = (sentences) => sentences.map((words) => html`<p>${glossed(words)}</p>`);

export class LessonExhibit {
  /** @param {Guide} guide that points at it */
  constructor(guide) {
    this.guide = guide;
    /** @type {Child} measured numbers, and a button to measure them */
    this.numbers = null;
    /** @type {Child} shown below the verdict of a check */
    this.proof = null;
    /** @type {{lesson: Lesson | undefined, moment: Moment | null} | null} requested by the link
     *  that opened the page, until it is shown */
    this.linked = null;
  }

  /** The query of the moment of a lesson that was requested and is not shown yet; else empty.
   *  @param {Lesson} lesson */
  pendingMoment(lesson) {
    const { linked } = this;
    return linked?.moment && linked.lesson === lesson ? momentQuery(linked.moment) : '';
  }

  /** Open what a lesson points at, and return its element. @param {Lesson} lesson */
  async open(lesson) {
    const tab = await openLessonTab(tabOf(lesson.watch));
    if (!tab) return null;
    const moment = this.linked?.lesson === lesson ? this.linked.moment : null; // the first time
    this.linked = null;
    this.offer(lesson, tab);
    return tab.show(lesson, moment);
  }

  /** Show the findings, and offer to run what a lesson shows. A room only watches the recording.
   *  @param {Lesson} lesson @param {LessonTab} tab @param {Run[]} [own] run that the lesson began */
  offer(lesson, tab, own = []) {
    const { watch } = lesson;
    const can = (watch.trace || Object.keys(watch.query).length > 0) && !this.guide.room &&
      canRun();
    const run = async () => {
      const { spot } = this.guide;
      const back = () => spot === this.guide.spot && this.guide.look(); // a run scrolls away
      const [before] = page.runs;
      await tab.run(lesson);
      let words = '';
      await until(() => {
        const status = tab.progress();
        const now = status.words || 'Running…';
        if (words !== now) {
          this.say(html`<p class="sd-sub" aria-live="off">${now}</p>`);
          back();
        }
        words = now;
        return status.over;
      }, Infinity);
      const own = page.runs.slice(0, watch.trace && page.runs[0] !== before ? 1 : 0);
      this.offer(lesson, tab, own);
      back();
    };
    this.say([
      paragraphs([...tab.findings(lesson), ...proven(lesson.name, own)]),
      can && html`<button type="button" class="sd-link" onclick=${run}>Run it here</button>`,
    ]);
  }

  /** @param {Child} numbers */
  say(numbers) {
    this.numbers = numbers;
    this.guide.draw();
  }

  /** Set the numbers below the verdict of a check: of the visitor's own runs. Points at nothing.
   *  @param {Lesson} lesson */
  prove(lesson) {
    const { name, watch } = lesson;
    const sliders = watch.panel === 'widget'
      ? lessonTab('explore')?.sliders?.(watch.explore)
      : null;
    this.proof = paragraphs(proven(name, page.runs, sliders ?? null));
    this.guide.draw();
    return null;
  }

  /** Show whole figures again. */
  leave() {
    for (const tab of ['explore', 'compare']) lessonTab(tab)?.leave?.();
  }
}
