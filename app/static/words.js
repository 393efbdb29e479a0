// Numbers and sentences. Pure: strings in, strings out; never markup.

export const dash = '–';

export function seconds(value) {
  return value < 9.995 ? value.toFixed(3) : value.toFixed(2);
}

export function milliseconds(value) {
  const ms = value * 1000;
  return `${ms >= 100 ? ms.toFixed(0) : ms >= 10 ? ms.toFixed(1) : ms.toFixed(2)} ms`;
}

export function rate(value) {
  if (value === null) return dash;
  return value >= 100 ? value.toFixed(0) : value.toFixed(1);
}

export const times = (value) => (value === null ? dash : `${value.toFixed(2)}×`);
export const percent = (value) => (value === null ? dash : `${(100 * value).toFixed(1)} %`);
export const ratio = (value) => (value === null ? dash : value.toFixed(2));

/** A probability with all the digits the trace holds. */
export function exact(value) {
  return value === null || value === undefined ? dash : String(Number(value.toPrecision(7)));
}

export function slowWords(slow) {
  if (slow === 1) return 'real time';
  return slow > 1 ? `${slow}× slower` : `${Number((1 / slow).toPrecision(2))}× faster`;
}

export const END_OF_TEXT = '<|endoftext|>';

/** A token in a cell: spaces and line ends become visible marks. */
export function cell(piece) {
  if (piece === END_OF_TEXT) return '∎';
  const marked = piece.replace(/\r?\n/g, '↵').replace(/\t/g, '⇥');
  if (/^ +$/.test(marked)) return '␣'.repeat(Math.min(4, marked.length));
  return marked.replace(/^ /, '');
}

/** A token inside a sentence. */
export const quoted = (piece) => (piece === END_OF_TEXT ? 'the end of the text' : `“${cell(piece).slice(0, 32)}”`);

/** What to say of a race whose threads had to wait for a processor; `waits` are [lane, threads waiting] pairs. */
export function busyWords(waits) {
  const parts = waits.map(([name, wait]) => `${name} ${wait.toFixed(2)}`).join(', ');
  return `⚠ Busy machine: other programs held the processor, so this speed-up may be many times too large or too small. Threads that had to wait, on average: ${parts}. On a quiet machine it is 0.`;
}

export const SOURCES = {
  draft: { glyph: '✓', words: 'accepted draft' },
  residual: { glyph: '↻', words: 'corrected by the target' },
  bonus: { glyph: '+', words: 'bonus token' },
  target: { glyph: '↻', words: 'the target’s own token' },
};

export const plural = (count, word) => `${count} ${word}${count === 1 ? '' : word.endsWith('s') ? 'es' : 's'}`;

/** Title of a token of the text. */
export function tokenTitle(token, isVanilla) {
  if (isVanilla) return `pass ${token.round + 1} of the target`;
  const source = SOURCES[token.source] || { words: token.source };
  const where = `round ${token.round + 1}: ${source.words}`;
  return token.test && token.source === 'draft' ? `${where}; ${testWords(token.test)}` : where;
}

/** p, q and u of one test, exactly. */
export function testWords(test) {
  const numbers = `p = ${exact(test.p)}, q = ${exact(test.q)}`;
  if (test.kind === 'match') return `${numbers}; shared noise: accepted if the target draws the same token`;
  if (test.kind === 'tree') return `the branches here have p = ${exact(test.threshold)} together; the target drew ${test.accepted ? 'one of them' : 'another token'}`;
  const bound = test.kind === 'ratio' ? 'min(1, p/q)' : 'p';
  return `${numbers}, ${bound} = ${exact(test.threshold)}, drawn u = ${exact(test.draw)}`;
}

