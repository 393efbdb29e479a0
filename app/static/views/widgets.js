// What a visitor drags and clicks on the Explore tab: the sandbox of a round's cost, a test of three tokens, and two runs
// along one text.
// @ts-check

import { BRANCH } from '../state/alignment.js';
import { InspectorView } from './inspector.js';
import { h, text } from './dom.js';
import {
  acceptance,
  aligned,
  alphasOf,
  bestGamma,
  breakEven,
  costAt,
  drawTokens,
  readCurve,
  sandbox,
  trackOf,
  uniform,
  withProbability,
} from '../state/exploration.js';
import { again } from '../state/inspect.js';
import { buildLane, stateAt } from '../state/lane.js';
import { cell as inCell, LEGEND, quoted, ratio, short, SOURCES, times } from '../state/format.js';
import { piece, sharePieces } from '../state/detokenize.js';
import { unzip } from '../state/trace.js';
/** @import { Answer, Cell, Sandbox } from '../state/exploration.js' */
/** @import { Lane } from '../state/lane.js' */

/** @typedef {{race: (name: string) => Promise<Uint8Array | undefined>, open: (name: string) => void, ask: (values: Record<string, any>) => boolean, given: (run: 'a' | 'b', round: number) => {given: string} | {why: string}}} Tools a race of the answer, the player, a live measurement: whether it began; and what it needs to know of an opened run */

/** A labelled slider that says its value. @param {string} label @param {{min: number, max: number, step: number, value: number, title: string}} limits @param {(value: number) => void} heard */
function slider(label, { title, ...limits }, heard) {
  const input = h('input', { type: 'range', ...limits, 'aria-label': label, title });
  const shown = h('output', {}, input.value);
  input.addEventListener('input', () => {
    text(shown, input.value);
    heard(Number(input.value));
  });
  const set = (/** @type {number} */ value) => {
    input.value = String(value);
    text(shown, input.value);
  };
  return {
    element: h('label', { class: 'sd-slider', title }, h('span', {}, label), input, shown),
    set,
  };
}

const OWN = 'own'; // no method's name
/** @param {number} number */
const subscript = (number) =>
  [...String(number)].map((digit) => '₀₁₂₃₄₅₆₇₈₉'[Number(digit)]).join('');

