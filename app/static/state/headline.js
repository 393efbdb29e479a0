// The result of a race in words and one number: measured, and not shown before its replay. Pure.

import { ENOUGH, SAME_TEXT } from './declared.js';
import {
  alpha,
  firstDifference,
  pace,
  passesOf,
  predicted,
  speedUp,
  speedUpSoFar,
  tau,
} from './metrics.js';
import { complete } from './race.js';
import { dash, gain, percent, plural, quotedWords, rate, ratio, seconds, times } from './format.js';
import { isServed } from './lane.js';
/** @import { Lane } from './lane.js' */
/** @import { State } from './progress.js' */
/** @import { Clock } from './metrics.js' */
/** @import { Pair } from './stage.js' */
/** @import { RunStarted } from './events.d.ts' */

/** Whether a lane ended by itself with a text, or was stopped when it had enough of one: Stop ends
 *  all lanes at one moment. @param {Lane} lane */
const comparable = (lane) =>
  Boolean(lane.finished) && lane.texts.length >= (complete(lane) ? 1 : ENOUGH);

/** Whether a run makes draws of its own, so that its text may differ from vanilla's.
 *  @param {RunStarted | null | undefined} header */
const draws = (header) =>
  Boolean(
    header && Number(header.config.temperature) > 0 && !SAME_TEXT.includes(header.config.rule),
  );

/** Facts of a whole race, wherever the playhead is. @param {Pair<Lane>} lanes
 *  @param {string} doubt why the clock cannot be trusted, if so
 *  @param {Record<string, string>} claims about a text, by the exactness of its run */
export function verdict({ drafted, vanilla }, doubt, claims) {
  const header = (drafted || vanilla)?.header;
  const exactness = header?.exactness ?? '';
  const lossy = Boolean(header && !header.lossless && exactness !== 'unchecked');
  const reports = drafted && isServed(drafted) && drafted.finished
    ? ` It reports: ${quotedWords(drafted.finished.quoted)}.`
    : '';
  const wrote = (drafted || vanilla)?.texts.length; // else it makes no claim
  const compared = drafted && vanilla && comparable(drafted) && comparable(vanilla);
  const trusted = !(compared && doubt);
  const stopped = compared && !(complete(drafted) && complete(vanilla));
  const claim = lossy ? 'biased' : exactness === 'bitwise' && draws(header) ? '' : exactness;
  const cost = trusted ? predicted(drafted, vanilla) : null;
  return {
    claim: header && wrote ? (claims[claim] ?? claims['']) + reports : '',
    lossy,
    alone: header?.threads === 1, // whether it ran on one thread
    trusted,
    busy: trusted ? '' : doubt,
    final: compared ? speedUp(pace(drafted), pace(vanilla)) : null,
    predicted: cost
      ? `By the passes alone, ${
        stopped ? 'up to the stop' : 'for the whole run'
      }: τ / (v + c·NFE/round) = ${ratio(cost.tau)} ` +
        `/ (${ratio(cost.verify)} + ${ratio(cost.cost)}·${ratio(cost.passes)}) = ` +
        `${times(cost.value)}. v and c are the costs of a verifying pass and of a drafter pass ` +
        'in these runs, in vanilla passes.'
      : '',
  };
}

/**
 * The large number and its label. Seconds are compared only if both lanes have equally many tokens;
 * otherwise it is a ratio of tokens per second.
 * @param {Pair<Lane>} lanes @param {Pair<Clock>} clocks @param {ReturnType<typeof verdict>} race
 * @param {boolean} baseline whether the selected lane is the baseline
 * @param {string} source of the race, as the stage names it
 * @param {string} absent what is said of a drafted lane without events
 * @returns {[number: string, words: string, slower?: boolean]}
 */
