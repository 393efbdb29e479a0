// Sentences of the lessons with measured numbers: from the visitor's own runs and explorations,
// otherwise from a recording, always naming the source. Pure: strings out.

import { SAME_TEXT, TEST_KINDS } from './declared.js';
import { acceptance, sum } from './draws.js';
import { costAt } from './costs.js';
import { alpha, firstDifference, pace, predicted, speedUp, tau } from './metrics.js';
import { complete } from './race.js';
import { milliseconds, percent, plural, ratio, settingsWords, times } from './format.js';
import { stateAt } from './progress.js';
/** @import { Answer } from './exploration.js' */
/** @import { Lane } from './lane.js' */

/** @typedef {NonNullable<ReturnType<typeof runOf>>} Run a drafted lane against vanilla */
/** @typedef {{p: number[], q: number[], tokens: string[]}} Sliders of the widget “Three tokens” */

/** The distribution if the drafter's likeliest token is always proposed, tested with p/q. */
function pointMass(p, q) {
  const top = q.indexOf(Math.max(...q));
  const accepted = Math.min(1, p[top] / q[top]);
  const { residual } = acceptance(p, q);
  return p.map((_, i) => (i === top ? accepted : 0) + (1 - accepted) * (residual?.[i] ?? 0));
}

/** A drafted lane compared with vanilla, in numbers; null if one of them did not finish.
 *  @param {Lane | null} lane @param {Lane | null} vanilla
 *  @param {string[]} noSteps drafters without denoising steps
 *  @param {boolean} [quiet] whether no thread had to wait, so that its times are valid */
export function runOf(lane, vanilla, noSteps, quiet = true) {
  const { header } = lane ?? {};
  if (!lane || !header || !vanilla || !complete(lane) || !complete(vanilla)) return null;
  const config = /** @type {Record<string, any>} */ (header.config);
  const state = stateAt(lane, lane.events.length);
  const tests = lane.rounds.flatMap(({ verified }) => verified?.tests ?? []);
  const cost = predicted(lane, vanilla);
  return {
    config,
    quiet,
    prompt: header.prompt,
    words: settingsWords(config, noSteps),
    lossless: header.lossless,
    exactness: header.exactness,
    tokens: lane.ids.length,
    parted: firstDifference(vanilla.ids, lane.ids),
    tested: state.sums.tested,
    tau: tau(state),
    alpha: alpha(state),
    speedup: speedUp(pace(lane), pace(vanilla)),
    kinds: [...new Set(tests.map(({ kind }) => kind))],
    odds: sum(tests.map(({ threshold }) => threshold)) / tests.length,
    c: cost?.cost ?? null,
    v: cost?.verify ?? null,
    rows: 1 + (config.tree_nodes || config.gamma * config.num_drafts),
  };
}

const sampled = (/** @type {Run} */ { config }) => config.temperature > 0;
/** Whether two runs differ in one setting only. @param {Run} runA @param {Run} runB
 *  @param {string[]} free settings that may differ */
const alike = (runA, runB, free) =>
  runA !== runB && runA.prompt === runB.prompt &&
  Object.entries(runA.config).every(([name, value]) =>
    free.includes(name) || runB.config[name] === value
  );
/**
 * By lesson, functions that return a sentence, or '' if there is nothing to say: `run` on its check,
 * from a run of the visitor (`runs`: all of them); `watch` where the lesson points at an exploration,
 * from an answer to it that the visitor measured, by default the sentence of its report.
 * @type {Record<string, {run?: (run: Run, runs: Run[]) => string,
 *   watch?: (answer: Answer) => string}>}
 */