/** The sandbox: a drafter that does not exist, on this machine's curve or another's. */
export class SandboxView {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    /** @type {Sandbox} */
    this.box = {
      alpha: 0.7,
      alphas: null,
      gamma: 8,
      passes: 1,
      draft: 0.5,
      shape: 'window',
      count: 4,
    };
    /** @type {[number, number][] | null} */
    this.typed = null;
    /** @type {((alpha: number) => void)[]} */
    this.barOf = [];
    /** @type {Answer | null} */
    this.answer = null;
    const of =
      (/** @type {'alpha' | 'gamma' | 'passes' | 'draft' | 'count'} */ name) =>
      (/** @type {number} */ value) => this.set({ [name]: value });
    this.sliders = {
      alpha: slider('α', {
        min: 0,
        max: 0.99,
        step: 0.01,
        value: 0.7,
        title: 'Acceptance of each position, given that it is reached',
      }, of('alpha')),
      gamma: slider('γ', {
        min: 1,
        max: 32,
        step: 1,
        value: 8,
        title: 'Tokens drafted per round; of a tree, its depth',
      }, of('gamma')),
      draft: slider('drafter pass', {
        min: 0,
        max: 1.5,
        step: 0.01,
        value: 0.5,
        title: 'Cost of one drafter pass, in passes of vanilla',
      }, of('draft')),
      passes: slider('passes', {
        min: 0,
        max: 32,
        step: 1,
        value: 1,
        title: 'Drafter passes per round: T of a denoiser, γ of a model that writes token by token',
      }, of('passes')),
      count: slider('K or B', {
        min: 1,
        max: 64,
        step: 1,
        value: 4,
        title: 'Drafts, or nodes of the tree',
      }, of('count')),
    };
    this.shape = h(
      'select',
      { 'aria-label': 'What is drafted', onchange: () => this.set({ shape: this.shape.value }) },
      ...[['window', 'one window'], ['drafts', 'K independent windows'], [
        'tree',
        'a tree of B nodes',
      ]].map(([value, words]) => h('option', { value }, words)),
    );
    this.positions = h('select', {
      'aria-label': 'α of the positions',
      onchange: () => this.spread(),
    });
    this.bars = h('div', {
      class: 'sd-exp-bars',
      role: 'group',
      'aria-label': 'α of each position',
    });
    this.drafter = h('select', {
      'aria-label': 'Cost of a drafter pass',
      onchange: () => this.take(),
    });
    this.curve = h('textarea', {
      rows: 2,
      'aria-label': 'Cost of the target’s pass, rows and milliseconds',
      spellcheck: 'false',
      oninput: () => this.type(),
    });
    this.trouble = h('small', { role: 'status' });
    this.result = h('p', { class: 'sd-exp-result', 'aria-live': 'polite' });
    this.hints = h('ul', {});
    this.element = h(
      'section',
      { class: 'sd-panel sd-exp-widget', 'aria-label': 'Sandbox' },
      h(
        'header',
        {},
        h('h2', {}, 'Sandbox'),
        h('span', { class: 'sd-sub' }, 'a drafter that you make up; computed, not measured'),
      ),
      h(
        'div',
        { class: 'sd-exp-sides' },
        h(
          'div',
          {},
          h('div', { class: 'sd-row-selects' }, this.shape, this.drafter, this.positions),
          this.bars,
          ...Object.values(this.sliders).map(({ element }) => element),
          h(
            'label',
            { class: 'sd-exp-curve' },
            h(
              'span',
              { class: 'sd-sub' },
              'Passes of the target: rows and milliseconds. Type another machine’s.',
            ),
            this.curve,
          ),
          this.trouble,
        ),
        h(
          'div',
          {},
          this.result,
          h(
            'ul',
            { class: 'sd-exp-questions-list' },
            h('li', {}, 'Drag α down until it no longer pays. How far did you get?'),
            h('li', {}, 'Set α to 0.9. Which γ is best now, and why not 32?'),
            h('li', {}, 'Make the drafter free. How much does that bring at α 0.5?'),
            h('li', {}, 'Which is better at α 0.6: a window of 16, or a tree of 16?'),
            h(
              'li',
              {},
              'Give each position its own α. Which one counts most: the first, or the last?',
            ),
          ),
          h('details', {}, h('summary', {}, 'Answers for these sliders'), this.hints),
        ),
      ),
    );
  }

  /** The curve in use. */
  get used() {
    return this.typed || this.answer?.facts.curve || [[1, 1], [32, 2]];
  }

  /** Where the sandbox stands. */
  get point() {
    return sandbox(this.box, this.used);
  }

  /** What it adds to a figure, and the axes that have to hold it. @param {string} key @returns {{data: object[], reach?: {x: number, y: number}}} */
  adds(key) {
    const { cost, tau, speedup } = this.point;
    if (key === 'passes' && this.typed) {
      const [x, y] = [
        this.typed.map(([rows]) => rows),
        this.typed.map(([, seconds]) => 1000 * seconds),
      ];
      return {
        data: [{
          type: 'scatter',
          mode: 'lines+markers',
          name: 'typed',
          x,
          y,
          line: { color: '@accent', width: 1.8, dash: 'longdash' },
          marker: { symbol: 'star', size: 7, color: '@accent' },
        }],
      };
    }
    if (key !== 'plane') return { data: [] };
    const star = { symbol: 'star', size: 16, color: '@accent', line: { color: '@card', width: 1 } };
    return {
      data: [{
        type: 'scatter',
        mode: 'markers',
        name: `sandbox ${times(speedup)}`,
        x: [cost],
        y: [tau],
        marker: star,
        hovertemplate: 'the sandbox: τ = %{y:.2f}, cost %{x:.2f}<extra></extra>',
      }],
      reach: { x: 1.08 * cost, y: 1.08 * tau },
    };
  }

  /** @param {Answer} answer */
  show(answer) {
    const fresh = this.answer !== answer;
    this.answer = answer;
    if (fresh && !this.typed) {
      this.curve.value = answer.facts.curve.map((/** @type {[number, number]} */ [rows, seconds]) =>
        `${rows} ${(1000 * seconds).toFixed(2)}`
      ).join(', ');
      const chosen = this.drafter.value;
      this.drafter.replaceChildren(
        h('option', { value: '' }, 'drafter: as set'),
        ...Object.keys(answer.facts.drafts).map((name) =>
          h('option', { value: name }, `drafter: ${name}`)
        ),
      );
      this.drafter.value = chosen;
      const kept = this.positions.value;
      this.positions.replaceChildren(
        h('option', { value: '' }, 'α: one for all'),
        h('option', { value: OWN }, 'α: each its own'),
        ...this.windows.map(({ method }) => h('option', { value: method }, `α: of ${method}`)),
      );
      this.positions.value = kept;
    }
    this.say();
  }

  /** The measured methods that test one window, whose α_j are those of its positions. @returns {Record<string, any>[]} */
  get windows() {
    return (this.answer?.rows ?? []).filter((row) =>
      row.alpha_at?.length && !row.nodes && row.drafts === 1
    );
  }

  /** One α for all positions, each its own from what it is, or those of a method with its γ. */
  spread() {
    const row = this.windows.find(({ method }) => method === this.positions.value);
    if (row) {
      this.sliders.gamma.set(row.alpha_at.length);
      this.set({
        gamma: row.alpha_at.length,
        alphas: row.alpha_at.map((/** @type {number | null} */ alpha) => alpha ?? 0),
      });
    } else this.set({ alphas: this.positions.value ? alphasOf(this.box) : null });
  }

  /** A small upright slider for each position, where each has its own α. */
  drawBars() {
    const alphas = this.box.alphas ? alphasOf(this.box) : [];
    this.bars.hidden = !alphas.length;
    this.sliders.alpha.element.hidden = Boolean(alphas.length);
    if (this.bars.children.length === alphas.length) {
      alphas.forEach((alpha, j) => this.barOf[j](alpha));
      return;
    }
    const made = alphas.map((alpha, j) =>
      slider(`α${subscript(j + 1)}`, {
        min: 0,
        max: 1,
        step: 0.01,
        value: alpha,
        title: `Acceptance of position ${j + 1}, given that it is reached`,
      }, (value) => {
        this.set({ alphas: alphasOf(this.box).map((old, i) => (i === j ? value : old)) });
      })
    );
    this.barOf = made.map(({ set }) => set);
    this.bars.replaceChildren(...made.map(({ element }) => element));
  }

  /** @param {Partial<Sandbox>} change */
  set(change) {
    Object.assign(this.box, change);
    this.say();
    this.changed();
  }

  /** The measured cost of a drafter's pass. */
  take() {
    const known = this.answer?.facts.drafts[this.drafter.value];
    if (!known) return;
    const draft = Number((costAt(known, this.box.gamma) / costAt(this.used, 1)).toFixed(2));
    this.sliders.draft.set(draft);
    this.set({ draft });
  }

  type() {
    const found = readCurve(this.curve.value);
    text(
      this.trouble,
      found
        ? ''
        : 'Two pairs at least, as 1 4.8, 17 7.0; the last curve that could be read is used.',
    );
    if (!found) return;
    this.typed = found;
    this.say();
    this.changed();
  }

  say() {
    const { tau, cost, rows, speedup } = this.point;
    this.sliders.count.element.hidden = this.box.shape === 'window';
    this.drawBars();
    text(
      this.result,
      `${ratio(tau)} tokens for ${ratio(cost)} vanilla passes (${rows} rows in the target’s): ${
        ratio(speedup)
      }× ${speedup < 1 ? '— slower than vanilla' : ''}`,
    );
    const even = breakEven(this.box, this.used);
    const [gamma, best] = bestGamma(this.box, this.used);
    const free = sandbox({ ...this.box, draft: 0 }, this.used);
    this.hints.replaceChildren(...[
      even === null
        ? 'It never pays at these costs.'
        : `It pays from ${this.box.alphas ? 'one α for all of' : 'α ='} ${ratio(even)} on.`,
      `The best γ is ${gamma}: ${ratio(best)}×.`,
      `With a free drafter: ${ratio(free.speedup)}×.`,
      `At ${this.box.alphas ? 'these α' : `α ${ratio(this.box.alpha)}`}, a window of 16: ${
        ratio(sandbox({ ...this.box, shape: 'window', gamma: 16 }, this.used).speedup)
      }×; a tree of 16: ${
        ratio(sandbox({ ...this.box, shape: 'tree', gamma: 16, count: 16 }, this.used).speedup)
      }×.`,
      ...(this.box.alphas && this.box.shape === 'window'
        ? [
          `0.05 more of α₁: τ ${ratio(this.more(0))}; of the last α: ${
            ratio(this.more(this.box.gamma - 1))
          }.`,
        ]
        : []),
    ].map((words) => h('li', {}, words)));
  }

  /** τ where one position is accepted a little more often. @param {number} place */
  more(place) {
    const alphas = alphasOf(this.box).map((
      alpha,
      j,
    ) => (j === place ? Math.min(1, alpha + 0.05) : alpha));
    return sandbox({ ...this.box, alphas }, this.used).tau;
  }
}

