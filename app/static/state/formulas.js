// The data of figures with a formula: computed from an answer's numbers at the values of sliders
// (specdiff_core/explorations/figures.py: Slider). Pure: Plotly's data out, with roles as colours.

import { acceptance, normalised, sum } from './draws.js';
import { expectedTau } from './sandbox.js';
import { costAt } from './costs.js';
import { piece } from './detokenize.js';
import { milliseconds, plural, ratio, times } from './format.js';
import { column, largest, range, ring, rowOf, trace } from './plotting.js';
import { serving } from './serving.js';
/** @import { Answer, Figure } from './exploration.js' */
/** @import { Lane } from './lane.js' */
/** @import { Computed, Values } from './plotting.js' */

/** The first whole draft of γ tokens of a run of which some, but not all, were accepted.
 *  @param {Lane} lane */
export function blockOf(lane, gamma) {
  const rounds = lane.rounds.filter(({ draft, verified }) =>
    verified && draft?.ids.length === gamma
  );
  const mixed = rounds.find(({ verified }) => verified?.accepted && verified.accepted < gamma);
  return mixed ?? rounds[0] ?? null;
}

/** Why a prediction is above the measurement: passes take longer between others than alone.
 *  @param {Record<string, any>} row @param {{gain: number, cost: number}} predicted `cost`: seconds */
function slowerWords({ speedup, draft_seconds: draft, verify_seconds: verify }, { gain, cost }) {
  const spent = draft + verify;
  return gain > speedup && spent > cost
    ? ` In these runs, drafting and verifying took ${milliseconds(spent)} a round; the bare ` +
      `passes of the prediction take ${milliseconds(cost)}.`
    : '';
}

/** Tokens per round and speed-up by γ, for the α_j of the widest window. Vanilla and the round both
 *  cost bare passes, plus what a token of the run cost besides: its share of the prefill.
 *  @param {Answer} answer
 *  @param {Figure} figure @param {Values} values @param {Lane | null} lane */
function byGamma(answer, figure, { gamma }, lane) {
  const raceRow = rowOf(answer, figure);
  const { curve } = answer.facts;
  const spent = raceRow.draft_seconds + raceRow.verify_seconds;
  const rest = (raceRow.seconds_per_round - spent) / raceRow.tau; // of each token
  const passes = (size) => raceRow.steps === raceRow.gamma ? size : Math.min(size, raceRow.steps);
  const at = (size) => {
    const tau = expectedTau(raceRow.alpha_at.slice(0, size));
    const cost = costAt(curve.draft, size) + (passes(size) - 1) * costAt(curve.again, size) +
      costAt(curve.target, size + 1);
    return { size, tau, cost, gain: (costAt(curve.target, 1) + rest) / (cost / tau + rest) };
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
  const here = measured.find((row) => row.gamma === gamma);
  return {
    data: [
      trace('τ, predicted', sizes, grid.map(({ tau }) => tau), '@draft', { dash: 'solid' }),
      speed('speed-up, predicted', sizes, grid.map(({ gain }) => gain), { dash: 'dash' }),
      trace('τ, measured', tried, column(measured, 'tau'), '@draft', { mark: 'circle-open' }),
      speed('speed-up, measured', tried, column(measured, 'speedup'), { mark: 'square-open' }),
      ring('this γ', gamma, now.tau, '@draft', { showlegend: false }),
      ring('this γ', gamma, now.gain, '@lane-2', { showlegend: false, yaxis: 'y2' }),
    ],
    words: [
      `At γ ${gamma}: predicted ${ratio(now.tau)} tokens per round and ${times(now.gain)}, ${
        here ? `measured ${ratio(here.tau)} and ${times(here.speedup)}` : 'not measured'
      }.${here ? slowerWords(here, now) : ''}`,
      best.size < last.size
        ? `By the prediction, from γ ${best.size} to γ ${last.size} tokens per round ${
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
      ring('these sliders', drafter, now, '@lane-2'),
      trace('matched', [best.degree], [best.alpha], '@lane-2', { mark: 'star' }),
    ],
    words: [
      `Matched drafter temperature for a target at ${ratio(target)}: ${ratio(best.degree)}, ` +
      `where α is ${ratio(best.alpha)}.${
        ratio(drafter) === ratio(best.degree) ? '' : ` At ${ratio(drafter)} it is ${ratio(now)}.`
      }`,
    ],
  };
}

/** By name. @type {Record<string, (answer: Answer, figure: Figure, values: Values, lane: Lane |
 *  null) => Computed>} */
export const FORMULAS = { by_gamma: byGamma, serving, matched };
