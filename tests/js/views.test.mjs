// Views that decide something: which rows of a window are drawn, and what the headline says. Drawn into fake elements.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { useFakePage } from './dom.mjs';
import { make, trace } from './fixture.mjs';
import { buildLane, stateAt } from '../../app/static/state/lane.js';
import { clockOf } from '../../app/static/state/metrics.js';

useFakePage();
const { WindowView } = await import('../../app/static/views/window.js');
const { ScoreView, leadWords } = await import('../../app/static/views/score.js');
const { VIEWS } = await import('../../app/static/views/explorations.js');

/** A window view that has drawn the last round of some events. */
function drawn(events, view = new WindowView()) {
  const lane = buildLane(events);
  view.draw({ view: stateAt(lane, Infinity).window, lane, sentence: 'What happened.', phase: 'verify' });
  return view;
}
const labels = (view) => view.labels.map((label) => label.textContent);
const round = (steps) => [make.started(), ...Array.from({ length: steps }, (_, step) => make.step([1, 2], step ? [] : [0, 1], { step }))];

test('many denoising steps share eight rows, evenly from the first to the last, until all are asked for', () => {
  assert.deepEqual(labels(drawn(round(3))), ['step 1', 'step 2', 'step 3']);
  assert.ok(drawn(round(8)).more.hidden);
  const view = drawn(round(29));
  assert.deepEqual(labels(view), ['step 1', '2–5', '6–9', '10–13', '14–17', '18–21', '22–25', '26–29']);
  assert.deepEqual([view.more.hidden, view.more.textContent, view.more.getAttribute('aria-expanded')], [false, 'Show all 29 steps', 'false']);
  view.more.click();
  assert.deepEqual([labels(view).length, view.more.textContent, view.more.getAttribute('aria-expanded')], [29, 'Show 8 of 29 steps', 'true']);
  view.more.click();
  assert.equal(labels(view).length, 8);
});

test('a row of several steps shows what each of them revealed, and none is left out', () => {
  const events = [make.started(), ...Array.from({ length: 16 }, (_, step) => make.step(Array.from({ length: 16 }, (_, i) => (i <= step ? i : null)), [step], { step }))];
  const view = drawn(events);
  const known = view.cells.map((row) => row.filter((cell) => !cell.classList.contains('sd-mask')).length);
  assert.deepEqual(known, labels(view).map((words) => Number(words.replace('step ', '').split('–').at(-1))));
  assert.deepEqual(view.cells.map((row) => row.filter((cell) => cell.classList.contains('sd-fresh')).length), known.map((last, i) => last - (known[i - 1] ?? 0)));
  assert.match(view.cells[1][1].getAttribute('title'), /position 2, step 2: revealed/);
  const lane = buildLane(events);
  view.draw({ view: stateAt(lane, 1 + 6).window, lane, sentence: '', phase: 'draft' }); // of its steps 6 and 7, only the first came
  assert.deepEqual([labels(view)[3], view.cells[3].slice(4, 8).map((cell) => cell.className.split(' ')[1])], ['6–7', ['sd-kept', 'sd-fresh', 'sd-mask', 'sd-mask']]);
});

test('of many branches eight are drawn, the one on which the target walked among them', () => {
  const ids = Array.from({ length: 20 }, (_, i) => i);
  const walked = make.test(0, 17, true, { kind: 'tree', draw: null, wanted: 17 });
  const events = [make.started(), make.draft(ids, { parents: ids.map(() => -1) }), make.scored(ids.map(() => 0.05)), make.verified([walked], { path: [17] })];
  const view = drawn(events);
  assert.deepEqual([view.cells.length, view.more.textContent], [8, 'Show all 20 branches']);
  const marked = view.cells.filter(([cell]) => cell.classList.contains('sd-fresh'));
  assert.deepEqual(marked.map(([cell]) => cell.textContent), ['✓ <17>']);
  view.more.click();
  assert.equal(view.cells.length, 20);
});

