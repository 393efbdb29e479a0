// Makes elements. Text always becomes a text node, so a token can never become markup.
// @ts-check

/**
 * h('p', {class: 'x', title: 'y'}, 'text', child)
 * @param {string} tag @param {Record<string, any>} [attributes] @param {(Node | string | null | undefined)[]} children @returns {any}
 */
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

/** Set text only when it changed: no layout for equal frames. @param {Element} element @param {string} value */
export function text(element, value) {
  if (element.textContent !== value) element.textContent = value;
}

/** Set an attribute only when it changed; null takes it away. @param {Element} element @param {string} name @param {string | null} value */
export function attribute(element, name, value) {
  if (value === null) element.removeAttribute(name);
  else if (element.getAttribute(name) !== value) element.setAttribute(name, value);
}

/** Give an element other buttons; one at the place of the one that had the focus keeps it. @param {HTMLElement} element @param {string} words before them @param {HTMLElement[]} buttons */
export function refill(element, words, buttons) {
  const had = [...element.querySelectorAll('button')].findIndex((button) => button === document.activeElement);
  element.replaceChildren(...(words ? [h('span', { class: 'sd-sub' }, words)] : []), ...buttons);
  buttons[had]?.focus();
}

/** Of elements that share one place in the tab order, give it to this one. @param {HTMLElement[]} all @param {HTMLElement} one */
export function rove(all, one) {
  for (const element of all) element.tabIndex = element === one ? 0 : -1;
}

/** Move the focus among such elements by a key, if it is one of `moves`. @param {KeyboardEvent} event @param {HTMLElement[]} all @param {Record<string, number>} moves by how many @returns {number} which has it now, or −1 */
export function move(event, all, moves) {
  const here = all.findIndex((one) => one === document.activeElement);
  if (here < 0 || !Object.hasOwn(moves, event.key)) return -1;
  event.preventDefault();
  const to = Math.max(0, Math.min(all.length - 1, here + moves[event.key]));
  rove(all, all[to]);
  all[to].focus();
  return to;
}

/** In a grid with gaps, the element that an arrow, Home or End leads to; null where there is none. @param {(HTMLElement | null)[][]} rows @param {HTMLElement} from @param {string} key @returns {HTMLElement | null} */
export function towards(rows, from, key) {
  const y = rows.findIndex((row) => row.includes(from));
  if (y < 0) return null;
  const x = rows[y].indexOf(from);
  if (key === 'Home') return rows[y].find((one) => one !== null) ?? null;
  if (key === 'End') return rows[y].findLast((one) => one !== null) ?? null;
  const [dx, dy] = { ArrowLeft: [-1, 0], ArrowRight: [1, 0], ArrowUp: [0, -1], ArrowDown: [0, 1] }[key] ?? [0, 0];
  if (!dx && !dy) return null;
  for (let [i, j] = [x + dx, y + dy]; rows[j] && i >= 0 && i < rows[j].length; [i, j] = [i + dx, j + dy]) if (rows[j][i]) return rows[j][i];
  return null;
}

/** Hand the visitor a file. @param {BlobPart} content @param {string} type @param {string} name */
export function download(content, type, name) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  h('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}

/** @type {Record<string, string>} */
const PATHS = {
  play: 'M5 3.2v9.6c0 .6.7 1 1.2.6l7-4.8c.4-.3.4-.9 0-1.2l-7-4.8C5.7 2.3 5 2.6 5 3.2z',
  pause: 'M4.5 3h2v10h-2zM9.5 3h2v10h-2z',
  start: 'M3.5 3h1.6v10H3.5zM12.5 3.6v8.8c0 .5-.6.8-1 .5L6 8.5a.6.6 0 0 1 0-1l5.500-4.400c.4-.3 1 0 1 .5z',
  back: 'M10.200 3.500 5.700 8l4.500 4.500-1 1L3.700 8l5.500-5.500z',
  next: 'M5.800 3.500 10.300 8l-4.500 4.500 1 1L12.300 8 6.800 2.500z',
  save: 'M7.300 2h1.400v6.300l2.200-2.200 1 1L8 11 4.100 7.100l1-1 2.200 2.200zM3 12.500h10V14H3z',
};

/** A drawing that needs no icon font; decorative, so hidden from assistive technology. @param {string} name */
export function icon(name) {
  const [svg, path] = ['svg', 'path'].map((tag) => document.createElementNS('http://www.w3.org/2000/svg', tag));
  for (const [key, value] of Object.entries({ viewBox: '0 0 16 16', width: '16', height: '16', 'aria-hidden': 'true', focusable: 'false' })) svg.setAttribute(key, value);
  path.setAttribute('d', PATHS[name]);
  path.setAttribute('fill', 'currentColor');
  svg.append(path);
  return svg;
}
