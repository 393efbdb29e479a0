// A form whose drafters and methods are those of the pair that is chosen, and the form of a race.
import assert from 'node:assert/strict';
import { test } from 'node:test';
import { drawn } from './dom.mjs';
const { Form } = await import('../../app/static/views/form.js');
const { FormValues } = await import('../../app/static/state/form_values.js');
const { html } = await import('../../app/static/views/ui.js');
const { RunForm } = await import('../../app/static/views/run_form.js');
const { RunSettings } = await import('../../app/static/state/run_settings.js');

const field = (name, values) => ({
  name,
  title: name,
  about: '',
  kind: 'choice',
  list: false,
  more: false,
  long: false,
  of: '',
  choices: [],
  labels: {},
  default: '',
  low: null,
  high: null,
  ...values,
});
const FIELDS = [
  field('drafter', { of: 'drafters', choices: ['masked', 'block', 'dream'], default: 'masked' }),
  field('method', { of: 'methods', choices: ['vanilla', 'specdiff', 'dflash'], default: 'dflash' }),
  field('methods', {
    of: 'methods',
    list: true,
    choices: ['specdiff', 'dflash'],
    default: ['specdiff', 'dflash'],
  }),
  field('order', { choices: ['left', 'right'], labels: { left: 'Left first' }, default: 'left' }),
  field('pair', { choices: ['embedded', 'qwen'], default: 'embedded', more: true }),
];
const PAIRS = {
  embedded: {
    label: 'Ours',
    drafters: { masked: 'Masked', block: 'Block' },
    methods: { vanilla: 'Vanilla', specdiff: 'SpecDiff', dflash: 'DFlash' },
  },
  qwen: {
    label: 'Qwen',
    drafters: { dream: 'Dream' },
    methods: { vanilla: 'Vanilla', specdiff: 'SpecDiff' },
  },
};
const made = () => {
  const form = new FormValues(FIELDS, { ...PAIRS });
  const draw = (page) => drawn(html`<${Form} form=${form} prefix="x" />`, page);
  const page = draw();
  form.redraw = () => draw(page);
  const select = (name) =>
    page.all('select').find(({ attributes }) => attributes.id === `x-${name}`);
  const options = (name) => select(name).all('option');
  return {
    form,
    choose: (name, value) => select(name).fire('change', { currentTarget: { value } }),
    offered: (name) => options(name).map(({ value }) => value),
    said: (name) => options(name).map(({ textContent }) => textContent),
  };
};

test('only what the chosen pair has is offered, and what it has of the choice stays', async () => {
  const { form, choose, offered, said } = made();
  assert.deepEqual(offered('drafter'), ['masked', 'block']);
  assert.deepEqual(said('drafter'), ['Masked', 'Block']);
  assert.deepEqual(said('order'), ['Left first', 'right']);
  assert.deepEqual(form.values(), {
    drafter: 'masked',
    method: 'dflash',
    methods: ['specdiff', 'dflash'],
    order: 'left',
    pair: 'embedded',
  });
  await choose('pair', 'qwen');
  assert.deepEqual([offered('drafter'), offered('method')], [['dream'], ['vanilla', 'specdiff']]);
  assert.deepEqual(form.values(), {
    drafter: 'dream',
    method: 'specdiff',
    methods: ['specdiff'],
    order: 'left',
    pair: 'qwen',
  });
  assert.deepEqual(form.changed(), {
    drafter: 'dream',
    method: 'specdiff',
    methods: ['specdiff'],
    pair: 'qwen',
  });
  await choose('pair', 'embedded');
  assert.deepEqual(form.values().methods, ['specdiff', 'dflash']);
  assert.deepEqual(said('pair'), ['Ours', 'Qwen']);
});

