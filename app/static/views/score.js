// Speed-up and the numbers behind it, each with symbol and unit. Measured unless it says predicted.
// @ts-check

import { attribute, h, text } from './dom.js';
import { gloss } from './glossary.js';
import { alpha, firstDifference, pace, predicted, speedUp, tau, waiting } from '../state/metrics.js';
import { isServed } from '../state/lane.js';
import { busyWords, dash, percent, plural, quotedWords, rate, ratio, seconds, times } from '../state/format.js';
/** @import { Lane, State } from '../state/lane.js' */

/** @typedef {{seconds: number, rate: number | null, done: boolean}} Clock */
/** @template T @typedef {{drafted: T | null, vanilla: T | null}} Pair the selected lane, and the baseline */

/** @type {[string, string, string, string][]} the glossary says what a symbol means */
const NUMBERS = [
  ['tau', 'τ', 'block efficiency', 'tokens/round'],
  ['alpha', 'α', 'acceptance rate', ''],
  ['calls', 'N', 'target passes', ''],
  ['nfe', 'NFE', 'drafter passes', 'passes'],
];

const PREDICTED = 'v and c are means of this race. What else a round costs is left out, so it is usually more than was measured.';

/** @type {Record<string, string>} what a run claims about its text, by how exact it is */
const CLAIMS = {
  bitwise: '✓ Lossless, bit for bit: every probability of the target is the very number that vanilla decoding computes.',
  rounding: '✓ Lossless rule: the text follows the target’s own distribution. Sums may round differently from vanilla’s, in the last digits.',
  biased: '⚠ lossless: false. With several steps this rule can change the distribution of the text; it is here to be studied.',
  unchecked: '○ Not checked: another server wrote this text, by rules of its own.',
  '': '✓ Lossless rule: the text follows the target’s own distribution.',
};
const BUSY = 'A pass ends when its last thread does, so threads that wait for a processor slow every pass, and the lane with more '
  + 'passes loses more: beside one busy program the speed-up can be several times off.';

export class ScoreView {
  /**
   * @param {{crowded: number, quietly: () => void}} options `crowded`: threads waiting for a processor, on average, from
   *   which a time cannot be trusted; `quietly` measures again on one thread
   */
  constructor({ crowded, quietly }) {
    this.crowded = crowded;
    this.name = h('h2', { class: 'sd-hero-name' });
    this.speed = h('span', { class: 'sd-speed' }, dash);
    this.words = h('span', { class: 'sd-speed-words' });
    this.needle = h('i', { class: 'sd-needle' });
    this.far = h('span', { class: 'sd-far' });
    this.scale = h('div', { class: 'sd-scale', 'aria-hidden': 'true' }, h('u', { class: 'sd-scale-one', title: 'vanilla: 1×' }), this.needle);
    this.same = h('p', { class: 'sd-same' });
    this.claim = h('p', { class: 'sd-law' });
    this.busy = h('p', { class: 'sd-busy-machine', role: 'status', title: BUSY });
    this.again = h('button', { type: 'button', class: 'sd-link sd-quietly', hidden: true, onclick: quietly, title: 'One thread does not wait for another: the clock can be trusted beside other programs' }, 'Measure again on one thread');
    this.hero = h('section', { class: 'sd-panel sd-hero', 'aria-label': 'Speed-up' },
      this.name, h('div', { class: 'sd-big' }, this.speed, this.words), h('div', { class: 'sd-gauge' }, this.scale, this.far), this.same, this.claim, this.busy, this.again);
    /** @type {Record<string, HTMLElement>} */
    this.values = {};
    /** @type {Record<string, HTMLElement>} */
    this.units = {};
    const list = h('dl', { class: 'sd-numbers' });
    for (const [key, symbol, name, unit] of NUMBERS) {
      this.values[key] = h('span', {}, dash);
      this.units[key] = h('small', {}, unit);
      list.append(h('div', { tabindex: '0', 'data-symbol': symbol },
        h('dt', {}, h('b', { class: 'sd-symbol' }, symbol), ` ${name}`), h('dd', {}, this.values[key], ' ', this.units[key])));
    }
    this.predicted = h('p', { class: 'sd-predicted', title: PREDICTED });
    this.numbers = h('section', { class: 'sd-panel sd-score', 'aria-label': 'Numbers' }, list, this.predicted);
    /** @type {Pair<Lane>} */
    this.lanes = { drafted: null, vanilla: null };
    this.trusted = true;
    /** @type {number | null} */
    this.final = null;
  }