test('below each position stands the test that decided it, where several drafts were tested there too', () => {
  const tests = [make.test(0, 7, false), make.test(0, 8, true), make.test(1, 9, false), make.test(1, 10, false)];
  const branches = [[0], [1, 2], [1, 3]];
  const view = drawn([
    make.started(), make.draft([7, 8, 9, 10], { parents: [-1, -1, 1, 1], branches }), make.scored([0, 0, 0, 0]),
    make.verified(tests, { path: [1], source: 'residual' }), make.committed([8, 4], ['draft', 'residual']),
  ]);
  const kinds = view.tests.map(({ element }) => element.className.split(' ').find((name) => name.startsWith('sd-v-')));
  assert.deepEqual(kinds, ['sd-v-ok', 'sd-v-no', 'sd-v-fix']);
  assert.deepEqual(view.tests.map(({ word }) => word.textContent), ['<8>', '<10>', '<4>']);
});

test('nodes of a tree and tests are walked by arrows and pinned by Enter', () => {
  const walked = make.test(0, 8, true, { kind: 'tree', draw: null, wanted: 8 });
  const view = drawn([make.started(), make.draft([7, 8, 9], { parents: [-1, -1, 0] }), make.scored([0.3, 0.5, 0.9]), make.verified([walked], { path: [1] }), make.committed([8, 4], ['draft', 'bonus'])]);
  const node = (number) => view.cells.flat().find((cell) => cell.dataset.node === String(number));
  const press = (target, key) => {
    let focused = null;
    for (const cell of [...view.cells.flat(), ...view.tests.map(({ element }) => element)]) cell.focus = () => { focused = cell; };
    view.keyed({ target, key, preventDefault: () => {} });
    return focused;
  };
  assert.equal([...view.cells.flat(), ...view.tests.map(({ element }) => element)].filter((cell) => cell.tabIndex === 0).length, 1, 'one place in the tab order');
  assert.equal(press(node(0), 'ArrowRight'), node(2));
  assert.equal(press(node(0), 'ArrowDown'), node(1));
  assert.equal(press(node(1), 'ArrowDown'), view.tests[0].element);
  assert.equal(press(node(2), 'ArrowDown'), view.tests[1].element, 'over the gap');
  assert.equal(press(node(2), 'ArrowRight'), null);
  press(node(2), 'Enter');
  assert.match(view.inspector.title.textContent, /position 2, node 3/);
  assert.ok(node(2).classList.contains('sd-pinned'));
  press(view.tests[0].element, 'Enter');
  assert.ok(view.tests[0].element.classList.contains('sd-pinned') && !node(2).classList.contains('sd-pinned'));
  assert.match(view.inspector.words.textContent, /^✓ Accepted: .* The target drew “<8>”; it is drafted here/);
  view.inspector.element.heard.keydown({ key: 'ArrowRight', preventDefault: () => {} });
  assert.match(view.inspector.title.textContent, /position 2: “<4>”/);
  assert.ok(view.tests.at(-1).element.classList.contains('sd-pinned'), 'the bonus token has the last column');
});

test('a trace that holds no p of a tree says so', () => {
  const refused = make.test(0, 7, false, { kind: 'tree', draw: null, wanted: 4 });
  const events = (draft, scored) => [{ kind: 'RunStarted', config: { temperature: 0 }, models: {}, prompt: '' }, make.started(), make.draft([7, 8], { parents: [-1, -1], proposal: 'point_mass', ...draft }), make.scored([0, 0], scored), make.verified([refused], { source: 'target' }), make.committed([4], ['target'])];
  const said = (...parts) => {
    const view = drawn(events(...parts));
    view.choose(0);
    return view.inspector.others.textContent;
  };
  assert.match(said(), /^This trace holds no p of the nodes of its trees at temperature 0, and no q of the drafter/);
  const row = (...ids) => ids.map((id) => ({ id, prob: 0.3 }));
  assert.doesNotMatch(said({ node_q: [0.5, 0.2] }, { candidates: [row(4, 7), row(1), row(1)] }), /holds no/);
});

