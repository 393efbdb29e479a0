// The tabs of the page and what they share: which one is open, the race that one has another play,
// the room that the page joined, and the browser's history.

import { address, fits, giveLink, say } from './views/link.js';
import { joinRoom, seated } from './room.js';
import { until } from './views/dom.js';

/** @import { Lesson } from './learn.js' */
/** @import { Moment } from './state/moment.js' */
/** @import { PlaybackControls } from './playback_controls.js' */
/** @import { Run } from './state/findings.js' */
/** @import { Projected } from './room.js' */
/** @import { TabName } from './state/events.d.ts' */

/** @typedef {{url: string, lanes?: string[] | null, title?: string,
 *  labels?: Record<string, {label: string, method?: string}>, source?: string}} RecordedRace */
/** @typedef {{root: HTMLElement, showRecording?: (race: RecordedRace) => unknown,
 *  restore?: (place: any) => unknown, place?: any, query?: () => string, lesson?: LessonTab,
 *  form?: {settings: {raw: Record<string, any>}}}} Tab `place`: what it shows, as `restore` takes it */
/**
 * @typedef {object} LessonTab what a tab does for the lessons that point at it
 * @property {(lesson: Lesson, moment: Moment | null) => Promise<Element | null>} show shows the
 *  moment, or what the lesson is about, and returns its element
 * @property {(lesson: Lesson) => string[]} findings sentences with measured numbers
 * @property {(lesson: Lesson) => unknown} run runs what the lesson shows
 * @property {() => {words: string, over: boolean}} progress of that run
 * @property {(question: string) => string} query of a link to what is shown
 * @property {() => string} [settings] that the visitor changed, as a link's query
 * @property {(question: string) => import('./tabs.d.ts').Widget['sliders']} [sliders]
 * @property {() => void} [leave] shows whole figures again @property {PlaybackControls} [playback]
 */

const MOST_RUNS = 32;

const FOLLOWS = 2000; // milliseconds between looks at the projector
if (seated) {
  document.body.classList.add('sd-seated'); // the style sheet shows the reason in place of the controls
  const follow = async () => {
    const room = await joinRoom(seated);
    if (room) {
      page.room = room;
      dispatchEvent(new Event('specdiff:room'));
    }
    if (room?.closed) document.body.classList.remove('sd-seated');
    else setTimeout(follow, FOLLOWS);
  };
  setTimeout(follow);
}

/** `runs`: the numbers of the visitor's runs since the page was opened, latest first.
 *  @type {{tabs: Record<string, Tab>, openRace: typeof openRace, share: typeof share,
 *  runs: Run[], room: Projected}} `room`: that it is in */
export const page = (/** @type {any} */ (window).specdiff = {
  tabs: {},
  openRace,
  share,
  runs: [],
  room: { closed: '', question: '', revealed: false },
});
/** @type {RecordedRace | null} to be shown when the Race tab is made */
let pendingRace = null;

/** @param {Run[]} runs of one race */
export function addRuns(runs) {
  page.runs.unshift(...runs);
  page.runs.splice(MOST_RUNS);
}

/** @param {string} name @param {Tab} tab */
export function register(name, tab) {
  page.tabs[name] = tab;
  updateEntry();
  if (name !== 'race' || !pendingRace || !tab.showRecording) return;
  tab.showRecording(pendingRace);
  pendingRace = null;
}

/** Open the Race tab on a recorded race. @param {RecordedRace} race */
export function openRace(race) {
  openTab('race'); // which may make it
  const tab = page.tabs.race;
  if (tab?.showRecording) tab.showRecording(race);
  else pendingRace = race;
}

const TAB = '#sd-tabs [data-tab-id]';

/** The name of a tab. @param {Element | null} [button] by default the open one's */
const tabOf = (button = document.querySelector(`${TAB}[aria-selected=true]`)) =>
  button?.getAttribute('data-tab-id') ?? '';

/** Give a link to what the open tab shows, or with its prompt and settings. Returns its query;
 *  empty if it is too long. */
export function share() {
  const button = /** @type {HTMLElement} */ (document.getElementById('sd-share'));
  const tab = tabOf();
  const query = page.tabs[tab]?.query?.() || `tab=${tab}`;
  if (!fits(query)) {
    say(button, 'Prompt too long');
    return '';
  }
  giveLink(button, query);
  return query;
}

/** Open a tab by its name. @param {TabName} name */
export function openTab(name) {
  const button = document.querySelector(`${TAB}[data-tab-id="${name}"]`);
  if (button instanceof HTMLElement) button.click();
}

/** What a tab does for lessons, if it was opened. @param {string} name */
export const lessonTab = (name) => page.tabs[name]?.lesson;

/** Open a tab without an entry of the browser's history. @param {TabName} name */
function showTab(name) {
  walking = true;
  openTab(name);
  walking = false;
}

/** Open a tab for a lesson, whose steps have entries; null if it doesn't appear. @param {TabName} name */
export function openLessonTab(name) {
  showTab(name);
  return until(() => lessonTab(name));
}

// ---- Back and Forward walk through tabs, questions, recordings, runs and the steps of lessons ----

// the visitor's run that the address named last
let run = new URLSearchParams(location.search).get('run');
let walking = false;

/** What the page shows, for an entry of the browser's history. */
const historyState = () => {
  const places = Object.entries(page.tabs).map(([name, { place }]) => ({ name, place }));
  return { tab: tabOf(), run, places };
};

/** Keep what the page shows now in the current entry of the browser's history. */
export function updateEntry() {
  try {
    history.replaceState(historyState(), '');
  } catch (error) {
    console.info('not kept in the history:', error);
  } // some browsers forbid it for a page from disk
}

/** Begin an entry of the browser's history, so that Back returns to what is shown before. */
export function beginEntry(query) {
  run = new URLSearchParams(query).get('run') ?? run;
  address(query, 'pushState', historyState());
}

addEventListener('click', ({ target }) => {
  const button = target instanceof Element ? target.closest(TAB) : null;
  const [from, to] = [tabOf(), tabOf(button)];
  if (!button || walking || from === to) return;
  updateEntry();
  const query = new URLSearchParams(location.search);
  const lesson = query.has('lesson'); // a reload goes on with it, or with the run
  if (query.has('run') && !lesson) query.set('open', to);
  const keeps = lesson || query.has('run');
  address(keeps ? query.toString() : `tab=${to}`, 'pushState', { ...historyState(), tab: to });
}, true);
addEventListener('popstate', ({ state }) => {
  if (!state?.tab) return; // a link within the page
  if (state.run !== run) return location.reload();
  showTab(state.tab);
  for (const { name, place } of state.places) {
    const tab = page.tabs[name];
    if (place && JSON.stringify(place) !== JSON.stringify(tab?.place)) tab?.restore?.(place);
  }
});

/** @param {string} name @returns {boolean} whether a tab is open */
export const isOpen = (name) => isOnScreen(page.tabs[name]?.root);

/** Whether the content of a tab is on the screen. Checks an element that has a box on every screen:
 *  on a phone its own frame has none.
 *  @param {HTMLElement | undefined} root */
export const isOnScreen = (root) =>
  Boolean(
    /** @type {HTMLElement | null | undefined} */ (root?.querySelector('.sd-voice'))?.offsetParent,
  );
