// Elements, downloads and waiting, without the view library.

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

/** Wait for a result. @template T @param {() => T} ready @param {number} [tries] 0.1 s each */
export async function until(ready, tries = 80) {
  for (let i = 0; i < tries; i += 1) {
    const result = ready();
    if (result) return result;
    await new Promise((later) => setTimeout(later, 100));
  }
  return null;
}

/** Offer a file as a download. @param {BlobPart} content */
export function download(content, type, name) {
  const address = URL.createObjectURL(new Blob([content], { type }));
  make('a', { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 1000);
}