const TOKENS = ['cat', 'dog', 'owl'];
const DRAWS = 5000;

/** Three tokens: drag p and q, see what is accepted and what is left, and let draws land. */
export class PlaygroundView {
  /** @param {() => void} changed */
  constructor(changed) {
    this.changed = changed;
    this.p = [0.6, 0.3, 0.1];
    this.q = [0.3, 0.6, 0.1];
    /** @type {{counts: number[], accepted: number} | null} */
    this.drawn = null;
    this.seed = 0;
    const sliders = (/** @type {'p' | 'q'} */ which) => {
      const made = TOKENS.map((token, i) =>
        slider(`${which}(${token})`, {
          min: 0.01,
          max: 0.98,
          step: 0.01,
          value: this[which][i],
          title: `Probability of “${token}” for the ${
            which === 'p' ? 'target' : 'drafter'
          }; the other two share the rest`,
        }, (value) => {
          this[which] = withProbability(this[which], i, value);
          made.forEach(({ set }, j) => {
            if (j !== i) set(Number(this[which][j].toFixed(2)));
          });
          this.drawn = null;
          this.say();
          this.changed();
        })
      );
      return made.map(({ element }) => element);
    };
    this.result = h('p', { class: 'sd-exp-result', 'aria-live': 'polite' });
    this.draw = h(
      'button',
      { type: 'button', class: 'sd-exp-stop', onclick: () => this.roll() },
      `Draw ${DRAWS.toLocaleString('en')} tokens`,
    );
    this.element = h(
      'section',
      { class: 'sd-panel sd-exp-widget', 'aria-label': 'Three tokens' },
      h(
        'header',
        {},
        h('h2', {}, 'Three tokens'),
        h(
          'span',
          { class: 'sd-sub' },
          'accept with probability min(1, p/q), else draw from the residual; a simulation in this browser',
        ),
      ),
      h(
        'div',
        { class: 'sd-exp-sides' },
        h('div', {}, ...sliders('p'), ...sliders('q')),
        h('div', {}, this.result, this.draw),
      ),
    );
    this.say();
  }

