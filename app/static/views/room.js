// What a room guesses: phones send what they chose, and the projector asks how many chose each answer. Without names: a
// page is a random number, so that whoever changes their mind counts once.
// @ts-check

/** A random code: of a room, or of a page. */
export const code = () =>
  [...crypto.getRandomValues(new Uint8Array(6))].map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');

const OWN = code();
const place = (/** @type {string} */ room, /** @type {string} */ question) =>
  new URL(`rooms/${encodeURIComponent(room)}/${question}`, document.baseURI);

/** @type {Promise<unknown>} what was sent before: the last choice is to arrive last */
let sent = Promise.resolve();

/** @param {string} room @param {string} question @param {number} option */
export function send(room, question, option) {
  const to = place(room, question);
  to.search = new URLSearchParams({ voter: OWN, option: String(option) }).toString();
  sent = sent.then(() => fetch(to, { method: 'POST' }))
    .catch((error) => console.info('not counted:', error));
}

/** How many chose each option; null where no server counts. @param {string} room @param {string} question @returns {Promise<number[] | null>} */
export async function counts(room, question) {
  try {
    const answer = await fetch(place(room, question));
    return answer.ok ? (await answer.json()).counts : null;
  } catch (error) {
    console.info('no counts:', error);
    return null;
  }
}
