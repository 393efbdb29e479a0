// The Learn tab: lessons, which open the other tabs, and a summary at their end.

import { Guide } from './guide.js';
import { ElementSlot, html, render } from './views/ui.js';
import { LessonSight } from './lesson_sight.js';
import { markLessons } from './views/lessons.js';
import { Presenter } from './presenter.js';
import { gloss, know } from './views/glossary.js';
import { keep, recallValue } from './storage.js';
import { momentQuery, readMoment } from './state/moment.js';
import { address } from './views/link.js';
import { openTab, page, seated } from './page.js';
import { PARTS } from './state/steps.js';
import { send } from './views/room.js';
/** @import { App } from './app.js' */
/** @import { Explore } from './explore.js' */

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

export class Learn {
  /** @param {HTMLElement} root @param {Options} options */
  constructor(root, { lessons, defaults }) {
    this.root = root;
    this.lessons = lessons;
    this.core = new URLSearchParams(location.search).get('path') === 'core';
    this.left = ''; // the question of a room whose card was closed
    this.defaults = defaults;
    /** @type {Record<string, Answered>} by lesson */
    this.answers = recallValue(KEPT[0], {}, KEPT[1]);
    /** @type {Lesson | null} */
    this.lesson = null;
    this.guide = new Guide((onward) => this.closed(onward), (at, option) => {
      const part = at === CHECK ? 'answer' : 'guess';
      this.recordAnswer({ [part]: option });
      if (seated && option >= 0) note(send(seated, `${this.lesson?.name}-${part}`, option));
    }, (at) => { // a reload goes on here; a presentation has an address of its own
      if (this.lesson && !this.guide.room) address(this.query(this.lesson, at).toString());
    });
    const note = async (/** @type {Promise<string>} */ words) => {
      this.guide.note = await words;
      this.guide.draw();
    };
    this.guide.once = Boolean(seated); // the verdict of a check shows the answer
    this.guide.about = () => this.roomNotice();
    addEventListener('specdiff:room', () => this.followProjector());
    this.sight = new LessonSight(this.guide);
    this.presenter = new Presenter(this.guide, {
      path: () => this.path,
      steps: (lesson) => this.steps(lesson),
      query: (lesson, at) => this.query(lesson, at),
    });
    root.addEventListener('click', ({ target }) => {
      if (!(target instanceof Element)) return;
      const start = /** @type {HTMLElement | null} */ (target.closest('[data-lesson]'));
      const lesson = start && lessons.find(({ name }) => name === start.dataset.lesson);
      if (lesson) {
        this.start(lesson, start.closest('.sd-check') ? CHECK : 0);
        if (start.dataset.option) this.guide.choose(Number(start.dataset.option));
      }
      const skipped = target.closest('.sd-skip')?.closest('article')?.id;
      if (skipped) this.recordAnswer({ guess: -1 }, skipped.replace('lesson-', ''));
      if (target.closest('.sd-print')) window.print();
      if (target.closest('.sd-present')) {
        this.presenter.start(Math.max(0, this.path.findIndex((one) => one === this.lesson)));
      }
      const path = /** @type {HTMLElement | null} */ (target.closest('[data-path]'));
      if (path) {
        this.core = path.dataset.path === 'core';
        this.draw();
      }
    });
    this.draw();
    this.readLink(new URLSearchParams(location.search));
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
    const at = Number.isInteger(step) && step >= 1 && step <= PARTS.length ? step - 1 : -1;
    if (lesson && !this.path.includes(lesson)) {
      this.core = false;
      this.draw();
    }
    if (seated) return; // the projector says what is shown
    this.sight.linked = { lesson, moment: readMoment(location.search) };
    if (lesson) document.getElementById(`lesson-${lesson.name}`)?.scrollIntoView();
    if (query.get('present') === '1') {
      this.presenter.start(lesson ? this.path.indexOf(lesson) : 0, Math.max(0, at));
    } else if (lesson && at >= 0) {
      this.start(lesson, this.answers[lesson.name]?.guess === undefined ? 0 : at); // first a guess
    }
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

  /** The lesson and the step that the room's projector shows; null before it shows one.
   *  @returns {[Lesson, number] | null} */
  get projected() {
    const { question } = page.room;
    const dash = question.lastIndexOf('-');
    const lesson = this.lessons.find(({ name }) => name === question.slice(0, dash));
    const at = PARTS.indexOf(question.slice(dash + 1));
    return lesson && at >= 0 ? [lesson, at] : null;
  }

  /** On a page of a room: show what the projector shows, unless the visitor closed it. */
  followProjector() {
    const { closed, question, revealed } = page.room;
    const { guide, projected } = this;
    guide.led = !closed;
    if (projected && !closed && question !== this.left) {
      const [lesson, at] = projected;
      if (guide.at < 0 || lesson !== this.lesson || at !== guide.at) this.start(lesson, at);
      if (guide.open !== revealed) guide.reveal(revealed);
    }
    this.draw();
  }

  /** On a page of a room: where it is, and the way back to what the projector shows. */
  roomNotice() {
    const { closed } = page.room;
    if (!seated || (closed && this.guide.note)) return null; // the note says it
    const { projected } = this;
    const back = () => {
      this.left = '';
      this.followProjector();
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

  draw() {
    this.guide.draw();
    const place = this.root.querySelector('.sd-room');
    if (place) render(this.roomNotice(), place);
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
    const { sight } = this;
    this.lesson = lesson;
    Object.assign(sight, { numbers: null, proof: null });
    const { name, predict, guesses, watch, explain, check, answers } = lesson;
    const copyOf = (selector) => {
      const element = this.root.querySelector(`#lesson-${name} ${selector}`)?.cloneNode(true);
      return element && html`<${ElementSlot} element=${element} />`;
    };
    if (!predict) {
      return [{ title: lesson.title, words: explain, extra: () => copyOf('.sd-formula') }];
    }
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
            <p class="sd-truth">${this.guessed(lesson)} ${lesson.truth}</p>
            ${sight.numbers && html`<div class="sd-guide-numbers">${sight.numbers}</div>`}
          `,
        show: () => sight.open(lesson),
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
        proof: () => sight.proof,
        show: () => sight.prove(lesson),
      },
    ];
  }

  /** The query of a link to a step of a lesson: the moment or the form on the screen, and the
   *  settings of the Live tab that differ from the defaults. @param {Lesson} lesson
   *  @param {number} at */
  query({ name, watch }, at) {
    const live = /** @type {App | undefined} */ (page.players.live);
    const explore = /** @type {Explore} */ (page.players.explore);
    const query = new URLSearchParams({ lesson: name, step: String(at + 1) });
    if (this.core) query.set('path', 'core');
    const changed = at && watch.explore && explore?.state.name === watch.explore
      ? new URLSearchParams(explore.query())
      : null;
    if (changed && changed.size > 1) return new URLSearchParams([...query, ...changed]);
    const coming = this.sight.linked?.lesson?.name === name && this.sight.linked.moment
      ? momentQuery(this.sight.linked.moment)
      : ''; // requested by the link, not shown yet
    if (watch.trace) {
      for (const [key, value] of new URLSearchParams(coming || (at ? live?.momentQuery() : ''))) {
        query.set(key, value);
      }
    }
    const settings =
      [live?.recordings[0]?.settings, live?.shown.file && live.shown.settings].includes(
          live?.state.formSettings,
        )
        ? ''
        : live?.state.formSettings;
    for (const [key, value] of new URLSearchParams(settings)) {
      if (key === 'drafter' || value !== String(this.defaults?.[key] ?? '')) query.set(key, value);
    }
    return query;
  }

  /** @param {boolean} onward to the next lesson */
  closed(onward) {
    const { lesson } = this;
    this.sight.leave();
    openTab('learn');
    if (!this.guide.room) address(`tab=learn${this.core ? '&path=core' : ''}`);
    this.left = page.room.question;
    this.draw();
    if (!lesson) return;
    const next = onward ? this.path[this.path.indexOf(lesson) + 1] : null;
    document.getElementById(`lesson-${(next ?? lesson).name}`)?.scrollIntoView({ block: 'center' });
    if (next) this.start(next);
  }
}

/** Called by the component of the tab. @param {unknown} props @param {unknown} watch
 *  @param {Options} options */
export function mount(element, props, watch, options) {
  know(options.symbols);
  gloss(element);
  new Learn(element, options);
}
