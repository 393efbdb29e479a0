// The two lanes with their decode clocks and texts. Knows one lane's state.

import { attribute, h, text } from './dom.js';
import { clockOf } from './fold.js';
import { TextView } from './draw_text.js';
import { rate, seconds } from './words.js';

const TITLES = { drafted: 'Diffusion drafts', vanilla: 'Vanilla' };
const plain = new Set();

/** Drafters that denoise nothing (specdiff_core/schema/pairs.py): no diffusion, no T. */
export function knowNoSteps(names) {
  for (const name of names) plain.add(name);
}

export function laneSubtitle(name, header) {
  if (name === 'vanilla') return 'one target pass per token';
  if (!header) return '';
  const { drafter, gamma, steps, rule, auto, tree_nodes: nodes, num_drafts: drafts, selection } = header.config;
  const most = auto ? '≤ ' : '';
  const how = nodes ? ` · B ${most}${nodes}` : drafts > 1 ? ` · K ${drafts} · ${selection.replace('_', '-')}` : plain.has(drafter) || (auto && steps === 1) ? '' : ` · T ${most}${steps}`;
  return `${drafter} · γ ${most}${gamma}${how}${auto ? ' · auto' : ''} · ${rule}`;
}

const titleOf = (name, header) => (name === 'drafted' && header && plain.has(header.config.drafter) ? 'Drafts' : TITLES[name]);

export class LaneView {
  /** @param {(round: number) => void} onRound called when a token of a round is clicked */
  constructor(name, onRound) {
    this.name = name;
    this.vanilla = name === 'vanilla';
    this.clock = h('span', { class: 'sd-clock' }, '0.000');
    this.rate = h('span', { class: 'sd-rate' }, '–');
    this.count = h('span', { class: 'sd-count' });
    this.state = h('span', { class: 'sd-done' });
    this.fill = h('div', { class: 'sd-fill' });
    this.timer = h('div', { class: 'sd-clockline', role: 'timer', 'aria-label': `${TITLES[name]}: decode time in seconds` },
      this.state, this.clock, h('span', { class: 'sd-unit' }, 's'));
    this.title = h('h2', {}, TITLES[name]);
    this.subtitle = h('span', { class: 'sd-sub' });
    this.text = new TextView(`${TITLES[name]}: text`, this.vanilla, onRound);
    this.element = h('section', { class: `sd-lane sd-${name}`, 'aria-label': TITLES[name] },
      h('header', {},
        h('div', { class: 'sd-lane-name' }, this.title, this.subtitle),
        h('div', { class: 'sd-times' },
          this.timer,
          h('div', { class: 'sd-rateline' }, this.rate, ' tokens/s'))),
      h('div', { class: 'sd-track' }, this.fill),
      this.text.element,
      this.count);
    this.lane = null;
  }

  /** A new trace: forget everything drawn. */
  reset(lane, absent = '') {
    this.lane = lane;
    this.absent = absent; // why there is none, where it is known
    this.text.reset(lane);
    for (const [element, words] of [[this.clock, '0.000'], [this.rate, '–'], [this.state, ''], [this.count, '']]) text(element, words);
    this.fill.style.transform = 'scaleX(0)';
    const header = lane ? lane.header : null;
    const title = titleOf(this.name, header);
    text(this.title, title);
    attribute(this.element, 'aria-label', title);
    attribute(this.timer, 'aria-label', `${title}: decode time in seconds`);
    attribute(this.text.element, 'aria-label', `${title}: text`);
    text(this.subtitle, laneSubtitle(this.name, header));
    this.element.classList.toggle('sd-absent', !lane);
  }

  /**
   * @param {object} state of this lane
   * @param {object|null} view the window on screen, whose guesses follow the text
   */
  draw(state, t, total, view) {
    const { lane } = this;
    if (!lane) {
      text(this.count, this.absent || (this.vanilla ? 'This trace has no vanilla lane.' : 'No drafter: only vanilla ran.'));
      return null;
    }
    const clock = clockOf(lane, state, t);
    text(this.clock, seconds(clock.seconds));
    text(this.rate, rate(clock.rate));
    text(this.state, clock.done ? '✓' : '');
    this.element.classList.toggle('sd-finished', clock.done);
    this.fill.style.transform = `scaleX(${total ? Math.min(1, state.tokens.length / total) : 0})`;
    this.text.draw(state, view);
    const noun = state.tokens.length === 1 ? 'token' : 'tokens';
    const reason = state.ended && lane.finished ? ` · ${reasonWords(lane.finished.reason)}` : '';
    text(this.count, `${state.tokens.length} ${noun}${reason}`);
    return clock;
  }
}

export const reasonWords = (reason) => (Object.hasOwn(REASONS, reason) ? REASONS[reason] : reason);

const REASONS = {
  end_of_text: 'end of text',
  length: 'length reached',
  context_full: 'context full',
  stopped: 'stopped',
};
