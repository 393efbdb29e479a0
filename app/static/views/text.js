// The text of one lane: prompt, tokens, and what the drafter still guesses. Keeps one span per token and touches only
// changes.
// @ts-check

import { h, move, rove, text } from './dom.js';
import { isServed, isVanilla } from '../state/lane.js';
import { END_OF_TEXT, SOURCES, tokenTitle } from '../state/format.js';
/** @import { Lane, State, Window } from '../state/lane.js' */

const PROMPT_SHOWN = 280;

const looksLikeCode = (/** @type {string} */ prompt) => /^\s*(def |class |import |from \w+ import|#|@)|\n {4}/m.test(prompt);

export class TextView {
  /** @param {string} label its name for assistive technology @param {(token: number, byKey: boolean) => void} onToken a token was pressed, by its place among the new ones */
  constructor(label, onToken) {
    this.prompt = h('bdi', { class: 'sd-prompt' }); // isolated: a direction mark in it must not turn what follows
    this.body = h('span');
    this.guess = h('span', { class: 'sd-guess' });
    this.element = h('div', { class: 'sd-text', tabindex: '0', role: 'region', 'aria-label': label }, this.prompt, this.body, this.guess);
    this.element.addEventListener('click', (/** @type {MouseEvent} */ event) => {
      const token = this.spans.findIndex((span) => span === event.target);
      if (token >= 0 && !this.whole) onToken(token, false);
    });
    this.element.addEventListener('keydown', (/** @type {KeyboardEvent} */ event) => {
      const { spans } = this;
      const here = spans.findIndex((span) => span === event.target);
      if (here < 0) return;
      move(event, spans, { ArrowLeft: -1, ArrowRight: 1, Home: -spans.length, End: spans.length });
      if (event.key !== 'Enter' && event.key !== ' ') return;
      event.preventDefault();
      onToken(here, true);
    });
    this.pinned = -1; // the token that is looked at closely
    this.vanilla = false; // whether it shows no drafts
    this.greedy = false;
    /** @type {Lane | null} */
    this.lane = null;
    this.drawn = 0; // spans that stand in the body
    this.whole = false;
    /** @type {HTMLElement[]} */
    this.lit = [];
  }

  /** Another lane: forget everything drawn. @param {Lane | null} lane */
  reset(lane) {
    this.lane = lane;
    this.vanilla = isVanilla(lane) || isServed(lane);
    this.clear();
    this.guess.textContent = '';
    const header = lane ? lane.header : null;
    const prompt = header ? header.prompt : '';
    this.greedy = Boolean(header && header.config.temperature === 0);
    text(this.prompt, prompt.length > PROMPT_SHOWN ? `…${prompt.slice(-PROMPT_SHOWN)}` : prompt);
    this.element.classList.toggle('sd-code', looksLikeCode(prompt));
    this.element.classList.toggle('sd-clickable', Boolean(lane) && !lane?.wordless && !isServed(lane));
    this.pinned = -1;
  }

  /** The tokens that are drawn. @returns {HTMLElement[]} */
  get spans() {
    return this.whole ? [] : /** @type {HTMLElement[]} */ ([...this.body.children]);
  }

  /** Mark the token that is looked at closely; −1: none. @param {number} token */
  pin(token) {
    this.spans[this.pinned]?.classList.remove('sd-pinned');
    this.pinned = token;
    this.mark();
  }

  /** The pinned token is marked as soon as it is drawn. One token is in the tab order. */
  mark() {
    const { spans } = this;
    const pinned = spans[this.pinned];
    if (pinned && !pinned.classList.contains('sd-pinned')) {
      pinned.classList.add('sd-pinned');
      rove(spans, pinned);
    } else if (spans.length && !spans.some((span) => span.tabIndex === 0)) rove(spans, spans[spans.length - 1]);
  }

  clear() {
    this.drawn = 0;
    this.lit = [];
    this.whole = false;
    this.body.textContent = '';
  }

  /** @param {State} state of this lane @param {Window | null} view the window on screen, whose guesses follow the text */
  draw(state, view) {
    const { lane } = this;
    if (!lane) return;
    const whole = lane.wordless && state.ended && Boolean(lane.finished); // only the end knows the words
    if (whole !== this.whole) this.clear();
    if (whole && !this.whole && lane.finished) {
      this.whole = true;
      this.body.append(h('bdi', { title: 'The trace holds the text as a whole, not token by token.' }, lane.finished.text));
    }
    if (!whole) this.tokens(lane, state, view);
    this.guesses(lane, view);
  }

  /** @param {Lane} lane @param {State} state @param {Window | null} view */
  tokens(lane, state, view) {
    const { body, vanilla, greedy } = this;
    while (this.drawn > state.tokens.length) {
      body.lastChild?.remove();
      this.drawn -= 1;
    }
    const grew = this.drawn < state.tokens.length;
    for (; this.drawn < state.tokens.length; this.drawn += 1) {
      const token = state.tokens[this.drawn];
      const known = lane.pieces[token.id] !== undefined;
      const kind = vanilla ? 'plain' : SOURCES[token.source] ? token.source : 'target';
      const shown = lane.shown[this.drawn];
      const title = `${known ? '' : `token ${token.id}, its text was not recorded; `}${tokenTitle(token, vanilla, greedy)}`;
      const span = h('span', { class: `sd-t sd-t-${kind}${known ? '' : ' sd-t-id'}`, title }, !known ? String(token.id) : shown === END_OF_TEXT ? '∎' : shown);
      span.dataset.round = String(token.round);
      body.append(span);
    }
    this.light(view && view.committed ? view.round : -1);
    this.mark();
    if (grew) this.element.scrollTop = this.element.scrollHeight;
  }

  /** Light up the tokens of the round on screen. @param {number} round */
  light(round) {
    if (this.vanilla) return;
    for (const span of this.lit) span.classList.remove('sd-now');
    this.lit = [];
    const spans = /** @type {HTMLElement[]} */ ([...this.body.children]);
    for (let i = spans.length - 1; i >= 0 && round >= 0 && Number(spans[i].dataset.round) >= round; i -= 1) {
      if (Number(spans[i].dataset.round) === round) this.lit.unshift(spans[i]);
    }
    for (const span of this.lit) span.classList.add('sd-now');
  }

  /** @param {Lane} lane @param {Window | null} view */
  guesses(lane, view) {
    if (this.vanilla) return;
    const step = view && !view.verified ? view.passes[view.passes.length - 1] : null;
    const drafted = view && !view.verified && view.draft ? view.draft.ids : [];
    const tree = view && view.tree;
    const ids = step ? step.ids : tree ? drafted.filter((_, node) => tree.lines[node] === 0) : drafted; // of a tree its first branch
    text(this.guess, ids.map((id) => (id === null ? '▒' : lane.pieces[id] === END_OF_TEXT ? '∎' : lane.pieces[id] ?? '')).join(''));
  }
}
