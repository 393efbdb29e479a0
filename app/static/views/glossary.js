// Tooltips with the meanings of symbols, from one list for the whole page, the same as the table of
// docs/theory.md (app/content/symbols.py). Every element with `data-symbol` shows its tip
// on hover, on keyboard focus and on a tap; `gloss` makes such elements of the symbols in a text,
// and `glossAxis` of the title of an axis.

import { attribute, make } from './dom.js';

/** @typedef {Record<string, {meaning: string, unit: string, prose: boolean}>} Symbols */

/** @type {Symbols} */
const symbols = Object.create(null);
let pattern = null;
const QUIET =
  'math, svg, code, pre, textarea, select, script, style, figcaption, [data-symbol], .sd-tip, ' +
  '.sd-workshop-contents, .sd-workshop-teacher em';
const PRESSED = 'button, a, summary, label, [role=tab]'; // keep the focus
let tip = null;
/** @type {Element | null} the element whose tip is shown */
let pointed = null;

/** Set the meanings of the symbols, once per page. @param {Symbols | undefined} given */
export function setSymbols(given) {
  if (!given || pattern) return;
  Object.assign(symbols, given);
  const marked = Object.keys(given).filter((symbol) => given[symbol].prose).sort((a, b) =>
    b.length - a.length
  ).map((symbol) => symbol.replace(/[[\]]/g, '\\$&'));
  // “Run B” is a name, not the number of nodes B.
  pattern = new RegExp(
    `(?<![Rr]un )(?<![\\p{L}\\p{N}_’'.-])(${
      marked.join('|')
    })(?![\\p{L}\\p{N}_’']|-\\p{L}|\\.[\\p{L}\\p{N}])`,
    'gu',
  );
  const shape = { className: 'sd sd-tip', role: 'tooltip', id: 'sd-tip', hidden: true };
  tip = make('div', shape, document.body);
  const owner = ({ target }) => target instanceof Element ? target.closest('[data-symbol]') : null;
  /** @type {Element | null} */
  let under = null; // the mouse, which must have moved: the page may scroll below it
  document.addEventListener('pointermove', (event) => {
    if (event.pointerType === 'touch' || owner(event) === under) return;
    under = owner(event);
    show(under);
  });
  for (const type of ['focusin', 'pointerup']) { // not pointerdown, which also begins a scroll
    document.addEventListener(type, (event) => show(owner(event)));
  }
  for (const type of ['pointerout', 'focusout']) {
    document.addEventListener(type, (event) => {
      if (/** @type {PointerEvent} */ (event).pointerType === 'touch') return; // ends each tap
      under = null;
      if (owner(event) === pointed) hide();
    });
  }
  document.addEventListener('pointerdown', hide);
  document.addEventListener('keydown', ({ key }) => {
    if (key === 'Escape') hide();
  }, true);
}

/** A symbol, its meaning and its unit as a sentence; empty for other text. */
export function meaningOf(symbol) {
  const entry = symbols[symbol];
  return entry ? `${symbol}: ${entry.meaning}${entry.unit ? ` (${entry.unit})` : ''}` : '';
}

/** Split a text into words and symbols in turn, words first. Symbols in `said` stay words.
 *  @param {string} words @param {Set<string>} [said] */
export function splitSymbols(words, said = new Set()) {
  const pieces = [''];
  let end = 0;
  for (const { 1: symbol, index } of pattern ? words.matchAll(pattern) : []) {
    if (said.has(symbol)) continue;
    said.add(symbol);
    pieces[pieces.length - 1] += words.slice(end, index);
    pieces.push(symbol, '');
    end = index + symbol.length;
  }
  pieces[pieces.length - 1] += words.slice(end);
  return pieces;
}

/** Add tips to the symbols in the texts below an element: once per paragraph, and once per article
 *  as a stop of the Tab key. The text itself stays the same. @param {Element} root */
export function gloss(root) {
  if (!pattern) return;
  const walker = document.createTreeWalker(root, NodeFilter.SHOW_TEXT);
  /** @type {Text[]} */
  const texts = [];
  while (walker.nextNode()) texts.push(/** @type {Text} */ (walker.currentNode));
  /** @type {Map<Element | null, Set<string>>} */
  const saidIn = new Map();
  const said = (place) => saidIn.get(place) ?? saidIn.set(place, new Set()).get(place);
  for (const node of texts) {
    const parent = node.parentElement;
    if (!parent || parent.closest(QUIET)) continue;
    const cut = splitSymbols(
      node.data,
      said(parent.closest('p, li, dt, dd, td, th, h2, h3, header, summary, button') ?? root),
    );
    if (cut.length < 2) continue;
    const tabbed = said(parent.closest('article, section') ?? root);
    const pressed = parent.closest(PRESSED);
    node.replaceWith(...cut.map((words, i) => {
      if (i % 2 === 0) return words;
      const first = !pressed && !tabbed?.has(`tab ${words}`);
      if (first) tabbed?.add(`tab ${words}`);
      const symbol = make('abbr', { className: 'sd-sym', title: '', textContent: words });
      symbol.dataset.symbol = words;
      if (first) symbol.tabIndex = 0;
      return symbol;
    }));
  }
}

/** Add tips for the symbols in the title of an axis, which is text of an SVG. It is a stop of the
 *  Tab key only if no other element in its panel, or on the panels around it, has the same tip.
 *  @param {Element} title @param {string} words */
export function glossAxis(title, words) {
  const axisSymbols = splitSymbols(words).filter((_, i) => i % 2);
  const others = [
    ...((title.closest('.sd-figures') ?? title.closest('section'))?.querySelectorAll(
      '[data-symbol][tabindex="0"]',
    ) ?? []),
  ].filter((one) => one !== title);
  const said = new Set(others.flatMap((one) => one.getAttribute('data-symbol')?.split(' ') ?? []));
  const first = axisSymbols.some((symbol) => !said.has(symbol));
  title.classList.toggle('sd-axis-sym', axisSymbols.length > 0);
  attribute(title, 'data-symbol', axisSymbols.join(' ') || null);
  attribute(title, 'tabindex', first ? '0' : null);
  attribute(title, 'role', first ? 'img' : null);
  attribute(title, 'aria-label', first ? words : null);
}

function show(target) {
  const words = (/** @type {HTMLElement | null} */ (target)?.dataset.symbol ?? '').split(' ').map(
    meaningOf,
  ).filter(Boolean).join('\n');
  if (!tip || !target || !words) return;
  hide();
  pointed = target;
  tip.textContent = words;
  tip.hidden = false;
  attribute(target, 'aria-describedby', tip.id);
  const [place, size] = [target.getBoundingClientRect(), tip.getBoundingClientRect()];
  const left = Math.max(8, Math.min(place.left, window.innerWidth - size.width - 8));
  const above = place.top - size.height - 6;
  tip.style.left = `${left}px`;
  tip.style.top = `${above > 4 ? above : place.bottom + 6}px`;
}

function hide() {
  if (tip) tip.hidden = true;
  if (pointed) attribute(pointed, 'aria-describedby', null);
  pointed = null;
}