  /** @param {Pair<Lane>} lanes @param {string} name of the selected lane, where there is a choice @param {Record<string, string>} short lane names */
  reset(lanes, name, short) {
    this.lanes = lanes;
    const { drafted, vanilla } = lanes;
    const header = (drafted || vanilla)?.header;
    const lossless = header ? header.lossless : true;
    text(this.name, name);
    this.hero.classList.toggle('sd-lossy', !lossless && header?.exactness !== 'unchecked');
    const told = drafted && isServed(drafted) && drafted.finished ? ` It says itself: ${quotedWords(drafted.finished.quoted)}.` : '';
    text(this.claim, !header ? '' : (CLAIMS[header.exactness || ''] || CLAIMS[lossless ? '' : 'biased']) + told);
    text(this.again, header?.threads === 1 ? 'Measure again' : 'Measure again on one thread');
    const compared = drafted && vanilla && drafted.finished && vanilla.finished;
    /** @type {[string, number | null][]} */
    const waits = [[short.drafted, waiting(drafted)], [short.vanilla, waiting(vanilla)]];
    this.trusted = !(compared && waits.some(([, wait]) => (wait ?? 0) >= this.crowded));
    this.hero.classList.toggle('sd-crowded', !this.trusted);
    text(this.busy, this.trusted ? '' : busyWords(waits));
    this.again.hidden = this.trusted;
    this.final = compared ? speedUp(pace(drafted), pace(vanilla)) : null;
    const guess = this.trusted ? predicted(drafted, vanilla) : null;
    text(this.predicted, guess ? `Predicted, not measured: τ / (v + c·NFE/round) = ${times(guess.value)} with v = ${ratio(guess.verify)}, c = ${ratio(guess.cost)}: what a verifying pass and a drafter pass cost here, in vanilla passes.` : '');
    gloss(this.predicted);
  }

  /** Nothing of the race before stays while another is measured. */
  blank() {
    this.reset({ drafted: null, vanilla: null }, '', {});
    for (const element of [this.speed, ...Object.values(this.values)]) text(element, dash);
    text(this.words, 'speed-up, when all lanes are measured');
    for (const element of [this.same, this.far]) text(element, '');
    text(this.units.calls, '');
    this.scale.hidden = true;
  }

  /** @param {Pair<State>} states @param {Pair<Clock>} clocks @param {boolean} baseline whether the selected lane is the baseline */
  draw(states, clocks, baseline) {
    const { drafted, vanilla } = states;
    const sums = drafted ? drafted.sums : null;
    this.headline(clocks, baseline);
    text(this.same, this.sameText(states, clocks));
    text(this.values.tau, drafted ? ratio(tau(drafted)) : dash);
    text(this.values.alpha, drafted ? percent(alpha(drafted)) : dash);
    const served = isServed(this.lanes.drafted); // its passes are its own affair
    text(this.values.calls, served ? dash : `${(sums || vanilla?.sums)?.calls ?? dash}`);
    text(this.units.calls, sums && vanilla && !served ? `vs ${vanilla.sums.calls}` : '');
    text(this.values.nfe, sums && !served ? String(sums.nfe) : dash);
  }

  /** The final speed-up, large and fixed; what it is so far, as a needle. @param {Pair<Clock>} clocks @param {boolean} baseline */
  headline(clocks, baseline) {
    const { final, trusted } = this;
    const far = speedUp(clocks.drafted, clocks.vanilla);
    const running = !(clocks.drafted?.done && clocks.vanilla?.done);
    const [speed, words] = this.outcome(far, baseline);
    text(this.speed, speed);
    text(this.words, words);
    text(this.far, trusted && running && far !== null && final !== null ? `so far ${times(far)}` : '');
    this.scale.hidden = final === null || !trusted || baseline;
    if (final === null || this.scale.hidden) return;
    const end = Math.max(2, Math.ceil(final * 1.25));
    this.scale.style.setProperty('--one', `${100 / end}%`);
    this.scale.style.setProperty('--final', `${(100 * final) / end}%`);
    this.needle.style.left = `${Math.min(100, (100 * (far ?? 0)) / end).toFixed(2)}%`;
    attribute(this.needle, 'data-running', String(running));
  }

