// The Learn tab: figures that the server describes, and the lessons of the workshop, which lead through the other tabs.
// @ts-nocheck: it reads no event

import { Guide } from './views/guide.js';
import { Presenter } from './views/presenter.js';
import { drawFigures } from './figures.js';
import { openTab, page } from './page.js';
import { momentQuery, readMoment } from './state/moment.js';
import { proven, watched } from './state/findings.js';
import { gloss, know } from './views/glossary.js';
import { h, text } from './views/dom.js';

const KEPT = 'specdiff-lessons';
const STEPS = 4; // of each lesson: predict, watch, explain, check
const until = async (ready, tries = 80) => {
  for (let i = 0; i < tries; i += 1) {
    const found = ready();
    if (found) return found;
    await new Promise((later) => { setTimeout(later, 100); });
  }
  return null;
};

/** A player, whose tab is opened if nothing has made it yet; null where none comes. */
const playerOf = (kind) => {
  if (!page.players[kind]) openTab(kind);
  return until(() => page.players[kind]);
};

/** Put sentences into an element that is on the screen already. */
function say(place, sentences) {
  place.replaceChildren(...sentences.map((words) => h('p', {}, words)));
  gloss(place);
}

class Learn {
  constructor(root, { lessons, defaults }) {
    this.root = root;
    this.lessons = lessons;
    this.defaults = defaults;
    this.done = this.kept();
    this.guide = new Guide((done) => this.ended(done));
    this.presenter = new Presenter(this.guide, lessons, { steps: (lesson) => this.steps(lesson), query: (lesson, at) => this.query(lesson, at), left: () => this.guide.end(false) });
    this.lesson = null;
    root.addEventListener('click', ({ target }) => {
      const start = target.closest('[data-lesson]');
      if (start) this.start(lessons.find((one) => one.name === start.dataset.lesson));
      if (target.closest('.sd-print')) window.print();
      if (target.closest('.sd-present')) this.presenter.start(Math.max(0, lessons.indexOf(this.lesson)));
    });
    this.draw();
    this.follow(new URLSearchParams(location.search));
  }

