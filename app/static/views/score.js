// The speed-up and its numbers, each with symbol and unit. Measured, unless labelled as predicted.

import { classes, glossed, html, Link } from './ui.js';
import { numbers, outcome, sameText, verdict } from '../state/headline.js';
import { speedUpSoFar } from '../state/metrics.js';
import { dash } from '../state/format.js';
import { recordedWords } from '../state/predicted.js';
import { whySlow } from '../state/slow.js';
/** @import { PlayerOptions as Options } from '../tabs.d.ts' */
/** @import { Scene } from '../state/stage.js' */

/** @type {['tau' | 'alpha' | 'calls' | 'nfe', string, string, string][]} in the glossary */
const NUMBERS = [
  ['tau', 'τ', 'block efficiency', 'tokens/round'],
  ['alpha', 'α', 'acceptance rate', ''],
  ['calls', 'N', 'target passes', ''],
  ['nfe', 'NFE', 'drafter passes', 'passes'],
];
const PREDICTED = 'v and c are means over this race. Other costs of a round are left out, so the ' +
  'prediction is usually higher than the measured speed-up.';
const BUSY =
  'A pass ends when its last thread does. Threads that wait for a processor slow every ' +
  'pass, and the lane with more passes loses more. A single busy program can make the ' +
  'speed-up several times too large or too small.';
const ALONE =
  'A single thread never waits for other threads, so its clock can be trusted while other ' +
  'programs run';

/** @param {Scene} scene @param {Options['exactness']} exactness */
function comparison({ stage, lanes, states, clocks, selected }, exactness) {
  const pair = stage.pair(lanes, selected);
  const race = verdict(pair, stage.doubt(selected ?? ''), exactness);
  return { pair, states: stage.pair(states, selected), clocks: stage.pair(clocks, selected), race };
}

/** @param {{scene: Scene, source: string, options: Pick<Options, 'exactness' | 'measured' | 'noSteps'>,
 *  scrollToRound: (round: number) => void, runQuietly: () => void}} props */
export function Hero({ scene, source, options, scrollToRound, runQuietly }) {
  const { pair, states, clocks, race } = comparison(scene, options.exactness);
  const baseline = scene.selected === scene.baseline && scene.names.length > 1;
  const alone = baseline &&
    !scene.names.some((name) => name !== scene.baseline && scene.lanes[name]?.texts.length);
  const [speed, words, slower = false] = alone && !scene.growing
    ? [dash, 'only vanilla ran, so there is nothing to compare']
    : outcome(
      pair,
      clocks,
      race,
      baseline,
      source,
      scene.names.length > 1 ? scene.absent : 'no drafter: only vanilla ran',
    );
  const soFar = speedUpSoFar(clocks.drafted, clocks.vanilla);
  const end = Math.max(2, Math.ceil((race.final ?? 0) * 1.25));
  const name = scene.names.length > 2 ? scene.named[scene.selected ?? '']?.label : '';
  const { drafted, vanilla } = pair;
  const denoises = !options.noSteps.includes(String(drafted?.header?.config.drafter));
  const recorded = drafted?.header && vanilla &&
    recordedWords(options.measured, drafted.header, denoises);
  const over = clocks.drafted?.done && clocks.vanilla?.done && race.trusted;
  const slow = over && whySlow(drafted, vanilla);
  const kind = classes(race.lossy && 'sd-hero-lossy', !race.trusted && 'sd-hero-crowded');
  const share = (value) => `${Math.min(100, (100 * value) / end).toFixed(2)}%`;
  const sizes = { '--one': share(1), '--far': share(soFar ?? 0) };
  const scale = race.final !== null && race.trusted && !baseline && html`
    <div class="sd-hero-scale" aria-hidden="true" style=${sizes}>
      <u class="sd-hero-one" title="vanilla: 1×"></u></div>
  `;
  return html`
    <section class="sd-panel sd-hero ${kind}" aria-label="Speed-up" data-area="hero"
      data-hide="presenting">
        <h2 class="sd-hero-name">${name}</h2>
        <div class="sd-hero-big"><span class="sd-hero-speed" data-known=${String(speed !== dash)}
          data-slower=${String(slower)}>${speed}</span><span class="sd-hero-words">${slower && html`
            <b>Slower:</b>
          `}${words}</span></div>
        ${scale}
        ${recorded &&
          html`<p class="sd-hero-typical" title=${recorded.about}>${recorded.words}</p>`}
        ${slow && html`
          <p
            class="sd-hero-why"><b>${slow.question}</b> ${slow.words} <${Link} act=${() =>
              scrollToRound(slow.round)}>See round ${slow.round + 1}<//></p>
        `}
        <p class="sd-hero-same">${sameText(pair, states, clocks)}</p>
        <p class="sd-hero-claim">${!alone && race.claim}</p>
        <p class="sd-busy-machine" role="status" title=${BUSY}>${race.busy}</p>
        ${!race.trusted &&
          html`<${Link} act=${runQuietly} data-hide="seated" title=${race.alone ? null : ALONE}>${
            race.alone ? 'Measure again' : 'Measure again on one thread'
          }<//>`}
      </section>
  `;
}

/** @param {{scene: Scene, exactness: Options['exactness']}} props */
export function Numbers({ scene, exactness }) {
  const { pair, states, race } = comparison(scene, exactness);
  const values = numbers(pair, states);
  const row = (/** @type {typeof NUMBERS[0]} */ [key, symbol, name, unit]) =>
    html`
      <div tabindex="0" data-symbol=${symbol}>
        <dt><b class="sd-numbers-symbol">${symbol}</b> ${name}</dt>
        <dd>${values[key]} <small>${key === 'calls' ? values.against : unit}</small></dd>
      </div>
    `;
  return html`
    <section class="sd-panel sd-score" aria-label="Numbers" data-area="numbers" data-hide="presenting">
      <dl class="sd-numbers">${NUMBERS.map(row)}</dl>
      <p class="sd-numbers-predicted" title=${PREDICTED}>${glossed(race.predicted)}</p>
    </section>
  `;
}
