// The player bar: play, step, scrub, speed, download.
// @ts-check

import { attribute, h, icon, text } from './dom.js';
import { RACE_SECONDS, autoSlow } from '../state/playhead.js';
import { seconds, slowWords } from '../state/format.js';
/** @import { Actions } from '../app.js' */
/** @import { Playhead } from '../state/playhead.js' */

const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const STEPS = 1000; // of the range input

export class BarView {
  /** @param {Actions} actions */
  constructor(actions) {
    const button = (/** @type {string} */ kind, /** @type {string} */ drawing, /** @type {string} */ label, /** @type {() => void} */ action, /** @type {Node[]} */ ...words) =>
      h('button', { type: 'button', class: `sd-b ${kind}`, 'aria-label': label, title: label, onclick: (/** @type {MouseEvent} */ event) => {
        action();
        if (event.detail) /** @type {HTMLElement} */ (event.currentTarget).blur(); // the space bar plays again; who came with the keyboard keeps the place
      } }, icon(drawing), ...words);
    this.play = button('sd-play', 'play', 'Play (space)', actions.toggle);
    this.scrub = /** @type {HTMLInputElement} */ (h('input', { type: 'range', class: 'sd-scrub', min: '0', max: String(STEPS), value: '0', step: '1', 'aria-label': 'Position in the race' }));
    this.scrub.addEventListener('input', () => actions.seek(Number(this.scrub.value) / STEPS));
    this.time = h('span', { class: 'sd-time' });
    this.speed = /** @type {HTMLSelectElement} */ (h('select', { class: 'sd-pick', 'aria-label': 'Playback speed, the same for all lanes' }));
    this.speed.addEventListener('change', () => actions.slow(this.speed.value === 'auto' ? null : Number(this.speed.value)));
    /** @type {boolean | null} */
    this.shown = null;
    this.element = h('div', { class: 'sd-bar', role: 'group', 'aria-label': 'Playback' },
      button('sd-back', 'start', 'Back to the start', () => actions.seek(0)),
      button('sd-prev', 'back', 'One step back (left arrow; with shift, ten)', () => actions.step(-1)),
      this.play,
      button('sd-next', 'next', 'One step on (right arrow; with shift, ten)', () => actions.step(1)),
      this.scrub, this.time, this.speed,
      button('sd-save', 'save', 'Download this trace (.jsonl.gz)', actions.save, h('span', {}, 'Trace')));
  }

  /** Another race. @param {Playhead} playhead */
  reset(playhead) {
    this.speed.textContent = '';
    const option = (/** @type {string | number} */ value, /** @type {string} */ words) => h('option', { value: String(value) }, words);
    this.speed.append(option('auto', `${slowWords(autoSlow(playhead.duration))} (auto)`), ...SPEEDS.map((slow) => option(slow, slowWords(slow))));
    this.speed.value = 'auto';
    this.speed.title = `A race is shown in about ${RACE_SECONDS} seconds; all lanes are slowed by the same factor.`;
  }

  /** While a race is measured there is nothing to play. @param {boolean} off */
  disable(off) {
    this.element.inert = off;
    if (off) {
      text(this.time, 'measuring');
      this.scrub.value = '0';
      this.scrub.style.setProperty('--share', '0%');
    }
  }

  /** @param {Playhead} playhead */
  draw({ t, duration, playing }) {
    if (this.shown !== playing) this.play.replaceChildren(icon(playing ? 'pause' : 'play'));
    this.shown = playing;
    attribute(this.play, 'aria-label', playing ? 'Pause (space)' : 'Play (space)');
    const share = duration ? t / duration : 0;
    this.scrub.value = String(Math.round(share * STEPS));
    this.scrub.style.setProperty('--share', `${(100 * share).toFixed(2)}%`);
    attribute(this.scrub, 'aria-valuetext', `${seconds(t)} of ${seconds(duration)} seconds of decode time`);
    text(this.time, `${seconds(t)} / ${seconds(duration)} s`);
  }
}
