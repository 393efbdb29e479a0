// The trace format, read and written in the browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { source, trace } from './fixture.mjs';
import { carried, fetchFile, fetchTrace, fromBase64, gunzip, gzip, parse, readFile, serialise, unpack } from '../../app/static/state/trace.js';

const header = (more) => JSON.stringify({ kind: 'Trace', schema: 2, title: 't', lanes: ['a'], ...more });

test('a trace survives serialise and parse, gzip and base64', async () => {
  const text = serialise(trace);
  assert.deepEqual(parse(text), trace);
  const bytes = await gzip(new TextEncoder().encode(text));
  const base64 = Buffer.from(bytes).toString('base64');
  assert.equal(new TextDecoder().decode(await gunzip(fromBase64(base64))), text);
  const opened = await unpack(base64);
  assert.deepEqual(opened.lanes, trace.lanes);
  assert.deepEqual(opened.bytes, bytes, 'the bytes are kept for the download');
});

test('what is written here holds the same values as what Python writes', () => {
  const values = (text) => text.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  assert.deepEqual(values(serialise(trace)), values(source));
});

test('foreign text is refused', () => {
  assert.throws(() => parse('{"a":1}\n'), /not a trace/);
  assert.throws(() => parse(''), /not a trace/);
  assert.throws(() => parse('hello'));
  assert.throws(() => parse(header({ schema: 1 })), /not a trace/);
  assert.throws(() => parse(header({ lanes: 'a' })), /not a trace/);
  assert.throws(() => parse(`${header()}\n{"kind":"Finished","lane":"b"}\n`), /unknown lane/);
  assert.throws(() => parse(`${header()}\n{"kind":"Finished","lane":"toString"}\n`), /unknown lane/);
});

test('a file of a visitor may be compressed or not', async () => {
  const plain = new TextEncoder().encode(serialise(trace));
  const bytes = await gzip(plain);
  assert.deepEqual(await readFile(bytes), { ...trace, bytes });
  const read = await readFile(plain);
  assert.deepEqual(read.lanes, trace.lanes);
  assert.deepEqual(await gunzip(read.bytes), plain, 'compressed for the download');
  for (const wrong of [bytes.slice(0, 500), plain.slice(0, 500), new Uint8Array()]) await assert.rejects(readFile(wrong));
});

test('what a page holds: traces whatever their name, and JSON', async () => {
  const bytes = await gzip(new TextEncoder().encode(serialise(trace)));
  carried.set('traces/live/run.json', Buffer.from(bytes).toString('base64'));
  carried.set('explore/a.json', '{"a": 1}');
  assert.deepEqual((await fetchTrace('traces/live/run.json')).lanes, trace.lanes);
  assert.deepEqual(await (await fetchFile('explore/a.json')).json(), { a: 1 });
  carried.clear();
});
