// The bar of a presentation, its keys, and the link for the room with a code to scan.

import { classes, Dialog, Facts, html } from './ui.js';
import { LONGEST_LINK } from '../state/declared.js';

/** @type {[key: string, words: string, button: string][]} what a presenter can do, by keys and most
 *  also by a button */
const COMMANDS = [
  ['P', 'previous lesson', '‹'],
  ['N', 'next lesson', '›'],
  ['←', 'previous step; or Page Up', 'Back'],
  ['→', 'next step; or Page Down', 'Next'],
  ['R', 'reveal the explanation or the answers', 'Reveal'],
  ['Space', 'play or pause the recording', 'Play'],
  ['.', 'one event forward in the recording', ''],
  [',', 'one event back in the recording', ''],
  ['L', 'link for the room', 'Room link'],
  ['?', 'these keys', 'Keys'],
  ['Esc', 'leave', 'Leave'],
];

/** A hint on the link for a room. @param {URL} link */
function hint(link) {
  if (link.protocol === 'file:') {
    return 'This page is a file on this computer: share the file itself with the room.';
  }
  if (['localhost', '127.0.0.1', '[::1]'].includes(link.hostname)) {
    return 'Only this computer can open this address. A QR code has its network address, for ' +
      'phones on the same network. If there is no code, start the page with --host 0.0.0.0.';
  }
  return link.href.length > LONGEST_LINK
    ? 'The link is too long for a QR code. Use a shorter prompt.'
    : 'It shows the step that is on the projector; nobody can start a run there.';
}

/** A link that opens the step on other machines. @param {{link: URL}} props */
function RoomLink({ link }) {
  const drawn = new URL('qr', document.baseURI);
  drawn.search = new URLSearchParams({ link: link.href }).toString();
  const hide = (event) => event.currentTarget.hidden = true; // hides it if the host has no /qr
  return html`
    ${link.protocol !== 'file:' && link.href.length <= LONGEST_LINK && html`
      <img class="sd-presenter-code" alt="QR code of the link" width="320" height="320"
        src=${drawn.href} onerror=${hide} />
    `}
    <p><a class="sd-presenter-address" href=${link.href}>${link.href}</a></p>
    <p class="sd-sub">${hint(link)}</p>
  `;
}

/** @param {{title: string, place: string, note: string, off: string[], dialog: '' | 'link' | 'help',
 *  link: URL, press: (key: string) => void, close: (dialog: string) => void}} props `place` of the
 *  lesson; `note`: why nothing can be revealed; `off`: buttons that do nothing now; `dialog`: the one
 *  that is open */
export function Bar({ title, place, note, off, dialog, link, press, close }) {
  const button = ([key, words, name]) =>
    html`
      <button type="button" class=${classes(
        'sd-button',
        name === 'Reveal' && 'sd-presenter-reveal',
      )}
        disabled=${off.includes(name)} aria-label=${name.length === 1 ? words : null}
        onclick=${() => press(key)}>${name}<kbd aria-hidden="true">${key}</kbd></button>
    `;
  const [back, on, ...buttons] = COMMANDS.filter(([, , name]) => name).map(button);
  const keys = COMMANDS.map(([key, words]) => [html`<kbd>${key}</kbd>`, words]);
  return html`
    ${back}
    <span class="sd-presenter-place" aria-live="polite">${place}${title}</span>
    ${on}<span class="sd-presenter-space"></span>
    ${note && html`<span class="sd-sub">${note}</span>`}${buttons}
    <${Dialog} title="Link for the room" open=${dialog === 'link'} closed=${() => close('link')}>
      ${dialog === 'link' && html`<${RoomLink} link=${link} />`}<//>
    <${Dialog} title="Keys" open=${dialog === 'help'} closed=${() => close('help')}>
      <${Facts} all=${keys} /><//>
  `;
}
