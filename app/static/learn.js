// The Learn tab: lessons, which open the other tabs, and a summary at their end.

import { Follower } from './follower.js';
import { Guide } from './guide.js';
import { LessonExhibit } from './lesson_exhibit.js';
import { markLessons } from './views/lessons.js';
import { Presenter } from './presenter.js';
import { gloss, setSymbols } from './views/glossary.js';
import { keep, recallValue } from './storage.js';
import { linkQuery, PARTS, stepsOf } from './lesson_steps.js';
import { readMoment } from './state/moment.js';
import { address } from './views/link.js';
import { beginEntry, openTab, register, updateEntry } from './page.js';
import { seated, send } from './room.js';

/** @typedef {import('./state/events.d.ts').Lesson & {truth: string, round: number}} Lesson `truth`:
 *  its answer in words; `round`: of its recording; without a question, the summary */
/** @typedef {{lessons: Lesson[], defaults: Record<string, unknown>,
 *  symbols: import('./views/glossary.js').Symbols}} Options */
/** @typedef {{guess?: number, answer?: number}} Answered of a lesson; −1: skipped */

/** @type {[key: string, area: 'sessionStorage' | 'localStorage']} where answers are kept: of a
 *  room, while it lasts */
const KEPT = seated
  ? [`specdiff-lessons-${seated}`, 'sessionStorage']
  : ['specdiff-lessons', 'localStorage'];
const CHECK = PARTS.length - 1;
const CLOSED = { name: '', at: -1 };

export class Learn {
  /** @param {HTMLElement} root @param {Options} options */
  constructor(root, { lessons, defaults }) {
    this.root = root;
    this.lessons = lessons;
    this.core = new URLSearchParams(location.search).get('path') === 'core';
    this.defaults = defaults;
    /** @type {Record<string, Answered>} by lesson */
    this.answers = recallValue(KEPT[0], {}, KEPT[1]);
    /** @type {Lesson | null} */
    this.lesson = null;
    this.place = CLOSED; // the lesson and its step, for the browser's history
    this.guide = new Guide({
      answered: (at, option) => this.answered(at, option),
      moves: (at) => this.moves(at),
      moved: (at) => this.moved(at),
      ended: (onward) => this.ended(onward),
    });
    this.guide.once = Boolean(seated); // the verdict of a check shows the answer
    this.follower = new Follower(this.guide, lessons, {
      lesson: () => this.lesson,
      start: (lesson, at) => this.start(lesson, at),
      draw: () => this.draw(),
    });
    this.exhibit = new LessonExhibit(this.guide);
    this.presenter = new Presenter(this.guide, {
      path: () => this.path,
      steps: (lesson) => this.steps(lesson),
      query: (lesson, at) => this.query(lesson, at),
    });
    root.addEventListener('click', ({ target }) => target instanceof Element && this.press(target));
    this.draw();
    this.readLink(new URLSearchParams(location.search));
  }

  /** Do what a button of the tab stands for; the server wrote them. @param {Element} target */
  press(target) {
    const attribute = (name) => target.closest(`[data-${name}]`)?.getAttribute(`data-${name}`);
    const lesson = this.lessons.find(({ name }) => name === attribute('lesson'));
    const option = attribute('option'); // an answer to the lesson's check
    const path = attribute('path');
    const skipped = target.closest('.sd-lesson-skip')?.closest('article');
    if (lesson) this.start(lesson, target.closest('.sd-lesson-check') ? CHECK : 0);
    if (lesson && option) this.guide.choose(Number(option));
    if (skipped) this.recordAnswer({ guess: -1 }, skipped.id.replace('lesson-', ''));
    if (target.closest('.sd-workshop-print')) window.print();
    if (target.closest('.sd-workshop-present')) {
      this.presenter.start(Math.max(0, this.path.findIndex((one) => one === this.lesson)));
    }
    if (path) {
      this.core = path === 'core';
      this.draw();
    }
  }

  /** Keep an answer, and send it to the room that this page joined.
   *  @param {number} at step @param {number} option −1: skipped */
  async answered(at, option) {
    const part = PARTS[at];
    this.recordAnswer({ [part]: option });
    if (!seated || option < 0) return;
    this.guide.note = await send(seated, `${this.lesson?.name}-${part}`, option);
    this.guide.draw();
  }

  /** Begin an entry of the browser's history, unless the step is that of the current one.
   *  @param {number} at */
  moves(at) {
    const { guide, lesson, place } = this;
    if (!lesson || guide.room || seated || (place.name === lesson.name && place.at === at)) return;
    this.place = { name: lesson.name, at };
    beginEntry(`lesson=${lesson.name}&step=${at + 1}`);
  }

  /** Put the step into the address: a reload goes on here. A presentation has its own address.
   *  @param {number} at */
  moved(at) {
    if (!this.lesson || this.guide.room) return;
    address(this.query(this.lesson, at).toString());
    updateEntry();
  }

