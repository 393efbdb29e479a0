// A link to what is on the screen: it goes into the address and is copied; where the browser does not permit that, it is
// shown, to be copied by hand.
// @ts-check

import { h, text } from './dom.js';

/** @type {{dialog: HTMLDialogElement, field: HTMLInputElement, note: HTMLElement} | null} made when it is first needed */
let shown = null;

/** @param {HTMLElement} button that was pressed @param {string} words that it says for a moment */
export function say(button, words) {
  button.dataset.words ??= button.textContent ?? '';
  text(button, words);
  setTimeout(() => text(button, button.dataset.words ?? ''), 2200);
}

/** Put a query into the address. @param {string} query @returns {URL} the link */
export function address(query) {
  const link = new URL(location.href);
  Object.assign(link, { search: query, hash: '' });
  try {
    history.replaceState(null, '', link);
  } catch (error) {
    console.info('the address stays as it is:', error);
  } // some browsers: of a page from disk
  return link;
}

/** @param {HTMLElement} button that was pressed @param {string} query what the link holds */
export async function giveLink(button, query) {
  const link = address(query);
  try {
    await navigator.clipboard.writeText(link.href);
    say(button, 'Link copied');
  } catch (error) { // not permitted, or a page without TLS, which has no clipboard
    console.info('not copied:', error);
    say(button, 'Copy it by hand');
    show(link);
  }
}

/** @param {URL} link */
function show(link) {
  shown ??= made();
  shown.field.value = link.href;
  text(
    shown.note,
    link.protocol === 'file:'
      ? 'This page is a file: the link opens it on this computer. Behind the address of a copy elsewhere, what begins with “?” does the same.'
      : '',
  );
  if (!shown.dialog.open) shown.dialog.showModal();
  shown.field.select();
}

function made() {
  const field = h('input', {
    type: 'text',
    class: 'sd-link-address',
    readonly: true,
    'aria-label': 'Link',
    onfocus: () => field.select(),
  });
  const note = h('p', { class: 'sd-sub' });
  const dialog = h(
    'dialog',
    { class: 'sd-dialog', 'aria-label': 'Link' },
    h(
      'form',
      { method: 'dialog' },
      h('h2', {}, 'Copy this link'),
      h('button', { class: 'sd-b', 'aria-label': 'Close' }, '✕'),
    ),
    field,
    note,
  );
  document.body.append(h('div', { class: 'sd' }, dialog));
  return { dialog, field, note };
}
