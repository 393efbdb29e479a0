// Makes elements. Text always becomes a text node, so a token can never become markup.

/** h('p', {class: 'x', title: 'y'}, 'text', child)
 *  @param {string} tag @param {Record<string, any>} [attributes]
 *  @param {(Node | string | null | undefined)[]} children @returns {any} */
export function h(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith('on')) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? '' : String(value));
  }
  for (const child of children) if (child !== null && child !== undefined) element.append(child);
  return element;
}

/** Set text only when it changed: no layout for equal frames. */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
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

/** Make a function that gives bytes an address in this browser and frees its previous address.
 *  @returns {(bytes: Uint8Array) => string} */
export function addresses() {
  let last = '';
  return (bytes) => {
    if (last) URL.revokeObjectURL(last);
    last = URL.createObjectURL(new Blob([/** @type {BlobPart} */ (bytes)]));
    return last;
  };
}

/** Offer a file as a download. @param {BlobPart} content */
export function download(content, type, name) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  h('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
