// Aligns two runs of any two traces along their texts, as far as these agree. For runs that it
// decodes itself, the server makes the same answer (specdiff_core/explorations/side_by_side.py).
// Pure: no element, no request.

import { buildLane, isServed, isVanilla, rejectedOf, stateAt } from './lane.js';
import { inspected } from './inspect.js';
import { piece, sharePieces } from './detokenize.js';
import { firstDifference, waiting } from './metrics.js';
/** @import { Answer } from './exploration.js' */
/** @import { Event } from './events.d.ts' */
/** @import { Lane, State } from './lane.js' */
/** @import { Trace } from './trace.js' */

export const BRANCH = 'what if'; // the name of the lane that branches off a run

/** @typedef {{file: string, name: string, lane: Lane}} Run a lane of a file */
/** @typedef {'tokens' | 'texts' | 'nothing'} By how two runs are aligned: by tokens, of one target
 *  after one prompt; by the characters of their new texts; not at all */
/** @typedef {{by: By, agree: number, parted: number | null, target: boolean, prompt: number |
 *  null}} Common `agree`: equal characters, or tokens if by `tokens`; `parted`: the first different
 *  one, from 1; `target`: whether both have the same target; `prompt`: the first character at
 *  which the prompts differ, from 1 */

/** Code points, so that no character is cut in two. */
const letters = (words) => [...words];

/** How two runs align, and how far they agree. @param {Lane} a @param {Lane} b @returns {Common} */
export function commonOf(a, b) {
  const lanes = [a, b];
  const [first, second] = lanes.map(({ header }) => header?.prompt ?? null);
  const [targetA, targetB] = lanes.map(({ header }) => header?.models.target ?? null);
  const target = targetA !== null && targetA === targetB &&
    a.header?.config.pair === b.header?.config.pair && !isServed(a) && !isServed(b); // cut anywhere
  const prompt = first !== null && first === second
    ? null
    : 1 + Math.max(0, firstDifference(letters(first ?? ''), letters(second ?? '')));
  const by = prompt === null && target ? 'tokens' : a.wordless || b.wordless ? 'nothing' : 'texts';
  const [left, right] = lanes.map(({ ids, texts }) =>
    by === 'tokens' ? ids : letters(texts.join(''))
  );
  const parts = firstDifference(left, right);
  const agree = parts < 0 ? left.length : parts;
  return { by, target, prompt, agree, parted: parts < 0 ? null : parts + 1 };
}

/** Where each new token of a run begins and ends, in characters. @param {Lane} lane */
function spansOf(lane) {
  let at = 0;
  return lane.texts.map((words) => [at, at += letters(words).length]);
}

/**
 * The column of each new token of both runs, from 1. As far as the texts agree, a column ends where
 * a token of both runs ends, so it may hold several tokens of one run; after that, or aligned by
 * tokens, it holds one of each.
 * @param {Lane} a @param {Lane} b @param {Common} common @returns {{a: number[], b: number[]}}
 */
export function columnsOfTokens(a, b, { by, agree }) {
  const spans = { a: spansOf(a), b: spansOf(b) };
  const [endsA, endsB] = [spans.a, spans.b].map((runSpans) => runSpans.map(([, end]) => end));
  const shared = by === 'texts'
    ? [...new Set(endsA)].filter((end) => end <= agree && endsB.includes(end))
    : [];
  const last = Math.max(0, ...shared);
  const placed = (/** @type {number[][]} */ runSpans) => {
    let column = shared.length;
    return runSpans.map(([begin]) =>
      begin < last ? 1 + shared.filter((end) => end <= begin).length : column += 1
    );
  };
  return { a: placed(spans.a), b: placed(spans.b) };
}

/** A row for each round of a run, like `rounds_of` in Python. @param {Lane} lane
 *  @param {number} [start] position of its first token, from 1
 *  @param {boolean} [measured] whether its times count */
function roundsOf(name, lane, start = 1, measured = true) {
  return lane.rounds.flatMap(({ round, first, draft, verified, committed }) => {
    if (!verified || !committed) return [];
    const rejected = rejectedOf(verified);
    const began = lane.rounds[round - 1]?.committed?.at ?? 0;
    return [{
      run: name,
      round: round + 1,
      position: start + first,
      drafted: draft?.ids.length ?? 0,
      accepted: verified.accepted,
      rejected: rejected && piece(lane, rejected.id),
      added: piece(lane, verified.extra),
      added_as: verified.source,
      p: rejected && rejected.p,
      q: rejected && rejected.q,
      threshold: rejected && rejected.threshold,
      u: rejected && rejected.draw,
      milliseconds: measured ? Math.round(1e7 * (committed.at - began)) / 1e4 : null,
      waiting: measured ? waiting(lane) : null,
      text: lane.texts.slice(first, first + committed.ids.length).join(''),
    }];
  });
}

/** The label of a run: its file, its lane, and its settings. @param {Run} run */
export const labelOf = ({ file, name, lane }) =>
  `${name} of ${file}${
    lane.header
      ? ` (${
        isVanilla(lane) ? 'vanilla' : lane.header.server || lane.header.config.drafter
      }, temperature ${lane.header.config.temperature})`
      : ''
  }`;

