// The data of figures with a formula: computed from an answer's numbers at the values of sliders
// (specdiff_core/explorations/figures.py: Slider). Pure: Plotly's data out, with roles as colours.

import { acceptance, normalised, sum } from './draws.js';
import { costAt, expectedTau } from './sandbox.js';
import { piece } from './detokenize.js';
import { plural, ratio, times } from './format.js';
/** @import { Answer, Figure } from './exploration.js' */
/** @import { Lane } from './lane.js' */

/** @typedef {{words: string, kind: string}} Token accepted, rejected or untested */
/** @typedef {{data: object[], words: string[], block?: Token[]}} Computed `words`: a sentence above
 *  the chart, and those below it */
/** @typedef {Record<string, number>} Values of the sliders, by name */

const range = (/** @type {number} */ low, /** @type {number} */ high, step = 1) =>
  Array.from({ length: Math.round((high - low) / step) + 1 }, (_, i) => low + i * step);

/** A line, or marks if `mark` is given.
 *  @param {{dash?: string, mark?: string, [field: string]: unknown}} [look] */
export const trace = (name, x, y, colour, look = {}) => {
  const { dash = '', mark = '', ...rest } = look;
  return {
    type: 'scatter',
    mode: dash ? 'lines' : 'markers',
    name,
    x,
    y,
    line: { color: colour, width: 1.8, dash },
    marker: { symbol: mark, size: mark === 'star' ? 15 : 9, color: colour },
    hovertemplate: `${name}: %{y:.3~g}<extra></extra>`,
    ...rest,
  };
};

const largest = (all, value) =>
  all.reduce((best, item) => value(item) > value(best) ? item : best, all[0]);

/** A field of rows. @param {Record<string, any>[]} rows */
const column = (rows, field) => rows.map((row) => row[field]);

/** The row of a figure's race. @param {Answer} answer @param {Figure} figure */
const rowOf = ({ rows }, { race }) => /** @type {any} */ (rows.find((row) => row.race === race));

/** The first whole draft of γ tokens of a run of which some, but not all, were accepted.
 *  @param {Lane} lane */
export function blockOf(lane, gamma) {
  const rounds = lane.rounds.filter(({ draft, verified }) =>
    verified && draft?.ids.length === gamma
  );
  const mixed = rounds.find(({ verified }) => verified?.accepted && verified.accepted < gamma);
  return mixed ?? rounds[0] ?? null;
}

/** Tokens per round and speed-up by γ, for the α_j of the widest window. Vanilla and the round both
 *  cost bare passes, plus what a token of the run cost besides: its share of the prefill.
 *  @param {Answer} answer
 *  @param {Figure} figure @param {Values} values @param {Lane | null} lane */
