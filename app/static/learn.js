// The Learn tab: figures that the server describes, and the lessons of the workshop, which lead through the other tabs.
// @ts-nocheck: it reads no event

import { Guide } from './views/guide.js';
import { drawFigures } from './figures.js';
import { openTab, page } from './page.js';
import { ratio } from './state/format.js';
import { text } from './views/dom.js';

const KEPT = 'specdiff-lessons';
const until = async (ready, tries = 80) => {
  for (let i = 0; i < tries; i += 1) {
    const found = ready();
    if (found) return found;
    await new Promise((later) => { setTimeout(later, 100); });
  }
  return null;
};

/** A sentence with the numbers on the screen: the visitor's own, where they measured. */
const NUMBERS = {
  'one-pass': ({ facts }) => {
    const [[, one], far] = [facts.curve[0], facts.curve.find(([rows]) => rows === 17)];
    return far ? `Here one row takes ${ratio(1000 * one)} ms and 17 rows take ${ratio(1000 * far[1])} ms: ${ratio(far[1] / one)} times as long.` : '';
  },
  gamma: ({ rows, choice }) => {
    const own = rows.filter((row) => row.speedup && row.steps === 1);
    if (own.length < 2) return '';
    const [few, many] = [own.find((row) => row.gamma >= 4) ?? own[0], own[own.length - 1]];
    return `Here, with ${choice.drafter}: γ ${few.gamma} gives ${ratio(few.speedup)}× and τ ${ratio(few.tau)}, γ ${many.gamma} gives ${ratio(many.speedup)}× and τ ${ratio(many.tau)}.`;
  },
  temperature: ({ rows }) => {
    const best = (degree) => Math.max(...rows.filter((row) => row.temperature === degree && row.tau).map((row) => row.tau));
    const degrees = rows.map((row) => row.temperature);
    const [cold, warm] = [Math.min(...degrees), Math.max(...degrees)];
    return Number.isFinite(best(warm)) ? `Here the best τ is ${ratio(best(cold))} at temperature ${cold} and ${ratio(best(warm))} at ${warm}.` : '';
  },
  lossless: ({ rows, facts }) => {
    const wrong = rows.filter((row) => !row.lossless);
    const seen = wrong.find((row) => row.distance > row.floor_high);
    return seen ? `Here “${seen.rule}” stands out after ${seen.runs.toLocaleString('en')} runs, and the exact rules are within the noise after ${facts.runs.toLocaleString('en')}.` : '';
  },
};

class Learn {
  constructor(root, lessons) {
    this.root = root;
    this.lessons = lessons;
    this.done = this.kept();
    this.guide = new Guide((done) => this.ended(done));
    this.lesson = null;
    root.addEventListener('click', ({ target }) => {
      const start = target.closest('[data-lesson]');
      if (start) this.start(lessons.find((one) => one.name === start.dataset.lesson));
      if (target.closest('.sd-print')) window.print();
    });
    this.draw();
    const asked = new URLSearchParams(location.search).get('lesson');
    document.getElementById(`lesson-${asked}`)?.scrollIntoView();
  }

  kept() {
    try { return new Set(JSON.parse(localStorage.getItem(KEPT) || '[]')); } catch { return new Set(); }
  }

  draw() {
    for (const button of this.root.querySelectorAll('[data-lesson]')) {
      const done = this.done.has(button.dataset.lesson);
      text(button, done ? '✓ Again' : 'Start');
    }
    const count = this.lessons.filter(({ name }) => this.done.has(name)).length;
    text(this.root.querySelector('.sd-progress'), `${count} of ${this.lessons.length} lessons done. `);
  }

  start(lesson) {
    this.lesson = lesson;
    const { name, title, predict, guesses, watch, explain, check, answers } = lesson;
    const figure = this.root.querySelector(`#lesson-${name} .sd-formula`).cloneNode(true);
    const numbers = document.createElement('p');
    this.guide.start(title, [
      { title: 'Predict', words: [predict], options: guesses.map((words) => ({ words })) },
      { title: 'Watch', words: [watch.words], extra: numbers, show: () => this.watch(lesson, numbers) },
      { title: 'Explain', words: explain, extra: figure },
      { title: 'Check', words: [check], options: answers },
    ]);
  }

  /** Put on the screen what a lesson is about, and return it. */
  async watch({ name, watch }, numbers) {
    const { explore, panel, trace, round, at, area } = watch;
    if (trace) {
      openTab('live');
      const player = await until(() => page.players.live);
      await player?.openMoment({ trace, round, at, lane: 'drafted' });
      return player?.root.querySelector(area) ?? null;
    }
    openTab('explore');
    const player = await until(() => page.players.explore);
    if (!player) return null;
    player.select(explore);
    const answer = await until(() => player.answer);
    if (answer && NUMBERS[name]) text(numbers, NUMBERS[name](answer));
    return panel === 'widget' ? player.aside : player.root.querySelector(`[data-figure="${panel}"]`)?.closest('.sd-panel') ?? null;
  }

  ended(done) {
    if (done && this.lesson) {
      this.done.add(this.lesson.name);
      try { localStorage.setItem(KEPT, JSON.stringify([...this.done])); } catch (error) { console.info('progress is not kept', error); }
    }
    this.draw();
    openTab('learn');
    if (this.lesson) document.getElementById(`lesson-${this.lesson.name}`)?.scrollIntoView({ block: 'center' });
  }
}

/** Called by the component of the tab once per page. */
export function mount(element, props, watch, options) {
  drawFigures(element, options);
  new Learn(element, options.lessons);
}
