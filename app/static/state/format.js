// Numbers and sentences. Pure: strings in, strings out; never markup.

import { CONTROL, END, TEST_KINDS } from './declared.js';
/** @import { Decided, DraftReady, Quoted, Test, Verified } from './events.d.ts' */
/** @import { Token, PartialRound } from './lane.js' */

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
/** A speed-up with its direction. */
export const speedWords = (value) =>
  value < 1 ? `slower: ${times(value)}` : `faster: ${times(value)}`;
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
 *  @param {Set<string>} noSteps drafters without denoising steps
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
    : noSteps.has(drafter) || (auto && steps === 1)
    ? []
    : [`T ${most}${steps}`];
  const test = rule === 'ratio' ? [] : [rule];
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

/** A controller's decision for a round, and whether it cut the draft.
 *  @param {Decided} decided @param {DraftReady | null} draft
 *  @param {string} last the piece that the draft ends with */
export function decisionWords(decided, draft, last) {
  const row = `(${milliseconds(decided.row_seconds)} at ${rate(decided.rate)} tokens/s)`;
  if (draft && draft.parents.length) {
    const least = decided.row_seconds * decided.rate;
    const nodes = plural(draft.ids.length, 'node');
    return least > 0
      ? `Auto: a tree of ${nodes}; a node with a probability below ${exact(least)} costs more ` +
        `than it saves ${row}.`
      : `Auto: a tree of ${nodes}, the largest allowed, to measure its cost.`;
  }
  const { gamma, steps, best_gamma: best } = decided;
  if (!best && decided.row_seconds > 0 && !decided.seconds) {
    return 'Auto: the tree will hold the nodes that save more than they cost.';
  }
  const why = decided.seconds > 0
    ? `a whole window pays best at γ ${best || gamma}, ${ratio(decided.tokens, 1)} tokens ` +
      `expected in ${milliseconds(decided.seconds)}`
    : 'to measure its cost';
  const room = best && gamma > best ? `; up to ${gamma} while the drafter is confident` : '';
  const cut = draft && draft.ids.length < gamma && last !== END
    ? `. The draft ends after ${draft.ids.length}: given the drafter’s confidence, the next ` +
      `position would cost more than it saves ${row}`
    : '';
  return `Auto, T ${steps}: ${why}${room}${cut}.`;
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

/** `1, 2 and 3` */
const list = (numbers) => new Intl.ListFormat('en-GB').format(numbers.map(String));

/** A sentence on the window. @param {PartialRound | null} view
 *  @param {(id: number) => string} word */
export function narrate(view, word, greedy) {
  if (!view) return 'The target reads the prompt.';
  const name = `Round ${view.round + 1}`;
  const { draft } = view;
  if (view.verified) return `${name}: ${verdict(view, view.verified, word, greedy)}`;
  if (draft && draft.nfe && !view.drafted) return `${name}: stopped while drafting.`;
  if (view.size === 0) return `${name}: one target pass writes one token.`;
  if (view.scored) {
    return `${name}: the target has read the ${
      plural(draft ? draft.ids.length : view.drafted, 'drafted token')
    } in one pass.`;
  }
  if (draft && draft.branches.length) {
    return `${name}: ${draft.branches.length} drafts are drawn from one drafter pass, ` +
      `${plural(draft.ids.length, 'node')} in all.`;
  }
  if (view.tree && draft) {
    return `${name}: ${
      draft.nfe > 1 ? `${draft.nfe} drafter passes have` : 'one drafter pass has'
    } grown a tree of ${plural(draft.ids.length, 'node')}.`;
  }
  if (view.copied) {
    const what = plural(view.drafted, 'token');
    return `${name}: ${
      draft ? `${what} ${view.drafted === 1 ? 'is' : 'are'} copied` : `${what} to copy`
    }, because an earlier passage continued like that.`;
  }
  if (view.unrecorded && draft) {
    return `${name}: ${plural(view.drafted, 'token')} drafted in ${plural(draft.nfe, 'pass')} ` +
      'of the drafter.';
  }
  const step = view.passes[view.passes.length - 1];
  if (step) {
    const where = list([...step.revealed].sort((a, b) => a - b).map((position) => position + 1));
    const what = step.revealed.length > 5
      ? `${step.revealed.length} positions`
      : `position${step.revealed.length > 1 ? 's' : ''} ${where}`;
    return `${name}: denoising step ${step.step + 1} of ${view.steps || view.passes.length} ` +
      `reveals ${what}.`;
  }
  return `${name}: the drafter has ${plural(view.size, 'mask')} to fill after ` +
    `${quoted(word(view.anchor))}.`;
}

/** @param {PartialRound} view @param {Verified} verified @param {(id: number) => string} word */
function verdict(view, verified, word, greedy) {
  const { drafted: size, draft } = view;
  const extra = quoted(word(verified.extra));
  if (size === 0) return `the target writes ${extra}.`;
  const last = verified.tests[verified.tests.length - 1];
  if (last && TEST_KINDS[last.kind].walks) {
    const walked = 'the target’s draws follow the tree of ' +
      `${plural(draft ? draft.ids.length : 0, 'node')} for ` +
      `${plural(verified.accepted, 'token')}`;
    if (!view.extra) return `${walked}, and the text ends there.`;
    return verified.source === 'bonus'
      ? `${walked}, to the end of a branch; it adds a bonus token, ${extra}.`
      : `${walked}, then leave it with ${extra}.`;
  }
  if (!last || last.accepted) { // nothing was rejected
    if (!view.extra && !view.tree && verified.accepted < size) {
      return `the first ${verified.accepted} of ${size} drafted tokens pass, and the text ends there.`;
    }
    const rest = verified.accepted < size ? 'of a shorter draft ' : '';
    const all = verified.accepted === 1
      ? `the drafted token ${rest}passes`
      : `all ${verified.accepted} drafted tokens ${rest}pass`;
    return view.extra
      ? `${all}; the target adds a bonus token, ${extra}.`
      : `${all}, and the text ends there.`;
  }
  const accepted = verified.accepted === 0
    ? 'the target accepts none'
    : `the target accepts ${verified.accepted} of ${size}`;
  if (greedy) return `${accepted}; instead of ${quoted(word(last.id))} it writes ${extra}.`;
  const why = last.draw === null
    ? 'its own draw differs'
    : `u = ${ratio(last.draw)} ≥ ${ratio(last.threshold)}`;
  return `${accepted}, rejects ${quoted(word(last.id))} (${why}) and writes ${extra}.`;
}
