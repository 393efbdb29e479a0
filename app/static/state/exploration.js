// Values and sentences about an answer of the Explore tab. Pure: no element, no chart, no request.

import { busyWords, plural, ratio, roughly } from './format.js';
import { isVanilla, rejectedOf, stateAt } from './lane.js';
import { placeOf } from './report.js';
/** @import { Report } from './events.d.ts' */
/** @import { Lane } from './lane.js' */

/** @typedef {import('./events.d.ts').Figure & {added?: {data: object[],
 *  reach?: {x: number, y: number}}}} Figure one panel; `added`: by a widget */
/** @typedef {{rows: Record<string, any>[], facts: Record<string, any>, done: number, total: number,
 *  origin: any, machine: any, choice: Record<string, any>, report: Report,
 *  runs?: Record<string, any>[], files?: Record<string, string>, seconds?: number}} Answer `runs`:
 *  the counts of each setting on each prompt */

/** The columns of a table, in order of appearance. @param {Record<string, any>[]} rows */
export const columnsOf = (rows) => [...new Set(rows.flatMap((row) => Object.keys(row)))];

/** A table as a CSV file; a list takes one cell, and a text that a spreadsheet would calculate has
 *  an apostrophe before it. @param {Record<string, any>[]} rows */
export function csvOf(rows) {
  const columns = columnsOf(rows);
  const cell = (value) => {
    const joined = [value].flat().join(' '); // null is empty
    const words = typeof value === 'string' && /^[=+\-@\t\r]/.test(value) ? `'${joined}` : joined;
    return /[",\n\r]/.test(words) ? `"${words.replaceAll('"', '""')}"` : words;
  };
  return [columns, ...rows.map((row) => columns.map((name) => row[name]))].map((line) =>
    line.map(cell).join(',')
  ).join('\n') + '\n';
}

/** `2026-11-22 09:43 UTC` */
export const when = (date) => date.replace('T', ' ').replace(/([+]00:00|Z)$/, ' UTC');

/** The origin of an answer. @param {Answer} answer @returns {[string, string][]} */
export function originOf({ origin, machine }) {
  const versions = Object.entries(origin.versions ?? {}).flatMap(([name, version]) =>
    version ? [`${name} ${version}`] : []
  );
  return [
    [
      'machine',
      `${
        machine.device.startsWith('cuda')
          ? origin.gpu || machine.device
          : `${origin.cpu}, ${plural(origin.cores, 'core')}`
      }; ${origin.system}`,
    ],
    ['numbers', `${machine.dtype}, ${plural(machine.threads, 'thread')}`],
    ['software', versions.join(', ')],
    ['measured', when(origin.date)],
    ['commit', `${origin.commit || 'no repository'}${origin.dirty ? ' with local changes' : ''}`],
    ['command', origin.command],
  ];
}

/** A sentence on where, when and how completely an answer was measured. @param {Answer} answer */
export function originWords({ origin, machine, done, total, rows }) {
  const most = Math.max(0, ...rows.map(({ prompts = 0 }) => prompts));
  const part = done < total ? ` ${done} of ${total} steps.` : '';
  const prompts = most ? `, ${plural(most, 'prompt')}` : '';
  return `${when(origin.date)}: ${placeOf(machine)}${prompts}.${part}`;
}

/** A warning if threads had to wait for a processor; otherwise empty. @param {Answer} answer */
export function busyMachine({ rows }, crowded) {
  const worst = Math.max(0, ...rows.map((row) => row.waiting ?? 0));
  return worst < crowded ? '' : busyWords('these times', `, in the worst row: ${ratio(worst)}`);
}

/** The size of a setting: a number, or the entries of a list. */
function sizeOf(value) {
  const count = Array.isArray(value) ? value.length : String(value).split(',').length;
  return count > 1 || Array.isArray(value) ? Math.max(1, count) : Number(value) || 1;
}

/**
 * About how long a measurement takes, scaled from one with other settings: "about 2 minutes".
 * @param {Record<string, any>} values of the form
 * @param {string[]} scales fields that multiply the time
 * @param {{choice: Record<string, any>, seconds: number}} measured a measurement with its time
 * @param {(pair: string) => number} weight of a pair's target: its relative time per token
 */
export function aboutWords(values, scales, measured, weight) {
  const share = scales.reduce(
    (product, name) =>
      product * sizeOf(values[name] ?? 1) / sizeOf(measured.choice[name] ?? values[name] ?? 1),
    1,
  );
  const pairs = weight(values.pair ?? 'embedded') / weight(measured.choice.pair ?? 'embedded');
  return `about ${roughly(measured.seconds * share * pairs)}`;
}

/** The races of a mark: its own, and those of other prompts. @param {Answer | null} answer
 *  @returns {[race: string, prompt: string][]} */
export const racesOf = (answer, race) =>
  Object.keys(answer?.files ?? {}).flatMap((name) =>
    name === race || name.startsWith(`${race}@`)
      ? [[name, name.slice(race.length + 1) || 'first prompt']]
      : []
  );

/** One line about an exploration under way.
 *  @param {{phase: string, message: string, doing?: string, done?: number, total?: number,
 *  left: number | null}} message */
export function progressWords({ phase, message, doing, done = 0, total = 0, left }) {
  if (phase === 'loading') return `${message}…`;
  if (phase === 'waiting') return 'Waiting for a race to finish…';
  if (!total) return `${message}…`;
  return `${done} of ${total}: ${doing}${left === null ? '' : `, about ${roughly(left)} left`}`;
}

/** E[τ] of the best of K independent drafts: 1 + Σ_m (1 − (1 − Π_{j≤m} α_j)^K); of one draft 1 +
 *  Σ_m Π_{j≤m} α_j. @param {number[]} alphas of positions, given that each is reached
 *  @param {number} [drafts] K */
export function expectedTau(alphas, drafts = 1) {
  let reached = 1;
  let total = 1;
  for (const alpha of alphas) {
    reached *= alpha;
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

/** Seconds of a pass over rows: linear between measured points.
 *  @param {[number, number][]} curve */
export function costAt(curve, rows) {
  if (curve.length < 2) return curve.length ? curve[0][1] : 0;
  const i = Math.max(1, curve.slice(0, -1).findLastIndex(([width]) => width < rows) + 1);
  const [[x0, y0], [x1, y1]] = [curve[i - 1], curve[i]];
  return y0 + ((y1 - y0) * (rows - x0)) / (x1 - x0);
}

/** A cost curve that never falls: a pass over more rows is not cheaper, whatever noise was timed.
 *  Neighbours that contradict it share their mean. @param {[number, number][]} curve */
export function rising(curve) {
  /** @type {{sum: number, rows: number[]}[]} */
  const pools = [];
  for (const [rows, seconds] of curve) {
    pools.push({ sum: seconds, rows: [rows] });
    for (;;) {
      const [before, last] = pools.slice(-2);
      if (!last || before.sum / before.rows.length <= last.sum / last.rows.length) break;
      pools.splice(-2, 2, { sum: before.sum + last.sum, rows: [...before.rows, ...last.rows] });
    }
  }
  return pools.flatMap(({ sum, rows }) =>
    rows.map((one) => /** @type {[number, number]} */ ([one, sum / rows.length]))
  );
}

/** The sandbox of a measured method: with its own tokens per round and its own cost of drafting. A
 *  tree's α is already "some child was accepted", and rounds without a draft lower the first α.
 *  @param {Record<string, any>} row @returns {Sandbox} */
export function measuredBox(
  { alpha, alpha_at: each, tau, gamma, tree_nodes: nodes, num_drafts: drafts, draft_cost: draft },
) {
  const alphas = each.map((value) => value ?? 0);
  const later = expectedTau(alphas.slice(1));
  alphas[0] = Math.min(1, (tau - 1) / later);
  const rows = nodes || gamma * drafts;
  const extra = Math.max(0, rows - alphas.length);
  return {
    alpha,
    alphas,
    gamma: alphas.length,
    passes: 1,
    draft,
    shape: 'window',
    count: 1,
    extra,
  };
}

/** `1 4.8, 17 7.0` (rows, milliseconds) -> rows and seconds, sorted; null if malformed. */
export function readCurve(words) {
  const pairs = words.split(/[,;\n]+/).map((part) => part.trim()).filter(Boolean).map((part) =>
    part.split(/[\s:]+/).map(Number)
  );
  const fits = pairs.length >= 2 &&
    pairs.every((pair) =>
      pair.length === 2 && pair[0] >= 1 && pair[1] > 0 && pair.every(Number.isFinite)
    ) && new Set(pairs.map(([rows]) => rows)).size === pairs.length;
  return fits
    ? pairs.map(([rows, ms]) => /** @type {[number, number]} */ ([rows, ms / 1000])).sort((a, b) =>
      a[0] - b[0]
    )
    : null;
}

/** @typedef {{alpha: number, alphas?: number[] | null, gamma: number, passes: number,
 *  draft: number, shape: 'window' | 'drafts' | 'tree', count: number, extra?: number}} Sandbox
 *  `alphas`: of each position, where they differ; `draft`: a drafter pass in vanilla passes; `count`:
 *  K drafts or B nodes; `extra`: rows of the target's pass besides those of a window, as of a tree's
 *  further branches */

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

/** Set one probability of a distribution; the others share the rest in their old proportions. */
export function withProbability(p, at, value) {
  const rest = p.reduce((sum, prob, i) => i === at ? sum : sum + prob, 0);
  return p.map((prob, i) =>
    i === at ? value : rest > 0 ? (prob / rest) * (1 - value) : (1 - value) / (p.length - 1)
  );
}

/** Normalise weights to a distribution; null if their sum is zero. */
export function normalised(weights) {
  const total = weights.reduce((a, b) => a + b, 0);
  return total > 1e-12 ? weights.map((weight) => weight / total) : null;
}

/** Draw from a distribution: an index. @param {number} u uniform in [0, 1) */
export function drawn(odds, u) {
  let left = u;
  const index = odds.findIndex((weight) => (left -= weight) < 0);
  return index < 0 ? odds.length - 1 : index;
}

/** Acceptance Σ min(p, q) of one token, and the normalised residual (p − q)₊, or null. */
export function acceptance(p, q) {
  const kept = p.map((value, i) => Math.min(value, q[i]));
  const residual = normalised(p.map((value, i) => Math.max(0, value - q[i])));
  return { kept, alpha: kept.reduce((a, b) => a + b, 0), residual };
}

/** A small generator with a seed (mulberry32): uniform in [0, 1). */
export function uniform(seed) {
  let state = seed >>> 0;
  return () => {
    state = (state + 0x6d2b79f5) >>> 0;
    let t = Math.imul(state ^ (state >>> 15), state | 1);
    t = (t + Math.imul(t ^ (t >>> 7), t | 61)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 4294967296;
  };
}

/** Sample tokens by draft, test and residual: counts, and accepted drafts. */
export function drawTokens(p, q, draws, seed) {
  const u = uniform(seed);
  const { residual } = acceptance(p, q);
  const counts = p.map(() => 0);
  let accepted = 0;
  for (let i = 0; i < draws; i += 1) {
    const token = drawn(q, u());
    const kept = u() < p[token] / q[token];
    accepted += Number(kept);
    counts[kept || !residual ? token : drawn(residual, u())] += 1;
  }
  return { counts, accepted };
}

/** @typedef {{position: number, id: number, text: string, kind: string, round: number,
 *  begins: boolean, rejected: number | null, differs: boolean}} Cell a new token of a run;
 *  `rejected`: the rejected draft token that it replaces */

/** A run along the text: a cell for each new token. @param {Lane} lane
 *  @param {number} start position of its first token, from 1 */
export function trackOf(lane, start = 1) {
  const { tokens } = stateAt(lane, Infinity);
  const vanilla = isVanilla(lane);
  return tokens.map(({ id, source, round }, i) => ({
    position: start + i,
    id,
    text: lane.texts[i],
    kind: vanilla ? 'vanilla' : source,
    round,
    differs: false,
    begins: tokens[i - 1]?.round !== round,
    rejected: tokens[i + 1]?.round === round // the target's own token ends a round
      ? null
      : rejectedOf(lane.rounds[round]?.verified)?.id ?? null,
  }));
}

/** The tracks in columns by position. A cell `differs` if its `base` has another token.
 *  @param {Record<string, Cell[]>} tracks
 *  @param {Record<string, string>} base track -> the one it is compared with */
export function aligned(tracks, base) {
  const names = Object.keys(tracks);
  const most = Math.max(0, ...names.flatMap((name) => tracks[name].map((cell) => cell.position)));
  const at = (/** @type {string} */ track, i) =>
    tracks[track]?.find((cell) => cell.position === i + 1);
  return Array.from({ length: most }, (_, i) =>
    Object.fromEntries(names.flatMap((name) => {
      const [cell, other] = [name, base[name]].map((track) => at(track, i));
      return cell ? [[name, { ...cell, differs: Boolean(other) && other?.id !== cell.id }]] : [];
    })));
}