export function outcome({ drafted, vanilla }, clocks, race, baseline, source, absent) {
  const { final, trusted } = race;
  if (baseline && !vanilla?.texts.length) return [dash, 'nothing was measured'];
  if (baseline) {
    return [
      '1.00×',
      'the baseline: every speed-up in this race compares with its tokens per second',
    ];
  }
  if (!drafted) return [dash, absent];
  const over = clocks.drafted?.done && clocks.vanilla?.done;
  if (!trusted && vanilla) {
    return over
      ? disturbed(drafted, vanilla)
      : [dash, 'target passes are counted at the end, because the clock was disturbed'];
  }
  if (final === null || !vanilla || !over) {
    const soFar = speedUpSoFar(clocks.drafted, clocks.vanilla);
    if (soFar !== null) {
      return [times(soFar), 'vanilla’s tokens per second, so far', gain(soFar) < 0];
    }
    return [
      dash,
      source === 'stopped' && over
        ? 'stopped too early for a speed-up'
        : `the speed-up appears when both lanes have ${ENOUGH} tokens, or at the end`,
    ];
  }
  const [paces, clock] = [
    [drafted, vanilla].map((lane) => rate(pace(lane).rate)).join(' against '),
    [drafted, vanilla].map((lane) => `${seconds(lane.duration)} s`).join(' against '),
  ];
  const how = source === 'recording' ? 'in this recording' : 'measured';
  const stopped = !complete(drafted) || !complete(vanilla);
  const words = stopped
    ? `vanilla’s tokens per second after ${seconds(drafted.duration)} s, stopped: ${paces}`
    : isServed(drafted)
    ? `vanilla’s tokens per second, from another system over the network: ${paces}`
    : drafted.texts.length === vanilla.texts.length
    ? `vanilla’s speed, ${how}: ${clock}`
    : `vanilla’s tokens per second, ${how}: ${paces}`;
  return [times(final), words, gain(final) < 0];
}

/** The counts shown if the clock was disturbed: all passes, and whether the lane was slower.
 *  @param {Lane} drafted @param {Lane} vanilla @returns {[number: string, words: string]} */
function disturbed(drafted, vanilla) {
  const passes = passesOf(drafted);
  const paces = [pace(drafted), pace(vanilla)];
  const slower = paces[0].rate < paces[1].rate
    ? ` The drafted lane was slower, on a disturbed clock: ${
      paces.map((one) => rate(one.rate)).join(' against ')
    }.`
    : '';
  return [
    plural(passes.target, 'pass'),
    `of the target, where vanilla needs ${drafted.texts.length} for as many tokens, plus ` +
    `${
      plural(passes.drafter, 'drafter pass')
    }. Passes are counted because the clock was disturbed.` +
    slower,
  ];
}

/** A sentence on whether both lanes have written the same text so far. @param {Pair<Lane>} lanes
 *  @param {Pair<State>} states @param {Pair<Clock>} clocks */
export function sameText({ drafted: lane }, { drafted, vanilla }, clocks) {
  const [ids, baseIds] = [drafted, vanilla].map((state) =>
    state ? state.tokens.map((token) => token.id) : []
  );
  const length = Math.min(ids.length, baseIds.length);
  if (!length) return '';
  if (isServed(lane)) {
    return 'Its tokens are the server’s own, so they are not compared with vanilla’s.';
  }
  const first = firstDifference(ids.slice(0, length), baseIds.slice(0, length));
  const over = clocks.drafted?.done && clocks.vanilla?.done && ids.length === baseIds.length;
  if (first < 0) {
    return `= The same ${over ? '' : 'first '}${plural(length, 'token')} in both lanes.`;
  }
  return `≠ ${draws(lane?.header) ? 'Different draws: the' : 'The'} texts differ from token ${
    first + 1
  } on.`;
}

/** The numbers beside the speed-up. @param {Pair<Lane>} lanes @param {Pair<State>} states */
export function numbers({ drafted: lane }, { drafted, vanilla }) {
  const sums = drafted ? drafted.sums : null;
  const served = isServed(lane); // which does not report its passes
  return {
    tau: drafted ? ratio(tau(drafted)) : dash,
    alpha: drafted ? percent(alpha(drafted)) : dash,
    calls: served ? dash : String((sums || vanilla?.sums)?.calls ?? dash),
    nfe: sums && !served ? String(sums.nfe) : dash,
    against: sums && vanilla && !served ? `for ${plural(sums.committed, 'token')}` : '',
  };
}