  /** The bars of its figure. @param {string} key @returns {{data: object[]}} */
  adds(key) {
    if (key !== 'three') return { data: [] };
    const { kept, residual } = acceptance(this.p, this.q);
    const bar = (
      /** @type {string} */ name,
      /** @type {number[]} */ y,
      /** @type {string} */ colour,
      pattern = '',
    ) => ({
      type: 'bar',
      name,
      x: TOKENS,
      y,
      hovertemplate: `${name}(%{x}) = %{y:.3f}<extra></extra>`,
      marker: {
        color: pattern ? '@card' : colour,
        line: { color: colour, width: 1 },
        pattern: pattern
          ? { shape: pattern, fgcolor: colour, bgcolor: '@card', size: 5, solidity: 0.55 }
          : {},
      },
    });
    const { drawn } = this;
    return {
      data: [
        bar('p, target', this.p, '@target'),
        bar('q, drafter', this.q, '@draft'),
        bar('min(p, q), accepted', kept, '@bonus', '/'),
        bar('residual', residual ?? [0, 0, 0], '@residual', 'x'),
        ...(drawn
          ? [
            bar(
              `${DRAWS.toLocaleString('en')} draws`,
              drawn.counts.map((count) => count / DRAWS),
              '@plum',
              '.',
            ),
          ]
          : []),
      ],
    };
  }

