// Reads and writes the trace format of specdiff_core/schema/trace.py: JSON lines, header first.

import { DEFAULTS, MAX_BYTES, SCHEMA, TEST_KINDS } from './declared.js';
/** @import { Event } from './events.d.ts' */

/** @typedef {{title: string, lanes: Record<string, Event[]>, bytes?: Uint8Array | null}} Trace */

/** An event with the fields that its line leaves out. Throws an Error if the page doesn't know a
 *  kind of its tests. */
function filled(event) {
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

/** Files inside the page itself, by address: those of an export (export.js), compressed, as base64.
 *  @type {Map<string, string>} */
export const carried = new Map();

/** Fetch a file that ships with the page, from the server or from the page itself. */
export async function fetchFile(url) {
  const content = carried.get(url);
  if (content !== undefined) {
    const bytes = fromBase64(content);
    return new Response(/^traces\/|\/races\//.test(url) ? bytes : await gunzip(bytes));
  }
  const answer = await fetch(new URL(url, document.baseURI));
  if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
  return answer;
}

const TRIES = 5; // connections for one file
const PAUSE = 500; // milliseconds between two

/** A trace file that the server is still writing: the part that has arrived. */
export class GrowingTrace {
  constructor(url) {
    this.url = url;
    this.size = 0; // bytes
    this.text = '';
    this.title = '';
    /** @type {Record<string, Event[]>} by lane, in the order of the race */
    this.lanes = {};
    this.left = false; // nobody reads it any more
    this.reading = Promise.resolve();
  }

  /** Read the file while it grows. @param {() => void} arrived called when there are new events */
  follow(arrived) {
    this.arrived = arrived;
    this.reading = this.read();
    this.reading.catch(() => {}); // upTo() reports it
  }

  /** Read until the server closes the connection, because the race is over; if it breaks, go on from
   *  there. */
  async read() {
    for (let left = TRIES; left > 0 && !this.left; left -= 1) {
      const { size } = this;
      try {
        const { body } = await fetchFile(`${this.url}?from=${size}`);
        await this.take(/** @type {ReadableStream<Uint8Array>} */ (body).getReader());
        return;
      } catch (error) {
        if (error instanceof SyntaxError || String(error).includes(' 404')) throw error;
        console.info('the race goes on without its connection:', error);
        if (this.size > size) left = TRIES;
        await new Promise((later) => setTimeout(later, PAUSE));
      }
    }
  }

  /** @param {ReadableStreamDefaultReader<Uint8Array>} reader */
  async take(reader) {
    const decoder = new TextDecoder();
    let line = ''; // the beginning of one
    while (!this.left) {
      const { done, value } = await reader.read();
      if (done) return;
      const lines = (line + decoder.decode(value, { stream: true })).split('\n');
      line = lines.pop() ?? '';
      if (lines.length) this.add(lines.map((whole) => `${whole}\n`).join(''));
    }
    await reader.cancel();
  }

  /** @param {string} text whole lines */
  add(text) {
    this.size += new TextEncoder().encode(text).length;
    this.text += text;
    for (const source of text.split('\n')) {
      if (!source) continue;
      const { lane, ...event } = JSON.parse(source);
      if (event.kind === 'Trace') {
        this.title = event.title;
        this.lanes = Object.fromEntries(event.lanes.map((name) => [name, []])); // also of __proto__
      } else this.lanes[lane].push(filled(event));
    }
    this.arrived?.();
  }

  /** The whole file. @param {number} size its bytes, once it no longer grows */
  async upTo(size) {
    await this.reading.catch(() => {});
    if (this.size < size) await this.read();
    if (this.size < size) throw new Error(`only ${this.size} of ${size} bytes arrived`);
    return this.trace();
  }

  /** The part that has arrived, as a trace. @returns {Promise<Trace>} */
  async trace() {
    const bytes = await gzip(new TextEncoder().encode(this.text));
    return { title: this.title, lanes: this.lanes, bytes };
  }
}

/** A recording, or a run that the server keeps. */
export const fetchTrace = async (url) => readFile(await (await fetchFile(url)).blob());
