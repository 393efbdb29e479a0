// Two runs along one text; a rejection can be inspected and continued with another token.

import { aligned, trackOf } from '../state/exploration.js';
import { inspected } from '../state/inspect.js';
import { buildLane, isGreedy, stateAt } from '../state/lane.js';
import { cell as inCell, quoted, short, SOURCES } from '../state/format.js';
import { classes, html, Link, View } from './ui.js';
import { Inspector } from './inspector.js';
import { piece, sharePieces } from '../state/detokenize.js';
import { fetchTrace } from '../state/trace.js';
/** @import { Answer, Cell } from '../state/exploration.js' */
/** @import { Inspected } from '../state/inspect.js' */
/** @import { Lane, PartialRound } from '../state/lane.js' */
/** @import { Verified } from '../state/events.d.ts' */

/** @typedef {{race: (name: string) => Promise<string | undefined>, open: (name: string) => void,
 *  measure: (values: Record<string, any>) => boolean}} Tools `race`: the address of a race's trace;
 *  `open`: plays it; `measure`: starts a measurement and returns whether it began */
/** @typedef {{key: string, name: string, round: number, lane: Lane, view: PartialRound,
 *  verified: Verified, what: Inspected, greedy: boolean}} Looked a rejection; `key`: run/round */

const BRANCH = 'what if'; // the name of the lane that branches off a run
const SIGNS = { a: 'A', b: 'B', [BRANCH]: '?' };
/** @type {Record<string, {glyph: string, words: string}>} how a token came about -> its mark */
const MARKS = {
  ...SOURCES,
  forced: { glyph: '⇒', words: 'chosen by you' },
  vanilla: { glyph: '', words: 'one target pass' },
};
const MOST_CANDIDATES = 8;
const NOTE =
  'The engine then continues from there. A token that you choose isn’t drawn, so the result is ' +
  'no longer a sample from the target’s distribution, and its times don’t count.';

/** The cells of each run, and a branch's chosen token. @param {Record<string, Lane>} lanes
 *  @param {Answer} answer */
function tracksOf(lanes, { facts: { branch } }) {
  const forced = branch && branch.take >= 0
    ? [{
      position: branch.position,
      id: branch.take,
      text: branch.token,
      kind: 'forced',
      round: -1,
      begins: true,
      rejected: null,
      differs: true,
    }]
    : [];
  return Object.fromEntries(
    Object.entries(lanes).map(([name, lane]) => [
      name,
      name === BRANCH
        ? [...forced, ...trackOf(lane, branch.position + forced.length)]
        : trackOf(lane),
    ]),
  );
}

