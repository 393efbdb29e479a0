// Reads and writes the trace format of specdiff_core/schema/trace.py: JSON lines, header first. Knows bytes, draws nothing.

export function fromBase64(text) {
  const binary = atob(text);
  const bytes = new Uint8Array(binary.length);
  for (let i = 0; i < binary.length; i += 1) bytes[i] = binary.charCodeAt(i);
  return bytes;
}

async function through(bytes, stream) {
  return new Uint8Array(await new Response(new Blob([bytes]).stream().pipeThrough(stream)).arrayBuffer());
}

export const gzip = (bytes) => through(bytes, new CompressionStream('gzip'));
export const gunzip = (bytes) => through(bytes, new DecompressionStream('gzip'));

/** Text of a trace file -> {title, lanes: {name: [event]}}. Throws an Error on anything that is no trace. */
export function parse(source) {
  const lines = source.split('\n').filter((line) => line.trim()).map((line) => JSON.parse(line));
  const header = lines.shift();
  if (!header || header.kind !== 'Trace' || !Array.isArray(header.lanes)) throw new Error('not a trace');
  const lanes = Object.fromEntries(header.lanes.map((name) => [name, []]));
  for (const { lane, ...event } of lines) {
    if (!Object.hasOwn(lanes, lane)) throw new Error('an event of an unknown lane');
    lanes[lane].push(event);
  }
  return { title: header.title || '', lanes };
}

/** The same lines that Python writes. */
export function serialise({ title, lanes }) {
  const header = { schema: 1, kind: 'Trace', title, lanes: Object.keys(lanes) };
  const lines = Object.entries(lanes).flatMap(([lane, events]) => events.map((event) => ({ ...event, lane })));
  return [header, ...lines].map((line) => JSON.stringify(line) + '\n').join('');
}

/** base64 of a .jsonl.gz file -> the parsed trace with its bytes, kept for the download. */
export const unpack = (base64) => unzip(fromBase64(base64));

/** The bytes of a .jsonl.gz file -> the same. */
export async function unzip(bytes) {
  return { ...parse(new TextDecoder().decode(await gunzip(bytes))), bytes };
}
