// The visitor as the verifier: judges drafted tokens before the target's numbers are shown.

import { Bars } from './inspector.js';
import { Button, glossed, html, Link, View } from './ui.js';
import { cell } from '../state/format.js';
import { piece } from '../state/detokenize.js';
import { wordsOf } from '../state/narrate.js';
/** @import { Study } from '../study.js' */
/** @import { Verifier } from '../state/verifier.js' */

/** @type {Record<string, string>} short labels of keys */
const SHOWN = { ArrowRight: '→', Escape: 'Esc' };

/** @typedef {{game: Verifier, act: Pick<Study, 'judge' | 'judgeNext' | 'leaveGame' | 'share'>}} Props */

/** @extends {View<Props, {}>} */
export class Judge extends View {
  /** Keep it in view, above all the text and the buttons, and the focus here. @override */
  drawn() {
    if (this.seen === this.props.game.key) return;
    this.seen = this.props.game.key;
    if (!document.activeElement?.closest('.sd-verifier')) this.base.focus({ preventScroll: true });
    for (const part of [this.base, ...this.base.querySelectorAll('[class^=sd-verifier-]')]) {
      part.scrollIntoView({ block: 'nearest' });
    }
  }

  /** @param {Props} props @override */
  render({ game, act }) {
    const { lane, view, answer, test, last } = game;
    const word = wordsOf(lane);
    const button = (words, key, act) =>
      html`
        <button type="button" class="sd-take" aria-keyshortcuts=${key}
          onclick=${act}>${words} <small aria-hidden="true">${SHOWN[key] ?? key}</small></button>
      `;
    return html`
      <section class="sd-inspector sd-verifier" aria-label="You are the big model" tabindex="-1">
        <header>
          <h3>You are the big model: round ${view.round + 1}, position ${test.position + 1}</h3>
          <${Button} label="Done (Escape)" act=${() => act.leaveGame()}>✕<//></header>
        <p class="sd-verifier-text"><bdi>${game.before}</bdi> ${game.tokens.map((id) =>
          html`
            <b class="sd-cell sd-cell-fresh">${cell(piece(lane, id))}</b>
          `
        )}</p>
        <p>${answer === null
          ? game.question
          : html`<b>${game.agreement}</b> ${glossed(game.verdict(word))}`}</p>
        <div class="sd-verifier-keys">${answer === null
          ? [
            button('✓ Accept', 'A', () => act.judge(true)),
            button('✕ Reject', 'R', () => act.judge(false)),
          ]
          : [
            button(last ? 'Next round' : 'Next token', 'ArrowRight', () => act.judgeNext()),
            button('Done', 'Escape', () => act.leaveGame()),
          ]}<b>${game.score}</b>${game.judged > 0 &&
          html`<${Link} act=${(event) => act.share(event.currentTarget)}>Share my score<//>`}</div>
        ${answer !== null && html`<${Bars} what=${game.what} lane=${lane} greedy=${game.greedy} />`}
      </section>
    `;
  }
}
