// The page without a server: the page itself holds the data (app/export.py). Its tabs are those of the
// lab, each created when it is first opened.

import { carried } from './files.js';
import { fromBase64, gunzip, readFile } from './state/trace.js';
import { mount as explore } from './explore.js';
import { mount as learn } from './learn.js';
import { mount as play } from './player_tab.js';
import { isOpen, openTab, page, share } from './page.js';
import { LIVE_LANES, OPENS } from './state/declared.js';
import { arrowTabs } from './views/keys.js';
/** @import { PlayerTab } from './player_tab.js' */
/** @import { TabName } from './state/events.d.ts' */
/** @import { Gradio } from './job.js' */
/** @typedef {{tabs: Record<string, object>, files: Record<string, string>, plotly: string}}
 *  PageData `plotly`: the address of the library; empty if the page holds it */

/** @type {Gradio} */
const NO_SERVER = { props: { value: '' }, watch: () => {}, trigger: () => {}, server: {} };
/** @type {Record<Exclude<TabName, 'api'>, (element: HTMLElement, gradio: Gradio, options: any) => void>} */
const MOUNTS = { live: play, race: play, explore, compare: explore, learn };

const NO_TRACE = {
  title: 'This file is not a readable trace',
  hint:
    'Choose a .jsonl or .jsonl.gz file that was downloaded from this page or written with --trace.',
};

/** What an element of the page holds as text. */
const textOf = (id) => document.getElementById(id)?.textContent ?? '';

/** The library unpacked, as the address of a script that is loaded when a chart is first drawn. */
async function unpacked() {
  const source = await gunzip(fromBase64(textOf('sd-plotly')));
  return URL.createObjectURL(
    new Blob([/** @type {BlobPart} */ (source)], { type: 'text/javascript' }),
  );
}

/** The tabs that the address asks for; the first that exists is opened, as by app/links.py. */
function linkedTabs() {
  const query = new URLSearchParams(location.search);
  return Object.entries(OPENS).filter(([name]) => query.has(name))
    .map(([name, tab]) => tab ?? query.get(name));
}

/** The Live or the Race tab, created if it does not exist yet. @param {'live' | 'race'} name */
function openPlayerTab(name) {
  openTab(name);
  return /** @type {PlayerTab} */ (page.tabs[name]);
}

/** Play a visitor's file in its tab, as app/run/kept.py does. @param {File} file */
async function openFile(file) {
  try {
    const trace = await readFile(file);
    const named = Object.keys(trace.lanes).filter((lane) => trace.lanes[lane].length);
    if (!named.length) throw new Error('it has no events');
    const tab = named.every((lane) => LIVE_LANES.includes(lane)) ? 'live' : 'race';
    await openPlayerTab(tab).job.openFile({ source: 'file', trace });
  } catch (error) {
    console.warn('not opened:', error);
    const message = `${file.name}: ${error instanceof Error ? error.message : error}.`;
    openPlayerTab(isOpen('race') ? 'race' : 'live').job.card.show({ ...NO_TRACE, message });
  }
}

/** Fill the page. */
export async function open() {
  /** @type {PageData} */
  const data = JSON.parse(textOf('sd-data'));
  for (const [url, content] of Object.entries(data.files)) carried.set(url, content);
  const plotly = data.plotly || (await unpacked());
  const tabs =
    /** @type {HTMLElement[]} */ ([...document.querySelectorAll('.tab-container [role=tab]')]);
  const mounted = new Set();
  const select = (chosen) => {
    for (const tab of tabs) {
      tab.tabIndex = tab === chosen ? 0 : -1;
      const panel = /** @type {HTMLElement} */ (document.getElementById(
        tab.getAttribute('aria-controls') ?? '',
      ));
      panel.hidden = tab !== chosen;
      tab.setAttribute('aria-selected', String(tab === chosen));
      if (tab !== chosen || mounted.has(panel.id)) continue;
      mounted.add(panel.id);
      const element = document.getElementById(`${panel.id}-player`) ?? panel;
      MOUNTS[panel.id](element, NO_SERVER, { ...data.tabs[panel.id], plotly });
    }
  };
  for (const tab of tabs) tab.addEventListener('click', () => select(tab));
  arrowTabs();
  const file = /** @type {HTMLInputElement} */ (document.getElementById('sd-file'));
  document.getElementById('sd-open')?.addEventListener('click', () => file.click());
  file.addEventListener('change', async () => {
    if (file.files?.length) await openFile(file.files[0]);
    file.value = ''; // the same file can be chosen again
  });
  document.getElementById('sd-share')?.addEventListener('click', share);
  const tabOf = (name) => tabs.find((tab) => tab.getAttribute('aria-controls') === name);
  select(linkedTabs().map(tabOf).find(Boolean) ?? tabs[0]);
}