  /** Begin where a link says: at a lesson, at one of its steps, or before a room. What it does not know, it passes over. */
  follow(query) {
    if (!query.has('lesson')) return;
    const lesson = this.lessons.find(({ name }) => name === query.get('lesson'));
    const step = Number(query.get('step'));
    const at = Number.isInteger(step) && step >= 1 && step <= STEPS ? step - 1 : -1;
    this.asked = { lesson, moment: readMoment(location.search) };
    if (lesson) document.getElementById(`lesson-${lesson.name}`).scrollIntoView();
    if (query.get('present') === '1') this.presenter.start(Math.max(0, this.lessons.indexOf(lesson)), Math.max(0, at));
    else if (lesson && at >= 0) this.start(lesson, at);
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

  start(lesson, at = 0) {
    this.guide.start(lesson.title, this.steps(lesson), at);
  }

  /** The steps of a lesson, for a visitor or for a room. */
  steps(lesson) {
    this.lesson = lesson;
    const { name, predict, guesses, watch, explain, check, answers } = lesson;
    const figure = this.root.querySelector(`#lesson-${name} .sd-formula`).cloneNode(true);
    const [numbers, proof] = [h('div', { class: 'sd-guide-numbers' }), h('div', {})];
    return [
      { title: 'Predict', words: [predict], options: guesses.map((words) => ({ words })) },
      { title: 'Watch', words: [watch.words], extra: numbers, show: () => this.watch(lesson, numbers) },
      { title: 'Explain', words: explain, instead: `${predict} What did you see?`, extra: figure },
      { title: 'Check', words: [check], options: answers, proof, show: () => this.prove(lesson, proof) },
    ];
  }

  /** What a link to a step of a lesson holds: the moment or the form that is on the screen, and the settings of the Live
   *  tab where they are not those that the page opens with. */
  query({ name, watch }, at) {
    const { live, explore } = page.players;
    const query = new URLSearchParams({ lesson: name, step: String(at + 1) });
    const changed = at && watch.explore && explore?.name === watch.explore && new URLSearchParams(explore.query());
    if (changed?.size > 1) return new URLSearchParams([...query, ...changed]);
    const coming = this.asked?.lesson?.name === name && this.asked.moment ? momentQuery(this.asked.moment) : ''; // of the link, not shown yet
    if (watch.trace) for (const [key, value] of new URLSearchParams(coming || (at ? live?.momentQuery() : ''))) query.set(key, value);
    const asked = [live?.recordings[0]?.asked, live?.file && live.asked].includes(live?.wanted) ? '' : live?.wanted;
    for (const [key, value] of new URLSearchParams(asked)) if (key === 'drafter' || value !== String(this.defaults[key] ?? '')) query.set(key, value);
    return query;
  }

  /** Put on the screen what a lesson is about, and return it. */
  async watch(lesson, numbers) {
    const { explore, panel, beside, query, trace, round, at, area } = lesson.watch;
    if (trace) {
      openTab('live');
      const player = await until(() => page.players.live);
      if (player) this.offerRun(numbers, player, 'live', () => document.getElementById('live-run')?.click());
      const asked = this.asked?.lesson === lesson ? this.asked.moment : null; // of the link, the first time
      this.asked = null;
      if (player && !(asked && (await player.openMoment(asked)))) await player.openMoment({ trace, round, at, lane: 'drafted' });
      return player?.root.querySelector(area) ?? null;
    }
    openTab('explore');
    const player = await until(() => page.players.explore);
    if (!player) return null;
    player.select(explore);
    const answered = async () => {
      const found = watched(lesson.name, await player.answerOf(explore));
      say(numbers, found ? [found] : []);
    };
    await answered();
    if (Object.keys(query).length) this.offerRun(numbers, player, 'explore', () => player.ask(query), answered);
    const panelOf = (key) => player.root.querySelector(`[data-figure="${key}"]`)?.closest('.sd-panel') ?? null;
    for (const one of player.root.querySelectorAll('.sd-cmp-charts > *')) one.classList.toggle('sd-guide-beside', one === panelOf(beside));
    return panel === 'widget' ? player.aside : panelOf(panel);
  }

  /** Let a visitor run what a lesson shows; a room, where thirty would wait for each other, watches the recording. An export has nothing to run. */
  offerRun(place, player, prefix, begin, ended = () => say(place, [])) {
    if (this.guide.room || !document.getElementById(`${prefix}-run`)) return;
    const progress = h('p', { class: 'sd-sub', 'aria-live': 'off' });
    const run = async () => {
      const { here } = this.guide;
      const back = () => here === this.guide.here && this.guide.look(); // a run begins with a look at its status
      begin();
      place.replaceChildren(progress);
      await until(() => {
        if (progress.textContent !== player.status.element.textContent) back();
        text(progress, player.status.element.textContent);
        return !player.busy && !player.waiting;
      }, Infinity);
      await ended();
      back();
    };
    place.append(h('button', { type: 'button', class: 'sd-link', onclick: run }, 'Run it here'));
  }

  /** Measured numbers for the verdict of a lesson's check: the visitor's own where they have any. It points at nothing. */
  async prove({ name, watch, recorded }, place) {
    const file = recorded || watch.trace;
    const [explore, live] = [watch.explore ? await playerOf('explore') : null, file ? await playerOf('live') : null];
    if (explore && explore.name !== watch.explore) explore.select(watch.explore); // a link leads here at once
    const widget = watch.panel === 'widget' ? explore?.widgets[watch.explore] : null;
    const sliders = widget?.q ? { p: widget.p, q: widget.q, tokens: widget.constructor.TOKENS } : null;
    const [explored, shown] = await Promise.all([explore?.answerOf(watch.explore) ?? null, live?.numbersOfRecording(file).catch((error) => console.warn('recording not read:', error)) ?? null]);
    say(place, proven(name, page.runs, explored, shown ?? null, sliders));
    return null;
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
  know(options.symbols);
  gloss(element);
  drawFigures(element, options);
  new Learn(element, options);
}
