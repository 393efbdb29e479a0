// A draft tree as a picture. Pure.

/** @typedef {ReturnType<typeof treeOf>} Tree of a draft, or of several drafts */

/** A draft tree as a picture. A node's first child stays on its line, so the first line is the most
 *  probable window and every other child begins a branch of its own.
 *  @param {number[]} parents */
export function treeOf(parents) {
  /** @type {number[][]} the last: nodes without a parent */
  const children = Array.from({ length: parents.length + 1 }, () => []);
  parents.forEach((parent, node) => children.at(parent)?.push(node));
  const [depths, lines] = [parents.map(() => 0), parents.map(() => 0)];
  let count = 0;
  const grow = (node, depth, line) => {
    [depths[node], lines[node]] = [depth, line];
    children[node].forEach((child, i) => grow(child, depth + 1, i ? count++ : line));
  };
  for (const root of children[parents.length]) grow(root, 0, count++);
  return {
    depths, // how many drafted tokens come before each node in its text
    lines, // on which each node is drawn
    count, // of lines
    deepest: Math.max(-1, ...depths) + 1, // how many tokens its longest text has
    branches: /** @type {number[][]} of several drafts, the nodes of each */ ([]),
    path: /** @type {number[]} the accepted nodes */ ([]),
    chosen: /** @type {number | null} the draft that the target selected */ (null),
  };
}

/** The lines of a tree to draw, at most `most`, in order: the first (the most probable window),
 *  those on the target's path, that of the draft it chose, then the longest.
 *  @param {Tree} tree @param {number} most @returns {number[]} */
export function linesShown({ count, lines, depths, path, branches, chosen }, most) {
  const reach = Array(count).fill(-1);
  lines.forEach((line, node) => {
    reach[line] = Math.max(reach[line], depths[node]);
  });
  const longest = reach.map((_, line) => line).sort((a, b) => reach[b] - reach[a] || a - b);
  const walked = [path, chosen === null ? [] : branches[chosen]].flat().map((node) => lines[node]);
  return [...new Set([0, ...walked, ...longest])].slice(0, most).sort((a, b) => a - b);
}
