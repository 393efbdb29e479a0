// Why a drafted lane is slower than vanilla, or barely faster, from its costs. Pure.

import { gain, milliseconds, percent, plural, ratio } from './format.js';
import { isServed } from './lane.js';
import { stateAt } from './progress.js';
import { pace, passesOf, speedUp } from './metrics.js';
/** @import { Lane } from './lane.js' */

const BARELY = 1.1; // from this speed-up on no explanation is offered

/** Explain why a lane is slower than vanilla, or barely faster: find the cost that
 *  would save most time if it alone were removed. Null if the lane is faster, or not timed by this
 *  lab. `round`: a round that shows it.
 *  @param {Lane | null} drafted @param {Lane | null} vanilla
 *  @returns {{question: string, words: string, round: number} | null} */
export function whySlow(drafted, vanilla) {
  const speed = drafted && vanilla ? speedUp(pace(drafted), pace(vanilla)) : null;
  const [by, base] = [drafted?.finished?.seconds_by, vanilla?.finished?.seconds_by];
  if (!drafted || !vanilla || !by || !base || !speed || speed >= BARELY || isServed(drafted)) {
    return null;
  }
  const { rounds, duration } = drafted;
  const { sums } = stateAt(drafted, drafted.events.length);
  const pass = base.score / passesOf(vanilla).target;
  const share = (seconds) => percent(seconds / duration, 0);
  const passes = (seconds) => plural(Number(ratio(seconds / pass)), 'vanilla pass');
  const rows =
    Math.max(0, ...drafted.events.map((one) => one.kind === 'DraftReady' ? one.ids.length : 0)) + 1;
  /** The round with the longest draft or scoring. */
  const longest = (kind) =>
    drafted.events.reduce(
      (most, one) =>
        'span' in one && 'round' in one && one.kind === kind && one.span.seconds > most.seconds
          ? { seconds: one.span.seconds, round: one.round }
          : most,
      { seconds: 0, round: 0 },
    );
  /** Seconds saved if some rounds had written as much as the rest. @param {Lane['rounds']} lost */
  const wasted = (lost) => {
    const others = rounds.length - lost.length;
    const mean = others ? (sums.committed - lost.length) / others : rows;
    return (duration - by.prefill) * (1 - sums.committed / mean / rounds.length);
  };
  const copied = rounds.filter((round) => !round.drafted);
  const rejected = rounds.filter((round) => round.drafted && !round.accepted);
  const of = (count) => `${count} of ${plural(rounds.length, 'round')}`;
  // if neither lane had read a prompt
  const unread = ((duration - by.prefill) * vanilla.duration) / (vanilla.duration - base.prefill);
  const draft = longest('DraftReady');
  /** @type {[seconds: number, words: string, round: number][]} saved without it */
  const costs = [
    [
      by.draft,
      `Drafting takes ${share(by.draft)} of the time: ${plural(sums.nfe, 'drafter pass')}, ` +
      `each as long as ${passes(by.draft / sums.nfe)}; the longest draft took ` +
      `${milliseconds(draft.seconds)}.`,
      draft.round,
    ],
    [
      by.score - sums.calls * pass,
      `A verifying pass takes as long as ${passes(by.score / sums.calls)}: it reads up to ` +
      `${rows} tokens at once.`,
      longest('TargetScored').round,
    ],
    [
      wasted(rejected),
      `The target rejects the first drafted token in ${of(rejected.length)}; such a round costs ` +
      'a whole draft and yields one token.',
      rejected[0]?.round ?? 0,
    ],
    [
      wasted(copied),
      `Nothing is drafted in ${of(copied.length)}; such a round yields one token, as vanilla does.`,
      copied[0]?.round ?? 0,
    ],
    [
      duration - unread,
      `Reading the prompt takes ${share(by.prefill)} of the time, and ` +
      `${plural(sums.committed, 'token')} are too few to make up for it.`,
      rounds.length - 1,
    ],
  ];
  const [[, words, round]] = costs.sort(([a], [b]) => b - a);
  const question = ['Why slower?', 'Why not faster?', 'Why barely faster?'][gain(speed) + 1];
  return { question, words, round };
}