function block(answer, figure, { gamma }, lane) {
  const raceRow = rowOf(answer, figure);
  const { curve } = answer.facts;
  const spent = raceRow.draft_seconds + raceRow.verify_seconds;
  const rest = (raceRow.seconds_per_round - spent) / raceRow.tau; // of each token
  const passes = (size) => raceRow.steps === raceRow.gamma ? size : Math.min(size, raceRow.steps);
  const at = (size) => {
    const tau = expectedTau(raceRow.alpha_at.slice(0, size));
    const cost = costAt(curve.draft, size) + (passes(size) - 1) * costAt(curve.again, size) +
      costAt(curve.target, size + 1);
    return { size, tau, gain: (costAt(curve.target, 1) + rest) / (cost / tau + rest) };
  };
  const grid = range(1, raceRow.gamma).map(at);
  const measured = answer.rows.filter((row) =>
    row.speedup && !row.auto && row.steps === passes(row.gamma)
  );
  const [now, best, last] = [at(gamma), largest(grid, ({ gain }) => gain), grid[grid.length - 1]];
  const sizes = grid.map(({ size }) => size);
  const round = lane && blockOf(lane, raceRow.gamma);
  const accepted = Math.min(round?.verified?.accepted ?? 0, gamma);
  const kinds = Array(accepted).fill('accepted').concat(accepted < gamma ? ['rejected'] : []);
  const tried = column(measured, 'gamma');
  const speed = (name, x, y, look) => trace(name, x, y, '@lane-2', { ...look, yaxis: 'y2' });
  const star = { mark: 'star', showlegend: false };
  return {
    data: [
      trace('τ, predicted', sizes, grid.map(({ tau }) => tau), '@draft', { dash: 'solid' }),
      speed('speed-up, predicted', sizes, grid.map(({ gain }) => gain), { dash: 'dash' }),
      trace('τ, measured', tried, column(measured, 'tau'), '@draft', { mark: 'circle-open' }),
      speed('speed-up, measured', tried, column(measured, 'speedup'), { mark: 'square-open' }),
      trace('this γ', [gamma], [now.tau], '@draft', star),
      speed('this γ', [gamma], [now.gain], star),
    ],
    words: [
      `Predicted at γ ${gamma}: ${ratio(now.tau)} tokens per round, ${times(now.gain)}.`,
      best.size < last.size
        ? `From γ ${best.size} to γ ${last.size}, tokens per round ${
          ratio(best.tau) === ratio(last.tau)
            ? `stay at ${ratio(last.tau)}`
            : `rise from ${ratio(best.tau)} to ${ratio(last.tau)}`
        } while the speed-up falls from ${ratio(best.gain)}× to ${ratio(last.gain)}×.`
        : `The widest window is the fastest of these: ${times(best.gain)}.`,
      ...(round
        ? [
          `The block above was drafted in round ${round.round + 1} of the recorded run. Cut ` +
          `at γ ${gamma}, it yields ${plural(accepted + 1, 'token')}: ${accepted} accepted ` +
          'and one of the target’s own.',
        ]
        : []),
    ],
    block: round?.draft?.ids.map((id, i) => ({
      words: piece(/** @type {Lane} */ (lane), id),
      kind: kinds[i] ?? 'untested',
    })),
  };
}

/**
 * Published speed-ups by people served at once (arXiv 2503.01840, table 3): Llama 3.1 8B on one
 * H100, MT-Bench, SGLang, drafts of 3 tokens without a tree.
 */
const PUBLISHED = {
  people: [2, 4, 8, 16, 24, 32, 48, 56, 64],
  'EAGLE-3': [1.81, 1.82, 1.62, 1.48, 1.39, 1.32, 1.38, 1.34, 1.38],
  EAGLE: [1.4, 1.38, 1.23, 1.02, 0.93, 0.94, 0.88, 0.99, 0.99],
};

/**
 * Speed-up by people served at once. Each adds a row to a pass of vanilla, and γ + 1 rows to a pass
 * that tests drafts; a drafter's pass is assumed to grow with its rows as the target's does.
 * @param {Answer} answer @param {Figure} figure @param {Values} values
 */
