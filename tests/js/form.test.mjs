// A form whose drafters and methods are those of the pair that is chosen.
import assert from 'node:assert/strict';
import { test } from 'node:test';

import { Form } from '../../app/static/views/form.js';

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
  field('drafter', { of: 'drafters', choices: ['mdlm', 'block', 'dream'], default: 'mdlm' }),
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
    drafters: { mdlm: 'Masked', block: 'Block' },
    methods: { vanilla: 'Vanilla', specdiff: 'SpecDiff', dflash: 'DFlash' },
  },
  qwen: {
    label: 'Qwen',
    drafters: { dream: 'Dream' },
    methods: { vanilla: 'Vanilla', specdiff: 'SpecDiff' },
  },
};
const made = () => {
  const form = new Form(FIELDS, 'x', { ...PAIRS });
  const within = (node) => [node, ...[node?.props?.children ?? []].flat(Infinity).flatMap(within)];
  const select = (name) => within(form.view()).find((node) => node?.props?.id === `x-${name}`);
  const options = (name) => within(select(name)).filter((node) => node?.type === 'option');
  return {
    form,
    choose: (name, value) => select(name).props.onchange({ currentTarget: { value } }),
    offered: (name) => options(name).map(({ props }) => props.value),
    said: (name) => options(name).map(({ props }) => props.children),
  };
};

test('only what the chosen pair has is offered, and what it has of the choice stays', () => {
  const { form, choose, offered, said } = made();
  assert.deepEqual(offered('drafter'), ['mdlm', 'block']);
  assert.deepEqual(said('drafter'), ['Masked', 'Block']);
  assert.deepEqual(said('order'), ['Left first', 'right']);
  assert.deepEqual(form.values(), {
    drafter: 'mdlm',
    method: 'dflash',
    methods: ['specdiff', 'dflash'],
    order: 'left',
    pair: 'embedded',
  });
  choose('pair', 'qwen');
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
  choose('pair', 'embedded');
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
  assert.deepEqual(offered('drafter'), ['mdlm', 'block', 'dream']); // nothing is known of it
});
