// Reads and writes the trace format of specdiff_core/schema/trace.py: JSON lines, header first.

import { DEFAULTS, MAX_BYTES, SCHEMA, TEST_KINDS } from './declared.js';
/** @import { Event } from './events.d.ts' */

/** @typedef {{title: string, lanes: Record<string, Event[]>, bytes?: Uint8Array | null}} Trace */

/** An event with the fields that its line leaves out. Throws an Error if the page doesn't know a
 *  kind of its tests. */
export function filled(event) {
  const strange = event.tests?.find(({ kind }) => !Object.hasOwn(TEST_KINDS, kind));
  if (strange) {
    throw new Error(`it has a test of an unknown kind, ${String(strange.kind).slice(0, 20)}`);
  }
  return { ...DEFAULTS[event.kind], ...event };
}

export const fromBase64 = (text) => Uint8Array.from(atob(text), (letter) => letter.charCodeAt(0));

/** @param {Uint8Array} bytes @param {CompressionStream | DecompressionStream} stream */
async function through(bytes, stream) {
  return new Uint8Array(
    await new Response(new Blob([/** @type {BlobPart} */ (bytes)]).stream().pipeThrough(stream))
      .arrayBuffer(),
  );
}

/** @param {Uint8Array} bytes */
export const gzip = (bytes) => through(bytes, new CompressionStream('gzip'));
/** @param {Uint8Array} bytes */
export const gunzip = (bytes) => through(bytes, new DecompressionStream('gzip'));

/** Parse the text of a trace file. Throws an Error if it is no trace. */
export function parse(source) {
  const lines = source.split('\n').filter((line) => line.trim()).map((line) => JSON.parse(line));
  const header = lines.shift();
  if (!header || header.kind !== 'Trace' || !Array.isArray(header.lanes)) {
    throw new Error('not a trace');
  }
  if (header.schema !== SCHEMA) {
    throw new Error(
      `not a trace that this page can read: its schema is ${String(header.schema).slice(0, 20)}`,
    );
  }
  const lanes = Object.fromEntries(header.lanes.map((name) => [name, []]));
  for (const { lane, ...event } of lines) {
    if (!Object.hasOwn(lanes, lane)) throw new Error('an event of an unknown lane');
    lanes[lane].push(filled(event));
  }
  return { title: header.title || '', lanes };
}

/** Read a file, compressed or not, with its compressed bytes for the download. Throws an Error that
 *  says what is wrong with it. @param {Blob} file */
export async function readFile(file) {
  if (file.size > MAX_BYTES) throw new Error(`it is larger than ${MAX_BYTES / 1e6} MB`);
  const bytes = new Uint8Array(await file.arrayBuffer());
  const packed = bytes[0] === 0x1f && bytes[1] === 0x8b;
  const plain = packed
    ? await gunzip(bytes).catch(() => {
      throw new Error('it is compressed, and damaged or cut off');
    })
    : bytes;
  if (plain.length > MAX_BYTES) throw new Error(`it holds more than ${MAX_BYTES / 1e6} MB`);
  try {
    return { ...parse(new TextDecoder().decode(plain)), bytes: packed ? bytes : await gzip(bytes) };
  } catch (error) {
    throw error instanceof SyntaxError ? new Error('it isn’t a trace, or was cut off') : error;
  }
}

/** The same lines that Python writes. @param {Trace} trace */
export function serialise({ title, lanes }) {
  const header = { schema: SCHEMA, kind: 'Trace', title, lanes: Object.keys(lanes) };
  const lines = Object.entries(lanes).flatMap(([lane, events]) =>
    events.map((event) => ({ ...event, lane }))
  );
  return [header, ...lines].map((line) => JSON.stringify(line) + '\n').join('');
}
