// Elements and downloads, without the view library.

/** An element with these properties, in the page if `parent` is given.
 *  @param {string} tag @param {Record<string, any>} properties @param {HTMLElement} [parent]
 *  @returns {any} */
export function make(tag, properties, parent) {
  const element = Object.assign(document.createElement(tag), properties);
  parent?.append(element);
  return element;
}

/** Set an attribute only when it changed; null removes it. */
export function attribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** In a grid with gaps, the element that an arrow, Home or End leads to; null if there is none.
 *  @param {(HTMLElement | null)[][]} rows */
export function towards(rows, from, key) {
  const y = rows.findIndex((row) => row.includes(from));
  if (y < 0) return null;
  const x = rows[y].indexOf(from);
  if (key === 'Home') return rows[y].find((one) => one !== null) ?? null;
  if (key === 'End') return rows[y].findLast((one) => one !== null) ?? null;
  const [dx, dy] =
    { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key] ?? [0, 0];
  if (!dx && !dy) return null;
  for (
    let [i, j] = [x + dx, y + dy];
    rows[j] && i >= 0 && i < rows[j].length;
    [i, j] = [i + dx, j + dy]
  ) if (rows[j][i]) return rows[j][i];
  return null;
}

/** Offer a file as a download. @param {BlobPart} content */
export function download(content, type, name) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  make('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
