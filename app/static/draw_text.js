// The text of one lane: prompt, tokens, and what the drafter still guesses. Keeps one span per token and touches only
// changes.

import { h, text } from './dom.js';
import { SOURCES, tokenTitle } from './words.js';

const PROMPT_SHOWN = 280;

const looksLikeCode = (prompt) => /^\s*(def |class |import |from \w+ import|#|@)|\n {4}/m.test(prompt);

export class TextView {
  /**
   * @param {string} label its name for assistive technology
   * @param {boolean} plain whether no token has an origin to show (vanilla)
   * @param {(round: number) => void} onRound called when a token of a round is clicked
   */
  constructor(label, plain, onRound) {
    this.plain = plain;
    this.prompt = h('span', { class: 'sd-prompt' });
    this.body = h('span');
    this.guess = h('span', { class: 'sd-guess' });
    this.element = h('div', { class: 'sd-text', tabindex: '0', role: 'region', 'aria-label': label },
      this.prompt, this.body, this.guess);
    this.element.addEventListener('click', (event) => {
      const round = event.target.dataset ? event.target.dataset.round : undefined;
      if (round !== undefined && !this.plain) onRound(Number(round));
    });
    this.reset(null);
  }

  /** Another lane: forget everything drawn. */
  reset(lane, plain = this.plain) {
    this.lane = lane;
    this.plain = plain;
    this.clear();
    this.guess.textContent = '';
    const header = lane ? lane.header : null;
    const prompt = header ? header.prompt : '';
    text(this.prompt, prompt.length > PROMPT_SHOWN ? `…${prompt.slice(-PROMPT_SHOWN)}` : prompt);
    this.element.classList.toggle('sd-code', looksLikeCode(prompt));
    this.element.classList.toggle('sd-clickable', !plain);
  }

  clear() {
    this.drawn = 0;
    this.lit = [];
    this.whole = false;
    this.body.textContent = '';
  }

  /**
   * @param {object} state of this lane
   * @param {object|null} view the window on screen, whose guesses follow the text
   */
  draw(state, view) {
    if (!this.lane) return;
    const whole = this.lane.wordless && state.ended && Boolean(this.lane.finished); // only the end knows the words
    if (whole !== this.whole) this.clear();
    if (whole && !this.whole) {
      this.whole = true;
      this.body.append(h('span', { title: 'The trace holds the text as a whole, not token by token.' }, this.lane.finished.text));
    }
    if (!whole) this.tokens(state, view);
    this.guesses(view);
  }

  tokens(state, view) {
    const { body, lane, plain } = this;
    while (this.drawn > state.tokens.length) {
      body.lastChild.remove();
      this.drawn -= 1;
    }
    const grew = this.drawn < state.tokens.length;
    for (; this.drawn < state.tokens.length; this.drawn += 1) {
      const token = state.tokens[this.drawn];
      const known = lane.pieces[token.id] !== undefined;
      const kind = plain ? 'plain' : SOURCES[token.source] ? token.source : 'target';
      const shown = lane.shown[this.drawn];
      const span = h('span', { class: `sd-t sd-t-${kind}${known ? '' : ' sd-t-id'}`, title: `${known ? '' : `token ${token.id}, its text was not recorded; `}${tokenTitle(token, plain)}` },
        !known ? String(token.id) : shown === '<|endoftext|>' ? '∎' : shown);
      span.dataset.round = token.round;
      body.append(span);
    }
    this.mark(view && view.committed ? view.round : -1);
    if (grew) this.element.scrollTop = this.element.scrollHeight;
  }

  /** Light up the tokens of the round on screen. */
  mark(round) {
    if (this.plain) return;
    for (const span of this.lit) span.classList.remove('sd-now');
    this.lit = [];
    for (let i = this.drawn - 1; i >= 0 && Number(this.body.children[i].dataset.round) >= round && round >= 0; i -= 1) {
      if (Number(this.body.children[i].dataset.round) === round) this.lit.push(this.body.children[i]);
    }
    for (const span of this.lit) span.classList.add('sd-now');
  }

  guesses(view) {
    if (this.plain) return;
    const step = view && !view.verified ? view.steps[view.steps.length - 1] : null;
    const drafted = view && !view.verified && view.draft ? view.draft.ids : [];
    const ids = step ? step.ids : view && view.tree ? drafted.filter((_, node) => view.tree.lines[node] === 0) : drafted; // of a tree its first branch
    const words = ids.map((id) => (id === null ? '▒' : this.lane.pieces[id] ?? '')).join('');
    text(this.guess, words);
  }
}