  /** Show the lesson and the step of an entry of the browser's history, or none.
   *  @param {Learn['place']} place */
  restore({ name, at }) {
    const lesson = this.lessons.find((one) => one.name === name);
    if (this.guide.room || seated) return;
    this.place = { name, at };
    if (lesson) this.start(lesson, at);
    else {
      this.guide.close();
      this.exhibit.leave();
      this.draw();
    }
  }

  /** The lessons to take, and the summary. @returns {Lesson[]} */
  get path() {
    return this.lessons.filter(({ core, predict }) => !this.core || core || !predict);
  }

  /** Start at a link's lesson and step, or as a presentation to a room. Unknown fields are ignored.
   *  @param {URLSearchParams} query */
  readLink(query) {
    if (!query.has('lesson')) return;
    const lesson = this.lessons.find(({ name }) => name === query.get('lesson'));
    const step = Number(query.get('step'));
    const at = Number.isInteger(step) && step >= 1 && step <= PARTS.length ? step - 1 : 0;
    if (lesson && !this.path.includes(lesson)) {
      this.core = false;
      this.draw();
    }
    if (seated) return; // the projector says what is shown
    this.exhibit.linked = { lesson, moment: readMoment(location.search) };
    if (lesson) document.getElementById(`lesson-${lesson.name}`)?.scrollIntoView();
    if (query.get('present') === '1') {
      this.presenter.start(lesson ? this.path.indexOf(lesson) : 0, at);
    } else if (lesson) this.restore({ name: lesson.name, at });
  }

  /** @param {Answered} given @param {string} [name] of the lesson */
  recordAnswer(given, name = this.lesson?.name ?? '') {
    if (this.guide.room) return; // a room's answers are not this visitor's
    this.answers[name] = { ...this.answers[name], ...given };
    keep(KEPT[0], JSON.stringify(this.answers), KEPT[1]);
    this.draw();
  }

  /** The right guess, and what the visitor guessed; a room doesn't see that. @param {Lesson} lesson */
  guessed({ name, guesses, right }) {
    const guess = this.guide.room ? -1 : this.answers[name]?.guess ?? -1;
    if (guess === right) return `✓ You said “${guesses[guess]}”, and that’s right.`;
    const answer = `The answer: “${guesses[right]}”.`;
    return guess < 0 ? answer : `✕ You said “${guesses[guess]}”. ${answer}`;
  }

  draw() {
    this.guide.draw();
    this.follower.draw(this.root.querySelector('.sd-workshop-room'));
    const { lessons, core, answers, guide } = this;
    markLessons(this.root, {
      lessons,
      core,
      done: (name) => answers[name]?.answer !== undefined,
      guessed: (lesson) => {
        const asking = guide.at >= 0 && (seated || lesson === this.lesson); // behind the card
        return asking || answers[lesson.name]?.guess === undefined ? '' : this.guessed(lesson);
      },
    });
  }

  /** @param {Lesson} lesson @param {number} [at] step */
  start(lesson, at = 0) {
    const { guess, answer } = this.answers[lesson.name] ?? {};
    const next = this.path[this.path.indexOf(lesson) + 1];
    this.guide.onward = next ? (next.predict ? 'Next lesson' : 'Summary') : '';
    this.guide.start(lesson.title, this.steps(lesson), at, { 0: guess, [CHECK]: answer });
    this.draw();
  }

  /** The steps of a lesson, for a visitor or for a room. @param {Lesson} lesson */
  steps(lesson) {
    this.lesson = lesson;
    Object.assign(this.exhibit, { numbers: null, proof: null });
    return stepsOf(lesson, this.root, this.exhibit, () => this.guessed(lesson));
  }

  /** The query of a link to a step of a lesson. @param {Lesson} lesson @param {number} at */
  query(lesson, at) {
    const query = linkQuery(lesson, at, this.exhibit.pendingMoment(lesson), this.defaults);
    if (this.core) query.set('path', 'core');
    return query;
  }

  /** Leave the lesson. @param {boolean} onward to the next one */
  ended(onward) {
    const { lesson } = this;
    this.exhibit.leave();
    openTab('learn');
    this.place = CLOSED;
    if (!this.guide.room) address(`tab=learn${this.core ? '&path=core' : ''}`);
    updateEntry();
    this.follower.leave();
    this.draw();
    if (!lesson) return;
    const next = onward ? this.path[this.path.indexOf(lesson) + 1] : null;
    document.getElementById(`lesson-${(next ?? lesson).name}`)?.scrollIntoView({ block: 'center' });
    if (next) this.start(next);
  }
}

/** Called by the component of the tab. @param {unknown} gradio @param {Options} options */
export function mount(element, gradio, options) {
  setSymbols(options.symbols);
  gloss(element);
  const learn = new Learn(element, options);
  register('learn', {
    root: element,
    get place() {
      return learn.place;
    },
    restore: (place) => learn.restore(place),
  });
}