test('what was never tested says why', () => {
  const why = (more, tests, draft = {}) => {
    const view = drawn([make.started(), make.step([1, 2, 3], [0, 1, 2]), make.draft([1, 2, 3].slice(0, more), draft), make.scored([]), make.verified(tests), make.committed([1], ['draft'])]);
    return view.tests.map(({ element }) => element.getAttribute('title'));
  };
  assert.match(why(3, [make.test(0, 1, false)])[2], /never tested: because an earlier token was refused/);
  assert.match(why(1, [make.test(0, 1, true)])[1], /never tested: because the text ends before it/);
});

const lanes = { drafted: buildLane(trace.lanes.drafted), vanilla: buildLane(trace.lanes.vanilla) };
const busy = (lane) => buildLane(lane.events.map((event) => (event.kind === 'Finished' ? { ...event, waited_seconds: event.seconds } : event)));
const without = (lane) => buildLane(lane.events.filter((event) => event.kind !== 'Finished'));

/** The headline of a race at time t. */
function headline(drafted, vanilla, t = Infinity) {
  const view = new ScoreView({ crowded: 0.2, prefix: 'x', quietly: () => {} });
  view.reset({ drafted, vanilla }, '', { drafted: 'drafted', vanilla: 'vanilla' });
  const states = { drafted: drafted && stateAt(drafted, Infinity), vanilla: vanilla && stateAt(vanilla, Infinity) };
  const clocks = Object.fromEntries(Object.entries({ drafted, vanilla }).map(([name, lane]) => [name, lane && clockOf(lane, states[name], t)]));
  view.draw(states, clocks, false);
  return view;
}

test('the headline is the measured speed-up', () => {
  const view = headline(lanes.drafted, lanes.vanilla);
  const expected = lanes.vanilla.finished.seconds / lanes.drafted.finished.seconds; // of equally many tokens
  assert.equal(view.speed.textContent, `${expected.toFixed(2)}×`);
  assert.match(view.predicted.textContent, /^Predicted, not measured/);
  assert.equal(view.busy.textContent, '');
});

test('the first sentence says what happens, with the measured number; without a clock that can be trusted, without it', () => {
  const { drafted, vanilla } = lanes;
  const speed = (vanilla.finished.seconds / drafted.finished.seconds).toFixed(2);
  const same = drafted.ids.every((id, i) => id === vanilla.ids[i]) ? 'the same ' : '';
  const told = `A drafter guesses up to 6 tokens ahead, and the target model checks them in one pass: ${same}40 tokens in ${drafted.rounds.length} passes instead of ${vanilla.rounds.length}`;
  assert.equal(leadWords(drafted, vanilla, 'A drafter', true, true), `${told}, ${speed}× as fast.`);
  assert.equal(leadWords(drafted, vanilla, 'First of 6, EAGLE', false, true), `First of 6, EAGLE: ${told.split(': ')[1].replace('passes', 'target passes')}, ${speed}× as fast.`);
  assert.equal(leadWords(drafted, vanilla, 'A drafter', true, false), `${told}.`);
  assert.equal(leadWords(without(drafted), vanilla, 'A drafter', true, true), '');
});

test('where threads had to wait, passes are counted instead, and nothing is predicted from the clock', () => {
  for (const [drafted, vanilla] of [[busy(lanes.drafted), lanes.vanilla], [lanes.drafted, busy(lanes.vanilla)]]) {
    const view = headline(drafted, vanilla);
    assert.equal(view.speed.textContent, `${drafted.rounds.length} : ${vanilla.rounds.length}`);
    assert.match(view.busy.textContent, /Busy machine/);
    assert.deepEqual([view.predicted.textContent, view.again.hidden], ['', false]);
  }
});

