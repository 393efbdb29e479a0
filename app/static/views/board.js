// A table of methods with a bar for each speed-up, which opens its race, and the switches of the table.

import { buttons } from './explored.js';
import { html } from './ui.js';
import { applies } from './figure.js';
import { ratio } from '../state/format.js';
/** @import { Part } from '../tabs.d.ts' */
/** @import { Report } from '../state/events.d.ts' */

/** @typedef {{mark: [string, string, string], label: string, words: string, value: number,
 *  low: number | null, high: number | null, said: string, race: string | null, busy: boolean,
 *  cells: [string, string][]}} Row */
/** @typedef {{title: string, columns: [string, string, string][], rows: Row[]}} BoardData as in
 *  specdiff_core/explorations/base.py */

const HEADS = [
  ['Method', 'A drafter and how it is used.'],
  [
    'Speed-up over vanilla',
    'Vanilla’s decode seconds per token over the method’s, on the same prompts, prefill ' +
    'included. The whisker is a 95 % interval over prompts. A bar opens its race.',
  ],
];

/** @param {{row: Row, end: number, open: ((race: string) => void) | null}} props `end`: the
 *  speed-up at the right end of the track */
function Bar({ row: { mark: [, colour, hatch], label, value, low, high, said, race }, end, open }) {
  const share = (speed) => `${((100 * Math.max(0, speed)) / end).toFixed(3)}%`;
  const opens = race && open ? 'Open its race.' : 'Its race isn’t here.';
  const words = `${ratio(value)}×, ${said}. ${opens}`;
  const hasInterval = low !== null && high !== null;
  const whisker = hasInterval && { left: share(low), width: share(high - low) };
  const range = low !== null && `${ratio(low)}–${ratio(high)}`;
  return html`
    <button type="button" class="sd-board-bar" disabled=${!race || !open}
      title=${words} aria-label="${label}: speed-up ${words}" onclick=${() => race && open?.(race)}>
        <span class="sd-board-track" aria-hidden="true">
          <span class="sd-board-fill" data-pattern=${hatch || 'plain'}
            style="--mark: var(--sd-${colour.slice(1)}); width: ${share(value)}"></span>
          <span class="sd-board-one" style="left: ${share(1)}"></span>
          ${whisker && html`<span class="sd-board-whisker" style=${whisker}></span>`}</span>
        <span class="sd-board-value"><b>${ratio(value)}×</b>
          <span class="sd-sub">${range}</span></span></button>
  `;
}

/** @param {{board: BoardData, open: ((race: string) => void) | null}} props */
function Board({ board: { title, columns, rows }, open }) {
  const end = Math.ceil(Math.max(2, ...rows.map((row) => row.high ?? row.value)) * 2.1) / 2;
  return html`
    <table class="sd-board-table">
      <caption class="sd-voice">${title}: methods by speed-up, fastest first</caption>
      <thead>
        <tr>${[...HEADS, ...columns].map(([name, meaning]) =>
          html`<th scope="col" title=${meaning}>${name}</th>`
        )}</tr>
      </thead>
      <tbody>${rows.map((row) =>
        html`<tr class=${row.words === 'baseline' ? 'sd-board-baseline' : ''} data-busy=${
          row.busy || null
        }>
        <th scope="row"><div class="sd-board-who">
          <span class="sd-board-glyph" aria-hidden="true" style="--mark: var(--sd-${
          row.mark[1].slice(1)
        })">${row.mark[0]}</span>
          <span class="sd-board-name"><b>${row.label}</b>
            <span class="sd-sub">${row.words}</span></span></div></th>
        <td class="sd-board-speed"><${Bar} row=${row} end=${end} open=${open} /></td>
        ${
          row.cells.map(([words, why], i) =>
            html`<td data-is=${columns[i][2] || columns[i][0]} title=${
              why || columns[i][1]
            }>${words}</td>`
          )
        }</tr>`
      )}</tbody>
    </table>
  `;
}

/** The board that the switches choose, and the switches.
 *  @param {{report: Report, chosen: Record<string, string>, only: Part,
 *  choose: (name: string, value: string) => void, open: ((race: string) => void) | null}} props */
export function Boards({ report: { boards = [], switches = [] }, chosen, only, choose, open }) {
  const selected = /** @type {any} */ (boards.find((one) => applies(one, chosen)));
  const rows = selected?.rows.filter(({ label }) => only?.lines.includes(label));
  const board = only?.panel === 'board' && rows?.length ? { ...selected, rows } : selected;
  return html`
    <section class="sd-panel sd-board" hidden=${!boards.length}>
      <header>
        <h2>Leaderboard</h2>
        <div class="sd-board-switches">${switches.map(({ name, title, options }) =>
          html`
            <div class="sd-board-switch" role="group"
              aria-label=${title}><span class="sd-sub">${title}</span>${buttons(
                options.map(([value, words, meaning]) => ({
                  words,
                  title: meaning || null,
                  pressed: chosen[name] === value,
                  act: () => choose(name, value),
                })),
              )}</div>
          `
        )}</div>
      </header>
      <div class="sd-scroll" tabindex="0" role="region" aria-label="Leaderboard">${board &&
        html`<${Board} board=${board} open=${open} />`}</div>
    </section>
  `;
}