  show() {}

  roll() {
    this.seed += 1;
    this.drawn = drawTokens(this.p, this.q, DRAWS, this.seed);
    this.say();
    this.changed();
  }

  say() {
    const { alpha, residual } = acceptance(this.p, this.q);
    const rest = residual
      ? `After a rejection: ${
        TOKENS.map((token, i) => `${token} ${ratio(residual[i])}`).join(', ')
      }.`
      : 'p = q: nothing is ever rejected.';
    const seen = this.drawn
      ? ` Of ${DRAWS.toLocaleString('en')} drafts ${
        this.drawn.accepted.toLocaleString('en')
      } were accepted; what came out follows p: ${
        TOKENS.map((token, i) => `${token} ${ratio((this.drawn?.counts[i] ?? 0) / DRAWS)}`).join(
          ', ',
        )
      }.`
      : '';
    text(this.result, `Accepted: Σ min(p, q) = ${ratio(alpha)}. ${rest}${seen}`);
  }
}
PlaygroundView.TOKENS = TOKENS;

const SIGNS = { a: 'A', b: 'B', [BRANCH]: '?' };
/** @type {Record<string, {glyph: string, words: string}>} how a token came about -> its mark */
const MARKS = {
  ...LEGEND,
  target: { glyph: '↻', words: SOURCES.target.words },
  forced: { glyph: '⇒', words: 'put there by you' },
};
const MOST_CANDIDATES = 8;

/** Two runs along one text; a refusal can be looked at, and sent another way. */
export class SideBySideView {
  /** @param {() => void} changed @param {Tools} tools */
  constructor(changed, tools) {
    this.tools = tools;
    /** @type {Answer | null} */
    this.answer = null;
    /** @type {Record<string, Lane>} */
    this.lanes = {};
    this.seed = 0;
    this.pinned = ''; // run/round
    /** @type {Answer | null} whose runs are drawn */
    this.drawnOf = null;
    this.columns = h('div', {
      class: 'sd-tracks',
      role: 'group',
      'aria-label': 'The runs along the text',
    });
    this.legend = h('p', { class: 'sd-sub sd-tracks-legend' });
    this.inspector = new InspectorView(() => this.unpin());
    this.redraw = h(
      'button',
      { type: 'button', class: 'sd-link', onclick: () => this.roll() },
      'Draw u again',
    );
    this.drawn = h('span', { class: 'sd-sub', 'aria-live': 'polite' });
    this.chance = h('div', { class: 'sd-whatif' }, this.redraw, this.drawn);
    this.takes = h('div', {
      class: 'sd-whatif sd-takes',
      role: 'group',
      'aria-label': 'Take another token',
    });
    this.going = h('p', { class: 'sd-sub', 'aria-live': 'polite' });
    this.another = h(
      'section',
      { class: 'sd-another', 'aria-label': 'Another way', hidden: true },
      this.chance,
      this.takes,
      this.going,
      h(
        'p',
        { class: 'sd-sub' },
        'The engine then decodes on from there. A token that you put there was not drawn, so what comes of it is no longer a sample of the target’s law, and none of its times counts.',
      ),
    );
    this.element = h(
      'section',
      { class: 'sd-panel sd-exp-widget', 'aria-label': 'The text, token by token' },
      h(
        'header',
        {},
        h('h2', {}, 'The text, token by token'),
        h(
          'span',
          { class: 'sd-sub' },
          'one column for each token; click a refusal ✕ to look at it',
        ),
        h('button', {
          type: 'button',
          class: 'sd-link sd-exp-saves',
          onclick: () => tools.open('runs'),
        }, 'Open both in the player'),
      ),
      this.legend,
      this.columns,
      this.inspector.element,
      this.another,
    );
  }

