// Token ids -> readable text, as in specdiff_core/schema/events.py (spell). Pure.

/** @import { Lane } from './lane.js' */

/** The text of an id, as the trace holds it. @param {Lane} lane */
export function piece(lane, id) {
  const known = lane.pieces[id];
  return known === undefined ? `<${id}>` : known;
}

const RAW_BYTE = /\\x([89a-f][0-9a-f])/gi;

/**
 * Make pieces readable. A character whose bytes are spread over tokens appears at the token that
 * completes it; bytes that never complete one stay written as \xNN. @param {string[]} pieces
 */
export function joinPieces(pieces) {
  const shown = pieces.slice();
  const decode = (bytes) =>
    new TextDecoder('utf-8', { fatal: true, ignoreBOM: true }).decode(new Uint8Array(bytes));
  let i = 0;
  while (i < pieces.length) {
    if (!pieces[i].match(RAW_BYTE)) {
      i += 1;
      continue;
    }
    let bytes = [];
    let done = false;
    for (let j = i; j < Math.min(i + 4, pieces.length) && !done; j += 1) {
      bytes = bytes.concat(rawBytes(pieces[j]));
      try {
        shown[j] = decode(bytes);
        for (let k = i; k < j; k += 1) shown[k] = '';
        i = j;
        done = true;
      } catch (error) {
        if (!(error instanceof TypeError)) throw error; // TypeError: an incomplete character
      }
    }
    i += 1;
  }
  return shown;
}

function rawBytes(source) {
  const bytes = [];
  let from = 0;
  for (const match of source.matchAll(RAW_BYTE)) {
    bytes.push(
      ...new TextEncoder().encode(source.slice(from, match.index)),
      parseInt(match[1], 16),
    );
    from = match.index + match[0].length;
  }
  return bytes.concat(...new TextEncoder().encode(source.slice(from)));
}

/** Whether the prompt of a lane was a chat message: the token ids that the target read do not end with it. @param {Lane | null} lane */
export function isMessage(lane) {
  const { prompt = '', prompt_ids: ids = [] } = lane?.header ?? {};
  const read = ids.map((id) => lane?.pieces[id]);
  return read.length > 0 && !read.includes(undefined) &&
    !joinPieces(/** @type {string[]} */ (read)).join('').endsWith(prompt);
}

/** Set the texts of a lane's ids, and `wordless` if the trace has none. @param {Lane} lane */
export function spell(lane) {
  lane.wordless = lane.ids.length > 0 && !lane.ids.some((id) => lane.pieces[id] !== undefined);
  lane.shown = joinPieces(lane.ids.map((id) => piece(lane, id)));
}

/** Share pieces among lanes of one target, which have the same tokenizer. @param {Lane[]} lanes */
export function sharePieces(lanes) {
  const known = new Map(); // target -> pieces
  const targets = lanes.map((lane) => (lane.header && lane.header.models.target) || '');
  lanes.forEach((lane, i) =>
    known.set(targets[i], Object.assign(known.get(targets[i]) || {}, lane.pieces))
  );
  lanes.forEach((lane, i) => {
    if (!targets[i]) return;
    lane.pieces = known.get(targets[i]);
    spell(lane);
  });
}
