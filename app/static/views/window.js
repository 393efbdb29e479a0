// The panel of the draft window: its phases and rounds, the table, and what is looked at closely.

import { classes, Component, html, Link } from './ui.js';
import { countOf, MOST_ROWS, mostRows, stopAt, unitOf } from '../state/grid.js';
import { isNoted, noteOf } from '../state/verdicts.js';
import { Grid } from './grid.js';
import { Inspector } from './inspector.js';
import { isJudged } from '../state/verifier.js';
import { Judge } from './verifier.js';
import { milliseconds } from '../state/format.js';
import { Rounds } from './rounds.js';
import { sentenceOf } from '../state/narrate.js';
/** @import { PartialRound } from '../state/progress.js' */
/** @import { Scene } from '../state/stage.js' */
/** @import { Study } from '../study.js' */

const PHASES = {
  draft: 'The drafter fills the window of masks, one pass of its network per denoising step. ' +
    'Milliseconds of decode time.',
  score:
    'One pass of the target reads the anchor and all drafted tokens. Milliseconds of decode time.',
  verify: 'The acceptance tests, from left to right, and the target’s own token. Milliseconds of ' +
    'decode time.',
  commit: 'Accepted tokens and the target’s own join the text; everything after the first ' +
    'rejection is discarded.',
};
const FOLDED =
  'Shows the first branch, the branches on the target’s path, the draft that it chose, and ' +
  'the longest branches.';
const TURN = 'Your turn: would the big model write this?';
const KEY = [['sd-cell-fresh', 'revealed now, shade: confidence'], ['sd-cell-kept', 'known'], [
  'sd-cell-mask',
  'mask or cut',
]];

/** @param {{round: PartialRound | null, phase: string}} props `round` null: there are no times */
const Phases = ({ round, phase }) => {
  const ended = [round?.draft, round?.scored, round?.verified];
  const items = Object.entries(PHASES).map(([key, title], i) => {
    const name = `${key[0].toUpperCase()}${key.slice(1)}`;
    const time = ended[i] ? milliseconds(ended[i].span.seconds) : '';
    return html`
      <li class=${classes('sd-window-phase', round && key === phase && 'sd-window-on')}
        title=${title}><b>${i + 1}</b> ${name} <span class="sd-window-time">${time}</span></li>
    `;
  });
  return html`<ol class="sd-window-phases" aria-label="Phases of a round">${items}</ol>`;
};

/** @typedef {object} Props
 * @property {Scene} scene @property {string} prefix of ids @property {(round: number) => void} jump
 * @property {Study} study what the visitor looks at closely */

/** @extends {Component<Props, {all: boolean}>} */
export class DraftWindow extends Component {
  /** @override */ state = { all: false }; // whether every row is drawn

  /** @param {Props} props @param {{all: boolean}} state @override */
  render({ scene, prefix, study, jump }, { all }) {
    const { lane } = scene;
    const { game, pinned } = study;
    const round = game ? game.judgedView : scene.view;
    const phase = game ? 'verify' : scene.view?.phase ?? 'draft';
    const older = game ? '' : scene.shown.older;
    const drawn = lane?.header && round?.size ? round : null;
    const count = drawn ? countOf(drawn) : 0;
    const here = pinned && pinned.lane === lane && pinned.view.round === drawn?.round;
    const mark = here && drawn ? stopAt(drawn, pinned.place) : '';
    const unit = drawn ? unitOf(drawn) : '';
    const title = unit === 'steps' ? 'Each row shows what all of its steps revealed.' : FOLDED;
    const looks = { // no class: the guide adds one to the element that it points at
      'data-folds': String(Boolean(lane && mostRows(lane) > MOST_ROWS)),
      'data-noted': String(Boolean(lane && isNoted(lane))),
    };
    const of = drawn && !scene.growing ? ` of ${lane?.rounds.length}` : '';
    const at = older ? scene.state?.window : round;
    const where = at ? `round ${at.round + 1}${of}` : '';
    return html`
      <section class="sd-panel sd-window" ...${looks} aria-label="Draft window" data-area="window"
        id="${prefix}-panel" tabindex="-1">
            <header><h2>Draft window</h2><span class="sd-sub">${where}</span>
              ${!game && isJudged(lane) &&
                html`<${Link} name="verify" act=${() => study.verify()}>Be the big model<//>`}
              <${Phases} round=${drawn} phase=${phase} /></header>
            <${Rounds} scene=${scene} jump=${jump} closed=${game?.view.round ?? Infinity} />
            <p class="sd-window-sentence">${game
              ? game.answer === null && TURN
              : sentenceOf(scene)}</p>
            ${drawn && html`
              <${Grid} pin=${(of, at, place) =>
                study.pin(of, at, place)} lane=${lane} round=${drawn} moment=${scene.moment +
                (game ? drawn.judged : '')}
                all=${all}
                pinned=${mark} />
            `}
            <button type="button" class="sd-link sd-window-more" aria-expanded=${String(
              all,
            )} title=${title} hidden=${count <= MOST_ROWS}
              onclick=${() => this.setState({ all: !all })}>${all
                ? `Show ${MOST_ROWS} of ${count} ${unit}`
                : `Show all ${count} ${unit}`}</button>
            ${game && html`<${Judge} game=${game} act=${study} />`}
            ${pinned && html`
              <${Inspector} round=${pinned.view} lane=${pinned.lane} place=${pinned
                .place} who=${pinned.who} close=${() => study.unpin()}
                walk=${(by) => study.walk(by)} />
            `}
            <div class="sd-window-foot"><span class="sd-window-note">${drawn && lane
              ? noteOf(drawn, lane)
              : ''}</span>
              <p class="sd-window-key">${KEY.map(([kind, words]) =>
                html`
                  <span><span class="sd-cell ${kind}" data-heat="4" aria-hidden="true"></span>
                    ${words}</span>
                `
              )}</p></div>
          </section>
    `;
  }
}