  /** The large number, and what it is. Seconds compare only where both lanes have as many tokens; otherwise it is a ratio of tokens per second. @param {number | null} far the speed-up so far @param {boolean} baseline */
  outcome(far, baseline) {
    const { final, lanes: { drafted, vanilla } } = this;
    if (baseline) return ['1.00×', 'the baseline: every speed-up of this race is over its tokens per second'];
    if (!drafted) return [dash, 'no drafter: only vanilla ran'];
    if (!this.trusted && vanilla) return [`${drafted.rounds.length} : ${vanilla.rounds.length}`, 'target passes, instead of vanilla’s: counted, because the clock was disturbed'];
    if (isServed(drafted) && final !== null) return [times(final), `vanilla’s tokens per second: of another system, with the network between, ${rate(pace(drafted).rate)} against ${rate(pace(/** @type {Lane} */ (vanilla)).rate)}`];
    if (final === null || !vanilla) return [times(far), far === null ? 'speed-up, when both lanes have tokens' : 'vanilla’s tokens per second, so far'];
    if (drafted.shown.length === vanilla.shown.length) return [times(final), `as fast as vanilla, measured: ${seconds(drafted.duration)} s against ${seconds(vanilla.duration)} s`];
    const cut = [drafted, vanilla].some((lane) => lane.finished?.reason === 'stopped');
    return [times(final), `vanilla’s tokens per second, measured${cut ? ' on the part that ran' : ''}: ${rate(pace(drafted).rate)} against ${rate(pace(vanilla).rate)}`];
  }

  /** Whether both lanes write the same. @param {Pair<State>} states @param {Pair<Clock>} clocks @returns {string} */
  sameText({ drafted, vanilla }, clocks) {
    const [one, other] = [drafted, vanilla].map((state) => (state ? state.tokens.map((token) => token.id) : []));
    const length = Math.min(one.length, other.length);
    if (!length) return '';
    if (isServed(this.lanes.drafted)) return 'Its tokens are the server’s own, so they are not held against vanilla’s.';
    const first = firstDifference(one.slice(0, length), other.slice(0, length));
    const over = clocks.drafted?.done && clocks.vanilla?.done && one.length === other.length;
    if (first < 0) return `= The same ${over ? '' : 'first '}${length} tokens in both lanes.`;
    const header = this.lanes.drafted?.header;
    const drawn = header && Number(header.config.temperature) > 0 && header.config.rule !== 'match';
    return `≠ ${drawn ? 'Another draw: the' : 'The'} texts part at token ${first + 1}.`;
  }
}

/**
 * What happened, in one sentence for people, with the measured number in it.
 * @param {Lane | null} drafted @param {Lane | null} vanilla @param {string} who drafts @param {boolean} how whether to say how that works @param {boolean} trusted whether the clock is
 */
export function leadWords(drafted, vanilla, who, how, trusted) {
  if (!drafted || !vanilla || !drafted.finished || !vanilla.finished || !vanilla.shown.length) return '';
  if (isServed(drafted)) return `${who} wrote ${plural(drafted.shown.length, 'token')} in ${seconds(drafted.duration)} s, measured here with the network between. Of itself it says: ${quotedWords(drafted.finished.quoted)}.`;
  const same = firstDifference(drafted.ids, vanilla.ids) < 0;
  const speed = speedUp(pace(drafted), pace(vanilla));
  const fast = trusted && speed !== null ? `, ${times(speed)} as fast` : '';
  const equal = drafted.shown.length === vanilla.shown.length;
  const ahead = Math.max(0, ...drafted.rounds.map((round) => round.drafted));
  const works = how ? ` guesses up to ${plural(ahead, 'token')} ahead, and the target model checks them in one pass` : '';
  return `${who}${works}: ${equal && same ? 'the same ' : ''}${plural(drafted.shown.length, 'token')} in ${plural(drafted.rounds.length, how ? 'pass' : 'target pass')}${equal ? ` instead of ${vanilla.rounds.length}` : ''}${fast}.`;
}