/** Whether two runs must write the same text: the same target and prompt, and either greedy or with
 *  shared noise. @param {Lane} a @param {Lane} b @param {Common} common */
function mustBeEqual(a, b, { by }) {
  const [configA, configB] = [a.header?.config, b.header?.config];
  if (
    by !== 'tokens' || !configA || !configB || configA.temperature !== configB.temperature ||
    (configA.ignore_eos ?? false) !== (configB.ignore_eos ?? false) ||
    configA.max_new_tokens !== configB.max_new_tokens
  ) return false;
  return configA.temperature === 0 ||
    (configA.seed === configB.seed && configA.rule === 'match' && configB.rule === 'match');
}

/** The answer that the page shows for two runs from files. @param {{a: Run, b: Run}} runs */
export function answerOf({ a, b }) {
  const common = commonOf(a.lane, b.lane);
  const header = a.lane.header ?? b.lane.header;
  const facts = {
    opened: true,
    labels: { a: labelOf(a), b: labelOf(b) },
    common,
    columns: columnsOfTokens(a.lane, b.lane, common),
    must_be_equal: mustBeEqual(a.lane, b.lane, common),
    files: { a: aboutRun(a), b: aboutRun(b) },
  };
  const [answer, ...notes] = alignmentWords({ facts });
  return {
    report: {
      answer,
      notes,
      lanes: { a: `A: ${facts.labels.a}`, b: `B: ${facts.labels.b}` },
      titles: { runs: 'Two runs side by side' },
    },
    rows: [...roundsOf('a', a.lane), ...roundsOf('b', b.lane)],
    facts,
    done: 2,
    total: 2,
    origin: { date: header?.started_at ?? '' },
    machine: {}, // see facts.files
    choice: {
      temperature: header?.config.temperature ?? 1,
      tokens: a.lane.ids.length,
      prompt: header?.prompt ?? '',
    },
  };
}

/** The origin of a run, as lines of a table. @param {Run} run */
function aboutRun({ file, name, lane }) {
  const { header, finished } = lane;
  if (!header) return { file, lane: name };
  return {
    file,
    lane: name,
    decoded: header.started_at.replace('T', ' ').slice(0, 16),
    machine: `${header.device}, ${header.dtype}, threads: ${header.threads}`,
    models: `${header.models.target}; ${header.models.drafter ?? ''}`,
    settings: Object.entries(header.config).map(([key, value]) => `${key} ${value}`).join(', '),
    end: finished ? finished.reason : 'not recorded',
  };
}

/** Sentences about two runs from files: how they are aligned, and where they part.
 *  @param {{facts: Record<string, any>}} answer */
export function alignmentWords({ facts }) {
  const { common, files } =
    /** @type {{common: Common, files: Record<string, Record<string, string>>}} */ (facts);
  const { by, agree, parted, target, prompt } = common;
  const characters = `${agree} ${agree === 1 ? 'character' : 'characters'}`;
  const where = by === 'tokens'
    ? (parted === null
      ? `Both wrote the same ${agree} tokens.`
      : facts.must_be_equal
      ? `The texts differ from token ${parted} on, but shouldn’t: two tokens were probably so ` +
        'close that rounding decided.'
      : `The texts differ from token ${parted} on; after that the columns count tokens, and ` +
        '≠ marks a different one.')
    : parted === null
    ? `The texts are the same to the end: ${characters}.`
    : `The texts agree for ${characters}; after that the columns only count tokens.`;
  const why = {
    tokens: [],
    nothing: [
      'The runs can’t be aligned: a trace has no token texts, and prompt or target differ. ' +
      'The columns only count tokens.',
    ],
    texts: [
      prompt === null
        ? 'The targets differ, and so do their tokens: a column holds the tokens of both runs ' +
          'that spell the same words.'
        : `The prompts differ from character ${prompt} on, so these texts have different ` +
          'beginnings. Both are aligned from the first new token; this doesn’t compare ' +
          'methods.',
    ],
  }[by];
  const targets = target || by === 'tokens' || by === 'texts' && prompt === null
    ? []
    : ['The targets differ, or a trace doesn’t name its target.'];
  const clocks = files.a.machine === files.b.machine ? [] : [
    'The runs were timed on different machines or machine settings: compare rounds, not ' +
    'milliseconds.',
  ];
  return [...why, ...(by === 'nothing' ? [] : [where]), ...targets, ...clocks];
}

/** Build a lane and check its events; throws if they are inconsistent. @param {Event[]} events */
function checked(events) {
  const lane = buildLane(events);
  /** @type {State | null} */
  let state = null;
  events.forEach((event, i) => {
    if (event.kind !== 'Committed') return;
    state = stateAt(lane, i + 1, state);
    if (event.ids.length !== event.sources.length || !state.window?.verified) {
      throw new TypeError('a round without its verdict');
    }
    for (let position = 0; position <= state.window.verified.accepted; position += 1) {
      inspected(state.window, position);
    }
  });
  if (!lane.ids.length) throw new TypeError('no token');
  return lane;
}

