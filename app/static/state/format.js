// Numbers and sentences. Pure: strings in, strings out; never markup.

import { CONTROL, END, SAMPLING, TEST_KINDS } from './declared.js';
/** @import { Quoted, Test } from './events.d.ts' */
/** @import { Token } from './progress.js' */

export const dash = '–';

/** A measured time in seconds, without the unit. */
export const seconds = (value) => value < 9.995 ? value.toFixed(3) : value.toFixed(2);

/** A short measured time, with its unit. @param {number} value seconds */
export function milliseconds(value) {
  const ms = value * 1000;
  return `${ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

/** An estimated time, rounded up to tens of seconds or to minutes. @param {number} value seconds */
export const roughly = (value) =>
  value < 90
    ? plural(10 * Math.max(1, Math.ceil(value / 10)), 'second')
    : plural(Math.ceil(value / 60), 'minute');

export function rate(value) {
  if (value === null) return dash;
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

export const times = (value) => value === null ? dash : `${value.toFixed(2)}×`;
/** -1, 0 or 1: slower, as fast or faster, as its two digits say. @param {number} value */
export const gain = (value) => Math.sign(Math.round(100 * value) - 100);
/** A speed-up with its direction. */
export const speedWords = (value) =>
  [`slower: ${times(value)}`, 'as fast as vanilla', `faster: ${times(value)}`][gain(value) + 1];
export const percent = (value, digits = 1) =>
  value === null ? dash : `${(100 * value).toFixed(digits)} %`;
export const ratio = (value, digits = 2) =>
  value === null || value === undefined ? dash : value.toFixed(digits);

/** A probability with all the digits the trace holds. */
export const exact = (value) =>
  value === null || value === undefined ? dash : String(Number(value.toPrecision(7)));

/** A probability where there is little room: .07, 0, 1. */
export const short = (value) =>
  value >= 0.9995 ? '1' : value < 0.0005 ? '0' : value.toFixed(2).replace(/^0/, '');

/** @param {number} slow wall seconds per decode second */
export function slowWords(slow) {
  if (slow === 1) return 'Real time';
  return slow > 1 ? `Slowed ${slow}×` : `Sped up ${Number((1 / slow).toPrecision(2))}×`;
}

export const plural = (count, word) =>
  `${count} ${word}${count === 1 ? '' : word.endsWith('s') ? 'es' : 's'}`;

/** A place in the queue in words.
 *  @param {{number: number, waiting: number, left: number | null}} place
 *  `left`: seconds until the run is done, estimated from this server's earlier runs */
export function queueWords({ number, waiting, left }) {
  const estimate = left === null
    ? ''
    : `; done in about ${roughly(left)}, an estimate from earlier runs here`;
  return `Yours is number ${number} of ${waiting} in the queue${estimate}.`;
}

/** A token in a cell: spaces and line ends become visible marks. */
export function cell(piece) {
  const marked = piece.replace(/\r?\n/g, '↵').replace(/\t/g, '⇥');
  if (/^ +$/.test(marked)) return '␣'.repeat(Math.min(4, marked.length));
  return marked.replace(/^ /, '');
}

/** A token inside a sentence. */
export function quoted(piece) {
  if (piece === END) return 'the end of the text';
  return piece === CONTROL ? 'a control token' : `“${cell(piece).slice(0, 32)}”`;
}

/** A warning that threads had to wait for a processor. @param {string} what cannot be trusted
 *  @param {string} waits where, and how many threads on average */
export const busyWords = (what, waits) =>
  `⚠ Busy machine: other programs were using the processor, so ${what} may be many times too ` +
  `large or too small. Threads that had to wait, on average${waits}. On a quiet machine it is 0.`;

/** Origins of tokens, as the legend shows them. */
export const LEGEND = {
  draft: { glyph: '✓', words: 'accepted draft' },
  residual: { glyph: '↻', words: 'corrected by the target' },
  bonus: { glyph: '+', words: 'bonus token' },
  guess: { glyph: '▒', words: 'still a guess' },
};
/** @type {Record<string, {glyph: string, words: string}>} */
export const SOURCES = { ...LEGEND, target: { glyph: '↻', words: 'the target’s own token' } };

/** Why a run ended. */
export const reasonWords = (reason) =>
  reason === 'length' ? 'length reached' : reason.replaceAll('_', ' ');

/** The settings of a run in a few words, `block · γ 8 · T 4 · ratio`: the drafter, its settings as
 *  specdiff_core/schema/wording.py words them (a test compares the two), and the rule.
 *  @param {Record<string, any>} config
 *  @param {string[]} noSteps drafters without denoising steps
 *  @param {Record<string, string>} [labels] what drafters are called */
export function settingsWords(config, noSteps, labels = {}) {
  const { drafter, gamma, steps, rule, auto, tree_nodes: nodes, num_drafts: drafts, selection } =
    config;
  if (drafter === 'none') return 'one target pass per token';
  const most = auto ? '≤ ' : '';
  const how = nodes
    ? [`B ${most}${nodes}`]
    : drafts > 1
    ? [`K ${drafts} ${selection}`.replace('_', '-')]
    : noSteps.includes(drafter) || (auto && steps === 1)
    ? []
    : [`T ${most}${steps}`];
  const test = rule === SAMPLING.rule || !config.temperature ? [] : [rule];
  const name = labels[drafter] ?? drafter;
  return [name, `γ ${most}${gamma}`, ...how, ...(auto ? ['auto'] : []), ...test].join(' · ');
}

/** Title of a token of the text. @param {Token} token */
export function tokenTitle(token, vanilla, greedy) {
  if (token.source === 'server') return `piece ${token.round + 1} of the server’s stream`;
  if (vanilla) return `pass ${token.round + 1} of the target`;
  const source = SOURCES[token.source] || { words: token.source };
  const where = `round ${token.round + 1}: ${source.words}`;
  return token.test && token.source === 'draft'
    ? `${where}; ${testWords(token.test, greedy)}`
    : where;
}

/** A test in the words of its kind. @param {Test} test @param {(value: number) => string} number */
function filled(words, test, number) {
  const outcome = TEST_KINDS[test.kind].outcomes[test.accepted ? 0 : 1];
  return words.replace(
    /\{(\w+)\}/g,
    (_, name) => name === 'outcome' ? outcome : number(test[name]),
  );
}

/** The numbers of one test. At temperature 0 nothing is drawn. @param {Test} test */
export function testWords(test, greedy) {
  const { words, passed, walks } = TEST_KINDS[test.kind];
  if (greedy && !walks) {
    return 'at temperature 0 the target takes its likeliest token, which is ' +
      `${test.accepted ? 'the same' : 'a different one'}`;
  }
  return filled(passed && test.draw === null ? passed[0] : words, test, exact);
}

/** The numbers of one test, short. @param {Test} test */
export function testFigures(test, greedy) {
  const { short: words, passed } = TEST_KINDS[test.kind];
  if (greedy) return test.accepted ? 'same' : 'differs';
  return filled(passed && test.draw === null ? passed[1] : words, test, short);
}

/** τ as an attached server reports it; '' if it does not. @param {Quoted | null} quoted */
export const quotedTau = (quoted) =>
  quoted && quoted.steps && quoted.accepted !== null
    ? `τ ${ratio(1 + quoted.accepted / quoted.steps)}`
    : '';

/** An attached server's report on its own speculation. @param {Quoted | null} quoted */
export function quotedWords(quoted) {
  if (!quoted) return 'nothing about its drafts';
  const { drafted, accepted, tokens_per_second: pace, drafts, by_position = [] } = quoted;
  const parts = [
    ...(quotedTau(quoted) ? [quotedTau(quoted)] : []),
    ...(drafted !== null && accepted !== null
      ? [`${accepted} of ${plural(drafted, 'drafted token')} accepted`]
      : []),
    ...(drafts && by_position.length
      ? [
        `accepted at positions 1–${by_position.length}: ` +
        by_position.map((count) => percent(count / drafts, 0)).join(' '),
      ]
      : []),
    ...(pace !== null ? [`${rate(pace)} tokens/s by its own clock`] : []),
  ];
  return parts.join(', ') || 'nothing about its drafts';
}
