// The player bar: play, step, scrub, speed, download. Knows the player, draws its position.

import { attribute, h, icon, text } from './dom.js';
import { RACE_SECONDS, autoSlow } from './player.js';
import { seconds, slowWords } from './words.js';

const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const STEPS = 1000; // of the range input

/** After a click the space bar plays and pauses again; who came with the keyboard keeps the place. */
function press(event, action) {
  action();
  if (event.detail) event.currentTarget.blur();
}

export class BarView {
  /** @param {object} actions toggle, step(count), seek(t), slow(factor), save */
  constructor(actions) {
    const button = (kind, drawing, label, action, ...words) =>
      h('button', { type: 'button', class: `sd-b ${kind}`, 'aria-label': label, title: label, onclick: (event) => press(event, action) }, icon(drawing), ...words);
    this.play = button('sd-play', 'play', 'Play (space)', actions.toggle);
    this.scrub = h('input', { type: 'range', class: 'sd-scrub', min: '0', max: String(STEPS), value: '0', step: '1', 'aria-label': 'Position in the race' });
    this.scrub.addEventListener('input', () => actions.seek(this.scrub.value / STEPS));
    this.time = h('span', { class: 'sd-time' });
    this.speed = h('select', { class: 'sd-pick', 'aria-label': 'Playback speed, the same for all lanes' });
    this.speed.addEventListener('change', () => actions.slow(this.speed.value === 'auto' ? null : Number(this.speed.value)));
    this.save = button('sd-save', 'save', 'Download this trace (.jsonl.gz)', actions.save, h('span', {}, 'Trace'));
    this.element = h('div', { class: 'sd-bar', role: 'group', 'aria-label': 'Playback' },
      button('sd-back', 'start', 'Back to the start', () => actions.seek(0)),
      button('sd-prev', 'back', 'One step back (left arrow; with shift, ten)', () => actions.step(-1)),
      this.play,
      button('sd-next', 'next', 'One step on (right arrow; with shift, ten)', () => actions.step(1)),
      this.scrub, this.time, this.speed, this.save);
  }

  reset(player) {
    this.speed.textContent = '';
    const auto = autoSlow(player.duration);
    const option = (value, words) => h('option', { value: String(value) }, words);
    this.speed.append(option('auto', `${slowWords(auto)} (auto)`), ...SPEEDS.map((slow) => option(slow, slowWords(slow))));
    this.speed.value = 'auto';
    this.speed.title = `A race is shown in about ${RACE_SECONDS} seconds; all lanes are slowed by the same factor.`;
  }

  draw(player) {
    const { t, duration, playing } = player;
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
