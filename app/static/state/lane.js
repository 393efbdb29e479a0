// One lane of a race: its events, rounds and text, as far as they are known. Pure. Times are seconds on
// the decode clock.

import { spell } from './detokenize.js';
import { treeOf } from './tree.js';
/** @import { Committed, Decided, DraftReady, Event, Failed, Finished, RunStarted,
 *  Verified } from './events.d.ts' */
/** @import { Tree } from './tree.js' */

/** @typedef {ReturnType<typeof roundOf>} Round a round of a complete lane */
/** @typedef {ReturnType<typeof buildLane>} Lane */

const STOPS = new Set(['RoundStarted', 'DenoiseStep', 'TargetScored', 'Verified', 'Committed']);

/** @param {Event} event @returns {number} its time; `last` if it has none of its own */
function eventTime(event, last) {
  if (event.kind === 'Committed') return Math.max(last, event.at);
  if (event.kind === 'Finished') return Math.max(last, event.seconds);
  return 'span' in event ? Math.max(last, event.span.start + event.span.seconds) : last;
}

/** A round without events so far. */
const roundOf = (round) => ({
  round,
  size: 0, // columns that its window needs
  steps: 0, // recorded drafter passes
  drafted: 0, // tokens of its draft; for a tree, its depth
  accepted: 0,
  extra: false, // whether the target added a token
  tree: /** @type {Tree | null} */ (null),
  copied: false, // without any drafter pass
  unrecorded: false, // whether its drafter passes are not in the trace
  decided: /** @type {Decided | null} */ (null),
  draft: /** @type {DraftReady | null} */ (null),
  verified: /** @type {Verified | null} */ (null),
  committed: /** @type {Committed | null} */ (null),
  first: 0, // place of its first token in the text
  ends: /** @type {Record<string, number>} */ ({}), // by kind: events up to its last
});

/** A lane without events so far. */
const emptyLane = () => ({
  events: /** @type {Event[]} */ ([]),
  times: /** @type {number[]} the time of each event */ ([]),
  pieces: /** @type {Record<number, string>} */ ({}),
  header: /** @type {RunStarted | null} */ (null),
  finished: /** @type {Finished | null} */ (null),
  failed: /** @type {Failed | null} */ (null),
  rounds: /** @type {Round[]} */ ([]),
  stops: /** @type {number[]} indices of events at which stepping stops */ ([]),
  ids: /** @type {number[]} */ ([]),
  texts: /** @type {string[]} the readable text of each id */ ([]),
  duration: 0,
  wordless: false, // whether the trace holds no piece of its text
  unheard: roundOf(-1), // reduced event streams start no round: events of one are dropped
});

/** @param {Event[]} events */
export const buildLane = (events) => extend(emptyLane(), events);

/** Add events to a lane, in place. @param {ReturnType<typeof emptyLane>} lane
 *  @param {Event[]} events */
export function extend(lane, events) {
  let round = lane.rounds.at(-1) ?? lane.unheard;
  for (const event of events) {
    const index = lane.events.push(event) - 1;
    lane.duration = eventTime(event, lane.duration);
    lane.times.push(lane.duration);
    if (STOPS.has(event.kind)) lane.stops.push(index);
    if (event.kind === 'RoundStarted') {
      round = roundOf(event.round);
      lane.rounds.push(round);
    }
    round.ends[event.kind] = index + 1;
    switch (event.kind) {
      case 'RunStarted':
        lane.header = event;
        break;
      case 'PiecesSeen':
        Object.assign(lane.pieces, event.pieces);
        break;
      case 'Finished':
        lane.finished = event;
        break;
      case 'Failed':
        lane.failed = event;
        break;
      case 'Decided':
        round.decided = event;
        break;
      case 'DenoiseStep':
        round.steps += 1;
        round.size = event.ids.length;
        break;
      case 'DraftReady':
        round.draft = event;
        round.tree = event.parents.length
          ? { ...treeOf(event.parents), branches: event.branches }
          : null;
        // fewer if the text ends
        round.drafted = round.tree ? round.tree.deepest : event.ids.length;
        round.size = round.tree ? round.drafted : Math.max(round.size, round.drafted);
        round.copied = !event.nfe && event.ids.length > 0;
        round.unrecorded = event.nfe > 0 && event.ids.length > 0 && !round.steps && !round.tree;
        break;
      case 'Verified':
        Object.assign(round, { verified: event, accepted: event.accepted });
        if (round.tree) Object.assign(round.tree, { path: event.path, chosen: event.chosen });
        break;
      case 'Committed':
        Object.assign(round, { committed: event, first: lane.ids.length });
        lane.ids.push(...event.ids);
        round.extra = event.ids.length > round.accepted;
        break;
      default:
    }
  }
  spell(lane);
  return lane;
}

/** The test that rejected a drafted token, or null.
 *  @param {Verified | null | undefined} verified */
export function rejectedOf(verified) {
  const last = verified?.tests.at(-1);
  return last && !last.accepted ? last : null;
}

/** @param {Lane | null} lane @returns {boolean} whether an attached server ran it */
export const isServed = (lane) => Boolean(lane && lane.header && lane.header.server);

/** @param {Lane} lane @returns {boolean} whether it is greedy, so that nothing is drawn */
export const isGreedy = (lane) => lane.header?.config.temperature === 0;

/** @param {Lane | null} lane @returns {boolean} whether no more events come */
export const isOver = (lane) => Boolean(lane && (lane.finished || lane.failed));

/** @param {Lane | null} lane @returns {boolean} whether it drafts nothing */
export const isVanilla = (lane) =>
  Boolean(lane && lane.header && lane.header.config.drafter === 'none');
