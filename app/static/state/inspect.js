// One place of a round in detail: p and q of its likeliest tokens, its test, and a simulation with
// other draws. Pure.

import { TEST_KINDS } from './declared.js';
import { decisive, stateAt } from './progress.js';
import { acceptance, drawFrom, normalised, sum, uniform } from './draws.js';
/** @import { Test } from './events.d.ts' */
/** @import { Lane } from './lane.js' */
/** @import { PartialRound } from './progress.js' */

/** @typedef {number | {node: number}} Place a position of the window, the last being the target's
 *  own token; in a tree a depth on the target's path, or a node */
/** @typedef {{id: number | null, p: number | null, q: number | null}} Row a token, or (id null) all
 *  others together; null: not recorded */
/** @typedef {ReturnType<typeof inspected>} Inspected */

/** Whether a test is of all tokens that are drafted at a place. @param {Test | null} test */
export const isWalk = (test) => Boolean(test && TEST_KINDS[test.kind].walks);

/** The node, parent and position of a place; a plain window is a tree of one line. `parent` null:
 *  the target did not get that far. @param {PartialRound} view @param {Place} place
 *  @param {number[]} parents of the drafted tokens */
function located({ draft, verified, tree }, place, parents) {
  if (typeof place !== 'number') {
    return {
      node: place.node,
      parent: parents[place.node] ?? null,
      position: tree?.depths[place.node] ?? 0,
    };
  }
  const chosen = verified?.chosen ?? null;
  const walked = (chosen === null ? verified?.path : draft?.branches[chosen]) ?? [];
  const way = tree ? walked : parents.map((_, i) => i);
  const parent = place === 0 ? -1 : way[place - 1] ?? null;
  // the last of several drafts
  const last = parent === null ? null : decisive(verified?.tests ?? []).get(place);
  const named = last && !isWalk(last)
    ? draft?.ids.findIndex((id, i) => id === last.id && parents[i] === parent) ?? -1
    : -1;
  return { node: way[place] ?? (named < 0 ? null : named), parent, position: place };
}

/** The known facts about a place. @param {PartialRound} view @param {Place} place
 *  @param {boolean} [greedy] at temperature 0 the trace's p is 1 or 0, so p is taken from its
 *  candidates only */
export function inspected(view, place, greedy = false) {
  const { draft, scored, verified } = view;
  const tree = Boolean(view.tree);
  const parents = (tree ? draft?.parents : draft?.ids.map((_, i) => i - 1)) ?? [];
  const { node, parent, position } = located(view, place, parents);
  const siblings = parents.flatMap((one, i) => one === parent ? [i] : []);
  const reveal = tree ? null : view.passes.find((pass) => pass.revealed.includes(position)) ?? null;
  const drafted = (draft ? draft.ids[node ?? -1] : reveal?.ids[position]) ?? null;
  const recorded = parent === null ? [] : scored?.candidates[parent + 1] ?? [];
  const target = new Map(recorded.map(({ id, prob }) => [id, prob]));
  const drafter = new Map((reveal?.candidates[position] ?? []).map(({ id, prob }) => [id, prob]));
  const certain = Boolean(
    draft && (draft.proposal === 'point_mass' || (!tree && draft.q[position] === 1)),
  );
  for (const i of siblings) {
    const id = /** @type {number} */ (draft?.ids[i]);
    if (certain && draft?.node_q?.length) drafter.set(id, draft.node_q[i]);
    else if (!certain) drafter.set(id, draft?.q[i] ?? 0);
    if (
      !greedy && scored && scored.p[i] !== undefined && !target.has(id) && (tree || target.size)
    ) target.set(id, scored.p[i]);
  }
  const options = siblings.map((i) => /** @type {number} */ (draft?.ids[i]));
  const ids = [...new Set([...target.keys(), ...drafter.keys(), ...options])];
  /** @param {Map<number, number>} probs */
  const of = (probs, id) => probs.size ? probs.get(id) ?? null : null;
  /** @type {Row[]} */
  const rows = target.size || drafter.size || tree
    ? ids.map((id) => ({ id, p: of(target, id), q: of(drafter, id) })).sort((a, b) =>
      (b.p ?? -1) - (a.p ?? -1) || (b.q ?? -1) - (a.q ?? -1)
    )
    : [];
  /** @param {Map<number, number>} probs */
  const left = (probs) => probs.size ? Math.max(0, 1 - sum([...probs.values()])) : null;
  if (target.size || drafter.size) rows.push({ id: null, p: left(target), q: left(drafter) });
  const reached = Boolean(verified) &&
    (tree
      ? parent === -1 || verified?.path.includes(/** @type {number} */ (parent)) === true
      : position <= (verified?.accepted ?? 0));
  const extra = verified && reached && position === verified.accepted && view.extra
    ? verified.extra
    : null;
  const tests = reached && verified ? verified.tests : [];
  return {
    round: view.round,
    position,
    node,
    tree, // whether several tokens may have been drafted here
    drafted,
    options, // all tokens that were drafted here
    rows,
    reached, // whether the target reached it; false before the verdict
    certain, // the draft is a point mass: q is the drafter's confidence, and the test takes q = 1
    extra, // what the target wrote here
    source: extra === null ? '' : verified?.source ?? '', // why: residual, bonus or target
    test: testOf(tests, position, node, drafted),
    holds: recorded.length ? 'all' : target.size ? 'drafted' : 'none', // which p the trace has
  };
}