function serving(answer, figure, { people }) {
  const raceRow = rowOf(answer, figure);
  const { curve, drafts } = answer.facts;
  const widest = curve[curve.length - 1][0];
  const serial = raceRow.steps === raceRow.gamma; // a pass for each token, over one row each
  const speed = (gamma, count) => {
    const rows = serial ? 1 : gamma;
    const passes = serial ? gamma : Math.min(gamma, raceRow.steps);
    const growth = costAt(curve, rows * count) / costAt(curve, rows);
    const round = passes * costAt(drafts[raceRow.drafter], gamma) * growth +
      costAt(curve, count * (gamma + 1));
    return expectedTau(raceRow.alpha_at.slice(0, gamma)) *
      costAt(curve, count) / round;
  };
  const most = (gamma) => Math.floor(widest / (gamma + 1));
  const gammas = [1, 2, 4, 8, 16].filter((gamma) => gamma <= raceRow.alpha_at.length);
  const looks = ['circle', 'square', 'diamond', 'triangle-up', 'cross'];
  const dashes = ['solid', 'dash', 'dot', 'dashdot', 'longdash'];
  const feasible = gammas.filter((gamma) => people <= most(gamma));
  const best = largest(feasible, (gamma) => speed(gamma, people));
  const ends = gammas.map((gamma) => {
    const pays = range(1, most(gamma)).map((count) => speed(gamma, count) >= 1);
    const [stop, last] = [pays.indexOf(false) + 1, pays.lastIndexOf(true) + 1];
    if (!stop) return `γ ${gamma} still pays at ${most(gamma)}, the most that was measured`;
    if (!last) return `γ ${gamma} never pays`;
    return `γ ${gamma} stops paying ${last > stop ? `between ${stop} and ${last}` : `at ${stop}`}`;
  });
  const line = (gamma, counts, look) => {
    const speeds = counts.map((count) => speed(gamma, count));
    return trace(`γ ${gamma}`, counts, speeds, `@lane-${gammas.indexOf(gamma) + 1}`, look);
  };
  return {
    data: [
      ...gammas.map((gamma, i) => line(gamma, range(1, most(gamma)), { dash: dashes[i] })),
      ...feasible.map((gamma, i) => line(gamma, [people], { mark: looks[i], showlegend: false })),
      ...['EAGLE-3', 'EAGLE'].map((name, i) =>
        trace(`${name} on an H100`, PUBLISHED.people, PUBLISHED[name], '@muted', {
          dash: ['12px,3px', '2px,7px'][i],
        })
      ),
    ],
    words: [
      `Predicted with ${people === 1 ? 'one person' : `${people} people`} served at once: ${
        feasible.length
          ? `γ ${best} is the fastest, ${times(speed(best, people))}${
            speed(best, people) < 1 ? ' (slower than vanilla)' : ''
          }.`
          : 'a round would need more rows than were timed.'
      }`,
      `By people served at once: ${ends.join('; ')}. Timed passes scatter, so small differences ` +
      'between these windows may be noise.',
      'A drafter’s pass over several texts was not timed: it is assumed to grow with its ' +
      'rows as the target’s does.',
      'A real server is slower than this: each text there reads its own cache, while the ' +
      'rows timed here share one.',
      'Grey: published for Llama 3.1 8B served from one H100 with drafts of 3 tokens ' +
      '(arXiv 2503.01840, table 3). ' +
      'EAGLE stops paying at 24 people; EAGLE-3, which guesses better, still pays at 64.',
    ],
  };
}

/** A distribution of grouped tokens at a temperature, from ln of their probabilities at 1.
 *  @param {number[]} counts of the tokens in each group @param {number[]} logs */
export function heated(counts, logs, temperature) {
  if (!temperature) {
    const best = logs.indexOf(Math.max(...logs));
    return logs.map((_, i) => Number(i === best));
  }
  const top = Math.max(...logs);
  return normalised(logs.map((log, i) => counts[i] * Math.exp((log - top) / temperature))) ?? logs;
}

/** α by the drafter's temperature, Σ min(p, q) over the recorded places. @param {Answer} answer
 *  @param {Figure} figure @param {Values} values */
function matched(answer, figure, { target, drafter }) {
  const { places } = answer.facts;
  const targets = places.map(({ counts, p }) => heated(counts, p, target));
  const alpha = (degree) => {
    const tested = (/** @type {any} */ { counts, q }, i) =>
      acceptance(targets[i], heated(counts, q, degree)).alpha;
    return sum(places.map(tested)) / places.length;
  };
  const all = range(0, 2, 0.05).map((degree) => ({ degree, alpha: alpha(degree) }));
  const best = largest(all, (one) => one.alpha);
  const measured = answer.rows.filter((row) => row.temperature === target && row.alpha);
  const now = alpha(drafter);
  return {
    data: [
      trace('α, computed', column(all, 'degree'), column(all, 'alpha'), '@draft', {
        dash: 'solid',
      }),
      trace(
        'α, measured',
        column(measured, 'draft_temperature'),
        column(measured, 'alpha'),
        '@draft',
        {
          mark: 'circle-open',
        },
      ),
      trace('these sliders', [drafter], [now], '@lane-2', { mark: 'diamond' }),
      trace('matched', [best.degree], [best.alpha], '@lane-2', { mark: 'star' }),
    ],
    words: [
      `Matched drafter temperature for a target at ${ratio(target)}: ${ratio(best.degree)}, ` +
      `where α is ${ratio(best.alpha)}. At ${ratio(drafter)} it is ${ratio(now)}.`,
    ],
  };
}

/** By name. @type {Record<string, (answer: Answer, figure: Figure, values: Values, lane: Lane |
 *  null) => Computed>} */
export const FORMULAS = { block, serving, matched };
