// Presents the lessons to a room: one slide at a time in large type, a slim bar below, and keys for
// everything. Explanations and right answers are hidden until they are revealed. The link for the
// room opens the same lesson at its question, or after a guess at the same step, without the bar.

import { address } from './views/link.js';
import { Bar } from './views/presenter.js';
import { html, render } from './views/ui.js';
import { isFree } from './views/keys.js';
import { isOpen, lessonTab } from './page.js';
import { make } from './views/dom.js';
import { PARTS } from './lesson_steps.js';
import { SharedRoom } from './room.js';
/** @import { Guide } from './guide.js' */
/** @import { Lesson } from './learn.js' */
/** @import { Step } from './views/guide.js' */

const AGAIN = 2000; // milliseconds between counts of the room's votes
/** Keys -> their names on the bar. */
const KEYS = {
  ArrowLeft: '←',
  PageUp: '←',
  ArrowRight: '→',
  PageDown: '→',
  ' ': 'Space',
  Escape: 'Esc',
};

export class Presenter {
  /** @param {Guide} guide @param {{path: () => Lesson[], steps: (lesson: Lesson) => Step[],
   *  query: (lesson: Lesson, at: number) => URLSearchParams}} lessons */
  constructor(guide, lessons) {
    this.guide = guide;
    this.lessons = lessons;
    this.number = -1; // of the lesson; −1: no presentation
    /** @type {'' | 'link' | 'help'} the dialog that is open */
    this.dialog = '';
    this.room = new SharedRoom();
    this.timer = 0;
    /** @type {Record<string, () => void>} what its keys and buttons do */
    this.acts = {
      P: () => this.goToLesson(-1),
      N: () => this.goToLesson(1),
      '←': () => this.step(-1),
      '→': () => this.step(1),
      R: () => this.reveal(),
      Space: () => this.playback()?.act((playhead) => playhead.toggle()),
      '.': () => this.playback()?.act((playhead) => playhead.step(1)),
      ',': () => this.playback()?.act((playhead) => playhead.step(-1)),
      L: () => this.openDialog('link'),
      '?': () => this.openDialog('help'),
      Esc: () => this.leave(),
    };
    const shape = { className: 'sd sd-presenter-bar', role: 'toolbar', ariaLabel: 'Presenter' };
    this.bar = make('div', { ...shape, hidden: true }, document.body);
    document.addEventListener('keydown', (event) => this.keys(event), true); // before those controls
  }

  get lesson() {
    return this.lessons.path()[this.number];
  }

  /** The controls of the recording that is on the screen, if one is. */
  playback() {
    return this.guide.spot && isOpen('live') ? lessonTab('live')?.playback : null;
  }

  /** @param {number} number of the lesson @param {number} [at] step */
  async start(number, at = 0) {
    this.number = number;
    this.guide.room = true;
    this.bar.hidden = false;
    document.body.classList.add('sd-presenting');
    await this.follow(this.guide.start(this.lesson.title, this.lessons.steps(this.lesson), at));
  }

  /** Update the bar now, and again when the step's element is open. @param {Promise<void>} moved */
  async follow(moved) {
    this.update();
    await moved;
    if (this.number >= 0) this.update();
    await this.count();
  }

  /** Keep the room open, and poll its votes on the current step. */
  async count() {
    clearTimeout(this.timer);
    const { guide, lesson } = this;
    const { at } = guide;
    if (this.number < 0 || !this.room.shared) return;
    const room = await this.room.counts(`${lesson.name}-${PARTS[at]}`, guide.open);
    if (this.number < 0 || this.lesson !== lesson || guide.at !== at) return;
    const changed = room &&
      (room.counts.join() !== guide.votes?.join() || room.present !== guide.present);
    if (changed) {
      Object.assign(guide, { votes: room.counts, present: room.present });
      guide.draw();
      this.draw();
    }
    clearTimeout(this.timer); // two may have been under way
    this.timer = setTimeout(() => this.count(), room ? AGAIN : 5 * AGAIN);
  }

  update() {
    const query = this.lessons.query(this.lesson, this.guide.at);
    query.set('present', '1');
    address(query.toString());
    this.draw();
  }

  /** @param {'' | 'link' | 'help'} dialog */
  openDialog(dialog) {
    this.dialog = dialog;
    if (dialog === 'link' && location.protocol !== 'file:' && !this.room.shared) {
      this.room.share();
      this.count();
    }
    this.draw();
  }

  draw() {
    const { number, lesson, guide, dialog } = this;
    const title = lesson.title;
    const place = lesson.predict
      ? `Lesson ${number + 1} of ${this.lessons.path().length - 1}: `
      : '';
    const off = [guide.hides ? '' : 'Reveal', this.playback() ? '' : 'Play'];
    const skips = guide.steps[guide.at]?.skips;
    const note = guide.hides || guide.open
      ? ''
      : skips
      ? 'The answer comes next.'
      : 'Nothing is hidden here.';
    const press = (key) => this.acts[key]();
    const close = (closed) => this.dialog === closed && this.openDialog(''); // not its successor
    const bar = { title, place, note, off, dialog, link: this.link, press, close };
    render(html`<${Bar} ...${bar} />`, this.bar);
  }

  /** The link that opens this step on other machines. */
  get link() {
    const link = new URL(document.baseURI);
    link.hash = '';
    link.search = this.lessons.query(this.lesson, this.guide.at).toString();
    if (link.protocol !== 'file:') link.search += `&room=${this.room.name}`;
    return link;
  }

  /** The next or the previous step; after the last one the next lesson begins. */
  step(by) {
    const at = this.guide.at + by;
    if (at < 0) this.goToLesson(-1, true);
    else if (at >= this.guide.steps.length) this.goToLesson(1);
    else this.follow(this.guide.go(at));
  }

  /** @param {number} by lessons @param {boolean} [end] whether to begin with the last step */
  goToLesson(by, end = false) {
    const number = this.number + by;
    if (number < 0 || number >= this.lessons.path().length) return;
    this.start(number, end ? this.lessons.steps(this.lessons.path()[number]).length - 1 : 0);
  }

  reveal() {
    if (!this.guide.hides) return;
    this.guide.reveal();
    this.update();
    this.count();
  }

  leave() {
    this.room.close();
    this.number = -1;
    this.bar.hidden = true;
    this.guide.room = false;
    document.body.classList.remove('sd-presenting');
    const query = new URLSearchParams(location.search);
    for (const name of ['present', 'step']) query.delete(name);
    address(query.toString());
    this.guide.end();
  }

  keys(event) {
    const { target, key } = event;
    if (this.number < 0 || !isFree(event, key === 'Escape')) return;
    if (target.closest('input') && /^(Arrow|Page|Home|End| )/.test(key)) return; // of a slider
    if (key === ' ' && (target.closest('button, a, summary') || !this.playback())) return;
    const pressed = KEYS[key] ?? key.toUpperCase();
    const act = this.acts[pressed];
    const { dialog } = this;
    if (!act || (dialog && key === 'Escape')) return; // a dialog closes itself
    event.preventDefault();
    event.stopPropagation();
    if (dialog) this.openDialog('');
    if (!dialog || pressed !== { link: 'L', help: '?' }[dialog]) act();
  }
}
