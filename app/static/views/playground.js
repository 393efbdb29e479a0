// A test with three tokens, one of Explore's panels.

import { acceptance, drawTokens, withProbability } from '../state/draws.js';
import { glossed, html, Slider } from './ui.js';
import { Engines } from './engines.js';
import { ratio } from '../state/format.js';
/** @import { Answer } from '../state/exploration.js' */

const TOKENS = ['cat', 'dog', 'owl'];
const DRAWS = 5000;
const MANY = DRAWS.toLocaleString('en');

/** Three tokens: drag p and q, see the accepted part and the residual, and draw tokens. */
export class Playground {
  figure = 'three'; // that it draws

  /** @param {() => void} changed draws the page again */
  constructor(changed) {
    this.changed = changed;
    this.engines = new Engines(changed);
    this.plays = false; // whether the answer is about engines
    this.p = [0.6, 0.3, 0.1];
    this.q = [0.3, 0.6, 0.1];
    /** @type {{counts: number[], accepted: number} | null} */
    this.drawn = null;
    this.seed = 0;
  }

  /** What the visitor has set. */
  get sliders() {
    return { p: this.p, q: this.q, tokens: TOKENS };
  }

  /** @param {Answer} answer */
  show(answer) {
    this.plays = Boolean(answer.facts.hidden);
    if (this.plays) this.engines.show(answer);
  }

  /** Bars of each token: q; p with its accepted part, min(p, q), and the part added after
   *  rejections; and its share of the draws. */
  areas() {
    const { kept } = acceptance(this.p, this.q);
    const bar = (area, share, words) =>
      share > 0.005 &&
      html`<i data-area=${area} style="--p: ${share}">${ratio(share)} ${words}</i>`;
    return TOKENS.map((token, i) =>
      html`
        <p><b>q(${token})</b>${bar('drafted', this.q[i], '')}</p>
        <p><b>p(${token})</b>${bar('kept', kept[i], 'accepted')}${bar(
          'added',
          this.p[i] - kept[i],
          'residual',
        )}</p>
        ${this.drawn &&
          html`<p><b>drawn</b>${bar('drawn', this.drawn.counts[i] / DRAWS, '')}</p>`}
      `
    );
  }

  roll() {
    this.seed += 1;
    this.drawn = drawTokens(this.p, this.q, DRAWS, this.seed);
    this.changed();
  }

  get result() {
    const { alpha, residual } = acceptance(this.p, this.q);
    const shares = (values) => TOKENS.map((token, i) => `${token} ${ratio(values[i])}`).join(', ');
    const rest = residual
      ? `After a rejection: ${shares(residual)}.`
      : 'p = q: nothing is ever rejected.';
    const seen = this.drawn
      ? ` Of ${MANY} drafts ${this.drawn.accepted.toLocaleString('en')} were accepted; the ` +
        'resulting shares are close to p: ' +
        `${shares(this.drawn.counts.map((count) => count / DRAWS))}.`
      : '';
    return `Accepted: Σ min(p, q) = ${ratio(alpha)}. ${rest}${seen}`;
  }

  view() {
    const sliders = (/** @type {'p' | 'q'} */ which, who) =>
      TOKENS.map((token, i) =>
        html`
          <${Slider} label="${which}(${token})" min=${0.01} max=${0.98} step=${0.01}
            value=${this[which][i]}
            title="Probability of “${token}” for the ${who}; the other two share the rest"
            act=${(value) => {
              this[which] = withProbability(this[which], i, value);
              this.drawn = null;
              this.changed();
            }} />
        `
      );
    return html`
      ${this.plays && this.engines.view()}
      <section class="sd-panel sd-widget" aria-label="Three tokens">
        <header><h2>Three tokens</h2><span class="sd-sub">${glossed(
          'accept with probability min(1, p/q), otherwise draw from the residual; a ' +
            'simulation in this browser',
        )}</span></header>
        <div class="sd-scene sd-scene-areas">${this.areas()}</div>
        <div class="sd-widget-sides">
          <div>${sliders('p', 'target')}${sliders('q', 'drafter')}</div>
          <div><button type="button" class="sd-explored-stop" onclick=${() =>
            this.roll()}>Draw ${MANY} tokens</button>
            <p class="sd-widget-result" aria-live="polite">${this.result}</p></div>
        </div>
      </section>
    `;
  }
}
