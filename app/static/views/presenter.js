// Presents the lessons to a room: one slide at a time in large type, a slim bar below, and keys for
// everything. Explanations and right answers are hidden until they are revealed. The link for the
// room opens the same lesson at its question, or after a guess at the same step, without the bar.

import { classes, Dialog, Facts, html, isFree, render } from './ui.js';
import { address } from './link.js';
import { close, code, counts } from './room.js';
import { isOpen, page } from '../page.js';
import { keep, recall } from '../storage.js';
import { make } from './dom.js';
import { PARTS } from '../state/steps.js';
/** @import { App } from '../app.js' */
/** @import { Guide, Step } from './guide.js' */
/** @import { Lesson } from '../learn.js' */
/** @import { Playhead } from '../state/playhead.js' */

const KEPT = 'specdiff-projector'; // the code of the shared room and its key, for a reload
const AGAIN = 2000; // milliseconds between counts of the room's votes
const LONGEST_LINK = 1200; // characters of a link that become a QR code; app/launch.py refuses more

/** @typedef {[keys: string[], keyLabel: string, words: string, button: string,
 *  act: (room: Presenter) => unknown]} Command what a presenter can do, by keys and most also
 *  by a button */

/** @type {Command[]} */
const COMMANDS = [
  [['p'], 'P', 'previous lesson', '‹', (room) => room.goToLesson(-1)],
  [['n'], 'N', 'next lesson', '›', (room) => room.goToLesson(1)],
  [['ArrowLeft', 'PageUp'], '←', 'previous step; or Page Up', 'Back', (room) => room.step(-1)],
  [['ArrowRight', 'PageDown'], '→', 'next step; or Page Down', 'Next', (room) => room.step(1)],
  [['r'], 'R', 'reveal the explanation or the answers', 'Reveal', (room) => room.reveal()],
  [
    [' '],
    'Space',
    'play or pause the recording',
    'Play',
    (room) => room.move((player) => player.toggle()),
  ],
  [
    ['.'],
    '.',
    'one event forward in the recording',
    '',
    (room) => room.move((player) => player.step(1)),
  ],
  [
    [','],
    ',',
    'one event back in the recording',
    '',
    (room) => room.move((player) => player.step(-1)),
  ],
  [['l'], 'L', 'link for the room', 'Room link', (room) => room.openDialog('link')],
  [['?'], '?', 'these keys', 'Keys', (room) => room.openDialog('help')],
  [['Escape'], 'Esc', 'leave', 'Leave', (room) => room.leave()],
];

/** A hint on the link for a room. @param {URL} link */
function hint(link) {
  if (link.protocol === 'file:') {
    return 'This page is a file on this computer: share the file itself with the room.';
  }
  if (['localhost', '127.0.0.1', '[::1]'].includes(link.hostname)) {
    return 'Only this computer can open this address. A QR code has its network address, for ' +
      'phones on the same network. If there is no code, start the page with --host 0.0.0.0.';
  }
  return link.href.length > LONGEST_LINK
    ? 'The link is too long for a QR code. Use a shorter prompt.'
    : 'It shows the step that is on the projector; nobody can start a run there.';
}

export class Presenter {
  /** @param {Guide} guide @param {{path: () => Lesson[], steps: (lesson: Lesson) => Step[],
   *  query: (lesson: Lesson, at: number) => URLSearchParams}} lessons */
  constructor(guide, lessons) {
    this.guide = guide;
    this.lessons = lessons;
    this.number = -1; // of the lesson; −1: no presentation
    /** @type {'' | 'link' | 'help'} the dialog that is open */
    this.dialog = '';
    const kept = recall(KEPT, 'sessionStorage');
    const codes = kept || code(12);
    this.room = codes.slice(0, 12);
    this.key = codes.slice(12); // whoever has it decides what the room shows
    this.shared = Boolean(kept); // whether the room has the link and may answer
    this.timer = 0;
    const shape = { className: 'sd sd-present-bar', role: 'toolbar', ariaLabel: 'Presenter' };
    this.bar = make('div', { ...shape, hidden: true }, document.body);
    document.addEventListener('keydown', (event) => this.keys(event), true); // before the player
  }