  /** @param {Answer} answer */
  async show(answer) {
    if (this.answer === answer && this.columns.childNodes.length) return;
    const fresh = this.answer?.origin.date !== answer.origin.date || answer.facts.opened;
    this.answer = answer;
    const data = await this.tools.race('runs');
    if (this.answer !== answer) return;
    if (!data) {
      if (fresh) {
        this.columns.replaceChildren(
          h('p', { class: 'sd-sub' }, 'The text is drawn when all runs are over.'),
        );
      }
      return;
    }
    const { lanes } = await unzip(data);
    if (this.answer !== answer) return;
    this.lanes = Object.fromEntries(
      Object.entries(lanes).map(([name, events]) => [name, buildLane(events)]),
    );
    sharePieces(Object.values(this.lanes));
    const pinned = this.drawnOf === answer ? this.pinned : ''; // it is back after another that failed
    this.drawnOf = answer;
    this.unpin();
    this.draw();
    if (pinned) this.pick(pinned, false);
  }

  /** The cells of each run; of a branch also the token that was put there. @returns {Record<string, Cell[]>} */
  get tracks() {
    const { branch } = this.answer?.facts ?? {};
    const columns = this.answer?.facts.columns ?? {}; // of opened runs
    const placed = (
      /** @type {string} */ name,
      /** @type {Cell[]} */ cells,
    ) => (columns[name]
      ? cells.map((cell, i) => ({ ...cell, position: columns[name][i] }))
      : cells);
    const forced = branch && branch.take >= 0
      ? [{
        position: branch.column ?? branch.position,
        id: branch.take,
        shown: branch.token,
        kind: 'forced',
        round: -1,
        begins: true,
        refused: null,
        differs: true,
      }]
      : [];
    return Object.fromEntries(
      Object.entries(this.lanes).map(([name, lane]) => [
        name,
        name === BRANCH
          ? [...forced, ...placed(name, trackOf(lane, branch.position + forced.length))]
          : placed(name, trackOf(lane)),
      ]),
    );
  }

  draw() {
    const [{ tracks }, facts] = [this, this.answer?.facts ?? {}];
    const words = facts.opened && facts.common.by !== 'tokens';
    const columns = aligned(tracks, { b: words ? '' : 'a', [BRANCH]: facts.branch?.run });
    const names = /** @type {(keyof typeof SIGNS)[]} */ (Object.keys(tracks));
    this.columns.replaceChildren(
      ...columns.map((cells, i) =>
        h(
          'div',
          { class: 'sd-track-column' },
          h(
            'span',
            { class: 'sd-track-place', 'aria-hidden': 'true' },
            (i + 1) % 5 && i ? '' : String(i + 1),
          ),
          ...names.map((name) => this.cells(name, cells[name] ?? [])),
        )
      ),
    );
    const kinds = new Set(Object.values(tracks).flatMap((cells) => cells.map(({ kind }) => kind)));
    this.legend.replaceChildren(
      ...names.map((name) =>
        h(
          'span',
          {},
          h('b', {}, SIGNS[name]),
          ` ${facts.labels[name] ?? 'what if: a branch, no measurement'}`,
        )
      ),
      ...[...kinds].map((kind) =>
        h(
          'span',
          {},
          h('b', { class: `sd-track-token sd-track-${kind}` }, MARKS[kind]?.glyph ?? ''),
          ` ${MARKS[kind]?.words ?? kind}`,
        )
      ),
      h('span', {}, h('b', { class: 'sd-track-refused' }, '✕'), ' refused draft'),
      h('span', {}, h('b', {}, '≠'), ' another token than the run it is held against'),
    );
  }

