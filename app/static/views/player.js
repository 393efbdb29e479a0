// What the Live or the Race tab shows: the layout of its views, and the figures below the window.

import { acceptanceFigure, confidenceFigure, tokensFigure } from '../state/charts.js';
import { Bar } from './bar.js';
import { Blanks } from './blanks.js';
import { Charts } from './charts.js';
import { Component, ElementSlot, Elsewhere, glossed, html } from './ui.js';
import { DraftWindow } from './window.js';
import { Hero, Numbers } from './score.js';
import { Lanes } from './lanes.js';
import { LeadSentence, Source } from './source.js';
import { isRun } from '../state/moment.js';
import { isServed } from '../state/lane.js';
import { useOf } from '../state/marks.js';
/** @import { Acts } from '../acts.js' */
/** @import { Child } from '../vendor/preact.d.ts' */
/** @import { PlayerOptions as Options, State } from '../tabs.d.ts' */
/** @import { Lane } from '../state/lane.js' */
/** @import { Scene } from '../state/stage.js' */
/** @import { ShownRace } from '../state/shown_race.js' */
/** @import { PlaybackControls } from '../playback_controls.js' */

const FIGURES = {
  tokens: tokensFigure,
  acceptance: acceptanceFigure,
  confidence: confidenceFigure,
};
const WITHOUT = 'The chart library could not be loaded; all numbers above are complete without it.';

/** Whether a lane is a run of ours whose windows can have other sizes and steps.
 *  @param {Lane | null} lane @param {string[]} noSteps drafters that don't denoise */
function fills(lane, noSteps) {
  const header = lane?.finished && !isServed(lane) ? lane.header : null;
  return Boolean(header) && useOf(header?.config ?? null) === 'window' &&
    !noSteps.includes(String(header?.config.drafter));
}

/**
 * @typedef {object} Props
 * @property {ShownRace} shown on the stage @property {Scene} scene its state at the playhead
 * @property {Options} options @property {PlaybackControls} playback @property {Acts} acts
 * @property {State['redrafting']} redrafting @property {HTMLElement} card for errors
 * @property {Child} children notes about the form and the run
 */

/** @extends {Component<Props>} */
export class PlayerView extends Component {
  /** @override */ componentDidMount() {
    const places = /** @type {HTMLElement} */ (this.base?.parentElement).querySelectorAll(
      '.sd-plot',
    );
    this.charts = new Charts(places, { plotly: this.props.options.plotly, without: WITHOUT });
    this.componentDidUpdate();
  }

  /** @override */ componentDidUpdate() {
    const { scene } = this.props;
    this.charts?.offer((name) => FIGURES[name](scene));
  }

  /** @param {Props} props @override */
  render({ scene, shown, options, playback, acts, redrafting, card, children }) {
    const { tabName, noSteps, exactness, measured } = options;
    const { chooseRecording, keepMoment, runQuietly, save } = acts;
    const { study } = playback;
    const raced = tabName === 'race';
    const chart = (name, title, hint, area) =>
      html`
        <section class="sd-panel sd-chart" aria-label=${title} data-area=${area}
          data-hide="presenting">
          <header><h2>${title}</h2><span class="sd-sub">${glossed(hint)}</span></header>
          <div class="sd-plot" data-figure=${name}></div>
        </section>
      `;
    const hero = html`
      <${Hero} scene=${scene} source=${shown.source} options=${options} runQuietly=${runQuietly}
        scrollToRound=${(round) => playback.scrollToRound(round)} />
    `;
    const bar = html`
      <${Bar} playhead=${shown.playhead} move=${(change) => playback.act(change)}
        toEdge=${() => playback.toEdge()} save=${save} />
    `;
    const source = html`
      <${Source} shown=${shown} options=${options} choose=${chooseRecording}
        keepMoment=${keepMoment} />
    `;
    const staged = {
      ...acts,
      skip: () => playback.act((playhead) => playhead.skip()),
      playStaged: () => playback.act((playhead) => playhead.playStaged()),
      verify: () => study.verify(),
    };
    return html`
      ${raced ? html`<${LeadSentence} scene=${scene} />` : html`
        <${Elsewhere} in="#live-stage .sd">
          <${Blanks} scene=${scene} own=${shown.ran} acts=${staged}
            source=${source} redrawn=${{
              block: shown.block,
              sized: isRun(shown.file) && fills(scene.lane, noSteps),
              redrafting: redrafting?.shown === shown ? redrafting : null,
              measured,
            }}>${hero}${bar}<//><//>
      `}
            <${ElementSlot} element=${card} />
            ${raced && source}
            ${children}
            <p class="sd-panel sd-player-empty">${options.empty}</p>
            <div class="sd-player-main" data-layout=${scene.names.length <= 2 ? 'columns' : 'rows'}>
              ${raced && hero}
              <${Lanes} scene=${scene} options=${options} study=${study}
                select=${(name) => playback.selectLane(name)} />
              ${raced && bar}
              <${DraftWindow} scene=${scene} prefix=${tabName} study=${study}
                jump=${(round) =>
                  playback.goToRound(round)} /><${Numbers} scene=${scene} exactness=${exactness} />
              ${chart('tokens', 'Tokens over decode time', 'a step for each round', 'tokens')}
              <details class="sd-player-further" data-area="further" data-hide="presenting">
                <summary>More of this run: acceptance by position, denoising confidence</summary>
                <div>${chart(
                  'acceptance',
                  'Acceptance by position',
                  'bars: run so far; ● accepted, ✕ rejected, – draw u of this round',
                )}
                  ${chart(
                    'confidence',
                    'Denoising confidence',
                    'largest probability, this round; at temperature 0 that of the softmax at 1',
                  )}</div></details>
            </div>
            <div class="sd-voice" aria-live="polite">${playback.voice}</div>
    `;
  }
}
