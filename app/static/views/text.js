// The text of one lane: prompt, tokens, and the drafter's current guesses.

import { ALONG, walk } from './keys.js';
import { classes, html, View } from './ui.js';
import { SOURCES, tokenTitle } from '../state/format.js';
import { idsOf } from '../state/blanks.js';
import { isMessage } from '../state/detokenize.js';
import { isGreedy, isServed, isVanilla } from '../state/lane.js';
/** @import { Lane } from '../state/lane.js' */
/** @import { State, Token, PartialRound } from '../state/progress.js' */

const PROMPT_SHOWN = 280;
const WHOLE = 'The trace holds the text as a whole, not token by token.';

/**
 * @typedef {object} Props
 * @property {string} label @property {Lane | null} lane
 * @property {State | null} state as far as the playhead has come
 * @property {number} count of tokens
 * @property {PartialRound | null} round on screen, whose guesses follow the text
 * @property {string} moment changes when the round does
 * @property {number} pinned the token that is inspected, or −1
 * @property {(token: number, byKey: boolean) => void} press a token, by its place in the new text
 */

const looksLikeCode = (prompt) =>
  /^\s*(def |class |import |from \w+ import|#|@)|\n {4}/m.test(prompt);

/** The tokens of a draft under way, or a tree's first branch. @param {Lane} lane
 *  @param {PartialRound | null} round */
const guesses = (lane, round) =>
  round && !round.verified && (round.draft || round.passes.length)
    ? idsOf(round).map((id) => id === null ? '▒' : lane.pieces[id] ?? '').join('')
    : '';

/** @extends {View<Props, {at: number}>} */
export class Text extends View {
  /** @override */ state = { at: -1 }; // the token at which the Tab key stops; −1: the last

  /** @override */ keys = ['lane', 'count', 'moment', 'pinned'];

  /** @param {Props} [before] @override */
  drawn(before) {
    if (before && this.props.count > before.count) this.base.scrollTop = this.base.scrollHeight;
  }

  /** @param {Props} props @param {{at: number}} state @override */
  render({ label, lane, state, count, round, pinned, press }, { at }) {
    const header = lane?.header;
    const prompt = header?.prompt ?? '';
    const wholeText = lane?.wordless && lane.finished && state?.ended ? lane.finished.text : '';
    const clickable = lane && !lane.wordless && !isServed(lane);
    const kind = classes(
      'sd-text',
      (looksLikeCode(prompt) || lane?.texts.some((text) => text.includes('```'))) && 'sd-text-code',
      isMessage(lane) && 'sd-text-chat',
      clickable && 'sd-text-clickable',
    );
    const plain = isVanilla(lane) || state?.tokens[0]?.source === 'server'; // it shows no drafts
    const greedy = Boolean(lane && isGreedy(lane));
    const currentRound = round && round.committed ? round.round : -1;
    const stop = pinned >= 0 && pinned < count ? pinned : at >= 0 && at < count ? at : count - 1;
    const tokenView = (/** @type {Token} */ token, i) => {
      const hasText = lane?.pieces[token.id] !== undefined;
      const source = plain ? 'plain' : SOURCES[token.source] ? token.source : 'target';
      const unknown = hasText ? '' : `token ${token.id}, its text was not recorded; `;
      const title = unknown + tokenTitle(token, plain, greedy);
      const fresh = !plain && token.round === currentRound && 'sd-text-now';
      const kinds = [
        `sd-token-${source}`,
        !hasText && 'sd-token-id',
        fresh,
        i === pinned && 'sd-pinned',
      ];
      return html`
        <span key=${i} class=${classes('sd-token', ...kinds)} title=${title}
          tabindex=${i === stop ? 0 : -1}>${hasText ? lane?.texts[i] : String(token.id)}</span>
      `;
    };
    const tail = prompt.length > PROMPT_SHOWN ? `…${prompt.slice(-PROMPT_SHOWN)}` : prompt;
    const spans = () => /** @type {HTMLElement[]} */ ([...this.base.querySelectorAll('.sd-token')]);
    const click = ({ target }) => {
      const index = spans().findIndex((span) => span === target);
      if (index >= 0) press(index, false);
    };
    const key = (event) => {
      const to = walk(event, spans(), { ...ALONG, Enter: 0, ' ': 0 });
      if (to < 0) return;
      this.setState({ at: to });
      if (event.key === 'Enter' || event.key === ' ') press(to, true);
    };
    return html`
      <div class=${kind} tabindex="0" role="region" aria-label=${label}
        onclick=${click} onkeydown=${key}>
            <bdi class="sd-text-prompt">${tail}</bdi>
            <span>${wholeText
              ? html`<bdi title=${WHOLE}>${wholeText}</bdi>`
              : state?.tokens.map(tokenView)}</span>
            <span class="sd-text-guess">${lane && !plain && !state?.ended
              ? guesses(lane, round)
              : ''}</span></div>
    `;
  }
}