  /** What a column holds of a run. @param {keyof typeof SIGNS} name @param {Cell[]} cells */
  cells(name, cells) {
    if (!cells.length) return name === BRANCH ? null : h('span', { class: 'sd-track-cell' }); // a branch begins late, and is the last
    return cells.length === 1
      ? this.cell(name, cells[0])
      : h('span', { class: 'sd-track-cells' }, ...cells.map((cell) => this.cell(name, cell)));
  }

  /** @param {keyof typeof SIGNS} name @param {Cell} cell */
  cell(name, cell) {
    const { kind, round, refused } = cell;
    const written = quoted(cell.shown);
    const title = `${round < 0 ? '' : `${SIGNS[name]}, round ${round + 1}: `}${
      MARKS[kind]?.words ?? kind
    } ${written}${
      refused === null ? '' : ` in place of ${quoted(piece(this.lanes[name], refused))}`
    }`;
    const above = h(
      'small',
      {},
      cell.begins && round >= 0 ? h('i', {}, `${SIGNS[name]}${round + 1}`) : null,
      refused === null ? null : h(
        'span',
        { class: 'sd-track-refused' },
        '✕ ',
        h('s', {}, inCell(piece(this.lanes[name], refused))),
      ),
    );
    const token = h(
      'span',
      { class: `sd-track-token sd-track-${kind}` },
      `${cell.differs ? '≠ ' : ''}${inCell(cell.shown) || '·'}`,
      kind === 'draft' ? null : h('i', { 'aria-hidden': 'true' }, MARKS[kind]?.glyph ?? ''),
    );
    const shape = `sd-track-cell${cell.begins ? ' sd-track-begins' : ''}`;
    if (refused === null) return h('span', { class: shape, title }, above, token);
    const key = `${name}/${round}`;
    return h(
      'button',
      {
        type: 'button',
        class: shape,
        title,
        'aria-label': title,
        'aria-pressed': String(key === this.pinned),
        'data-key': key,
        onclick: () => this.pick(key),
      },
      above,
      token,
    );
  }

  /** Look at the refusal of a round. @param {string} key run/round @param {boolean} [scrolls] whether to bring it on the screen */
  pick(key, scrolls = true) {
    const [name, round] = [
      key.slice(0, key.lastIndexOf('/')),
      Number(key.slice(key.lastIndexOf('/') + 1)),
    ];
    const lane = this.lanes[name];
    if (!lane) return;
    const n =
      lane.events.findIndex((event) => event.kind === 'Committed' && event.round === round) + 1;
    const view = stateAt(lane, n).window;
    if (!view?.verified) return;
    this.pinned = key;
    this.press();
    this.inspector.show(
      view,
      lane,
      view.verified.accepted,
      SIGNS[/** @type {keyof typeof SIGNS} */ (name)],
    );
    this.offer(name, round, lane, view.verified);
    if (scrolls) this.inspector.element.scrollIntoView?.({ block: 'nearest' });
  }

  unpin() {
    this.pinned = '';
    this.press();
    this.inspector.hide();
    this.another.hidden = true;
  }

  press() {
    for (const button of this.columns.querySelectorAll('button')) {
      button.setAttribute('aria-pressed', String(button.dataset.key === this.pinned));
    }
  }

  /** Whether a token can be chosen. @param {boolean} on */
  able(on) {
    for (const button of this.takes.querySelectorAll('button')) button.disabled = !on;
  }

