// The position inspector: p and q as bars, the test, and a simulation with other draws.

import { TEST_KINDS } from '../state/declared.js';
import { Button, classes, Component, glossed, html } from './ui.js';
import { again, inspected, isWalk, residual } from '../state/inspect.js';
import { aside, story } from '../state/story.js';
import { cell, ratio, short, SOURCES } from '../state/format.js';
import { isGreedy, isVanilla } from '../state/lane.js';
import { OTHERS, wordsOf } from '../state/narrate.js';
import { piece } from '../state/detokenize.js';
/** @import { Inspected, Place, Row } from '../state/inspect.js' */
/** @import { Lane } from '../state/lane.js' */
/** @import { PartialRound } from '../state/progress.js' */

const DRAWS = 100;
const HEADS = ['token', 'p, target', 'q, drafter'];

/**
 * @typedef {object} Props
 * @property {PartialRound} round @property {Lane} lane @property {Place} place
 * @property {string} who the label of its lane, if several lanes are on the screen
 * @property {() => void} close @property {(by: number) => void} [walk] to a neighbour
 */

/** Whether a random draw decided the test. @param {Inspected} what */
const isChance = ({ test, holds }, greedy) =>
  Boolean(
    test && !greedy && (TEST_KINDS[test.kind].bound || (isWalk(test) && holds !== 'none')),
  );

/** A probability as a bar; the part that p and q share is solid.
 *  @param {{kind: 'p' | 'q', value: number | null, other: number | null}} props */
function Bar({ kind, value, other }) {
  if (value === null) {
    return html`
      <span role="cell" class="sd-inspector-none" title="not among the recorded tokens">–</span>
    `;
  }
  const [bar, overlap] = [value, Math.min(value, other ?? 0)].map((share) =>
    `width: ${(100 * share).toFixed(1)}%`
  );
  return html`<span role="cell" class="sd-inspector-bar sd-inspector-${kind}">
    <i aria-hidden="true"><u style=${bar}></u><b style=${overlap}></b></i><span>${
    short(value)
  }</span></span>`;
}

/** The likeliest tokens. @param {{what: Inspected, lane: Lane, greedy: boolean}} props */
export function Bars({ what, lane, greedy }) {
  const [word, alone] = [wordsOf(lane), isVanilla(lane)];
  const rest = greedy || what.certain || what.tree || !what.options.length
    ? null
    : residual(what.rows);
  const drafted = (id) => what.tree && what.options.includes(id);
  const mark = (id) =>
    alone
      ? ''
      : id === what.extra
      ? `${SOURCES[what.source]?.glyph ?? ''} `
      : drafted(id)
      ? '└ '
      : '';
  const row = (/** @type {Row} */ { id, p, q }, i) => {
    const kind = classes(
      'sd-inspector-row',
      id !== null && id === what.drafted && 'sd-inspector-drafted',
    );
    const title = `${word(id)}${id !== null && drafted(id) ? ', drafted here' : ''}`;
    const token = id === null ? OTHERS : `${mark(id)}${cell(piece(lane, id))}`;
    return html`
      <div class=${kind} role="row">
        <span role="rowheader" title=${title}>${token}</span>
        <${Bar} kind="p" value=${p} other=${q} /><${Bar} kind="q" value=${q} other=${p} />
        <span role="cell" class="sd-inspector-rest">${rest ? short(rest[i]) : ''}</span></div>
    `;
  };
  const heads = [...HEADS, rest ? 'left of p' : ''].map((words) =>
    html`<span role="columnheader">${words}</span>`
  );
  return html`
    <div class="sd-inspector-table" role="table"
      aria-label="The likeliest tokens: p of the target, q of the drafter"
      hidden=${!what.rows.length}>
        <div class="sd-inspector-row sd-inspector-head" role="row">${heads}</div>
        ${what.rows.map(row)}</div>
  `;
}

/** The same test with other draws, simulated on the recorded numbers.
 *  @extends {Component<{what: Inspected, lane: Lane}, {u: number, seed: number}>} */
class WhatIf extends Component {
  /** @override */ state = { u: this.props.what.test?.draw ?? 0, seed: 0 };

  /** The result of the simulated draws, in words. */
  get drawn() {
    const { what, lane } = this.props;
    const { accepted, counts } = again(what, what.test?.threshold ?? 0, DRAWS, this.state.seed);
    const walks = isWalk(what.test);
    const outcomes = what.rows.flatMap(({ id }, i) =>
      counts[i] && (walks || id !== what.drafted) ? [`${wordsOf(lane)(id)} ${counts[i]}`] : []
    ).join(', ');
    return `Simulated, not decoded: ${accepted} of ${DRAWS} draws ${
      walks ? 'go on in the tree' : 'accept it'
    }${outcomes ? `; ${walks ? 'drawn' : 'replaced by'}: ${outcomes}` : ''}.`;
  }

  /** @param {{what: Inspected}} props @param {{u: number, seed: number}} state @override */
  render({ what: { test } }, { u, seed }) {
    const threshold = test?.threshold ?? 0;
    const slide = ({ currentTarget }) => this.setState({ u: Number(currentTarget.value) });
    const then = ` ${ratio(u)}: ${u < threshold ? 'accepted' : 'rejected'} (accepted below ` +
      `${ratio(threshold)})`;
    return html`
      <div class="sd-whatif"><b>What if?</b>
              ${!isWalk(test) && html`
                <label>u <input type="range" min="0" max="1" step="0.01" aria-label="u, the draw"
                  value=${u} oninput=${slide} /></label>
                <span aria-live="polite">${then}</span>
              `}
              <button type="button" class="sd-link" onclick=${() =>
                this.setState({ seed: seed + 1 })}>Draw ${DRAWS} times</button></div>
      <p class="sd-sub" aria-live="polite">${seed ? this.drawn : ''}</p>
    `;
  }
}

/** @extends {Component<Props>} */
export class Inspector extends Component {
  /** @param {Props} props @override */
  render({ round, lane, place, who, close, walk }) {
    const greedy = isGreedy(lane);
    const what = inspected(round, place, greedy);
    const [word, judged] = [wordsOf(lane), Boolean(round.verified)];
    const node = what.node === null || typeof place === 'number' ? '' : `, node ${what.node + 1}`;
    const where = isVanilla(lane)
      ? `Pass ${what.round + 1} of the target`
      : `Round ${what.round + 1}, position ${what.position + 1}${node}`;
    const token = what.drafted ?? what.extra;
    const keys = (event) => {
      const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
      if (event.key === 'Escape') close();
      else if (by && walk && !(event.target instanceof HTMLInputElement)) {
        event.preventDefault();
        walk(by);
      }
    };
    return html`
      <section class="sd-inspector" aria-label="One position" tabindex="-1" onkeydown=${keys}>
        <header><h3>${who
          ? `${who}: ${where[0].toLowerCase()}${where.slice(1)}`
          : where}${token === null ? '' : `: ${word(token)}`}</h3>
              ${walk && html`
                <${Button} label="The position before"
                  act=${() => walk(-1)}>‹<//><${Button} label="The position after" act=${() =>
                    walk(1)}>›<//>
              `}
              <${Button} label="Close" act=${close}>✕<//></header>
            <${Bars} what=${what} lane=${lane} greedy=${greedy} />
            <p>${glossed(story(what, greedy, judged, word))}</p>
            <p class="sd-sub">${aside(what, greedy, judged)}</p>
            ${isChance(what, greedy) &&
              html`<${WhatIf} key="${what.round}/${
                JSON.stringify(place)
              }" what=${what} lane=${lane} />`}
          </section>
    `;
  }
}
