// The address of the page.
import assert from 'node:assert/strict';
import { test } from 'node:test';

globalThis.location = { href: 'http://lab.example/?explore=text&room=7', pathname: '/' };
globalThis.history = { state: null, replaceState: () => {} };
globalThis.document ??= { createElement: () => ({}), head: {}, body: {} };
const { address } = await import('../../app/static/views/link.js');

test('a query that no server would take leaves the address as it is', () => {
  assert.equal(address('explore=doctor').search, '?explore=doctor&room=7');
  const long = new URLSearchParams({ explore: 'doctor', counts: 'x'.repeat(9000) }).toString();
  assert.equal(address(long).search, '?explore=text&room=7');
});
