// What a pass costs by its rows: a measured or typed curve, in seconds. Pure.

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
