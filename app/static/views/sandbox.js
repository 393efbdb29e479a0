// The sandbox of a round's cost, one of Explore's panels.

import { glossed, html, Select, Slider } from './ui.js';
import { alphasOf, hintWords, presetsOf, resultWords, sandbox } from '../state/sandbox.js';
import { readCurve, rising } from '../state/costs.js';
import { times } from '../state/format.js';
import { ring, trace } from '../state/plotting.js';
/** @import { Answer } from '../state/exploration.js' */
/** @import { Sandbox as Box } from '../state/sandbox.js' */

/** @typedef {'alpha' | 'gamma' | 'draft' | 'passes' | 'count'} Dragged */
/** @type {[Dragged, string, number, number, number, string][]} name, label, range, step, meaning */
const SLIDERS = [
  ['alpha', 'α', 0, 0.99, 0.01, 'Acceptance of each position, given that it is reached'],
  ['gamma', 'γ', 1, 32, 1, 'Tokens drafted per round; of a tree, its depth'],
  ['draft', 'drafter pass', 0, 1.5, 0.01, 'Cost of one drafter pass, in passes of vanilla'],
  [
    'passes',
    'passes',
    0,
    32,
    1,
    'Drafter passes per round: T of a denoiser, γ of a model that writes token by token',
  ],
  ['count', 'K or B', 1, 64, 1, 'Drafts, or nodes of the tree'],
];
const SHAPES = [
  ['window', 'one window'],
  ['drafts', 'K independent windows'],
  ['tree', 'a tree of B nodes'],
];
const QUESTIONS = [
  'Drag α down until drafting no longer pays off. How far did you get?',
  'Set α to 0.9. Which γ is best now, and why not 32?',
  'Make the drafter free. What speed-up does that give at α 0.5?',
  'Which is better at α 0.6: a window of 16, or a tree of 16?',
  'Give each position its own α. Which one counts most: the first, or the last?',
];
const UNREAD = 'Enter at least two pairs, like “1 4.8, 17 7.0”. The last readable curve is used.';
const POSITIONS = [['', 'one for all'], ['each', 'one for each']];
const subscript = (number) =>
  [...String(number)].map((digit) => '₀₁₂₃₄₅₆₇₈₉'[Number(digit)]).join('');

/** A list to choose from, below its label. @param {Parameters<typeof Select>[0]} props */
const Labelled = (props) =>
  html`<label><span class="sd-sub">${props.label}</span><${Select} ...${props} /></label>`;

/** The sandbox: a hypothetical drafter, with this machine's cost curve or another's. */
export class Sandbox {
  /** @param {() => void} changed draws the page again */
  constructor(changed) {
    this.changed = changed;
    /** @type {Box} */
    this.box = { alpha: 0.7, gamma: 8, passes: 1, draft: 0.5, shape: 'window', count: 4 };
    this.words = ''; // the typed curve
    /** @type {[number, number][] | null} the curve parsed from it */
    this.typed = null;
    this.preset = '';
    /** @type {Answer | null} */
    this.answer = null;
  }

  /** @param {Answer} answer */
  show(answer) {
    this.answer = answer;
  }

  /** The curve in use. */
  get used() {
    return rising(this.typed || this.answer?.facts.curve || [[1, 1], [32, 2]]);
  }

  /** Data to add to a figure, and the axis ranges it needs. */
  adds(key) {
    const { cost, tau, speedup } = sandbox(this.box, this.used);
    if (key === 'passes' && this.typed) {
      const rows = this.typed.map(([size]) => size);
      const ms = this.typed.map(([, seconds]) => 1000 * seconds);
      return { data: [trace('typed', rows, ms, '@accent', { dash: 'longdash' })] };
    }
    if (key !== 'plane') return { data: [] };
    const hovertemplate = 'the sandbox: τ = %{y:.2f}, cost %{x:.2f} bare passes<extra></extra>';
    return {
      data: [ring(`sandbox ${times(speedup)}`, cost, tau, '@accent', { hovertemplate })],
      reach: { x: 1.08 * cost, y: 1.08 * tau },
    };
  }

  /** @param {Partial<Box>} change */
  set(change) {
    Object.assign(this.box, change);
    this.changed();
  }

  take(preset) {
    this.preset = preset;
    this.set({ alphas: null, extra: 0, ...presetsOf(this.answer)[preset] });
  }

  type(words) {
    this.words = words;
    this.typed = readCurve(words) ?? this.typed;
    this.changed();
  }

  view() {
    const { box, answer, used } = this;
    const alphas = box.alphas ? alphasOf(box) : [];
    const hidden = { alpha: alphas.length > 0, count: box.shape === 'window' };
    const curve = /** @type {[number, number][]} */ (answer?.facts.curve ?? []);
    const measured = curve.map(([width, time]) => `${width} ${(1000 * time).toFixed(2)}`).join(
      ', ',
    );
    const stops = /** @type {Set<string>} */ (new Set());
    const presets = [
      ['', 'your own'],
      ...Object.keys(presetsOf(answer)).map((words) => [words, words]),
    ];
    const set = (j, now) => this.set({ alphas: alphas.map((old, i) => i === j ? now : old) });
    return html`
      <section class="sd-panel sd-widget" aria-label="Sandbox">
        <header><h2>Sandbox</h2>
          <span class="sd-sub">a drafter that you make up; computed, not measured</span></header>
        <div class="sd-widget-sides">
          <div>
              <div class="sd-sandbox-selects">
                <${Labelled} label="What is drafted" value=${box.shape} options=${SHAPES}
                  act=${(shape) => this.set({ shape, extra: 0 })} />
                <${Labelled} label="Drafter to begin with" value=${this.preset} options=${presets}
                  act=${(words) => this.take(words)} />
                <${Labelled} label="α of the positions" value=${box.alphas ? 'each' : ''}
                  options=${POSITIONS}
                  act=${(each) => this.set({ alphas: each ? alphasOf(box) : null })} /></div>
              <div class="sd-sandbox-bars" role="group" aria-label="α of each position" hidden=${!alphas
                .length}>${alphas.map((value, j) =>
                  html`
                    <${Slider} key=${j} label="α${subscript(j + 1)}" min=${0} max=${1} step=${0.01}
                      title="Acceptance of position ${j +
                        1}, given that it is reached" value=${value}
                      act=${(now) => set(j, now)} />
                  `
                )}</div>
              ${SLIDERS.map(([name, label, min, max, step, title]) =>
                html`
                  <${Slider} ...${{ label, title, min, max, step, value: box[name] }}
                    hidden=${hidden[/** @type {'alpha'} */ (name)] ?? false} act=${(value) =>
                      this.set({ [name]: value })} />
                `
              )}
              <label class="sd-sandbox-curve">
                <span class="sd-sub">
                  Target passes: rows and milliseconds. You can type another machine’s.</span>
                <textarea rows="2" spellcheck="false"
                  aria-label="Cost of the target’s pass, rows and milliseconds"
                  value=${this.words || measured} oninput=${({ currentTarget }) =>
                    this.type(currentTarget.value)}></textarea></label>
              <small role="status">${this.words && !readCurve(this.words) ? UNREAD : ''}</small>
            </div>
          <div>
            <p class="sd-widget-result" aria-live="polite">${resultWords(box, used)}</p>
            <ul>${QUESTIONS.map((words) => html`<li>${glossed(words, stops)}</li>`)}</ul>
            <details>
              <summary>Answers for these sliders</summary>
              <ul>${hintWords(box, used).map((words) => html`<li>${words}</li>`)}</ul>
            </details>
          </div>
        </div>
      </section>
    `;
  }
}
