// Keys: shortcuts, and arrows that move the focus.

/** In a grid with gaps, the element that an arrow, Home or End leads to; null if there is none.
 *  @param {(HTMLElement | null)[][]} rows */
export function towards(rows, from, key) {
  const y = rows.findIndex((row) => row.includes(from));
  const row = rows[y] ?? [];
  const x = row.indexOf(from);
  const ways = {
    Home: row,
    End: row.slice().reverse(),
    ArrowLeft: row.slice(0, x).reverse(),
    ArrowRight: row.slice(x + 1),
    ArrowUp: rows.slice(0, y).reverse().map((above) => above[x]),
    ArrowDown: rows.slice(y + 1).map((below) => below[x]),
  };
  return ways[key]?.find(Boolean) ?? null;
}

/** Keys that move along a row, and the number of steps. */
export const ALONG = { ArrowRight: 1, ArrowLeft: -1, Home: -Infinity, End: Infinity };

/** Move the focus among elements that share one stop of the Tab key. @param {HTMLElement[]} all
 *  @param {Record<string, number>} [moves] key -> number of steps
 *  @returns {number} the index of the focused one, or −1 if no key matched */
export function walk(event, all, moves = ALONG) {
  const focused = all.findIndex((element) => element === document.activeElement);
  if (focused < 0 || !Object.hasOwn(moves, event.key)) return -1;
  event.preventDefault();
  const to = Math.max(0, Math.min(all.length - 1, focused + moves[event.key]));
  all[to].focus();
  return to;
}

/** Whether a key may be a shortcut: it comes alone, and not from an element in which people write.
 *  @param {KeyboardEvent} event @param {boolean} [anywhere] also from such an element */
export const isFree = ({ target, ctrlKey, metaKey, altKey }, anywhere = false) =>
  !ctrlKey && !metaKey && !altKey && target instanceof Element &&
  (anywhere ||
    !target.closest(
      'textarea, select, [contenteditable], input:not([type=range], [type=checkbox])',
    ));

let arrows = false; // whether the listener is installed

/** Let the arrow keys open the tabs. */
export function arrowTabs() {
  if (arrows) return;
  arrows = true;
  document.addEventListener('keydown', (event) => {
    const { target } = event;
    const list = target instanceof Element
      ? target.closest('[role=tablist]:not([aria-orientation=vertical])')
      : null;
    const tabs = /** @type {HTMLElement[]} */ ([...(list?.querySelectorAll('[role=tab]') ?? [])])
      .filter((tab) => tab.offsetParent);
    const to = walk(event, tabs);
    if (to >= 0) tabs[to].click();
  });
}
