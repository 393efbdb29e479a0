// Opens a form of Live or Race: reads its options, and for each case a link's query and then values that are chosen one
// after the other; writes what the form has in the end, and what the server was asked to check.

import './dom.mjs';
import { readFileSync } from 'node:fs';
const { RaceForm } = await import('../../app/static/race_form.js');

const { linkOf } = await import('../../app/static/state/moment.js');

const [options, cases] = JSON.parse(readFileSync(0, 'utf8'));
for (const recording of options.recordings) recording.settings = linkOf(recording.settings);
const found = [];
for (const [search, ...chosen] of cases) {
  let checked = null;
  const server = { check: (values) => void (checked = values) };
  const tab = {
    gradio: { server },
    job: { state: 'idle', requests: 0 },
    staging: {},
  };
  const form = new RaceForm({ formSettings: '', shown: {} }, options, tab);
  await form.open(search);
  const { settings } = form;
  for (const values of chosen) {
    settings.fill(values);
    settings.settle();
  }
  const { preset, link } = settings;
  found.push({ ...settings.values(), preset, link, checked });
}
console.log(JSON.stringify(found));
process.exit(); // a form waits for its place on the page