/** @param {{of: SideBySide, name: string, cell: Cell, pinned: string}} props */
function Token({ of, name, cell, pinned }) {
  const { kind, round, rejected } = cell;
  const draft = rejected === null ? '' : piece(of.lanes[name], rejected);
  const mark = MARKS[kind] ?? { glyph: '', words: kind };
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
      aria-pressed=${String(key === pinned)} onclick=${() => of.pick(key)}>${inside}</button>
  `;
}

/** The runs along the text.
 *  @extends {View<{of: SideBySide, answer: Answer, pinned: string}, {}>} */
class Tracks extends View {
  /** @override */ keys = ['answer', 'pinned'];

  /** @param {{of: SideBySide, answer: Answer, pinned: string}} props @override */
  render({ of, answer, pinned }) {
    const { facts } = answer;
    const tracks = tracksOf(of.lanes, answer);
    const names = Object.keys(tracks);
    const columns = aligned(tracks, { b: 'a', [BRANCH]: facts.branch?.run });
    const kinds = [...new Set(Object.values(tracks).flat().map(({ kind }) => kind))];
    const place = (name, /** @type {Cell | undefined} */ cell) =>
      cell
        ? html`<${Token} ...${{ of, name, cell, pinned }} />`
        : name !== BRANCH && html`<span class="sd-track-cell"></span>`; // a branch begins late
    const signs = names.map((name) => {
      const label = facts.labels[name] ?? 'what if: a branch, not a measurement';
      return html`<span><b>${SIGNS[name]}</b> ${label}</span>`;
    });
    const marks = kinds.map((kind) => {
      const { glyph, words } = MARKS[kind] ?? { glyph: '', words: kind };
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

export class SideBySide {
  /** @param {() => void} changed draws the page again @param {Tools} tools */
  constructor(changed, tools) {
    this.changed = changed;
    this.tools = tools;
    /** @type {Answer | null} */
    this.answer = null;
    /** @type {Answer | null} the answer whose runs are drawn */
    this.drawnOf = null;
    this.waits = false; // for the runs of an answer that is being measured
    /** @type {Record<string, Lane>} */
    this.lanes = {};
    /** @type {Looked | null} */
    this.looked = null;
    this.going = ''; // the status of a branch
    this.requested = false; // whether a branch was requested
  }

  /** @param {Answer} answer */
  async show(answer) {
    if (this.answer === answer) return;
    const fresh = this.answer?.origin.date !== answer.origin.date;
    this.answer = answer;
    const url = await this.tools.race('runs');
    const lanes = url && this.answer === answer ? (await fetchTrace(url)).lanes : null;
    if (this.answer !== answer) return;
    if (lanes) {
      this.lanes = Object.fromEntries(
        Object.entries(lanes).map(([name, events]) => [name, buildLane(events)]),
      );
      sharePieces(Object.values(this.lanes));
      this.drawnOf = answer;
      this.looked = null;
    }
    this.waits = !lanes && (fresh || this.waits);
    this.changed();
  }

  /** Inspect the rejection of a round. @param {string} key run/round */
  pick(key) {
    const at = key.lastIndexOf('/');
    const [name, round] = [key.slice(0, at), Number(key.slice(at + 1))];
    const lane = this.lanes[name];
    const view = lane && stateAt(lane, lane.rounds[round]?.ends.Committed ?? 0).window;
    const verified = view?.verified;
    if (!verified) return;
    const greedy = isGreedy(lane);
    const what = inspected(view, verified.accepted, greedy);
    this.looked = { key, name, round, lane, view, verified, what, greedy };
    this.going = '';
    this.changed();
    document.querySelector('.sd-exp-widget .sd-inspector')?.scrollIntoView({ block: 'nearest' });
  }

  unpin() {
    this.looked = null;
    this.changed();
  }

  /** Reset after the requested measurement has ended or failed. */
  ended() {
    Object.assign(this, { going: '', requested: false });
  }

  /** Request a branch of the run. @param {Looked} looked @param {Record<string, any>} values */
  go({ name, round }, values) {
    this.requested = this.tools.measure({ branch: name, round: round + 1, ...values });
    this.going = !this.requested
      ? 'A measurement is already running. Wait until it is done.'
      : 'The engine decodes both runs again, and then the branch…';
    this.changed();
  }

  /** Buttons to replace the target's token with a candidate. @param {Looked} looked */
  another(looked) {
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
    const seed = (this.answer?.choice.branch_seed ?? 0) + 1;
    const take = (id) =>
      html`
        <button type="button" class="sd-take" data-take=${id} disabled=${this.requested}
          onclick=${() => this.go(looked, { take: Number(id) })}>
          ${quoted(piece(lane, Number(id)))}<small>${numbers(id)}</small></button>
      `;
    const takes = [
      html`<b>Choose another token and continue:</b>`,
      ...chosen.map(take),
      !greedy && html`
        <button type="button" class="sd-take" disabled=${this.requested}
          title="No token is chosen; everything from here is drawn again, with another seed"
          onclick=${() => this.go(looked, { take: -1, branch_seed: seed })}>
          redraw everything from here</button>
      `,
    ];
    return html`
      <section class="sd-another" aria-label="Another way" hidden=${name === BRANCH}>
        <div class="sd-whatif sd-takes" role="group" aria-label="Take another token">${takes}</div>
        <p class="sd-sub" aria-live="polite">${this.going || why}</p>
        <p class="sd-sub">${NOTE}</p>
      </section>
    `;
  }

  view() {
    const { looked, drawnOf } = this;
    return html`
      <section class="sd-panel sd-exp-widget" aria-label="The text, token by token">
        <header>
          <h2>The text, token by token</h2>
          <span class="sd-sub">one column for each token; click a rejection ✕ to inspect it</span>
          <${Link} class="sd-link sd-exp-saves" act=${() =>
            this.tools.open('runs')}>Open both in the player<//></header>
            ${this.waits && html`<p class="sd-sub">The text appears when all runs are done.</p>`}
            ${drawnOf && !this.waits &&
              html`<${Tracks} of=${this} answer=${drawnOf} pinned=${looked?.key ?? ''} />`}
            ${looked && !this.waits && html`
              <${Inspector} round=${looked.view} lane=${looked.lane}
                place=${looked.verified.accepted} who=${SIGNS[looked.name]} close=${() =>
                  this.unpin()} />
                      ${this.another(looked)}
            `}</section>
    `;
  }
}