test('a link may name a pair before its drafter or behind it, and one that is not offered: the server judges it', () => {
  for (const link of [{ pair: 'qwen', drafter: 'dream' }, { drafter: 'dream', pair: 'qwen' }]) {
    const { form } = made();
    form.fill(link);
    assert.deepEqual([form.values().pair, form.values().drafter], ['qwen', 'dream']);
  }
  const { form, offered } = made();
  form.fill({ pair: 'own?target=a%2Fb', drafter: 'block' });
  assert.equal(form.values().pair, 'own?target=a%2Fb');
  assert.deepEqual(offered('drafter'), ['masked', 'block', 'dream']); // nothing is known of it
});

test('the form of a race starts it with the Enter key, and takes examples, presets and models', async () => {
  const called = [];
  const names = ['run', 'stop', 'offerPairs', 'getModel', 'useOwn', 'stopModel'];
  const act = Object.fromEntries(names.map((name) => [name, () => called.push(name)]));
  const options = {
    fields: [
      field('prompt', { kind: 'text', long: true }),
      field('pair', { choices: ['embedded', 'qwen'], default: 'embedded' }),
      field('gamma', { kind: 'integer', default: 4 }),
    ],
    opening: { prompt: 'Once' },
    pairs: {
      embedded: { ...PAIRS.embedded, examples: 'tales', presets: { 0: 'block' } },
      qwen: PAIRS.qwen,
    },
    examples: { tales: [['Story', 'Once'], ['Maths', '1 + 1']] },
    presets: [['Wide', { gamma: 9 }]],
    run: 'Race',
    drawer: 'Settings',
    command: 'pairs',
  };
  const form = new RunSettings(options);
  const model = { words: '', fetching: false, own: false };
  const own = new FormValues([field('target', { kind: 'text' })]);
  const props = { prefix: 'live', form, own, model, going: false, act };
  const page = drawn(html`<${RunForm} ...${props} />`);
  const draw = (changed) => drawn(html`<${RunForm} ...${{ ...props, ...changed }} />`, page);
  const button = (words) => page.all('button', words)[0];
  const key = (more) => page.all('textarea')[0].fire('keydown', { key: 'Enter', ...more });

  await key({ shiftKey: true });
  await key({ isComposing: true });
  assert.deepEqual(called, []);
  await key();
  for (const words of ['Race', 'Stop', 'Use this pair']) await button(words).fire('click');
  assert.deepEqual(called.splice(0), ['run', 'run', 'stopModel', 'useOwn']);
  await button('Maths').fire('click');
  const preset = page.all('select').find(({ attributes }) => attributes.id === 'live-preset');
  preset.value = '0';
  await preset.fire('change');
  assert.deepEqual([form.values().prompt, form.values().gamma, form.preset], ['1 + 1', '9', '0']);

  form.offer({ embedded: { get: 'Get it' } });
  draw({ model: { ...model, words: 'half of it', fetching: true } });
  assert.match(page.textContent, /half of it.*1 more pair.*pairs/s);
  assert.ok(button('Get it').attributes.hidden);
  const dares = [['Noise', { prompt: 'qzx' }]];
  const daring = new RunSettings({ ...options, dares });
  draw({ form: daring, going: true });
  for (const words of ['Race', 'Noise']) {
    assert.equal(button(words).attributes['aria-disabled'], 'true', words);
    assert.ok(button(words).attributes.title, 'why');
  }
  await button('Noise').fire('click');
  assert.deepEqual([called, daring.values().prompt], [[], 'Once'], 'a run is under way');
  draw({ form: daring });
  assert.equal(button('Race').attributes['aria-disabled'], undefined);
  await button('Noise').fire('click');
  assert.deepEqual([called, daring.values().prompt], [['run'], 'qzx']);
});

test('a text that is filled in replaces the fields that it names', () => {
  const of = (name, more) => ({ name, kind: 'text', list: false, default: '', ...more });
  const form = new FormValues([of('kinds'), of('texts', { title: 'Yours', replaces: ['kinds'] })]);
  assert.equal(form.replacing('kinds'), undefined);
  form.fill({ texts: 'Once' });
  assert.equal(form.replacing('kinds').title, 'Yours');
  assert.equal(form.replacing('texts'), undefined);
});
