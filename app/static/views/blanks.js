// The stage of the Live tab: one window, large. Blanks are filled, checked from left to right, and
// become text. Between two runs it holds the staged round still.

import { classes, html, Link, useState } from './ui.js';
import { captionOf, resultsOf, stateAfter, tailOf, tilesOf } from '../state/blanks.js';
import { LEAD } from '../state/declared.js';
import { stagedRound } from '../state/stops.js';
import { Knobs, Redraft } from './knobs.js';
import { isOver } from '../state/lane.js';
import { speedUpSoFar } from '../state/metrics.js';
import { effectWords } from '../state/predicted.js';
import { times } from '../state/format.js';
import { canRecord, saveClip, savePicture } from './card.js';
import { canRun } from '../room.js';
import { say } from './link.js';
import { isJudged } from '../state/verifier.js';
/** @import { Lane } from '../state/lane.js' */
/** @import { PartialRound } from '../state/progress.js' */
/** @import { Scene } from '../state/stage.js' */
/** @import { Block } from '../state/block.js' */
/** @import { Acts } from '../acts.js' */
/** @import { Size } from './knobs.js' */
/** @import { Measured } from '../state/predicted.js' */
/** @import { Tile } from '../state/blanks.js' */

/** The round on the stage: the one that plays, or, before and after, the staged one.
 *  @param {Scene} scene
 *  @returns {{lane: Lane, round: PartialRound, checked: number, still: boolean} | null} `checked`:
 *  how many of its results may be shown, with a fraction for the one under way */
function staged({ lane, view, over, share, isSlow }) {
  if (!lane) return null;
  if (over || !view?.size) {
    const number = isOver(lane) ? stagedRound(lane) : -1;
    const round = number < 0 ? null : stateAfter(lane, number).window;
    return round && { lane, round, checked: Infinity, still: true };
  }
  const judging = isSlow && view.verified && !view.committed;
  const checked = judging ? share * (resultsOf(view) + 0.999) : Infinity;
  return { lane, round: view, checked, still: false };
}

/** @param {{tile: Tile, lit: number | null, open: boolean, press: () => void}} props `lit`: how far
 *  its check has come, while it is checked */
const TileView = ({ tile: { kind, words, heat, mark, said, others }, lit, open, press }) =>
  html`
    <li class=${classes('sd-tile-place', lit !== null && 'sd-tile-lit')}
      style=${{ '--share': lit }}>
      <button type="button" class=${classes('sd-tile', `sd-tile-${kind}`)} data-heat=${heat}
        aria-expanded=${String(open)} aria-label=${said} title=${others.join(' · ') || null}
        onclick=${press}>
        <span class="sd-tile-words">${words}</span>
        <span class="sd-tile-mark" aria-hidden="true">${mark}</span></button>
      ${open && others.length > 0 && html`
        <ol class="sd-tile-others" aria-label="The small model’s likeliest words">${others.map((
          other,
        ) => html`<li>${other}</li>`)}</ol>
      `}</li>
  `;

/**
 * @typedef {object} Redrawn the staged round with other windows and steps
 * @property {Block | null} block that was drafted so @property {boolean} sized whether the server
 *  can do that @property {{part: number, parts: number} | null} redrafting how far it is
 * @property {Measured[]} measured speed-ups of whole answers
 */
/** @typedef {Pick<Acts, 'redraft' | 'stopRedraft' | 'challenge' | 'askForPrompt'> &
 *  Record<'skip' | 'playStaged' | 'verify', () => void>} StageActs `skip`: to real time; `verify`: the
 *  visitor judges */
/** @typedef {{scene: Scene, redrawn: Redrawn, own: boolean, acts: StageActs, source: unknown,
 *  children: unknown}} Props `own`: whether the race is the visitor's; `source`: where it comes from;
 *  `children`: its number, and the bar that plays it */

/** @param {Props} props */
export function Blanks(
  { scene, redrawn, own, acts, source, children },
) {
  const { block, sized, redrafting, measured } = redrawn;
  const [open, setOpen] = useState(-1);
  const [size, setSize] = useState(/** @type {Size | null} */ (null));
  const { stage, isSlow, selected, baseline, lanes, clocks, over, state } = scene;
  const played = staged(scene);
  const config = played?.lane.header?.config;
  const chosen = size ?? { gamma: Number(config?.gamma), steps: Number(config?.steps) };
  const variant = played?.still && size && block?.get(`${chosen.gamma}/${chosen.steps}`);
  const at = variant ? { ...variant, checked: Infinity } : played;
  const round = at?.round;
  const count = played?.round.committed ? played.round.first : state?.tokens.length;
  const checked = Math.floor(at?.checked ?? 0);
  const tiles = at && round ? tilesOf(at.lane, round, checked) : [];
  const base = baseline && baseline !== selected ? lanes[baseline] : null;
  const caption = at && round && !variant ? captionOf(at.lane, round, base, checked) : '';
  const lit = at && round && checked < resultsOf(round) - 1 ? at.checked % 1 : null;
  const drafted = selected && selected !== baseline ? lanes[selected] : null;
  const speed = over && drafted
    ? speedUpSoFar(clocks[selected ?? ''], clocks[baseline ?? ''])
    : null;
  const run = drafted && {
    lane: drafted,
    baseline: base,
    number: speed === null || stage.doubt(selected ?? '') ? '' : times(speed),
  };
  const effect = config ? effectWords(measured, { ...config, ...chosen }) : '';
  const watch = isSlow
    ? html`<${Link} act=${acts.skip}>Skip to real time<//>`
    : played && stage.present.length > 0 &&
      html`<${Link} act=${acts.playStaged}>Watch the blanks fill<//>`;
  return html`
    <section class="sd-panel sd-stage" aria-label="The draft window, large">
      <header data-hide="presenting"><h2>${LEAD}</h2>${source}</header>
      <div class="sd-stage-block">
        <p class="sd-stage-prompt">${tailOf(lanes[selected ?? '']?.header?.prompt ?? '')}</p>
        <p class="sd-stage-text">${tailOf((scene.lane?.texts ?? []).slice(0, count).join(''))}</p>
        <ol class="sd-stage-tiles" aria-label="Blanks" style=${{ '--tiles': tiles.length }}>
          ${tiles.map((tile, i) =>
            html`
              <${TileView} key=${i} tile=${tile} lit=${i === checked ? lit : null}
                open=${open === i} press=${() => setOpen(open === i ? -1 : i)} />
            `
          )}</ol>
        ${played?.still && block && html`
          <${Knobs} block=${block}
            size=${chosen} set=${setSize} effect=${effect} />
        `}
        <p class="sd-stage-caption"><span>${caption}</span> ${watch}${over && run && played && html`
              ${isJudged(run.lane) &&
                html`<${Link} name="verify" act=${acts.verify}>Be the big model<//>`}
          ${own && run.number && html`
            <${Link} act=${(event) =>
              acts.challenge(event.currentTarget, run.number)}>Challenge a friend<//>
          `}
          <${Link} act=${() => savePicture(run)}>Save as picture<//>
              ${canRecord() &&
                html`<${Link} act=${({ currentTarget }) => {
                  say(currentTarget, 'Recording…');
                  saveClip(run);
                }}>Save as clip<//>`}
          ${!own && canRun() && html`
            <button type="button" class="sd-stage-try" onclick=${acts
              .askForPrompt}>Try your own prompt</button>
          `}
        `}</p>
        ${played?.still && !block && sized && html`
          <${Redraft} redrafting=${redrafting} redraft=${acts.redraft} stop=${acts.stopRedraft} />
        `}
      </div>
      ${children}
    </section>
  `;
}
