// The lessons before a room: one slide at a time in large type, a slim bar below, and the keyboard for everything. What
// is explained and which answer is right stay hidden until they are revealed. The link for the room opens the same
// lesson, at the same step, without the bar.
// @ts-check

import { address } from './link.js';
import { h, text } from './dom.js';
import { isOpen, page } from '../page.js';
/** @import { Guide, Step } from './guide.js' */

/** @typedef {{name: string, title: string}} Lesson */
/** @typedef {{steps: (lesson: Lesson) => Step[], query: (lesson: Lesson, at: number) => URLSearchParams, left: (lesson: Lesson) => void}} Walk what the Learn tab knows of its lessons; `query`: what a link to a step holds */

const LONGEST = 1200; // characters of a link that become a QR code; app/launch.py refuses more

/** @type {[string, string][]} what the keys do; each is also a button of the bar, but for the two that step a recording */
const KEYS = [
  ['→ or Page Down', 'next step'], ['← or Page Up', 'previous step'], ['R', 'reveal the explanation or the answers'], ['Space', 'play or pause the recording'],
  ['. and ,', 'one event of the recording forward and back'], ['N and P', 'next and previous lesson'], ['L', 'link for the room'], ['?', 'these keys'], ['Esc', 'leave'],
];

export class Presenter {
  /** @param {Guide} guide @param {Lesson[]} lessons @param {Walk} walk */
  constructor(guide, lessons, walk) {
    this.guide = guide;
    this.lessons = lessons;
    this.walk = walk;
    this.number = -1; // of the lesson; −1: nothing is presented
    const button = (/** @type {string} */ words, /** @type {string} */ key, /** @type {() => void} */ act, name = '') => h('button', { type: 'button', class: `sd-b ${name}`, onclick: act }, words, h('kbd', { 'aria-hidden': 'true' }, key));
    this.place = h('span', { class: 'sd-present-place', 'aria-live': 'polite' });
    this.shown = button('Reveal', 'R', () => this.reveal(), 'sd-guide-next sd-present-reveal');
    this.play = button('Play', 'Space', () => this.player()?.toggle());
    this.code = h('img', { class: 'sd-present-code', alt: 'QR code of the link', width: '320', height: '320', onerror: () => { this.code.hidden = true; } }); // a host without /qr
    this.address = h('a', { class: 'sd-present-address' });
    this.note = h('p', { class: 'sd-sub' });
    const dialog = (/** @type {string} */ title, /** @type {Node[]} */ ...inside) => /** @type {HTMLDialogElement} */ (h('dialog', { class: 'sd-dialog', 'aria-label': title },
      h('form', { method: 'dialog' }, h('h2', {}, title), h('button', { class: 'sd-b', 'aria-label': 'Close' }, '✕')), ...inside));
    this.link = dialog('Link for the room', this.code, h('p', {}, this.address), this.note);
    this.help = dialog('Keys', h('dl', { class: 'sd-facts' }, ...KEYS.flatMap(([key, words]) => [h('dt', {}, h('kbd', {}, key)), h('dd', {}, words)])));
    this.bar = h('div', { class: 'sd sd-present-bar', role: 'toolbar', 'aria-label': 'Presenter', hidden: true },
      button('‹', 'P', () => this.turn(-1), 'sd-present-lesson'), this.place, button('›', 'N', () => this.turn(1), 'sd-present-lesson'),
      h('span', { class: 'sd-present-space' }), button('Back', '←', () => this.step(-1)), button('Next', '→', () => this.step(1)), this.shown, this.play,
      button('Room link', 'L', () => this.give()), button('Keys', '?', () => this.help.showModal()), button('Leave', 'Esc', () => this.leave()), this.link, this.help);
    for (const one of this.bar.querySelectorAll('.sd-present-lesson')) one.setAttribute('aria-label', one.textContent?.startsWith('‹') ? 'Previous lesson' : 'Next lesson');
    document.body.append(this.bar);
    document.addEventListener('keydown', (event) => this.keys(event), true); // before the player, whose keys these would be
  }

  get lesson() {
    return this.lessons[this.number];
  }

  /** The player of the recording that is on the screen, if one is. */
  player() {
    return (this.guide.here && isOpen('live') && page.players.live?.actions?.()) || null;
  }