/** What a controller decided for a round, and whether the draft was then cut; `last` is the piece the draft ends with. */
export function decisionWords(decided, draft, last) {
  if (draft && draft.parents && draft.parents.length) {
    const worth = decided.row_seconds * decided.rate;
    const nodes = draft.ids.length === 1 ? '1 node' : `${draft.ids.length} nodes`;
    return worth > 0
      ? `Auto: a tree of ${nodes}; one with a chance below ${exact(worth)} is not worth its row (${milliseconds(decided.row_seconds)} at ${rate(decided.rate)} tokens/s).`
      : `Auto: a tree of ${nodes}, as large as may be, to see what it costs.`;
  }
  const { gamma, steps, best_gamma: best } = decided;
  if (!best && decided.row_seconds > 0 && !decided.seconds) return 'Auto: the tree will hold what is worth its rows.';
  const why = decided.seconds > 0
    ? `a whole window pays best at γ ${best || gamma}, ${decided.tokens.toFixed(1)} tokens expected in ${milliseconds(decided.seconds)}`
    : 'to see what it costs';
  const room = best && gamma > best ? `; up to ${gamma} while the drafter is sure` : '';
  const cut = draft && draft.ids.length < gamma && last !== END_OF_TEXT
    ? `. The draft ends after ${draft.ids.length}: by the drafter’s own doubt the next position is not worth its row (${milliseconds(decided.row_seconds)} at ${rate(decided.rate)} tokens/s)`
    : '';
  return `Auto, T ${steps}: ${why}${room}${cut}.`;
}

const list = (numbers) =>
  numbers.length < 2 ? String(numbers[0]) : `${numbers.slice(0, -1).join(', ')} and ${numbers[numbers.length - 1]}`;

/** One sentence about the window. `word` turns an id into its piece. */
export function narrate(view, word) {
  if (!view) return 'The target reads the prompt.';
  const name = `Round ${view.round + 1}`;
  if (view.verified) return `${name}: ${verdict(view, word)}`;
  if (view.draft && view.draft.nfe && !view.drafted) return `${name}: stopped while drafting.`;
  if (view.size === 0) return `${name}: one target pass for one token.`;
  if (view.scored) return `${name}: the target has read the ${plural(view.draft ? view.draft.ids.length : view.drafted, 'drafted token')} in one pass.`;
  const several = view.draft && view.draft.branches ? view.draft.branches.length : 0;
  if (several) return `${name}: ${several} drafts are drawn from one drafter pass, ${plural(view.draft.ids.length, 'node')} in all.`;
  if (view.tree && view.draft) return `${name}: ${view.draft.nfe > 1 ? `${view.draft.nfe} drafter passes have` : 'one drafter pass has'} grown a tree of ${plural(view.draft.ids.length, 'node')}.`;
  if (view.copied) return `${name}: ${plural(view.drafted, 'token')} ${view.draft ? 'are copied' : 'to copy'}: they followed when the text last ended like this.`.replace('1 token are', '1 token is');
  if (view.untold && view.draft) return `${name}: ${plural(view.drafted, 'token')} drafted in ${plural(view.draft.nfe, 'pass')} of the drafter.`;
  const step = view.steps[view.steps.length - 1];
  if (step) {
    const where = list([...step.revealed].sort((a, b) => a - b).map((position) => position + 1));
    const what = step.revealed.length > 5 ? `${step.revealed.length} positions` : `position${step.revealed.length > 1 ? 's' : ''} ${where}`;
    return `${name}: denoising step ${step.step + 1} of ${view.total || view.steps.length} reveals ${what}.`;
  }
  return `${name}: the drafter faces ${plural(view.size, 'mask')} after ${quoted(word(view.anchor))}.`;
}

function verdict(view, word) {
  const { verified, drafted: size, draft } = view;
  const extra = quoted(word(verified.extra));
  if (size === 0) return `the target writes ${extra}.`;
  const last = verified.tests[verified.tests.length - 1];
  if (last && last.kind === 'tree') {
    const walked = `the target’s draws follow the tree of ${plural(draft.ids.length, 'node')} for ${plural(verified.accepted, 'token')}`;
    if (!view.extra) return `${walked}, and the text ends there.`;
    return verified.source === 'bonus' ? `${walked}, to the end of a branch; it adds a bonus token, ${extra}.` : `${walked}, then leave it with ${extra}.`;
  }
  if (verified.accepted === size) {
    const all = size === 1 ? 'the drafted token passes' : `all ${size} drafted tokens pass`;
    return view.extra ? `${all}; the target adds a bonus token, ${extra}.` : `${all}, and the text ends there.`;
  }
  const why = last.kind === 'match'
    ? 'its own draw differs'
    : `u = ${last.draw.toFixed(2)} ≥ ${last.threshold.toFixed(2)}`;
  const kept = verified.accepted === 0 ? 'the target keeps none' : `the target keeps ${verified.accepted} of ${size}`;
  return `${kept}, refuses ${quoted(word(last.id))} (${why}) and writes ${extra}.`;
}
