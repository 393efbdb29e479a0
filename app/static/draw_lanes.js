// The two texts with their decode clocks. Knows one lane's state; keeps one span per token and touches only changes.

import { h, text } from './dom.js';
import { clockOf } from './fold.js';
import { SOURCES, rate, seconds, tokenTitle } from './words.js';

const TITLES = { drafted: 'Diffusion drafts', vanilla: 'Vanilla' };
const OTHERS = ['autoregressive', 'prompt_lookup']; // drafters that denoise nothing: no diffusion, no T
const PROMPT_SHOWN = 280;

export function laneSubtitle(name, header) {
  if (name === 'vanilla') return 'one target pass per token';
  if (!header) return '';
  const { drafter, gamma, steps, rule, tree_nodes: nodes, num_drafts: drafts, selection } = header.config;
  const how = nodes ? ` · B ${nodes}` : drafts > 1 ? ` · K ${drafts} · ${selection.replace('_', '-')}` : OTHERS.includes(drafter) ? '' : ` · T ${steps}`;
  return `${drafter} · γ ${gamma}${how} · ${rule}`;
}

const titleOf = (name, header) => (name === 'drafted' && header && OTHERS.includes(header.config.drafter) ? 'Drafts' : TITLES[name]);

const looksLikeCode = (prompt) => /^\s*(def |class |import |from \w+ import|#|@)|\n {4}/m.test(prompt);

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
    this.title = h('h2', {}, TITLES[name]);
    this.subtitle = h('span', { class: 'sd-sub' });
    this.prompt = h('span', { class: 'sd-prompt' });
    this.body = h('span');
    this.guess = h('span', { class: 'sd-guess' });
    this.text = h('div', { class: 'sd-text', tabindex: '0', role: 'region', 'aria-label': `${TITLES[name]}: text` },
      this.prompt, this.body, this.guess);
    this.text.addEventListener('click', (event) => {
      const round = event.target.dataset ? event.target.dataset.round : undefined;
      if (round !== undefined && !this.vanilla) onRound(Number(round));
    });
    this.element = h('section', { class: `sd-lane sd-${name}`, 'aria-label': TITLES[name] },
      h('header', {},
        h('div', { class: 'sd-lane-name' }, this.title, this.subtitle),
        h('div', { class: 'sd-times' },
          h('div', { class: 'sd-clockline', role: 'timer', 'aria-label': `${TITLES[name]}: decode time in seconds` },
            this.state, this.clock, h('span', { class: 'sd-unit' }, 's')),
          h('div', { class: 'sd-rateline' }, this.rate, ' tokens/s'))),
      h('div', { class: 'sd-track' }, this.fill),
      this.text,
      this.count);
    this.drawn = 0;
    this.lane = null;
  }

  /** A new trace: forget everything drawn. */
  reset(lane, absent = '') {
    this.lane = lane;
    this.absent = absent; // why there is none, where it is known
    this.drawn = 0;
    this.lit = [];
    this.body.textContent = '';
    this.guess.textContent = '';
    for (const [element, words] of [[this.clock, '0.000'], [this.rate, '–'], [this.state, ''], [this.count, '']]) text(element, words);
    this.fill.style.transform = 'scaleX(0)';
    const header = lane ? lane.header : null;
    text(this.title, titleOf(this.name, header));
    text(this.subtitle, laneSubtitle(this.name, header));
    const prompt = header ? header.prompt : '';
    text(this.prompt, prompt.length > PROMPT_SHOWN ? `…${prompt.slice(-PROMPT_SHOWN)}` : prompt);
    this.text.classList.toggle('sd-code', looksLikeCode(prompt));
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
    this.tokens(state, view);
    this.guesses(view);
    const noun = state.tokens.length === 1 ? 'token' : 'tokens';
    const reason = state.ended && lane.finished ? ` · ${REASONS[lane.finished.reason] || lane.finished.reason}` : '';
    text(this.count, `${state.tokens.length} ${noun}${reason}`);
    return clock;
  }

  tokens(state, view) {
    const { body, lane } = this;
    while (this.drawn > state.tokens.length) {
      body.lastChild.remove();
      this.drawn -= 1;
    }
    const grew = this.drawn < state.tokens.length;
    for (; this.drawn < state.tokens.length; this.drawn += 1) {
      const token = state.tokens[this.drawn];
      const kind = this.vanilla ? 'plain' : SOURCES[token.source] ? token.source : 'target';
      const shown = lane.shown[this.drawn];
      const span = h('span', { class: `sd-t sd-t-${kind}`, title: tokenTitle(token, this.vanilla) },
        shown === '<|endoftext|>' ? '∎' : shown);
      span.dataset.round = token.round;
      body.append(span);
    }
    this.mark(view && view.committed ? view.round : -1);
    if (grew) this.text.scrollTop = this.text.scrollHeight;
  }

  /** Light up the tokens of the round on screen. */
  mark(round) {
    if (this.vanilla) return;
    for (const span of this.lit) span.classList.remove('sd-now');
    this.lit = [];
    for (let i = this.drawn - 1; i >= 0 && Number(this.body.children[i].dataset.round) >= round && round >= 0; i -= 1) {
      if (Number(this.body.children[i].dataset.round) === round) this.lit.push(this.body.children[i]);
    }
    for (const span of this.lit) span.classList.add('sd-now');
  }

  guesses(view) {
    if (this.vanilla) return;
    const step = view && !view.verified ? view.steps[view.steps.length - 1] : null;
    const ids = step ? step.ids : view && !view.verified && view.draft ? view.draft.ids : [];
    const words = ids.map((id) => (id === null ? '▒' : this.lane.pieces[id] ?? '')).join('');
    text(this.guess, words);
  }
}

const REASONS = {
  end_of_text: 'end of text',
  length: 'length reached',
  context_full: 'context full',
  stopped: 'stopped',
};
