// The sentence that leads a race: its result, before the replay and after it. Pure.

import { DRAFTED } from './declared.js';
import { firstDifference, pace, passesOf, speedUp } from './metrics.js';
import { complete } from './race.js';
import { plural, quotedWords, seconds, speedWords } from './format.js';
import { isServed } from './lane.js';
import { serverModels } from './report.js';
/** @import { Lane } from './lane.js' */
/** @import { Scene } from './stage.js' */

/** A sentence on a race, and at its end another with the measured numbers; none if the lanes cannot
 *  be compared.
 *  @param {Lane | null} drafted @param {Lane | null} vanilla @param {string} who drafts
 *  @param {number} count of lanes @param {boolean} trusted whether the clock is
 *  @param {string[]} servers among the lanes: what each says about its model
 *  @returns {{before?: string, after?: string}} */
export function leadWords(drafted, vanilla, who, count, trusted, servers = []) {
  const compared = drafted && vanilla && complete(drafted) && complete(vanilla);
  if (!compared || !drafted.texts.length || !vanilla.texts.length) return {};
  const tokens = drafted.texts.length;
  if (isServed(drafted)) {
    return {
      before: `${who} answers over the network.`,
      after:
        `${who} wrote ${plural(tokens, 'token')} in ${seconds(drafted.duration)} s, over the ` +
        `network. It reports: ${quotedWords(drafted.finished?.quoted ?? null)}.`,
    };
  }
  const same = firstDifference(drafted.ids, vanilla.ids) < 0;
  const speed = speedUp(pace(drafted), pace(vanilla));
  const slower = speed !== null && speed < 1 ? '; slower, on a disturbed clock' : '';
  const passes = trusted ? '' : `, plus ${plural(passesOf(drafted).drafter, 'drafter pass')}`;
  const fast = trusted && speed !== null ? `, ${speedWords(speed)}` : `${passes}${slower}`;
  const fewer = vanilla.rounds.length !== drafted.rounds.length;
  const instead = tokens === vanilla.texts.length
    ? fewer ? ` instead of ${vanilla.rounds.length}` : ', as many as vanilla'
    : '';
  const numbers = `${same ? 'the same ' : ''}${plural(tokens, 'token')} in ` +
    `${drafted.rounds.length} ` +
    `${count > 2 ? 'target ' : ''}${
      drafted.rounds.length === 1 ? 'pass' : 'passes'
    }${instead}${fast}.`;
  if (count > 2) {
    const [one] = servers;
    const own = !one
      ? ''
      : one === servers.at(-1)
      ? `, and an attached server with its own: ${one}`
      : `, and ${servers.length} attached servers with their own: ${servers.join('; ')}`;
    const before = `${count - servers.length} lanes answer the same prompt with the same target ` +
      `model${own}.`;
    const after = `${trusted ? 'First' : 'Fewest target passes'}: ${who}, ${numbers}`;
    return { before, after: one ? `${before} ${after}` : after };
  }
  const most = (/** @type {(round: Lane['rounds'][0]) => number | undefined} */ of) =>
    Math.max(0, ...drafted.rounds.map((round) => of(round) ?? 0));
  const drafts = most(({ tree }) => tree?.branches.length);
  const nodes = most(({ tree }) => tree?.lines.length);
  const ahead = plural(most((round) => round.drafted), 'token');
  const guesses = drafts
    ? `${plural(drafts, 'draft')} of up to ${ahead}`
    : nodes
    ? `trees of up to ${plural(nodes, 'token')}`
    : `up to ${ahead} ahead`;
  const before = `${who} guesses ${guesses}, and the target model checks them in one pass`;
  return { before: `${before}.`, after: `${before}: ${numbers}` };
}

/** A sentence on the race, and another with its result. @param {Scene} scene
 *  @returns {ReturnType<typeof leadWords> | {before: '', after: ''}} */
export function leadOf({ stage }) {
  const { first, names, lanes, baseline, named } = stage;
  const who = !first
    ? ''
    : names.length <= 2 && first === DRAFTED
    ? 'A drafter'
    : named[first].short;
  const [lane, base] = [lanes[first ?? ''], lanes[baseline ?? ''] ?? null];
  const servers = serverModels(lanes);
  return lane && first !== baseline
    ? leadWords(lane, base, who, names.length, !stage.disturbed(first).length, servers)
    : { before: '', after: '' };
}
