// Token ids -> readable text, as in specdiff_core/schema/events.py (spell). Pure.

/** @import { Lane } from './lane.js' */

/** The text of an id, as the trace holds it. @param {Lane} lane */
export function piece(lane, id) {
  const text = lane.pieces[id];
  return text === undefined ? `<${id}>` : text;
}

const RAW_BYTE = /(\\x[89a-f][0-9a-f])/i;

const bytesOf = (source) =>
  source.split(RAW_BYTE).flatMap((part, i) =>
    i % 2 ? [parseInt(part.slice(2), 16)] : [...new TextEncoder().encode(part)]
  );

/** The text of bytes; null if they end within a character. @param {number[]} bytes */
function decoded(bytes) {
  try {
    return new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(new Uint8Array(bytes));
  } catch (error) {
    if (error instanceof TypeError) return null;
    throw error;
  }
}

/** Make pieces readable. A character whose bytes are spread over tokens appears at the token that
 *  completes it; bytes that never complete one stay written as \xNN. @param {string[]} pieces */
export function joinPieces(pieces) {
  const texts = pieces.slice();
  for (let i = 0; i < pieces.length; i += 1) {
    if (!RAW_BYTE.test(pieces[i])) continue;
    const last = [i, i + 1, i + 2, i + 3].find((j) =>
      j < pieces.length && decoded(pieces.slice(i, j + 1).flatMap(bytesOf)) !== null
    );
    if (last === undefined) continue;
    texts.fill('', i, last);
    texts[last] = decoded(pieces.slice(i, last + 1).flatMap(bytesOf)) ?? '';
    i = last;
  }
  return texts;
}

/** Whether the prompt of a lane was a chat message: the token ids that the target read do not end
 *  with it. @param {Lane | null} lane */
export function isMessage(lane) {
  const { prompt = '', prompt_ids: ids = [] } = lane?.header ?? {};
  const read = ids.map((id) => lane?.pieces[id]);
  return read.length > 0 && !read.includes(undefined) &&
    !joinPieces(/** @type {string[]} */ (read)).join('').endsWith(prompt);
}

/** Set the texts of a lane's ids, and `wordless` if the trace has none. @param {Lane} lane */
export function spell(lane) {
  lane.wordless = lane.ids.length > 0 && !lane.ids.some((id) => lane.pieces[id] !== undefined);
  lane.texts = joinPieces(lane.ids.map((id) => piece(lane, id)));
}

/** Share pieces among lanes of one target, which have the same tokenizer. @param {Lane[]} lanes */
export function sharePieces(lanes) {
  const shared = new Map(); // target -> pieces
  const targets = lanes.map((lane) => (lane.header && lane.header.models.target) || '');
  lanes.forEach((lane, i) =>
    shared.set(targets[i], Object.assign(shared.get(targets[i]) || {}, lane.pieces))
  );
  lanes.forEach((lane, i) => {
    if (!targets[i]) return;
    lane.pieces = shared.get(targets[i]);
    spell(lane);
  });
}
