// The room that this page joined or projects: phones send their choice, and the projector opens the
// room and fetches the counts. There are no names: by its random number a page votes once, also
// after a reload.

import { keep, recall } from './storage.js';

/** The room whose link opened this page; while it is open, no run starts: thirty would queue up. */
export const seated = new URLSearchParams(location.search).get('room') ?? '';

/** Whether this page can start a run: an export and a page in an open room cannot. */
export const canRun = () =>
  !document.body.classList.contains('sd-seated') && !document.getElementById('sd-data'); // of an export

/** A random code: of a room, or of a page. `crypto.randomUUID` is missing on pages without TLS. */
export const code = (length = 6) =>
  [...crypto.getRandomValues(new Uint8Array(length))].map((byte) =>
    byte.toString(16).padStart(2, '0')
  ).join('');

const VOTER = 'specdiff-voter';
const CLOSED =
  'This room isn’t open, so your answers don’t count. Scan the code on the projector again.';
const LOST = 'Your last answer didn’t reach the room. Choose it again.';
const voter = recall(VOTER, 'sessionStorage') || code();
const place = (room, question) =>
  new URL(`rooms/${encodeURIComponent(room)}/${question}`, document.baseURI);

/** @type {Promise<string>} the previous request: choices must arrive in order */
let sent = Promise.resolve('');

/** Vote. @returns {Promise<string>} why the choice isn't counted; empty if it is */
export function send(room, question, option) {
  keep(VOTER, voter, 'sessionStorage');
  const to = place(room, question);
  to.search = new URLSearchParams({ voter, option: String(option) }).toString();
  sent = sent.then(() => fetch(to, { method: 'POST' })).then(
    ({ ok, status }) => ok ? '' : status === 404 ? CLOSED : LOST,
    (error) => {
      console.info('not counted:', error);
      return LOST;
    },
  );
  return sent;
}

/** What `read` makes of the server's answer about a question of a room; null if there is none.
 *  @template T @param {(answer: Response, body: any) => T} read */
async function request(room, question, method, read) {
  try {
    const answer = await fetch(place(room, question), { method });
    return read(answer, await answer.json());
  } catch (error) {
    console.info('the room does not answer:', error);
    return null;
  }
}

/** @typedef {{closed: string, question: string, revealed: boolean}} Projected why votes in a room
 *  would not count, or "", the question that its projector shows, and whether with its answer */

/** Join a room. @returns {Promise<Projected | null>} null if no server answers */
export function joinRoom(room) {
  keep(VOTER, voter, 'sessionStorage');
  return request(
    room,
    `guess?${new URLSearchParams({ voter })}`,
    'GET',
    ({ status }, { shown: question = '', revealed = false }) => ({
      closed: status === 404 ? CLOSED : '',
      question,
      revealed,
    }),
  );
}

const KEPT = 'specdiff-projector'; // the room's code and its key, for a reload

/** The room of this page's projector. */
export class SharedRoom {
  constructor() {
    const kept = recall(KEPT, 'sessionStorage');
    const codes = kept || code(12);
    this.name = codes.slice(0, 12);
    this.key = codes.slice(12); // whoever has it decides what the room shows
    this.shared = Boolean(kept); // whether the room has the link and may answer
  }

  share() {
    this.shared = true;
    keep(KEPT, this.name + this.key, 'sessionStorage');
  }

  /** Open the room, unless it is open, and show a question there, with its answer if it is revealed.
   *  @returns {Promise<{counts: number[], present: number} | null>} votes for each option, and how
   *  many pages are in the room; null if no server counts them */
  counts(question, revealed) {
    const query = `?key=${this.key}${revealed ? '&revealed' : ''}`;
    return request(this.name, question + query, 'PUT', ({ ok }, body) => ok ? body : null);
  }

  close() {
    const to = place(this.name, `guess?key=${this.key}`);
    if (this.shared) fetch(to, { method: 'DELETE' }).catch(console.info);
  }
}
