// What stands where: makes the views of the player and places them. Knows no trace and no playhead.

import { CardView, SourceView, StatusView } from './draw_notes.js';
import { BarView } from './draw_bar.js';
import { Charts, acceptanceFigure, confidenceFigure, tokensFigure } from './charts.js';
import { LaneView } from './draw_lanes.js';
import { RailView } from './draw_rail.js';
import { RoundsView } from './draw_rounds.js';
import { WindowView } from './draw_window.js';
import { h } from './dom.js';

const LEGEND = [['draft', '✓', 'accepted draft'], ['residual', '↻', 'corrected by the target'], ['bonus', '+', 'bonus token'], ['guess', '▒', 'still a guess']];

export function chart(title, hint) {
  const place = h('div', { class: 'sd-plot' });
  return [place, h('section', { class: 'sd-panel sd-chart', 'aria-label': title }, h('header', {}, h('h2', {}, title), h('span', { class: 'sd-sub' }, hint)), place)];
}

export const legend = () => h('ul', { class: 'sd-legend', 'aria-label': 'Legend' }, ...LEGEND.map(([kind, glyph, words]) =>
  h('li', {}, h('span', { class: `sd-t sd-t-${kind}`, 'aria-hidden': 'true' }, glyph), ` ${words}`)));

/**
 * Fill `root`. `jump(round)` is called by whatever shows a round, `actions` by the player bar, `wake` by charts.
 * Returns {views: {drafted, vanilla}, window, rounds, rail, source, card, status, bar, charts, voice}.
 */
export function layOut(root, { plotly, recordings, crowded, jump, actions, wake }) {
  const views = { drafted: new LaneView('drafted', jump), vanilla: new LaneView('vanilla', jump) };
  const window = new WindowView();
  const rounds = new RoundsView(window.rounds, jump);
  const [rail, source, card, status, bar] = [new RailView(crowded), new SourceView(recordings, actions.replay), new CardView(), new StatusView(), new BarView(actions)];
  const voice = h('div', { class: 'sd-voice', 'aria-live': 'polite' });
  const [tokens, tokensPanel] = chart('Tokens over time', '─ drafted, ┄ vanilla');
  const [acceptance, acceptancePanel] = chart('Acceptance by position', 'bars: run so far; ● accepted, ✕ refused, – draw u of this round');
  const [confidence, confidencePanel] = chart('Denoising confidence', 'largest probability, this round; at temperature 0 that of the softmax at 1');
  const charts = new Charts({ tokens, acceptance, confidence }, { tokens: tokensFigure, acceptance: acceptanceFigure, confidence: confidenceFigure }, plotly, wake);
  source.element.append(legend());
  root.append(card.element, source.element, status.element,
    h('div', { class: 'sd-main' },
      h('div', { class: 'sd-stage' },
        h('section', { class: 'sd-panel sd-lanes', 'aria-label': 'Race' }, views.drafted.element, views.vanilla.element),
        window.element),
      h('aside', { class: 'sd-rail' }, rail.element, tokensPanel),
      h('div', { class: 'sd-charts' }, acceptancePanel, confidencePanel)),
    bar.element, voice);
  return { views, window, rounds, rail, source, card, status, bar, charts, voice };
}
