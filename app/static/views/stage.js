// What stands where: makes the views of a player and places them.
// @ts-check

import { BarView } from './bar.js';
import { SourceView } from './notes.js';
import { Charts, acceptanceFigure, chart, confidenceFigure, tokensFigure } from './charts.js';
import { LanesView } from './lanes.js';
import { RoundsView } from './rounds.js';
import { ScoreView } from './score.js';
import { Tour } from './tour.js';
import { WindowView } from './window.js';
import { LEGEND } from '../state/format.js';
import { h } from './dom.js';
/** @import { Actions, Options } from '../app.js' */
/** @import { Job } from '../job.js' */

const legend = () => h('ul', { class: 'sd-legend', 'aria-label': 'Legend' }, ...Object.entries(LEGEND).map(([kind, { glyph, words }]) =>
  h('li', {}, h('span', { class: `sd-t sd-t-${kind}`, 'aria-hidden': 'true' }, glyph), ` ${words}`)));

/** Fill the root of a player. @param {Job<any>} player @param {Options} options @param {Actions} actions */
export function layOut({ root, card, status }, { kind, plotly, recordings, crowded, prefix, noSteps, empty: words }, actions) {
  const lanes = new LanesView(actions, prefix, noSteps);
  const window = new WindowView();
  const rounds = new RoundsView(window.rounds, actions.round);
  const score = new ScoreView({ crowded, quietly: actions.quietly });
  const source = new SourceView(recordings, actions.replay, actions.keep);
  const bar = new BarView(actions);
  const voice = h('div', { class: 'sd-voice', 'aria-live': 'polite' });
  const [tokens, tokensPanel] = chart('Tokens over decode time', 'a step for each round');
  const [acceptance, acceptancePanel] = chart('Acceptance by position', 'bars: run so far; ● accepted, ✕ refused, – draw u of this round');
  const [confidence, confidencePanel] = chart('Denoising confidence', 'largest probability, this round; at temperature 0 that of the softmax at 1');
  const charts = new Charts({ tokens, acceptance, confidence }, { tokens: tokensFigure, acceptance: acceptanceFigure, confidence: confidenceFigure }, { plotly, without: 'The chart library could not be loaded; all numbers above are complete without it.' });
  const empty = h('p', { class: 'sd-panel sd-empty' }, words);
  lanes.element.append(legend());
  window.element.id = `${prefix}-panel`;
  const further = h('details', { class: 'sd-further' }, h('summary', {}, 'More of this run: acceptance by position, denoising confidence'), h('div', {}, acceptancePanel, confidencePanel));
  const areas = { hero: score.hero, lanes: lanes.element, bar: bar.element, window: window.element, numbers: score.numbers, tokens: tokensPanel, further };
  for (const [area, element] of Object.entries(areas)) element.dataset.area = element.style.gridArea = area;
  const main = h('div', { class: 'sd-main' }, ...Object.values(areas));
  const tour = kind === 'live' ? new Tour(root, actions.show) : null;
  root.append(...(tour ? [tour.offer] : []), card.element, source.lead, source.element, source.stale, status.element, empty, main, voice);
  return { lanes, window, rounds, score, source, bar, charts, voice, main, tour };
}
