// Runs along one text, token by token, and the tokens that a rejection could continue with.

import { aligned, BRANCH, tracksOf } from '../state/tracks.js';
import { cell as inCell, quoted, short, SOURCES } from '../state/format.js';
import { classes, html, View } from './ui.js';
import { piece } from '../state/detokenize.js';
/** @import { Answer } from '../state/exploration.js' */
/** @import { Cell } from '../state/tracks.js' */
/** @import { Inspected } from '../state/inspect.js' */
/** @import { Lane } from '../state/lane.js' */
/** @import { PartialRound } from '../state/progress.js' */
/** @import { Verified } from '../state/events.d.ts' */

/** @typedef {{key: string, name: string, round: number, lane: Lane, view: PartialRound,
 *  verified: Verified, what: Inspected, greedy: boolean}} Looked a rejection; `key`: run/round */

export const SIGNS = { a: 'A', b: 'B', [BRANCH]: '?' };
/** @type {Record<string, {glyph: string, words: string}>} how a token came about -> its mark */
const MARKS = {
  ...SOURCES,
  forced: { glyph: '⇒', words: 'chosen by you' },
  vanilla: { glyph: '', words: 'one target pass' },
};
const markOf = (/** @type {string} */ kind) => MARKS[kind] ?? { glyph: '', words: kind };
const MOST_CANDIDATES = 8;
const NOTE =
  'The engine then continues from there. A token that you choose isn’t drawn, so the result is ' +
  'no longer a sample from the target’s distribution, and its times don’t count.';

/** @param {{lanes: Record<string, Lane>, name: string, cell: Cell, pinned: string,
 *  pick: (key: string) => void}} props */
function Token({ lanes, name, cell, pinned, pick }) {
  const { kind, round, rejected } = cell;
  const draft = rejected === null ? '' : piece(lanes[name], rejected);
  const mark = markOf(kind);
  const where = round < 0 ? '' : `${SIGNS[name]}, round ${round + 1}: `;
  const instead = rejected === null ? '' : ` in place of ${quoted(draft)}`;
  const title = `${where}${mark.words} ${quoted(cell.text)}${instead}`;
  const shape = classes('sd-track-cell', cell.begins && 'sd-track-begins');
  const inside = html`
    <small>${cell.begins && round >= 0 &&
      html`<i>${SIGNS[name]}${round + 1}</i>`}${rejected !== null &&
      html`<span class="sd-track-rejected">✕ <s>${inCell(draft)}</s></span>`}</small>
    <span class="sd-track-token sd-track-${kind}">${cell.differs ? '≠ ' : ''}${inCell(cell.text) ||
      '·'}${kind !== 'draft' && html`<i aria-hidden="true">${mark.glyph}</i>`}</span>
  `;
  if (rejected === null) return html`<span class=${shape} title=${title}>${inside}</span>`;
  const key = `${name}/${round}`;
  return html`
    <button type="button" class=${shape} title=${title} aria-label=${title}
      data-key=${key}
      aria-pressed=${String(key === pinned)} onclick=${() => pick(key)}>${inside}</button>
  `;
}

/** @typedef {{lanes: Record<string, Lane>, answer: Pick<Answer, 'facts'>, pinned: string,
 *  pick: (key: string) => void}} Props `pinned` and `pick`: run/round of a rejection */

/** The runs along the text. @extends {View<Props, {}>} */
export class Tracks extends View {
  /** @override */ keys = ['answer', 'pinned'];

  /** @param {Props} props @override */
  render({ lanes, answer, pinned, pick }) {
    const { facts } = answer;
    const tracks = tracksOf(lanes, answer);
    const names = Object.keys(tracks);
    const columns = aligned(tracks, { b: 'a', [BRANCH]: facts.branch?.run });
    const kinds = [...new Set(Object.values(tracks).flat().map(({ kind }) => kind))];
    const place = (name, /** @type {Cell | undefined} */ cell) =>
      cell
        ? html`<${Token} ...${{ lanes, name, cell, pinned, pick }} />`
        : name !== BRANCH && html`<span class="sd-track-cell"></span>`; // a branch begins late
    const signs = names.map((name) => {
      const label = facts.labels[name] ?? 'what if: a branch, not a measurement';
      return html`<span><b>${SIGNS[name]}</b> ${label}</span>`;
    });
    const marks = kinds.map((kind) => {
      const { glyph, words } = markOf(kind);
      return html`<span><b class="sd-track-token sd-track-${kind}">${glyph}</b> ${words}</span>`;
    });
    const column = (cells, i) => {
      const number = (i + 1) % 5 && i ? '' : String(i + 1);
      const drawn = names.map((name) => place(name, cells[name]));
      return html`
        <div class="sd-track-column">
          <span class="sd-track-place" aria-hidden="true">${number}</span>${drawn}</div>
      `;
    };
    return html`
      <p class="sd-sub sd-tracks-legend">${signs}${marks}
        <span><b class="sd-track-rejected">✕</b> rejected draft</span>
        <span><b>≠</b> differs from the run it is compared with</span></p>
      <div class="sd-tracks" role="group" aria-label="The runs along the text">${columns.map(
        column,
      )}</div>
    `;
  }
}

/** Buttons to replace the target's token with a candidate, or to draw again with another `seed`.
 *  @param {{looked: Looked, requested: boolean, going: string, seed: number,
 *  go: (values: Record<string, number>) => void}} props `going`: the status of a branch */
export function Another({ looked, requested, going, seed, go }) {
  const { name, lane, verified, what, greedy } = looked;
  const candidates = [what.rows, verified.tests.slice(-1), verified.extra_candidates].flat();
  const ids = new Set(candidates.map(({ id }) => id));
  const chosen = [...ids].filter((id) => id !== null && id !== verified.extra)
    .slice(0, MOST_CANDIDATES);
  const numbers = (id) =>
    what.rows.filter((row) => row.id === id).map(({ p, q }) =>
      `${p === null ? '' : ` p ${short(p)}`}${q === null ? '' : ` q ${short(q)}`}`
    ).join('');
  const why = chosen.length ? '' : 'The trace has no other token for this position.';
  const take = (id) =>
    html`
      <button type="button" class="sd-take" data-take=${id} disabled=${requested}
        onclick=${() => go({ take: Number(id) })}>
        ${quoted(piece(lane, Number(id)))}<small>${numbers(id)}</small></button>
    `;
  const takes = [
    html`<b>Choose another token and continue:</b>`,
    ...chosen.map(take),
    !greedy && html`
      <button type="button" class="sd-take" disabled=${requested}
        title="No token is chosen; everything from here is drawn again, with another seed"
        onclick=${() => go({ take: -1, branch_seed: seed })}>
        redraw everything from here</button>
    `,
  ];
  return html`
    <section class="sd-tracks-another" aria-label="Another way" hidden=${name === BRANCH}
      data-hide="seated exported">
      <div class="sd-whatif sd-tracks-takes" role="group"
        aria-label="Take another token">${takes}</div>
      <p class="sd-sub" aria-live="polite">${going || why}</p>
      <p class="sd-sub">${NOTE}</p>
    </section>
  `;
}
