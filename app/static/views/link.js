// A link to the current view: it is put into the address and copied; if the browser does not permit
// that, it is shown for copying by hand.

import { Dialog, html, render } from './ui.js';
import { make } from './dom.js';

/** @type {HTMLElement | null} the element that shows links; created when first needed */
let place = null;

/** @param {HTMLElement} button that was pressed @param {string} words shown on it for a moment */
export function say(button, words) {
  button.dataset.words ??= button.textContent ?? '';
  button.textContent = words;
  setTimeout(() => {
    button.textContent = button.dataset.words ?? '';
  }, 2200);
}

/** Whether servers and browsers take a link with this query. @param {string} query */
export const fits = (query) => location.pathname.length + query.length <= 8000;

/** Put a query into the address, which keeps its room, and stays as it is if the query is too long.
 *  @param {'replaceState' | 'pushState'} [how] @param {any} [state] */
export function address(query, how = 'replaceState', state = history.state) {
  const link = new URL(location.href);
  const room = link.searchParams.get('room');
  if (fits(query)) Object.assign(link, { search: query, hash: '' });
  if (room) link.searchParams.set('room', room);
  try {
    history[how](state, '', link);
  } catch (error) {
    console.info('the address stays as it is:', error);
  } // some browsers forbid it for a page from disk
  return link;
}

/** @param {HTMLElement} button that was pressed @param {string} query of the link
 *  @param {string} [words] copied in front of it */
export async function giveLink(button, query, words = '') {
  const link = address(query);
  try {
    await navigator.clipboard.writeText(words ? `${words} ${link.href}` : link.href);
    say(button, 'Link copied');
  } catch (error) { // not permitted, or a page without TLS, which has no clipboard
    console.info('not copied:', error);
    say(button, 'Copy it by hand');
    showLink(link);
  }
}

/** @param {URL} link */
function showLink(link, open = true) {
  place ??= /** @type {HTMLElement} */ (make('div', { className: 'sd' }, document.body));
  const note = link.protocol === 'file:'
    ? 'This page is a file, so the link works on this computer only. For a copy elsewhere, add ' +
      'the part from “?” on to its address.'
    : '';
  const select = ({ currentTarget }) => currentTarget.select();
  render(
    html`
      <${Dialog} title="Copy this link" open=${open} closed=${() => showLink(link, false)}>
        <input type="text" class="sd-link-address" readonly aria-label="Link" value=${link.href}
          onfocus=${select} />
        <p class="sd-sub">${note}</p>
        <//>
    `,
    place,
  );
  if (open) place.querySelector('input')?.select();
}
