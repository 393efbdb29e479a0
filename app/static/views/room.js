// Votes of a room: phones send their choice, and the projector fetches the counts. There are no
// names: each page has a random number, so that a changed vote counts once.

/** A random code: of a room, or of a page. */
export const code = () =>
  [...crypto.getRandomValues(new Uint8Array(6))].map((byte) => byte.toString(16).padStart(2, '0'))
    .join('');

const OWN = code();
const place = (room, question) =>
  new URL(`rooms/${encodeURIComponent(room)}/${question}`, document.baseURI);

/** @type {Promise<unknown>} the previous request: choices must arrive in order */
let sent = Promise.resolve();

export function send(room, question, option) {
  const to = place(room, question);
  to.search = new URLSearchParams({ voter: OWN, option: String(option) }).toString();
  sent = sent.then(() => fetch(to, { method: 'POST' })).catch((error) =>
    console.info('not counted:', error)
  );
}

/** Votes for each option; null if no server counts them. */
export async function counts(room, question) {
  try {
    const answer = await fetch(place(room, question));
    return answer.ok ? (await answer.json()).counts : null;
  } catch (error) {
    console.info('no counts:', error);
    return null;
  }
}
