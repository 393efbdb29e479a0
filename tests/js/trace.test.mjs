// The trace format, read and written in the browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { source, trace } from './fixture.mjs';
import { carried, fetchFile, fetchTrace, GrowingTrace } from '../../app/static/files.js';
import {
  fromBase64,
  gunzip,
  gzip,
  parse,
  readFile,
  serialise,
} from '../../app/static/state/trace.js';

const header = (more) =>
  JSON.stringify({ kind: 'Trace', schema: 2, title: 't', lanes: ['a'], ...more });

test('a trace survives serialise and parse, gzip and base64', async () => {
  const text = serialise(trace);
  const values = (lines) => lines.split('\n').filter(Boolean).map((line) => JSON.parse(line));
  assert.deepEqual(values(text), values(source), 'as Python writes it');
  const bytes = await gzip(new TextEncoder().encode(text));
  const base64 = Buffer.from(bytes).toString('base64');
  assert.equal(new TextDecoder().decode(await gunzip(fromBase64(base64))), text);
  const opened = await readFile(new Blob([bytes]));
  assert.deepEqual(opened.lanes, trace.lanes);
  assert.deepEqual(opened.bytes, bytes, 'the bytes are kept for the download');
});

test('foreign text is refused', () => {
  assert.throws(() => parse('{"a":1}\n'), /not a trace/);
  assert.throws(() => parse(''), /not a trace/);
  assert.throws(() => parse('hello'));
  assert.throws(
    () => parse(header({ schema: 3 })),
    /not a trace that this page can read: its schema is 3/,
  );
  assert.throws(() => parse(header({ lanes: 'a' })), /not a trace/);
  assert.throws(() => parse(`${header()}\n{"kind":"Finished","lane":"b"}\n`), /unknown lane/);
  const odd = JSON.stringify({ kind: 'Verified', lane: 'a', tests: [{ kind: 'toString' }] });
  assert.throws(() => parse(`${header({ lanes: ['a'] })}\n${odd}\n`), /unknown kind/);
  assert.throws(
    () => parse(`${header()}\n{"kind":"Finished","lane":"toString"}\n`),
    /unknown lane/,
  );
});

test('what a page holds: traces whatever their name, and JSON', async () => {
  const bytes = await gzip(new TextEncoder().encode(serialise(trace)));
  const answer = await gzip(new TextEncoder().encode('{"a": 1}'));
  carried.set('traces/live/run.json', Buffer.from(bytes).toString('base64'));
  carried.set('explore/a.json', Buffer.from(answer).toString('base64'));
  assert.deepEqual((await fetchTrace('traces/live/run.json')).lanes, trace.lanes);
  assert.deepEqual(await (await fetchFile('explore/a.json')).json(), { a: 1 });
  carried.clear();
});

test('a trace file that grows is read as it comes, over lost connections, and is whole at the end', async () => {
  const bytes = new TextEncoder().encode(source);
  const asked = [];
  const cuts = [7777, 9999, bytes.length]; // where a connection ends, within lines
  globalThis.document = { baseURI: 'http://lab/' };
  globalThis.fetch = async (url) => {
    const from = Number(new URL(url).searchParams.get('from'));
    const end = cuts[asked.length];
    asked.push(from);
    let sent = false;
    const body = new ReadableStream({
      pull(controller) {
        if (!sent) controller.enqueue(bytes.slice(from, end));
        else if (end < bytes.length) controller.error(new TypeError('lost'));
        else controller.close();
        sent = true;
      },
    });
    return { ok: true, body };
  };
  const file = new GrowingTrace('runs/abc.jsonl');
  const counts = [];
  file.follow(() => counts.push(Object.values(file.lanes).flat().length));
  const whole = await file.upTo(bytes.length);
  assert.ok(asked.length > 1 && asked.every((from, i) => !i || from > asked[i - 1] || from === 0));
  assert.ok(counts.length > 1, 'events are there before the end');
  assert.deepEqual(whole.lanes, trace.lanes);
  assert.equal(
    new TextDecoder().decode(await gunzip(whole.bytes)),
    source,
    'the very bytes are kept for the download',
  );
});
