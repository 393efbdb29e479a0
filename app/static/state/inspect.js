// One position of a round, looked at closely: p and q of its likeliest tokens, the test, and what could have been. Pure.
// @ts-check

import { decisive } from './lane.js';
import { uniform } from './exploration.js';
/** @import { Test } from './events.d.ts' */
/** @import { Window } from './lane.js' */

/** @typedef {{id: number | null, p: number | null, q: number | null}} Row a token, or (id null) all others together; null: not recorded */
/** @typedef {{round: number, position: number, drafted: number | null, rows: Row[], test: Test | null, certain: boolean, extra: number | null, step: number | null}} Inspected `certain`: the draft is a point mass, so q is the drafter's confidence and the test takes q = 1 */

/** What is known of a position so far. @param {Window} view @param {number} position @returns {Inspected} */
export function inspected(view, position) {
  const { draft, scored, verified } = view;
  const reveal = view.passes.find((pass) => pass.revealed.includes(position)) ?? null;
  const drafted = view.tree ? null : draft?.ids[position] ?? reveal?.ids[position] ?? null;
  const target = new Map((scored?.candidates[position] ?? []).map(({ id, prob }) => [id, prob]));
  const drafter = new Map((reveal?.candidates[position] ?? []).map(({ id, prob }) => [id, prob]));
  const certain = Boolean(draft && (draft.proposal === 'point_mass' || draft.q[position] === 1));
  if (drafted !== null && draft && !certain) drafter.set(drafted, draft.q[position]);
  if (drafted !== null && scored && scored.p[position] !== undefined && !target.has(drafted) && target.size) target.set(drafted, scored.p[position]);
  const ids = [...new Set([...target.keys(), ...drafter.keys()])];
  /** @param {Map<number, number>} law @param {number} id */
  const of = (law, id) => (law.size ? law.get(id) ?? null : null);
  /** @type {Row[]} */
  const rows = ids.map((id) => ({ id, p: of(target, id), q: of(drafter, id) })).sort((a, b) => (b.p ?? -1) - (a.p ?? -1) || (b.q ?? -1) - (a.q ?? -1));
  const left = (/** @type {Map<number, number>} */ law) => (law.size ? Math.max(0, 1 - [...law.values()].reduce((a, b) => a + b, 0)) : null);
  if (rows.length) rows.push({ id: null, p: left(target), q: left(drafter) });
  const last = verified && position === verified.accepted ? verified.extra : null;
  const test = view.tree ? null : decisive(verified?.tests ?? []).get(position) ?? null;
  return { round: view.round, position, drafted, rows, test, certain, extra: last, step: reveal ? reveal.step : null };
}

/** The probability that each rule accepts a token of the draft: rule -> probability. @param {number} p @param {number} q */
export const rules = (p, q) => ({ ratio: q > 0 ? Math.min(1, p / q) : 0, delta: p, match: p });

/** What p still lacks once min(p, q) is given away, by row, as a distribution; null where nothing is left. @param {Row[]} rows */
export function residual(rows) {
  const lack = rows.map(({ p, q }) => Math.max(0, (p ?? 0) - (q ?? 0)));
  const all = lack.reduce((a, b) => a + b, 0);
  return all > 1e-12 ? lack.map((value) => value / all) : null;
}

/**
 * The same test so many times, with other draws: how often it accepts, and which row came out instead.
 * @param {Inspected} what @param {number} threshold @param {number} draws @param {number} seed @returns {{accepted: number, counts: number[]}}
 */
export function again({ rows, drafted, certain }, threshold, draws, seed) {
  const u = uniform(seed);
  const mine = rows.findIndex(({ id }) => id === drafted);
  const rest = certain ? without(rows, mine) : residual(rows);
  const counts = rows.map(() => 0);
  let accepted = 0;
  for (let i = 0; i < draws; i += 1) {
    if (u() < threshold || !rest) {
      accepted += 1;
      if (mine >= 0) counts[mine] += 1;
      continue;
    }
    let left = u();
    const found = rest.findIndex((weight) => (left -= weight) < 0);
    counts[found < 0 ? rest.length - 1 : found] += 1;
  }
  return { accepted, counts };
}

/** p without one row, as a distribution. @param {Row[]} rows @param {number} mine */
function without(rows, mine) {
  const rest = rows.map(({ p }, i) => (i === mine ? 0 : p ?? 0));
  const all = rest.reduce((a, b) => a + b, 0);
  return all > 1e-12 ? rest.map((value) => value / all) : null;
}