  get lesson() {
    return this.lessons.path()[this.number];
  }

  /** The player of the recording that is on the screen, if one is. */
  playback() {
    const live = /** @type {App} */ (page.players.live);
    return this.guide.spot && isOpen('live') ? live.playback : null;
  }

  /** @param {(player: Playhead) => void} change */
  move(change) {
    this.playback()?.act(change);
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
    if (this.number < 0 || !this.shared) return;
    const room = await counts(this.room, this.key, `${lesson.name}-${PARTS[at]}`, guide.open);
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
    if (dialog === 'link' && location.protocol !== 'file:' && !this.shared) {
      this.shared = true;
      keep(KEPT, this.room + this.key, 'sessionStorage');
      this.count();
    }
    this.draw();
  }

  draw() {
    const { number, lesson } = this;
    const { guide } = this;
    const off = { Reveal: !guide.hides, Play: !this.playback() };
    const nothing = !guide.hides && !guide.open &&
      (guide.steps[guide.at]?.skips ? 'The answer comes next.' : 'Nothing is hidden here.');
    const button = (/** @type {Command} */ [, keyLabel, words, name, act]) =>
      html`
        <button type="button" class=${classes('sd-b', name === 'Reveal' && 'sd-present-reveal')}
          disabled=${off[name] ?? false} aria-label=${name.length === 1 ? words : null}
          onclick=${() => act(this)}>${name}<kbd aria-hidden="true">${keyLabel}</kbd></button>
      `;
    const [lessonBack, lessonOn, ...buttons] = COMMANDS.filter(([, , , name]) => name).map(button);
    // it may have made way for another
    const close = (dialog) => () => this.dialog === dialog && this.openDialog('');
    const keys = COMMANDS.map(([, keyLabel, words]) => [html`<kbd>${keyLabel}</kbd>`, words]);
    render(
      html`
        ${lessonBack}
        <span class="sd-present-place"
          aria-live="polite">${lesson.predict &&
            `Lesson ${number + 1} of ${this.lessons.path().length - 1}: `}${lesson.title}</span>
        ${lessonOn}<span class="sd-present-space"></span>
        ${nothing && html`<span class="sd-sub">${nothing}</span>`}${buttons}
        <${Dialog} title="Link for the room" open=${this.dialog === 'link'} closed=${close('link')}>
          ${this.dialog === 'link' && this.link()}<//>
        <${Dialog} title="Keys" open=${this.dialog === 'help'} closed=${close('help')}>
          <${Facts} all=${keys} /><//>
      `,
      this.bar,
    );
  }

  /** The link that opens this step on other machines. */
  link() {
    const link = new URL(document.baseURI);
    link.hash = '';
    link.search = `${this.lessons.query(this.lesson, this.guide.at)}${
      link.protocol === 'file:' ? '' : `&room=${this.room}`
    }`;
    const drawn = new URL('qr', document.baseURI);
    drawn.search = new URLSearchParams({ link: link.href }).toString();
    const hide = (event) => event.currentTarget.hidden = true; // hides it if the host has no /qr
    return html`
      ${link.protocol !== 'file:' && link.href.length <= LONGEST_LINK && html`
        <img class="sd-present-code" alt="QR code of the link" width="320" height="320" src=${drawn
          .href}
          onerror=${hide} />
      `}
            <p><a class="sd-present-address" href=${link.href}>${link.href}</a></p><p
        class="sd-sub">${hint(link)}</p>
    `;
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
    if (this.shared) close(this.room, this.key);
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
    const pressed = key.length === 1 ? key.toLowerCase() : key;
    const act = COMMANDS.find(([keys]) => keys.includes(pressed))?.[4];
    const { dialog } = this;
    if (!act || (dialog && key === 'Escape')) return; // a dialog closes itself
    event.preventDefault();
    event.stopPropagation();
    if (dialog) this.openDialog('');
    if (!dialog || pressed !== { link: 'l', help: '?' }[dialog]) act(this);
  }
}