/** The traces that a visitor opened, two chosen lanes, and a branch of one of them. */
export class Opened {
  constructor() {
    this.lanes = /** @type {Run[]} */ ([]);
    this.chosen = { a: -1, b: -1 };
    this.request = { given: '', run: /** @type {'a' | 'b'} */ ('a') };
    this.answer = /** @type {Answer | null} */ (null);
    this.branch = /** @type {Lane | null} */ (null);
  }

  /** Add the lanes of a file: the last of the first file is run A, the last of the next is run B.
   *  Throws an Error and changes nothing if they are inconsistent. @param {Trace} trace */
  add(file, trace) {
    const before = { lanes: this.lanes, chosen: this.chosen };
    const entries = Object.entries(trace.lanes).filter(([, events]) => events.length);
    if (!entries.length) throw new Error('it holds no events of a run');
    try {
      const added = entries.map(([name, events]) => ({ file, name, lane: checked(events) }));
      this.lanes = [...before.lanes, ...added];
      const last = this.lanes.length - 1;
      // fewer than two files: a single file shows its last two lanes
      const single = new Set(before.lanes.map((run) => run.file)).size < 2;
      this.chosen = {
        a: !before.lanes.length ? last - 1 : single ? before.lanes.length - 1 : before.chosen.a,
        b: last,
      };
      sharePieces(this.lanes.map(({ lane }) => lane));
      this.update();
    } catch (error) {
      Object.assign(this, before);
      throw new Error('its events are inconsistent', { cause: error });
    }
  }

  /** Choose another lane for a run, which drops the branch. @param {'a' | 'b'} run */
  choose(run, lane) {
    this.chosen = { ...this.chosen, [run]: lane };
    this.update();
  }

  get runs() {
    const [a, b] = [this.lanes[this.chosen.a], this.lanes[this.chosen.b]];
    return a && b ? { a, b } : null;
  }

  update() {
    this.branch = null;
    if (this.runs) this.answer = answerOf(this.runs);
  }

  /** What the server needs to branch off a run at the target's token of a round, or why it cannot.
   *  @param {'a' | 'b'} run @param {number} round from 1
   *  @param {string[]} pairs that the server knows
   *  @returns {{given: string, pair: string} | {why: string}} */
  given(run, round, pairs) {
    const lane = this.runs?.[run].lane;
    if (!lane) return { why: 'That run is no longer open.' };
    const { header } = lane;
    if (!header) return { why: 'The trace has no settings, so the run can’t be continued.' };
    const pair = String(header.config.pair);
    if (!pairs.includes(pair)) {
      return {
        why: `The run used the pair ${pair}, which isn’t available here, so it can’t be continued.`,
      };
    }
    const { first = 0, committed = null } = lane.rounds[round - 1] ?? {};
    if (!committed) return { why: 'The trace doesn’t contain all of that round.' };
    const given = JSON.stringify({
      config: header.config,
      prompt: header.prompt,
      prompt_ids: header.prompt_ids,
      target: header.models.target,
      after: lane.ids.slice(0, first + committed.ids.length - 1),
    });
    this.request = { given, run };
    return { pair, given };
  }

  /** Add the branch that the server decoded. @param {Record<string, any>} branch its facts
   *  @param {Event[]} events @returns {boolean} whether it belongs to a shown run */
  goOn(given, branch, events) {
    const { runs, request } = this;
    if (!runs || !given || given !== request.given) return false;
    this.update();
    const { run } = request;
    const lane = (this.branch = buildLane(events));
    sharePieces([...this.lanes.map((one) => one.lane), lane]);
    const answer = /** @type {Answer} */ (this.answer);
    const forced = branch.take >= 0 ? 1 : 0;
    const old = runs[run].lane.ids.slice(branch.position - 1);
    const first = answer.facts.columns[run][branch.position - 1] + forced;
    const columns = lane.ids.map((_, i) => first + i);
    this.answer = {
      ...answer,
      choice: { ...answer.choice, branch_seed: branch.seed },
      rows: [...answer.rows, ...roundsOf(BRANCH, lane, branch.position + forced, false)],
      facts: {
        ...answer.facts,
        columns: { ...answer.facts.columns, [BRANCH]: columns },
        branch: {
          ...branch,
          run,
          instead_of: piece(runs[run].lane, old[0]),
          same: lane.ids.filter((id, i) => id === old[i + forced]).length,
          column: first - forced,
        },
      },
    };
    return true;
  }

  /** The shown lanes as a trace, for the player. */
  get trace() {
    const { runs, branch } = this;
    /** @type {Record<string, Event[]>} */
    const lanes = runs ? { a: runs.a.lane.events, b: runs.b.lane.events } : {};
    return {
      title: 'Two runs side by side',
      lanes: branch ? { ...lanes, [BRANCH]: branch.events } : lanes,
    };
  }
}
