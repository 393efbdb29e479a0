// The layout of a player, and the figures below the window.

import { acceptanceFigure, confidenceFigure, tokensFigure } from '../state/charts.js';
import { Bar } from './bar.js';
import { Charts } from './charts.js';
import { Component, ElementSlot, glossed, html } from './ui.js';
import { DraftWindow } from './window.js';
import { Hero, Numbers } from './score.js';
import { Lanes } from './lanes.js';
import { LeadSentence, Source } from './source.js';
import { RoomNotice } from './notes.js';
import { TourOffer } from './tour.js';
/** @import { App } from '../app.js' */
/** @import { Scene } from '../state/stage.js' */

const FIGURES = {
  tokens: tokensFigure,
  acceptance: acceptanceFigure,
  confidence: confidenceFigure,
};
const WITHOUT = 'The chart library could not be loaded; all numbers above are complete without it.';

/** @extends {Component<{app: App, scene: Scene}>} */
export class Player extends Component {
  /** @override */ componentDidMount() {
    const { app } = this.props;
    const places = app.root.querySelectorAll('.sd-plot');
    this.charts = new Charts(places, { plotly: app.options.plotly, without: WITHOUT });
    this.componentDidUpdate();
  }

  /** @override */ componentDidUpdate() {
    const { scene } = this.props;
    this.charts?.offer((name) => FIGURES[name](scene));
  }

  /** @param {{app: App, scene: Scene}} props @override */
  render({ app, scene }) {
    const of = { app, scene };
    const chart = (name, title, hint, area) =>
      html`
        <section class="sd-panel sd-chart" aria-label=${title} data-area=${area}>
          <header><h2>${title}</h2><span class="sd-sub">${glossed(hint)}</span></header>
          <div class="sd-plot" data-figure=${name}></div>
        </section>
      `;
    return html`${app.options.kind === 'live' && html`<${TourOffer} app=${app} />`}
      <${ElementSlot} element=${app.card.element} />
      <${LeadSentence} ...${of} /><${Source} ...${of} />
      <${RoomNotice} /><p class="sd-stale" role="status" hidden=${!app.stale}>${app.stale}</p>
      <${ElementSlot} element=${app.status.element} />
      <p class="sd-panel sd-empty">${app.options.empty}</p>
      <div class="sd-main" data-layout=${scene.names.length <= 2 ? 'columns' : 'rows'}>
        <${Hero} ...${of} /><${Lanes} ...${of} /><${Bar} ...${of} />
        <${DraftWindow} ...${of} /><${Numbers} ...${of} />
        ${chart('tokens', 'Tokens over decode time', 'a step for each round', 'tokens')}
        <details class="sd-further" data-area="further">
          <summary>More of this run: acceptance by position, denoising confidence</summary>
          <div>${
      chart(
        'acceptance',
        'Acceptance by position',
        'bars: run so far; ● accepted, ✕ rejected, – draw u of this round',
      )
    }
            ${
      chart(
        'confidence',
        'Denoising confidence',
        'largest probability, this round; at temperature 0 that of the softmax at 1',
      )
    }</div></details>
      </div>
      <div class="sd-voice" aria-live="polite">${app.voice}</div>`;
  }
}