/** The test of a place: its own with several drafts; in a tree, the draw that decided among all
 *  nodes drafted there. @param {Test[]} tests */
function testOf(tests, position, node, drafted) {
  const last = decisive(tests).get(position) ?? null;
  if (node === null || isWalk(last)) return last;
  return tests.find((test) => test.position === position && test.id === drafted) ?? null;
}

/** The origin of a token of the text: its finished round, and its place there; null if the trace
 *  does not hold it. @param {Lane} lane @param {number} token its place among the new ones */
export function tokenOf(lane, token) {
  const round = lane.rounds.find(({ first, committed }) =>
    committed && token >= first && token < first + committed.ids.length
  );
  const view = round?.draft && round.verified ? stateAt(lane, round.ends.Committed).window : null;
  return round && view ? { view, place: token - round.first } : null;
}

/** The residual (p − q)₊ by row, as a distribution; null if it is zero. @param {Row[]} rows */
export const residual = (rows) =>
  acceptance(rows.map(({ p }) => p ?? 0), rows.map(({ q }) => q ?? 0)).residual;

/** Repeat a test `draws` times with other draws: how often it accepts, and how often each row
 *  came out otherwise. In a tree the target draws from p, and any token that was drafted there is
 *  accepted.
 *  @param {Inspected} what @param {number} threshold @param {number} draws @param {number} seed
 *  @returns {{accepted: number, counts: number[]}} */
export function again({ rows, drafted, certain, test, options }, threshold, draws, seed) {
  const u = uniform(seed);
  const walks = isWalk(test);
  const draftedRow = rows.findIndex(({ id }) => id === drafted);
  const rest = walks ? without(rows, -1) : certain ? without(rows, draftedRow) : residual(rows);
  const counts = rows.map(() => 0);
  let accepted = 0;
  for (let i = 0; i < draws; i += 1) {
    if (!rest || (!walks && u() < threshold)) {
      accepted += 1;
      if (draftedRow >= 0) counts[draftedRow] += 1;
      continue;
    }
    const row = drawFrom(rest, u());
    counts[row] += 1;
    accepted += Number(walks && options.includes(/** @type {number} */ (rows[row].id)));
  }
  return { accepted, counts };
}

/** p without one row, as a distribution. @param {Row[]} rows */
const without = (rows, index) => normalised(rows.map(({ p }, i) => i === index ? 0 : p ?? 0));
