// Speed-up and the numbers behind it, each with symbol, unit and definition. Measured unless it says predicted.

import { h, text } from './dom.js';
import { compare, predicted, speedup, waiting } from './fold.js';
import { busyWords, dash, percent, rate, ratio, seconds, times } from './words.js';

const NUMBERS = [
  ['tau', 'τ', 'block efficiency', 'tokens/round', 'Tokens committed per round, the target’s own token included: between 1 and γ + 1.'],
  ['alpha', 'α', 'acceptance rate', '', 'Accepted tokens divided by positions that the verifier reached.'],
  ['calls', 'N', 'target passes', '', 'Passes of the target model after the prompt was read: drafted lane, then vanilla lane.'],
  ['nfe', 'NFE', 'drafter passes', 'passes', 'Drafter passes (for a denoiser, denoising steps), all rounds together.'],
];

const PREDICTED = 'v: seconds of one verifying pass of the target over those of one vanilla pass. c: seconds of one drafter pass over those '
  + 'of one vanilla pass. Both are means of this race. What a round costs besides is left out, so it is a bound, not a result.';

const BUSY = 'A pass ends when its last thread does, so threads that wait for a processor slow every pass, and the lane with more '
  + 'passes loses more: beside one busy program the speed-up can be several times off.';

export class RailView {
  /**
   * @param {number} crowded threads waiting for a processor, on average, from which a time cannot be trusted
   * @param {string} prefix with which the ids of this player begin
   */
  constructor(crowded, prefix = 'sd') {
    this.crowded = crowded;
    this.busy = h('p', { class: 'sd-busy-machine', role: 'status', title: BUSY });
    this.speed = h('span', { class: 'sd-speed' }, dash);
    this.speedWords = h('span', { class: 'sd-speed-words' });
    this.law = h('p', { class: 'sd-law' });
    this.same = h('p', { class: 'sd-same' });
    this.values = {};
    this.units = {};
    const list = h('dl', { class: 'sd-numbers' });
    for (const [key, symbol, name, unit, definition] of NUMBERS) {
      this.values[key] = h('span', {}, dash);
      this.units[key] = h('small', {}, unit);
      const tip = h('span', { class: 'sd-tip', role: 'tooltip', id: `${prefix}-def-${key}` }, definition);
      list.append(h('div', { tabindex: '0', 'aria-describedby': `${prefix}-def-${key}` },
        h('dt', {}, h('b', { class: 'sd-symbol' }, symbol), ` ${name}`), h('dd', {}, this.values[key], ' ', this.units[key]), tip));
    }
    this.predicted = h('p', { class: 'sd-predicted', title: PREDICTED });
    this.element = h('section', { class: 'sd-panel sd-score', 'aria-label': 'Result' },
      h('div', { class: 'sd-big' }, this.speed, this.speedWords), this.busy, this.same, this.law, list, this.predicted);
  }

  /** @param {object} lanes {drafted, vanilla} @param {object} names what they are called, where that is something else */
  reset(lanes, names = {}) {
    this.lanes = lanes;
    const { drafted, vanilla } = lanes;
    const header = (drafted || vanilla || {}).header;
    const lossless = header ? header.lossless : true;
    this.element.classList.toggle('sd-lossy', !lossless);
    text(this.law, !header ? '' : lossless ? '✓ Lossless rule: the text follows the target’s own law.'
      : '⚠ lossless: false. With several steps this rule can change the law of the text; it is here to be studied.');
    const waits = Object.entries(lanes).map(([name, lane]) => [names[name] || name, waiting(lane)]).filter(([, wait]) => wait !== null);
    const compared = drafted && vanilla && drafted.finished && vanilla.finished;
    const busy = compared && waits.some(([, wait]) => wait >= this.crowded);
    this.element.classList.toggle('sd-crowded', Boolean(busy));
    text(this.busy, busy ? busyWords(waits) : '');
    const guess = busy ? null : predicted(drafted, vanilla);
    text(this.predicted, guess ? `Predicted, not measured: τ / (v + c·NFE/round) = ${times(guess.value)} with v = ${ratio(guess.verify)}, c = ${ratio(guess.cost)}: what a verifying pass and a drafter pass cost here, in vanilla passes.` : '');
  }

  /** No number of the race before stays while another is measured. */
  blank() {
    this.element.classList.remove('sd-crowded');
    for (const element of [this.speed, ...Object.values(this.values)]) text(element, dash);
    for (const element of [this.speedWords, this.busy, this.same, this.predicted]) text(element, '');
  }

  draw(states, clocks) {
    const { drafted, vanilla } = states;
    const { lanes } = this;
    const value = speedup(clocks.drafted, clocks.vanilla);
    const over = clocks.drafted && clocks.vanilla && clocks.drafted.done && clocks.vanilla.done;
    text(this.speed, times(value));
    text(this.speedWords, value === null ? 'speed-up, when both lanes have tokens'
      : over ? speedWords(states, clocks, lanes) : 'vanilla’s tokens per second, so far');
    this.sameText(drafted, vanilla, over, lanes);
    const sums = drafted ? drafted.sums : null;
    text(this.values.tau, sums && sums.rounds ? ratio(sums.committed / sums.rounds) : dash);
    text(this.values.alpha, sums && sums.tested ? percent(sums.accepted / sums.tested) : dash);
    text(this.values.calls, `${sums ? sums.calls : dash}`);
    text(this.units.calls, `vs ${vanilla ? vanilla.sums.calls : dash}`);
    text(this.values.nfe, sums ? String(sums.nfe) : dash);
  }

  sameText(drafted, vanilla, over, lanes) {
    if (!drafted || !vanilla) {
      text(this.same, '');
      return;
    }
    const ids = (state) => state.tokens.map((token) => token.id);
    const [one, other] = [ids(drafted), ids(vanilla)];
    const length = Math.min(one.length, other.length);
    const { first } = compare(one.slice(0, length), other.slice(0, length));
    const config = lanes.drafted.header ? lanes.drafted.header.config : {};
    if (!length) text(this.same, '');
    else if (first < 0 && over && one.length === other.length) text(this.same, `= The same ${length} tokens in both lanes.`);
    else if (first < 0) text(this.same, `= The same first ${length} tokens in both lanes.`);
    else if (config.temperature > 0 && config.rule !== 'match') text(this.same, `≠ Another draw${lanes.drafted.header.lossless ? ' from the same law' : ''}: the texts part at token ${first + 1}.`);
    else text(this.same, `≠ The texts part at token ${first + 1}.`);
  }
}

/** Seconds compare only where both lanes have as many tokens; otherwise the ratio is of tokens per second. */
function speedWords({ drafted, vanilla }, clocks, lanes) {
  if (drafted.tokens.length === vanilla.tokens.length) {
    return `as fast as vanilla, measured: ${seconds(clocks.drafted.seconds)} s against ${seconds(clocks.vanilla.seconds)} s`;
  }
  const cut = Object.values(lanes).some((lane) => lane && lane.finished && lane.finished.reason === 'stopped');
  return `vanilla’s tokens per second, measured${cut ? ' on the part that ran' : ''}: ${rate(clocks.drafted.rate)} against ${rate(clocks.vanilla.rate)}`;
}
