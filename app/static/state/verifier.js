// You are the verifier: the visitor accepts or rejects the drafted tokens of a round, one by one,
// before the rule's own verdict is shown. Pure.

import { TEST_KINDS } from './declared.js';
import { isGreedy, isOver } from './lane.js';
import { decisive, stateAt } from './progress.js';
import { inspected, isWalk } from './inspect.js';
import { story } from './story.js';
import { plural } from './format.js';
import { tailOf } from './blanks.js';
/** @import { Lane, Round } from './lane.js' */
/** @import { PartialRound } from './progress.js' */
/** @import { Word } from './story.js' */

const CONTEXT = 70; // characters of text shown before the token

/** Whether a round has a verdict on a draft. @param {Round} round */
const isTested = ({ verified }) => Boolean(verified?.tests.length);

/** Whether a lane has a verdict to judge. @param {Lane | null} lane */
export const isJudged = (lane) => Boolean(lane?.rounds.some(isTested));

/** The state at the first verdict from a round on; after the last, at the first of the lane, or, of
 *  a lane that is under way, at the last. @param {Lane} lane */
function verdictFrom(lane, from) {
  const tested = lane.rounds.filter(isTested);
  const { ends } = tested.find(({ round }) => round >= from) ??
    (isOver(lane) ? tested[0] : tested[tested.length - 1]);
  return stateAt(lane, ends.Verified);
}

export class Verifier {
  /** @param {Lane} lane in which something was tested @param {number} round to begin with */
  constructor(lane, round) {
    this.lane = lane;
    this.greedy = isGreedy(lane);
    this.state = verdictFrom(lane, round);
    this.at = 0; // of the positions that the rule tested
    /** @type {boolean | null} whether the visitor accepts the draft there; null: no answer yet */
    this.answer = null;
    this.judged = 0; // in all rounds
    this.agreed = 0;
  }

  /** The finished round. */
  get view() {
    return /** @type {PartialRound} */ (this.state.window);
  }

  /** The tests that decided, in order of their positions. */
  get tests() {
    return [...decisive(this.view.verified?.tests ?? []).values()].sort((a, b) =>
      a.position - b.position
    );
  }

  /** The test of the current position. */
  get test() {
    return this.tests[this.at];
  }

  /** The facts of the current position. */
  get what() {
    return inspected(this.view, this.test.position, this.greedy);
  }

  /** Changes with each question and each answer. */
  get key() {
    return [this.view.round, this.test.position, this.answer].join();
  }

  /** Whether the rule tests nothing further in this round. */
  get last() {
    return this.at === this.tests.length - 1;
  }

  /** The tokens to judge: in a tree, all that are drafted here. */
  get tokens() {
    return isWalk(this.test) ? this.what.options : [this.test.id];
  }

  /** The text before the token. */
  get before() {
    const { lane, state: { tokens: { length: first } } } = this;
    const text = lane.texts.slice(0, first + this.test.position).join('');
    return tailOf(`${lane.header?.prompt ?? ''}\n${text}`, CONTEXT);
  }

  /** The round with the visitor's judgements so far, without later results. */
  get judgedView() {
    const judged = this.answer === null ? this.test.position : this.test.position + 1;
    return { ...this.view, scored: null, committed: null, judged };
  }

  /** The time on the lane's clock when the draft is complete and not yet scored. */
  get time() {
    return this.lane.times[this.view.ends.DraftReady - 1];
  }

  judge(accept) {
    if (this.answer !== null) return;
    this.answer = accept;
    this.judged += 1;
    this.agreed += Number(accept === this.test.accepted);
  }

  /** Go on to the next token, or to the next round. Returns whether it is another round. */
  next() {
    if (this.answer === null) return false;
    const { last, lane, view } = this;
    this.at = last ? 0 : this.at + 1;
    this.answer = null;
    if (last) this.state = verdictFrom(lane, view.round + 1);
    return last;
  }

  get score() {
    return this.judged
      ? `You agreed with the rule on ${this.agreed} of ${plural(this.judged, 'token')}.`
      : '';
  }

  get question() {
    return this.greedy && !isWalk(this.test)
      ? 'Is this the target’s likeliest token?'
      : TEST_KINDS[this.test.kind].question;
  }

  /** How the visitor's answer compares with the rule's. */
  get agreement() {
    if (this.answer === this.test.accepted) return 'You agree with the rule.';
    return `You ${this.answer ? 'accepted' : 'rejected'}; the rule didn’t.`;
  }

  /** The rule's verdict in words. @param {Word} word */
  verdict(word) {
    return story(this.what, this.greedy, true, word);
  }

  /** The sentence that is read out. @param {Word} word */
  words(word) {
    return this.answer === null
      ? `Position ${this.test.position + 1}, ${this.tokens.map(word).join(', ')}. ${this.question}`
      : `${this.agreement} ${this.verdict(word)} ${this.score}`;
  }
}
