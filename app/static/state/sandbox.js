// The cost of a round and its tokens, from α and the time of a pass: the sandbox of Explore. Pure.

import { ratio, times } from './format.js';
import { costAt } from './costs.js';
/** @import { Answer } from './exploration.js' */

/** @typedef {{alpha: number, alphas?: number[] | null, gamma: number, passes: number,
 *  draft: number, shape: 'window' | 'drafts' | 'tree', count: number, extra?: number}} Sandbox
 *  `alphas`: of each position, where they differ; `draft`: a drafter pass in vanilla passes; `count`:
 *  K drafts or B nodes; `extra`: rows of the target's pass besides those of a window, as of a tree's
 *  further branches */

/** E[τ] of the best of K independent drafts: 1 + Σ_m (1 − (1 − Π_{j≤m} α_j)^K); of one draft 1 +
 *  Σ_m Π_{j≤m} α_j. @param {(number | null)[]} alphas of positions, given that each is reached; null:
 *  none was
 *  @param {number} [drafts] K */
export function expectedTau(alphas, drafts = 1) {
  let reached = 1;
  let total = 1;
  for (const alpha of alphas) {
    reached *= alpha ?? 0;
    total += 1 - (1 - reached) ** drafts;
  }
  return total;
}

/**
 * E[τ] of a tree of `nodes` nodes, at most as deep as there are α, where the candidate of rank r at
 * depth j is accepted with α_j (1 − α_j)^{r−1}. It consists of the most probable nodes.
 * @param {number[]} alphas by depth @param {number} nodes
 */
export function treeTau(alphas, nodes) {
  const open = alphas.slice(0, 1).map((odds) => ({ odds, level: 1, before: 1, rank: 1 }));
  let total = 1;
  for (let taken = 0; taken < nodes && open.length; taken += 1) {
    open.sort((a, b) => b.odds - a.odds);
    const node = /** @type {typeof open[0]} */ (open.shift());
    total += node.odds;
    const alpha = alphas[node.level - 1];
    open.push({
      ...node,
      odds: node.before * alpha * (1 - alpha) ** node.rank,
      rank: node.rank + 1,
    });
    if (node.level < alphas.length) {
      open.push({
        odds: node.odds * alphas[node.level],
        level: node.level + 1,
        before: node.odds,
        rank: 1,
      });
    }
  }
  return total;
}

/** The sandbox of a measured method: with its own tokens per round and its own cost of drafting. A
 *  tree's α is already "some child was accepted", and rounds without a draft lower the first α.
 *  @param {Record<string, any>} row @returns {Omit<Sandbox, 'count'>} */
export function measuredBox(
  { alpha, alpha_at: each, tau, gamma, tree_nodes: nodes, num_drafts: drafts, draft_cost: draft },
) {
  const alphas = each.map((value) => value ?? 0);
  const later = expectedTau(alphas.slice(1));
  alphas[0] = Math.min(1, (tau - 1) / later);
  const rows = nodes || gamma * drafts;
  const extra = Math.max(0, rows - alphas.length);
  return { alpha, alphas, gamma: alphas.length, passes: 1, draft, shape: 'window', extra };
}

/** α of γ positions; the last is repeated.
 *  @param {Pick<Sandbox, 'alpha' | 'alphas' | 'gamma'>} box */
export const alphasOf = ({ alpha, alphas, gamma }) =>
  Array.from(
    { length: gamma },
    (_, j) => alphas?.length ? alphas[Math.min(j, alphas.length - 1)] : alpha,
  );

/** Tokens and cost of a round of the sandbox, the cost in bare vanilla passes. @param {Sandbox} box
 *  @param {[number, number][]} curve */
export function sandbox(box, curve) {
  const { gamma, passes, draft, shape, count, extra = 0 } = box;
  const oneRow = costAt(curve, 1);
  const alphas = alphasOf(box);
  const tau = shape === 'tree'
    ? treeTau(alphas, count)
    : expectedTau(alphas, shape === 'drafts' ? count : 1);
  const rows = 1 +
    (shape === 'tree' ? count : shape === 'drafts' ? count * gamma : gamma + extra);
  const cost = passes * draft + costAt(curve, rows) / oneRow;
  return { tau, cost, rows, speedup: tau / cost };
}

