// The page without a server: what app/export.py wrote is in the page itself. The players are those of the lab, each made
// when its tab is first opened.
// @ts-check

import { carried, fromBase64, gunzip } from './state/trace.js';
import { mount as compare } from './compare.js';
import { mount as explore } from './explore.js';
import { mount as learn } from './learn.js';
import { mount as play } from './app.js';
import { move, rove } from './views/dom.js';

/** @typedef {{tabs: Record<string, object>, files: Record<string, string>, plotly: string}} Told `plotly`: the address of the library, or nothing where the page holds it */

/** @type {Record<string, (element: HTMLElement, props: any, watch: any, options: any) => void>} */
const MOUNTS = { live: play, race: play, explore, compare, learn };

/** What an element of the page holds as text. @param {string} id */
const held = (id) => document.getElementById(id)?.textContent ?? '';

/** The library as a script with an address of its own: it is loaded when a chart is first drawn. */
async function unpacked() {
  const source = await gunzip(fromBase64(held('sd-plotly')));
  return URL.createObjectURL(new Blob([/** @type {BlobPart} */ (source)], { type: 'text/javascript' }));
}

/** The tab that an address asks for, as on the page of the lab. */
function wanted() {
  const query = new URLSearchParams(location.search);
  if (query.has('explore')) return 'explore';
  if (query.has('lesson')) return 'learn';
  return query.get('tab') === 'race' ? 'race' : 'live';
}

/** Fill the page. */
export async function open() {
  /** @type {Told} */
  const told = JSON.parse(held('sd-told'));
  for (const [url, content] of Object.entries(told.files)) carried.set(url, content);
  const plotly = told.plotly || (await unpacked());
  const tabs = /** @type {HTMLElement[]} */ ([...document.querySelectorAll('.tab-container [role=tab]')]);
  const made = new Set();
  const select = (/** @type {HTMLElement} */ tab) => {
    rove(tabs, tab);
    for (const one of tabs) {
      const panel = /** @type {HTMLElement} */ (document.getElementById(one.getAttribute('aria-controls') ?? ''));
      panel.hidden = one !== tab;
      one.setAttribute('aria-selected', String(one === tab));
      if (one !== tab || made.has(panel.id)) continue;
      made.add(panel.id);
      MOUNTS[panel.id](panel, { value: '' }, () => {}, { ...told.tabs[panel.id], plotly });
    }
  };
  for (const tab of tabs) tab.addEventListener('click', () => select(tab));
  document.querySelector('.tab-container')?.addEventListener('keydown', (event) => {
    const to = move(/** @type {KeyboardEvent} */ (event), tabs, { ArrowRight: 1, ArrowLeft: -1, Home: -tabs.length, End: tabs.length });
    if (to >= 0) select(tabs[to]);
  });
  select(tabs.find((tab) => tab.getAttribute('aria-controls') === wanted()) ?? tabs[0]);
}
