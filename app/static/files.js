// Fetches files: those that ship with the page, kept runs, and the trace of a race while the server writes it.

import { filled, fromBase64, gunzip, gzip, readFile } from './state/trace.js';
/** @import { Event } from './state/events.d.ts' */
/** @import { Trace } from './state/trace.js' */

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