  /** What was asked for has ended, or failed. */
  over() {
    text(this.going, '');
    this.able(true);
  }

  /** What can be put in place of the token that the target wrote: candidates of both models. @param {string} name @param {number} round @param {Lane} lane @param {import('../state/events.d.ts').Verified} verified */
  offer(name, round, lane, verified) {
    const rows = this.inspector.what?.rows ?? [];
    const ids = [
      ...new Set([
        ...rows.map(({ id }) => id),
        ...verified.tests.slice(-1).map(({ id }) => id),
        ...verified.extra_candidates.map(({ id }) => id),
      ]),
    ];
    const chosen = ids.filter((id) => id !== null && id !== verified.extra).slice(
      0,
      MOST_CANDIDATES,
    );
    const opened = Boolean(this.answer?.facts.opened);
    /** @type {{given?: string, pair?: string, why?: string}} */
    const own = opened && name !== BRANCH
      ? this.tools.given(/** @type {'a' | 'b'} */ (name), round + 1)
      : {};
    const go = (/** @type {Record<string, any>} */ values) => {
      const began = this.tools.ask({ branch: name, round: round + 1, ...own, ...values });
      text(
        this.going,
        !began
          ? 'Something is measured already: wait until it is over.'
          : opened
          ? 'The engine decodes the branch…'
          : 'The engine decodes both runs again, and then the branch…',
      );
      this.able(!began);
    };
    const numbers = (/** @type {number | null} */ id) =>
      rows.filter((row) => row.id === id).map(({ p, q }) =>
        `${p === null ? '' : ` p ${short(p)}`}${q === null ? '' : ` q ${short(q)}`}`
      ).join('');
    this.another.hidden = name === BRANCH;
    this.chance.hidden = !this.inspector.chance;
    text(this.drawn, '');
    text(
      this.going,
      own.why ?? (chosen.length ? '' : 'The trace holds no other token that could be put here.'),
    );
    if (own.why) this.takes.replaceChildren();
    else {this.takes.replaceChildren(
        h('b', {}, 'Take this one and let it run on:'),
        ...chosen.map((id) =>
          h(
            'button',
            {
              type: 'button',
              class: 'sd-take',
              'data-take': String(id),
              onclick: () => go({ take: Number(id) }),
            },
            quoted(piece(lane, Number(id))),
            h('small', {}, numbers(id)),
          )
        ),
        lane.header?.config.temperature === 0 ? '' : h('button', {
          type: 'button',
          class: 'sd-take',
          title: 'Nothing is put there: all is drawn again, with another seed',
          onclick: () => go({ take: -1, branch_seed: (this.answer?.choice.branch_seed ?? 0) + 1 }),
        }, 'draw all anew from here'),
      );}
  }

  /** The same test with another u: a simulation on the recorded numbers. */
  roll() {
    const { what, threshold } = this.inspector;
    if (!what) return;
    this.seed += 1;
    const { accepted, counts } = again(what, threshold, 1, this.seed);
    const came = what.rows[counts.indexOf(1)];
    const u = uniform(this.seed)();
    if (what.test?.kind === 'tree') {
      text(
        this.drawn,
        `Simulated, not decoded: the target draws ${
          came && came.id !== null ? this.inspector.word(came.id) : 'one of all others'
        }, which is ${
          accepted ? 'drafted here: the walk goes on' : 'not drafted here: the walk ends'
        }.`,
      );
    } else {text(
        this.drawn,
        `Simulated, not decoded: u = ${ratio(u)}, ${
          accepted
            ? `below ${ratio(threshold)}: the draft ${this.inspector.word(what.drafted)} stays`
            : `not below ${ratio(threshold)}: refused, and ${
              this.inspector.word(came ? came.id : null)
            } comes instead`
        }.`,
      );}
    for (const button of this.takes.querySelectorAll('button')) {
      button.classList.toggle('sd-came', Boolean(came) && button.dataset.take === String(came.id));
    }
  }
}
