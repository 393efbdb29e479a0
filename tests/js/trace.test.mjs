// The trace format, read and written in the browser.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { source, trace } from './fixture.mjs';
import {
  carried,
  fetchFile,
  fetchTrace,
  fromBase64,
  GrowingTrace,
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
  carried.set('opened.jsonl', new TextEncoder().encode(serialise(trace)));
  assert.deepEqual((await fetchTrace('opened.jsonl')).lanes, trace.lanes);
  carried.clear();
});

test('a trace file that grows is fetched from where it ended, and is whole at the end', async () => {
  const text = source;
  const ends = [...text.matchAll(/\n/g)].map(({ index }) => index + 1);
  const asked = [];
  globalThis.document = { baseURI: 'http://lab/' };
  globalThis.fetch = async (url) => {
    const { pathname, searchParams: at } = new URL(url);
    asked.push([pathname, Number(at.get('from')), Number(at.get('to'))]);
    return new Response(
      new TextEncoder().encode(text).slice(Number(at.get('from')), Number(at.get('to'))),
    );
  };
  const [middle, bytes] = [
    new TextEncoder().encode(text.slice(0, ends[20])).length,
    new TextEncoder().encode(text).length,
  ];
  const file = new GrowingTrace('runs/abc.jsonl');
  const events = [
    ...await file.upTo(middle),
    ...await file.upTo(middle),
    ...await file.upTo(bytes),
  ];
  assert.deepEqual(asked, [['/runs/abc.jsonl', 0, middle], ['/runs/abc.jsonl', middle, bytes]]);
  const live = Object.entries(trace.lanes).flatMap(([lane, own]) =>
    own.filter(({ kind }) =>
      ['RunStarted', 'PiecesSeen', 'Committed', 'Finished', 'Failed'].includes(kind)
    ).map((event) => ({ ...event, lane }))
  );
  assert.deepEqual(events, live);
  const whole = await file.trace();
  assert.deepEqual(whole.lanes, trace.lanes);
  assert.equal(
    new TextDecoder().decode(await gunzip(whole.bytes)),
    text,
    'the very bytes are kept for the download',
  );
});