test('of a lane that did not end, the headline is its pace so far', () => {
  const view = headline(without(lanes.drafted), lanes.vanilla);
  assert.equal(view.final, null);
  assert.match(view.words.textContent, /so far$/);
  assert.equal(view.predicted.textContent, '');
});

test('two runs: what is said of their texts is what is known', () => {
  const labels = { a: 'Vanilla', b: 'DDTree' };
  const row = { accepted: 1, refused: null };
  const said = (facts, choice) => VIEWS['side-by-side'].notes({ rows: [{ run: 'a', ...row }, { run: 'b', ...row }], facts: { labels, ...facts }, choice: { temperature: 0, tokens: 8, ...choice } });
  assert.equal(said({})[0], 'Run A: Vanilla: 1 round, τ = 2.00, 0 refusals. Run B: DDTree: 1 round, τ = 2.00, 0 refusals.');
  assert.match(said({ must_be_equal: true, first_difference: 3 })[1], /^At temperature 0 both should .* probably /);
  assert.match(said({ must_be_equal: true, first_difference: 3 }, { temperature: 1 })[1], /^Under match both should /);
  assert.match(said({ must_be_equal: true, first_difference: null })[1], /as they must at temperature 0:/);
  const drawn = (lossless) => said({ must_be_equal: false, first_difference: 3, lossless }, { temperature: 1 })[1];
  assert.match(drawn(true), /draws for itself, from the same law\.$/);
  assert.match(drawn(false), /draws for itself\. The rule is not exact/);
  const branch = { run: 'b', position: 5, take: -1, same: 0, tokens: 3 };
  assert.match(said({ must_be_equal: true, branch }).at(-1), /^What if, at token 5 of run B:/);
});

test('a map without its races promises none', () => {
  const rows = [{ gamma: 2, steps: 1, speedup: 1.5, predicted: 1.4, race: 'x/2/1', prompts: 1 }];
  const c = new Proxy({}, { get: () => '#000000' });
  for (const { key, figure, opens } of VIEWS['window-map'].panels) {
    const words = (races) => JSON.stringify(figure({ answer: { rows }, races }, c));
    assert.ok(!words(false).includes('its race'), key);
    if (opens) assert.ok(words(true).includes('click: its race'), key);
  }
});

test('a lane of an attached server is what came and when, and what it says of itself; nothing is claimed for it', () => {
  const { vanilla } = lanes;
  const quoted = { steps: 8, drafted: 24, accepted: 12, tokens_per_second: 99.5 };
  const events = (/** @type {object | null} */ told) => vanilla.events.filter(({ kind }) => ['RunStarted', 'PiecesSeen', 'Committed', 'Finished'].includes(kind)).map((event) => ({
    RunStarted: { ...event, server: 'vLLM at host:1', lossless: false, exactness: 'unchecked', threads: 0, config: { temperature: 0 } },
    Committed: { ...event, sources: event.ids?.map(() => 'server') }, Finished: { ...event, quoted: told },
  })[event.kind] ?? event);
  const served = buildLane(events(quoted));
  const { sums } = stateAt(served, Infinity);
  assert.deepEqual([sums.rounds, sums.committed], [0, vanilla.ids.length]);
  const view = headline(served, vanilla);
  assert.equal(view.claim.textContent, '○ Not checked: another server wrote this text, by rules of its own. It says itself: τ 2.50, 12 of 24 drafted tokens accepted, 99.5 tokens/s by its own clock.');
  assert.match(view.same.textContent, /the server’s own/);
  assert.match(view.words.textContent, /of another system, with the network between/);
  assert.deepEqual(['tau', 'alpha', 'calls', 'nfe'].map((name) => view.values[name].textContent), ['–', '–', '–', '–']);
  const silent = buildLane(events(null));
  assert.match(headline(silent, vanilla).claim.textContent, /It says itself: nothing about its drafts\.$/);
  assert.match(leadWords(silent, vanilla, 'vLLM', true, true), /^vLLM wrote 40 tokens in [\d.]+ s, measured here with the network between\./);
});
