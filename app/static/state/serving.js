// The formula for many people served at once: measured passes, beside published speed-ups. Pure.

import { expectedTau } from './sandbox.js';
import { costAt } from './costs.js';
import { times } from './format.js';
import { largest, range, rowOf, trace } from './plotting.js';
/** @import { Answer, Figure } from './exploration.js' */
/** @import { Values } from './plotting.js' */

/**
 * Published speed-ups by people served at once (arXiv 2503.01840, table 3): Llama 3.1 8B on one
 * H100, MT-Bench, SGLang, drafts of 3 tokens without a tree.
 */
const PUBLISHED = {
  people: [2, 4, 8, 16, 24, 32, 48, 56, 64],
  'EAGLE-3': [1.81, 1.82, 1.62, 1.48, 1.39, 1.32, 1.38, 1.34, 1.38],
  EAGLE: [1.4, 1.38, 1.23, 1.02, 0.93, 0.94, 0.88, 0.99, 0.99],
};

/**
 * Speed-up by people served at once. Each adds a row to a pass of vanilla, and γ + 1 rows to a pass
 * that tests drafts; a drafter's pass is assumed to grow with its rows as the target's does.
 * @param {Answer} answer @param {Figure} figure @param {Values} values
 */
export function serving(answer, figure, { people }) {
  const raceRow = rowOf(answer, figure);
  const { curve, drafts } = answer.facts;
  const widest = curve[curve.length - 1][0];
  const serial = raceRow.steps === raceRow.gamma; // a pass for each token, over one row each
  const speed = (gamma, count) => {
    const rows = serial ? 1 : gamma;
    const passes = serial ? gamma : Math.min(gamma, raceRow.steps);
    const growth = costAt(curve, rows * count) / costAt(curve, rows);
    const round = passes * costAt(drafts[raceRow.drafter], gamma) * growth +
      costAt(curve, count * (gamma + 1));
    return expectedTau(raceRow.alpha_at.slice(0, gamma)) *
      costAt(curve, count) / round;
  };
  const most = (gamma) => Math.floor(widest / (gamma + 1));
  const gammas = [1, 2, 4, 8, 16].filter((gamma) => gamma <= raceRow.alpha_at.length);
  const looks = ['circle', 'square', 'diamond', 'triangle-up', 'cross'];
  const dashes = ['solid', 'dash', 'dot', 'dashdot', 'longdash'];
  const feasible = gammas.filter((gamma) => people <= most(gamma));
  const best = largest(feasible, (gamma) => speed(gamma, people));
  const ends = gammas.map((gamma) => {
    const pays = range(1, most(gamma)).map((count) => speed(gamma, count) >= 1);
    const [stop, last] = [pays.indexOf(false) + 1, pays.lastIndexOf(true) + 1];
    if (!stop) return `γ ${gamma} still pays at ${most(gamma)}, the most that was measured`;
    if (!last) return `γ ${gamma} never pays`;
    return `γ ${gamma} stops paying ${last > stop ? `between ${stop} and ${last}` : `at ${stop}`}`;
  });
  const line = (gamma, counts, look) => {
    const speeds = counts.map((count) => speed(gamma, count));
    return trace(`γ ${gamma}`, counts, speeds, `@lane-${gammas.indexOf(gamma) + 1}`, look);
  };
  return {
    data: [
      ...gammas.map((gamma, i) => line(gamma, range(1, most(gamma)), { dash: dashes[i] })),
      ...feasible.map((gamma, i) => line(gamma, [people], { mark: looks[i], showlegend: false })),
      ...['EAGLE-3', 'EAGLE'].map((name, i) =>
        trace(`${name} on an H100`, PUBLISHED.people, PUBLISHED[name], '@muted', {
          dash: ['12px,3px', '2px,7px'][i],
        })
      ),
    ],
    words: [
      `Predicted with ${people === 1 ? 'one person' : `${people} people`} served at once: ${
        feasible.length
          ? `γ ${best} is the fastest, ${times(speed(best, people))}${
            speed(best, people) < 1 ? ' (slower than vanilla)' : ''
          }.`
          : 'a round would need more rows than were timed.'
      }`,
      `By people served at once: ${ends.join('; ')}. Timed passes scatter, so small differences ` +
      'between these windows may be noise.',
      'A drafter’s pass over several texts was not timed: it is assumed to grow with its ' +
      'rows as the target’s does.',
      'A real server is slower than this: each text there reads its own cache, while the ' +
      'rows timed here share one.',
      'Grey: published for Llama 3.1 8B served from one H100 with drafts of 3 tokens ' +
      '(arXiv 2503.01840, table 3). ' +
      'EAGLE stops paying at 24 people; EAGLE-3, which guesses better, still pays at 64.',
    ],
  };
}
