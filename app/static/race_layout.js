// What stands where in the Race tab: makes the views of its player and places them. Knows no trace and no playhead.

import { CardView, SourceView, StatusView } from './draw_notes.js';
import { BarView } from './draw_bar.js';
import { Charts, acceptanceFigure, confidenceFigure } from './charts.js';
import { RaceList } from './draw_race.js';
import { RailView } from './draw_rail.js';
import { RoundsView } from './draw_rounds.js';
import { TextsView } from './draw_texts.js';
import { WindowView } from './draw_window.js';
import { chart, legend } from './layout.js';
import { h } from './dom.js';
import { raceFigure } from './race_chart.js';

/** Fill `root`. `select(name)` is called by whatever shows a lane, `all(on)` by the choice of texts. */
export function layOutRace(root, { plotly, crowded, prefix, jump, actions, wake, select, redraw }) {
  const list = new RaceList(select);
  const texts = new TextsView(jump, select, redraw);
  const window = new WindowView();
  const rounds = new RoundsView(window.rounds, jump);
  const [rail, source, card, status, bar] = [new RailView(crowded, prefix), new SourceView([], actions.replay, 'all lanes'), new CardView(prefix), new StatusView(), new BarView(actions)];
  const voice = h('div', { class: 'sd-voice', 'aria-live': 'polite' });
  const panel = h('div', { class: 'race-panel', id: 'race-panel', role: 'tabpanel', 'aria-label': 'Selected lane', tabindex: '-1' }, texts.element, window.element);
  const empty = h('div', { class: 'sd-panel race-empty' }, h('h2', {}, 'No race yet'),
    h('p', {}, 'Choose two to six methods and press Run race. They answer the same prompt with the same target model, one after the other, each on an undisturbed clock; then all lanes are replayed on one axis of decode time.'));
  const [tokens, tokensPanel] = chart('Tokens over decode time', 'a step for each round; labels at the lines’ ends');
  const [acceptance, acceptancePanel] = chart('Acceptance by position', 'selected lane; bars: run so far; ● accepted, ✕ refused, – draw u of this round');
  const [confidence, confidencePanel] = chart('Denoising confidence', 'selected lane, this round; at temperature 0 that of the softmax at 1');
  const charts = new Charts({ tokens, acceptance, confidence }, { tokens: (scene, c) => raceFigure(scene.race, c), acceptance: acceptanceFigure, confidence: confidenceFigure }, plotly, wake);
  source.element.append(legend());
  rail.element.prepend(h('h2', { class: 'race-chosen' }));
  root.classList.add('race');
  root.append(card.element, source.element, status.element, empty,
    h('div', { class: 'sd-main' },
      h('div', { class: 'sd-stage' }, list.element, panel),
      h('aside', { class: 'sd-rail' }, rail.element, tokensPanel),
      h('div', { class: 'sd-charts' }, acceptancePanel, confidencePanel)),
    bar.element, voice);
  return { list, texts, window, rounds, rail, source, card, status, bar, charts, voice, panel, chosen: rail.element.firstChild };
}