export const FINDINGS = {
  round: {
    run: ({ tokens, tau: perRound }) =>
      perRound
        ? `${plural(tokens, 'token')} in ${plural(Math.round(tokens / perRound), 'round')}: ` +
          `τ = ${ratio(perRound)}.`
        : '',
  },
  'one-pass': {
    run: ({ v, c, rows, quiet }) =>
      quiet && v && c !== null
        ? `the target’s pass over up to ${rows} rows cost v = ${ratio(v)}, and a drafter pass c ` +
          `= ${ratio(c)}. With c = 0 and nothing accepted that would be 1/v = ${times(1 / v)}.`
        : '',
    watch: ({ facts: { curve } }) => {
      const [oneRow, manyRows] = [costAt(curve, 1), costAt(curve, 17)];
      return `one row takes ${milliseconds(oneRow)} and 17 rows take ${milliseconds(manyRows)}: ` +
        `${ratio(manyRows / oneRow)} times as long.`;
    },
  },
  gamma: {
    run: (run, runs) => {
      const { quiet, config: { steps } } = run;
      if (!quiet || !run.v || run.c === null) return '';
      const [c, v] = [run.c, run.v].map((cost) => Number(ratio(cost))); // as they are shown
      const otherRun = runs.find((one) => alike(run, one, ['steps']));
      const many = steps > 2
        ? `, and T = ${steps} over one step by more than ${
          percent((v + c * steps) / (v + c) - 1, 0)
        }`
        : '';
      const apart = otherRun?.tau && run.tau
        ? ` With T = ${otherRun.config.steps} it was ${ratio(otherRun.tau)}.`
        : '';
      return `c = ${ratio(c)} and v = ${ratio(v)}, so two steps must raise τ by more than c/(v ` +
        `+ c) = ${percent(c / (v + c), 0)}${many}. At T = ${steps}, τ was ${
          ratio(run.tau)
        }.${apart}`;
    },
  },
  accept: {
    run: (run) => {
      const chance = run.kinds.length === 1 && TEST_KINDS[run.kinds[0]].bound;
      return sampled(run) && chance
        ? `${plural(run.tested, 'token')} were tested with ${chance}: ${percent(run.odds, 0)} on ` +
          `average, and ${percent(run.alpha)} of them were accepted.`
        : '';
    },
  },
  temperature: {
    run: ({ config: { temperature, draft_temperature: heat }, alpha: accepted, tested }) =>
      accepted === null
        ? ''
        : `the target’s temperature was ${temperature} and the drafter’s ${heat ?? temperature}; ` +
          `of ${plural(tested, 'tested token')} α = ${percent(accepted)} were accepted.`,
  },
  guesses: {
    run: ({ config, kinds, tested, odds, alpha: accepted, tau: perRound }) =>
      config.num_drafts > 1 && config.selection === 'self' && kinds.join() === 'delta'
        ? `at temperature ${config.temperature} each draft was the best of K = ` +
          `${config.num_drafts}, and all ${plural(tested, 'test')} treated it as a point mass: ` +
          `accept with probability p, ${percent(odds, 0)} on average. α = ${percent(accepted)} ` +
          `were accepted, τ = ${ratio(perRound)}.`
        : '',
  },
  lossless: {
    run: ({ config: { temperature, rule }, parted, tokens, lossless, exactness }) => {
      const same = parted < 0
        ? `all ${plural(tokens, 'token')} match vanilla’s`
        : `the text differs from vanilla’s from token ${parted + 1} on`;
      const why = temperature === 0
        ? (parted < 0
          ? ', as under any rule at temperature 0'
          : exactness === 'rounding'
          ? ': rounding decided a near tie'
          : '')
        : SAME_TEXT.includes(rule)
        ? (parted < 0 ? ', because both share their noise' : '')
        : parted < 0
        ? ', by chance'
        : ': each run makes its own draws';
      return `at temperature ${temperature} ${same}${why}. The mark “lossless: ${lossless}” ` +
        `comes from what is proved about the rule “${rule}”, not from this comparison.`;
    },
  },
};

const reported = (/** @type {Answer} */ { report }) => report.answer ?? '';

/** The visitor's own measurement for a lesson's panel; the lesson says what was recorded.
 *  @param {Answer} live @param {string} [busy] why its times can't be trusted, if so */
export function watched(lesson, live, busy = '') {
  const words = (FINDINGS[lesson]?.watch ?? reported)(live);
  const disturbed = busy && ', on a machine that other programs kept busy';
  return words && `Your measurement${disturbed}: ${words}`;
}

/** Sentences for the verdict of a lesson's check, from the visitor's latest run that has a number.
 *  @param {string} lesson @param {Run[]} runs of the visitor, the latest first
 *  @param {Sliders | null} [sliders] */
export function proven(lesson, runs, sliders = null) {
  const { run: ofRun } = FINDINGS[lesson] ?? {};
  const latest = runs.map((run) => ({ run, words: ofRun?.(run, runs) })).find(({ words }) => words);
  const disturbed = !latest && runs.some((run) => ofRun?.({ ...run, quiet: true }, runs));
  return [
    ...(sliders ? [sliderWords(sliders)] : []),
    ...(latest ? [`Your run (${latest.run.words}): ${latest.words}`] : []),
    ...(disturbed
      ? ['Other programs disturbed the clock of your run, so its times aren’t used.']
      : []),
  ];
}

/** @param {Sliders} sliders */
function sliderWords({ p, q, tokens }) {
  const list = (of) => tokens.map((token, i) => `${token} ${ratio(of[i])}`).join(', ');
  return 'The p and q on the sliders, computed: if the drafter always proposed ' +
    `“${tokens[q.indexOf(Math.max(...q))]}” and that were tested with p/q, the result would be ` +
    `${list(pointMass(p, q))}. It should be ${list(p)}.`;
}
