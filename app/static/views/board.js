// A table of methods with a bar for each speed-up; a bar opens its race.
// @ts-check

import { h } from './dom.js';
import { ratio } from '../state/format.js';

/** @typedef {{mark: [string, string, string], label: string, words: string, value: number, low: number | null, high: number | null, said: string, race: string | null, busy: boolean, cells: [string, string][]}} Row */
/** @typedef {{title: string, columns: [string, string, string][], rows: Row[]}} Told as specdiff_core/explorations/base.py describes it */

const SPEED =
  'Vanilla’s decode seconds per token over the method’s, on the same prompts, prefill included. The whisker is a 95 % bootstrap interval over prompts. A bar opens its race.';

/** @param {Told} board @param {boolean} opens whether there are races @param {(race: string) => void} open */
export function drawBoard({ title, columns, rows }, opens, open) {
  const end = Math.ceil(Math.max(2, ...rows.map((row) => row.high ?? row.value)) * 2.1) / 2;
  const share = (/** @type {number} */ value) =>
    `${((100 * Math.max(0, value)) / end).toFixed(3)}%`;
  const bar = (
    /** @type {Row} */ { mark: [, colour, hatch], label, value, low, high, said, race },
  ) => {
    const fill = h('span', {
      class: 'sd-cmp-fill',
      style: `--mark: var(--sd-${colour.slice(1)}); width: ${share(value)}`,
      'data-pattern': hatch || 'plain',
    });
    const whisker = low === null || high === null ? null : h('span', {
      class: 'sd-cmp-whisker',
      style: `left: ${share(low)}; width: ${share(high - low)}`,
    });
    const does = race && opens;
    const words = `${ratio(value)}×, ${said}. ${
      does ? 'Open its race.' : 'No race was recorded for this bar.'
    }`;
    return h(
      'button',
      {
        type: 'button',
        class: 'sd-cmp-bar',
        disabled: !does,
        'data-race': race,
        title: words,
        'aria-label': `${label}: speed-up ${words}`,
        onclick: () => race && open(race),
      },
      h(
        'span',
        { class: 'sd-cmp-track', 'aria-hidden': 'true' },
        fill,
        h('span', { class: 'sd-cmp-one', style: `left: ${share(1)}` }),
        whisker,
      ),
      h(
        'span',
        { class: 'sd-cmp-value' },
        h('b', {}, `${ratio(value)}×`),
        h('span', { class: 'sd-sub' }, low === null ? '' : `${ratio(low)}–${ratio(high)}`),
      ),
    );
  };
  const heads = [
    ['Method', 'A drafter and how it is used.'],
    ['Speed-up over vanilla', SPEED],
    ...columns,
  ];
  return h(
    'table',
    { class: 'sd-cmp-table' },
    h('caption', { class: 'sd-voice' }, `${title}: methods by speed-up, fastest first`),
    h(
      'thead',
      {},
      h(
        'tr',
        {},
        ...heads.map(([name, meaning]) => h('th', { scope: 'col', title: meaning }, name)),
      ),
    ),
    h(
      'tbody',
      {},
      ...rows.map((row) =>
        h(
          'tr',
          {
            class: row.words === 'baseline' ? 'sd-cmp-baseline' : '',
            'data-busy': row.busy ? 'true' : null,
          },
          h(
            'th',
            { scope: 'row' },
            h(
              'div',
              { class: 'sd-cmp-who' },
              h('span', {
                class: 'sd-cmp-glyph',
                style: `--mark: var(--sd-${row.mark[1].slice(1)})`,
                'aria-hidden': 'true',
              }, row.mark[0]),
              h(
                'span',
                { class: 'sd-cmp-name' },
                h('b', {}, row.label),
                h('span', { class: 'sd-sub' }, row.words),
              ),
            ),
          ),
          h('td', { class: 'sd-cmp-speed' }, bar(row)),
          ...row.cells.map(([words, why], i) =>
            h(
              'td',
              { 'data-is': columns[i][2] || columns[i][0], title: why || columns[i][1] },
              words,
            )
          ),
        )
      ),
    ),
  );
}