/** The smallest α, the same for all positions, at which the sandbox pays, or null.
 *  @param {Sandbox} box @param {[number, number][]} curve */
export function breakEven(box, curve) {
  const gain = (alpha) => sandbox({ ...box, alpha, alphas: null }, curve).speedup - 1;
  if (gain(0.999) < 0) return null;
  let [low, high] = [0, 0.999];
  for (let i = 0; i < 40; i += 1) {
    const middle = (low + high) / 2;
    if (gain(middle) < 0) low = middle;
    else high = middle;
  }
  return high;
}

/** The fastest γ, with its speed-up. @param {Sandbox} box @param {[number, number][]} curve */
export function bestGamma(box, curve) {
  const options = Array.from({ length: 32 }, (_, i) => /** @type {[number, number]} */ ([
    i + 1,
    sandbox({
      ...box,
      gamma: i + 1,
      passes: box.passes === box.gamma && box.gamma > 1 ? i + 1 : box.passes,
    }, curve).speedup,
  ]));
  return options.reduce((best, option) => option[1] > best[1] ? option : best);
}

/** @type {[words: string, alpha: number, gamma: number, passes: number, draft: number,
 *  shape: Sandbox['shape'], count?: number][]} made-up drafters */
const MADE_UP = [
  ['copies from the text, free', 0.4, 8, 0, 0, 'window'],
  ['a small model, token by token', 0.7, 4, 4, 0.1, 'window'],
  ['one layer, a tree', 0.75, 6, 6, 0.08, 'tree', 24],
  ['block diffusion, one pass', 0.8, 8, 1, 0.3, 'window'],
  ['masked diffusion, 8 steps', 0.85, 16, 8, 0.3, 'window'],
];

/** Drafters to begin with, by their words: made up, and the methods of an answer.
 *  @param {Answer | null} answer @returns {Record<string, Partial<Sandbox>>} */
export function presetsOf(answer) {
  const measured = (answer?.rows ?? []).flatMap((row) =>
    typeof row.alpha === 'number' // null: nothing was tested
      ? [[`${row.label}, measured ${times(row.speedup)}`, measuredBox(row)]]
      : []
  );
  const madeUp = MADE_UP.map(([words, alpha, gamma, passes, draft, shape, count]) => [
    words,
    { alpha, gamma, passes, draft, shape, ...(count && { count }) },
  ]);
  return Object.fromEntries([...madeUp, ...measured]);
}

/** The sandbox's result, in words. @param {Sandbox} box @param {[number, number][]} curve */
export function resultWords(box, curve) {
  const { tau, cost, rows, speedup } = sandbox(box, curve);
  return `${ratio(tau)} tokens for ${ratio(cost)} bare vanilla passes (${rows} rows in the ` +
    `target’s): ${times(speedup)}${speedup < 1 ? ' — slower than vanilla' : ''}`;
}

/** Answers to the sandbox's questions, for its settings. @param {Sandbox} box
 *  @param {[number, number][]} curve */
export function hintWords(box, curve) {
  const even = breakEven(box, curve);
  const [gamma, best] = bestGamma(box, curve);
  const speed = (/** @type {Partial<Sandbox>} */ change) =>
    times(sandbox({ ...box, ...change }, curve).speedup);
  const raised = (place) => { // if one position is accepted a little more often
    const alphas = alphasOf(box).map((alpha, j) => j === place ? Math.min(1, alpha + 0.05) : alpha);
    return ratio(sandbox({ ...box, alphas }, curve).tau);
  };
  const [common, these] = box.alphas
    ? ['a common α of', 'these α']
    : ['α =', `α ${ratio(box.alpha)}`];
  return [
    even === null
      ? 'It never pays off at these costs.'
      : `It pays off from ${common} ${ratio(Math.ceil(100 * even) / 100)} up.`,
    `The best γ is ${gamma}: ${times(best)}.`,
    `With a free drafter: ${speed({ draft: 0 })}.`,
    `At ${these}, a window of 16: ${speed({ shape: 'window', gamma: 16 })}; a tree of 16: ` +
    `${speed({ shape: 'tree', gamma: 16, count: 16 })}.`,
    ...(box.alphas && box.shape === 'window'
      ? [`With 0.05 added to α₁, τ is ${raised(0)}; to the last α, ${raised(box.gamma - 1)}.`]
      : []),
  ];
}
