// Opens a tab of the page, and carries recorded races to the Race tab, whose player may not have been made yet.

let waiting = null; // what somebody asked to see
let taker = null; // the Race tab's player

/** Open the tab whose Gradio element id is `tab-<name>`. Returns whether there is one. */
export function openTab(name) {
  const label = { race: 'Race', live: 'Live' }[name];
  const button = document.getElementById(`tab-${name}-button`)
    || [...document.querySelectorAll('#sd-tabs [role=tab]')].find((one) => one.textContent.trim() === label);
  if (button) button.click();
  return Boolean(button);
}

function hand() {
  if (!waiting || !taker) return;
  const detail = waiting;
  waiting = null;
  taker(detail);
}

/** From now on, `specdiff:open-race` events open the Race tab on a race: {url, lanes, title, labels, source} (race.js). */
export function expectRaces() {
  window.addEventListener('specdiff:open-race', (event) => {
    waiting = event.detail;
    openTab('race');
    hand();
  });
}

/** The Race tab's player is there: it takes what was asked before, and all that will be. */
export function takeRaces(take) {
  taker = take;
  hand();
}
