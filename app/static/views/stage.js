// What stands where: makes the views of a player and places them.
// @ts-check

import { BarView } from './bar.js';
import { CardView, SourceView, StatusView } from './notes.js';
import { Charts, acceptanceFigure, chart, confidenceFigure, tokensFigure } from './charts.js';
import { LanesView } from './lanes.js';
import { RoundsView } from './rounds.js';
import { ScoreView } from './score.js';
import { WindowView } from './window.js';
import { h } from './dom.js';

const LEGEND = [['draft', '✓', 'accepted draft'], ['residual', '↻', 'corrected by the target'], ['bonus', '+', 'bonus token'], ['guess', '▒', 'still a guess']];

const legend = () => h('ul', { class: 'sd-legend', 'aria-label': 'Legend' }, ...LEGEND.map(([kind, glyph, words]) =>
  h('li', {}, h('span', { class: `sd-t sd-t-${kind}`, 'aria-hidden': 'true' }, glyph), ` ${words}`)));

/**
 * Fill `root`.
 * @param {HTMLElement} root
 * @param {object} options
 * @param {string} options.plotly address of the library
 * @param {{title: string, url: string}[]} options.recordings
 * @param {number} options.crowded @param {string} options.prefix @param {Set<string>} options.noSteps @param {string} options.empty what to say before there is a race
 * @param {import('./bar.js').Actions & {round: (round: number) => void, select: (name: string) => void, replay: (url: string) => void, quietly: () => void, redraw: () => void, wake: () => void}} actions
 */
export function layOut(root, { plotly, recordings, crowded, prefix, noSteps, empty: words }, actions) {
  const lanes = new LanesView({ ...actions, prefix, noSteps });
  const window = new WindowView();
  const rounds = new RoundsView(window.rounds, actions.round);
  const score = new ScoreView({ crowded, prefix, quietly: actions.quietly });
  const source = new SourceView(recordings, actions.replay);
  const [card, status, bar] = [new CardView(prefix), new StatusView(), new BarView(actions)];
  const voice = h('div', { class: 'sd-voice', 'aria-live': 'polite' });
  const [tokens, tokensPanel] = chart('Tokens over decode time', 'a step for each round');
  const [acceptance, acceptancePanel] = chart('Acceptance by position', 'bars: run so far; ● accepted, ✕ refused, – draw u of this round');
  const [confidence, confidencePanel] = chart('Denoising confidence', 'largest probability, this round; at temperature 0 that of the softmax at 1');
  const charts = new Charts({ tokens, acceptance, confidence }, { tokens: tokensFigure, acceptance: acceptanceFigure, confidence: confidenceFigure }, plotly, actions.wake);
  const empty = h('p', { class: 'sd-panel sd-empty' }, words);
  lanes.element.append(legend());
  window.element.id = `${prefix}-panel`;
  const areas = { lanes: lanes.element, bar: bar.element, window: window.element, hero: score.hero, numbers: score.numbers, tokens: tokensPanel, acceptance: acceptancePanel, confidence: confidencePanel };
  for (const [area, element] of Object.entries(areas)) element.dataset.area = area;
  const main = h('div', { class: 'sd-main' }, score.hero, lanes.element, bar.element, window.element, score.numbers, tokensPanel, acceptancePanel, confidencePanel);
  root.append(card.element, source.lead, source.element, source.stale, status.element, empty, main, voice);
  return { lanes, window, rounds, score, source, card, status, bar, charts, voice, main };
}