  /** @param {number} number of the lesson @param {number} [at] step */
  async start(number, at = 0) {
    this.number = number;
    this.guide.room = true;
    this.bar.hidden = false;
    document.body.classList.add('sd-presenting');
    const moved = this.guide.start(this.lesson.title, this.walk.steps(this.lesson), at);
    await this.draw(moved);
  }

  /** Show where the lesson is: now, and when what it points at has come. @param {Promise<void>} moved */
  async draw(moved) {
    this.tell();
    await moved;
    if (this.number >= 0) this.tell();
  }

  tell() {
    const { guide, number, lessons, lesson } = this;
    text(this.place, `Lesson ${number + 1} of ${lessons.length}: ${lesson.title}`);
    this.shown.disabled = !guide.hides;
    this.play.disabled = !this.player();
    const query = this.walk.query(lesson, guide.at);
    query.set('present', '1');
    address(query.toString());
  }

  /** The next or the previous step; behind the last one the next lesson begins. @param {number} by */
  step(by) {
    const at = this.guide.at + by;
    if (at < 0) this.turn(-1, true);
    else if (at >= this.guide.steps.length) this.turn(1);
    else this.draw(this.guide.go(at));
  }

  /** @param {number} by lessons @param {boolean} [end] whether to begin with the last step */
  turn(by, end = false) {
    const number = this.number + by;
    if (number < 0 || number >= this.lessons.length) return;
    this.start(number, end ? this.guide.steps.length - 1 : 0);
  }

  reveal() {
    if (!this.guide.hides) return;
    this.guide.reveal();
    this.tell();
  }

  /** Show the link that opens this step on other machines. */
  give() {
    const here = new URL(document.baseURI);
    here.hash = '';
    here.search = this.walk.query(this.lesson, this.guide.at).toString();
    text(this.address, here.href);
    this.address.href = here.href;
    const code = new URL('qr', document.baseURI);
    code.search = new URLSearchParams({ link: here.href }).toString();
    const disk = here.protocol === 'file:'; // an export
    this.code.hidden = disk || here.href.length > LONGEST;
    if (!this.code.hidden) this.code.src = code.href;
    const alone = ['localhost', '127.0.0.1', '[::1]'].includes(here.hostname);
    text(this.note, disk ? 'This page is a file on this computer: give the file itself to the room.'
      : alone ? 'Only this computer can open this address. For a room, start the page with --host 0.0.0.0 and open it here by the name of this computer.'
        : this.code.hidden ? 'The link is too long for a QR code: a shorter prompt makes it fit.' : 'It opens this step on recorded runs: nothing is decoded for it.');
    this.link.showModal();
  }

  leave() {
    const { lesson } = this;
    this.number = -1;
    this.bar.hidden = true;
    this.guide.room = false;
    document.body.classList.remove('sd-presenting');
    const query = new URLSearchParams(location.search);
    for (const name of ['present', 'step']) query.delete(name);
    address(query.toString());
    this.walk.left(lesson);
  }

  /** @param {KeyboardEvent} event */
  keys(event) {
    const { target, key } = event;
    if (this.number < 0 || event.ctrlKey || event.metaKey || event.altKey || !(target instanceof Element)) return;
    if (target.closest('textarea, select, [contenteditable], input:not([type=range], [type=checkbox])') && key !== 'Escape') return;
    if (target.closest('input') && /^(Arrow|Page|Home|End| )/.test(key)) return; // it moves a slider
    if (key === ' ' && (target.closest('button, a, summary') || !this.player())) return;
    const asked = this.acts()[key.length === 1 ? key.toLowerCase() : key];
    const open = [this.link, this.help].find((one) => one.open);
    if (!asked || (open && key === 'Escape')) return; // a dialog closes itself
    event.preventDefault();
    event.stopPropagation();
    if (open) open.close();
    if (!open || open !== { l: this.link, '?': this.help }[key.toLowerCase()]) asked();
  }

  /** @returns {Record<string, () => void>} */
  acts() {
    const [next, back] = [() => this.step(1), () => this.step(-1)];
    return {
      ArrowRight: next, PageDown: next, ArrowLeft: back, PageUp: back, n: () => this.turn(1), p: () => this.turn(-1), r: () => this.reveal(), ' ': () => this.player()?.toggle(),
      '.': () => this.player()?.step(1), ',': () => this.player()?.step(-1), l: () => this.give(), '?': () => this.help.showModal(), Escape: () => this.leave(),
    };
  }
}
