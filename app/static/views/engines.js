// A game of Explore: which engine is broken?

import { html, Select } from './ui.js';
import { ratio } from '../state/format.js';
/** @import { Answer } from '../state/exploration.js' */

/** Which engine is broken? The visitor names the mistake of each engine; only then is it shown. */
export class Engines {
  /** @param {() => void} changed draws the page again */
  constructor(changed) {
    this.changed = changed;
    this.point = 0; // of the evidence: an index of the numbers of runs
    /** @type {Record<string, string>} letter -> the mistake that was guessed */
    this.guessed = {};
    /** @type {Answer | null} */
    this.answer = null;
  }

  /** @param {Answer} answer */
  show(answer) {
    const game = (/** @type {Answer | null} */ one) => JSON.stringify(one?.facts.hidden);
    if (game(answer) !== game(this.answer)) {
      this.point = 0;
      this.guessed = {};
    }
    this.answer = answer;
  }

  /** The numbers of runs with evidence. @returns {number[]} */
  get counts() {
    return [...new Set(this.answer?.rows.map(({ runs }) => runs) ?? [])];
  }

  /** What the test says about each engine after so many runs. */
  get evidence() {
    const runs = this.counts[this.point];
    return (this.answer?.rows ?? []).filter((row) => row.runs === runs).map((row) => ({
      letter: row.rule,
      distance: row.distance,
      noise: row.floor_high,
      p: row.p_value,
      caught: row.p_value < 1e-6,
    }));
  }

  /** Whether a guess is right; undefined without one. @param {string} letter */
  judged(letter) {
    const guess = this.guessed[letter];
    return guess ? guess === this.answer?.facts.hidden[letter] : undefined;
  }

  /** @param {string} letter @param {string} mistake */
  guess(letter, mistake) {
    this.guessed[letter] ||= mistake; // the first guess counts
    this.changed();
  }

  /** The answer to one engine, once it was guessed. @param {string} letter */
  truth(letter) {
    const { hidden, mistakes, found } = /** @type {Answer} */ (this.answer).facts;
    const [what, shows] = mistakes[hidden[letter]];
    const after = found[letter] === null
      ? 'The test has not found it in these runs.'
      : `The test finds it after ${found[letter].toLocaleString('en')} runs.`;
    return `${what} ${shows}${hidden[letter] === 'right' ? '' : ` ${after}`}`;
  }

  view() {
    const { counts, answer, guessed } = this;
    if (!answer) return null;
    const { mistakes, alpha, accepted } = answer.facts;
    this.point = Math.min(this.point, counts.length - 1);
    const letters = Object.keys(guessed);
    const right = letters.filter((letter) => this.judged(letter)).length;
    const runs = counts[this.point].toLocaleString('en');
    const options = [
      ['', 'What is wrong?'],
      .../** @type {[string, string[]][]} */ (Object.entries(mistakes)).map((
        [name, [what]],
      ) => [name, what]),
    ];
    const row = ({ letter, distance, noise, p, caught }) =>
      html`
        <tr>
          <th scope="row">${letter}</th>
          <td style="max-width: 12rem; white-space: normal">${guessed[letter]
            ? `${this.judged(letter) ? '✓' : '✕'} ${mistakes[guessed[letter]][0]}`
            : html`
              <${Select} label="Mistake of engine ${letter}" value="" options=${options}
                act=${(name) => this.guess(letter, name)} />
            `}</td>
          <td>${caught ? 'broken' : p < 0.001 ? 'suspicious' : 'cannot tell yet'}
            <span class="sd-sub"> p ${p < 1e-6 ? '< 10⁻⁶' : `= ${p.toPrecision(1)}`}</span></td>
          <td>${ratio(distance)} <span class="sd-sub">noise to ${ratio(noise)}</span></td>
          <td>${ratio(accepted[letter])}</td>
        </tr>
      `;
    return html`
      <section class="sd-panel sd-widget" aria-label="Which engine is broken?">
        <header><h2>Which engine is broken?</h2>
          <span class="sd-sub">six have one bug each, one is right</span></header>
        <label class="sd-slider"><span>Runs</span>
          <input type="range" min="0" max=${counts.length - 1} step="1" value=${this.point}
            aria-label="Runs of each engine" aria-valuetext=${runs}
            oninput=${({ currentTarget }) => {
              this.point = Number(currentTarget.value);
              this.changed();
            }} />
          <output>${runs}</output></label>
        <div class="sd-scroll" tabindex="0" role="region" aria-label="Engines">
          <table class="sd-table">
            <thead>
              <tr>
                <th scope="col">engine</th>
                <th scope="col">your guess</th>
                <th scope="col">χ² test</th>
                <th scope="col">distance to exact</th>
                <th scope="col">first draft accepted</th>
              </tr>
            </thead>
            <tbody>${this.evidence.map(row)}</tbody>
          </table>
        </div>
        <p class="sd-widget-result" aria-live="polite">${letters.length
          ? `${right} of ${letters.length} guesses ${letters.length === 1 ? 'is' : 'are'} right.`
          : `A right engine accepts its first draft in Σ min(p, q) = ${
            ratio(alpha)
          } of the runs.`}</p>
        <ul>${letters.map((letter) => html`<li><b>${letter}</b>: ${this.truth(letter)}</li>`)}</ul>
        <p class="sd-sub">Shares and charts: all ${answer.facts.runs.toLocaleString('en')} runs.</p>
      </section>
    `;
  }
}
