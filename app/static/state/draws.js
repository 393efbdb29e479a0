// Distributions of a few tokens: acceptance, residual, and draws with a seed. Pure.

/** Set one probability of a distribution; the others share the rest in their old proportions. */
export function withProbability(p, at, value) {
  const rest = sum(p.filter((_, i) => i !== at));
  return p.map((prob, i) =>
    i === at ? value : rest > 0 ? (prob / rest) * (1 - value) : (1 - value) / (p.length - 1)
  );
}

/** @param {number[]} values */
export const sum = (values) => values.reduce((a, b) => a + b, 0);

/** Normalise weights to a distribution; null if their sum is zero. */
export function normalised(weights) {
  const total = sum(weights);
  return total > 1e-12 ? weights.map((weight) => weight / total) : null;
}

/** Draw from a distribution: an index. @param {number} u uniform in [0, 1) */
export function drawFrom(odds, u) {
  let left = u;
  const index = odds.findIndex((weight) => (left -= weight) < 0);
  return index < 0 ? odds.length - 1 : index;
}

/** Acceptance Σ min(p, q) of one token, and the normalised residual (p − q)₊, or null. */
export function acceptance(p, q) {
  const kept = p.map((value, i) => Math.min(value, q[i]));
  const residual = normalised(p.map((value, i) => Math.max(0, value - q[i])));
  return { kept, alpha: sum(kept), residual };
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
    const token = drawFrom(q, u());
    const kept = u() < p[token] / q[token];
    accepted += Number(kept);
    counts[kept || !residual ? token : drawFrom(residual, u())] += 1;
  }
  return { counts, accepted };
}
