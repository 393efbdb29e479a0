// Folds every trace that tests/test_js.py names with the page's own modules, and writes the numbers
// that Python computes too: after each round, at the end, and of each lane against the baseline.
import { readFileSync, writeFileSync } from 'node:fs';

import { joinPieces } from '../../app/static/state/detokenize.js';
import { settingsWords } from '../../app/static/state/format.js';
import { verdict } from '../../app/static/state/headline.js';
import { FORMULAS } from '../../app/static/state/formulas.js';
import { buildLane } from '../../app/static/state/lane.js';
import { stateAt } from '../../app/static/state/progress.js';
import { useOf } from '../../app/static/state/marks.js';
import {
  alpha,
  clockOf,
  firstDifference,
  pace,
  predicted,
  speedUp,
  tau,
  waiting,
} from '../../app/static/state/metrics.js';
import { baselineOf, complete } from '../../app/static/state/race.js';
import { stagedRound } from '../../app/static/state/stops.js';
import { Playhead } from '../../app/static/state/playhead.js';
import { Stage } from '../../app/static/state/stage.js';
import { acceptanceFigure } from '../../app/static/state/charts.js';
import { readFile } from '../../app/static/state/trace.js';

const { traces, spellings, crowded, noSteps, formulas, out } = JSON.parse(
  readFileSync(process.argv[2], 'utf8'),
);

const indicesOf = (lane, kind) => lane.events.flatMap((event, i) => event.kind === kind ? [i] : []);

/** A lane after its first n events. */
const numbersAt = (state) => ({
  ...structuredClone(state.sums),
  tau: tau(state),
  alpha: alpha(state),
});

function alone(lane) {
  let state = null;
  const rounds = indicesOf(lane, 'Committed').map((index) => {
    state = stateAt(lane, index + 1, state);
    return { ...numbersAt(state), t: lane.times[index] };
  });
  const end = stateAt(lane, Infinity);
  const { data = [] } = acceptanceFigure({ lane, state: end, view: null });
  return {
    rounds,
    end: {
      ...numbersAt(end),
      seconds: lane.duration,
      seconds_by: lane.finished ? lane.finished.seconds_by : {},
      waiting: waiting(lane),
      alpha_at: data.length ? data[0].y : [],
      complete: complete(lane),
    },
    depths: lane.rounds.flatMap((round) => round.tree ? [round.tree.depths] : []),
    staged: lane.rounds.some((round) => round.tree) ? null : stagedRound(lane),
    shown: lane.texts,
    settings: lane.header && settingsWords(lane.header.config, noSteps),
    use: lane.header && useOf(lane.header.config),
  };
}

/** A lane against the baseline: when both have made as many rounds
 *  (or the baseline all of its own), at that moment of the race, and at the end. */
function against(lanes, name, baseline) {
  const [own, base] = [lanes[name], lanes[baseline]];
  const commits = { own: indicesOf(own, 'Committed'), base: indicesOf(base, 'Committed') };
  const at = (lane, index) => clockOf(lane, stateAt(lane, index + 1), lane.times[index]);
  const bases = commits.base.map((index) => at(base, index));
  const looks = { methods: {}, glyphs: {}, dashes: {}, crowded };
  const stage = new Stage([name, baseline], lanes, looks);
  const player = new Playhead({ duration: stage.duration, stops: [] });
  const rounds = commits.own.map((index, k) => {
    player.seek(own.times[index]);
    const row = stage.scene(player, name).rows[name];
    return {
      equal_rounds: speedUp(at(own, index), bases[Math.min(k, bases.length - 1)] ?? null),
      then: row.speedup,
      tokens: row.tokens,
      share: row.share,
    };
  });
  const { trusted, final } = verdict({ drafted: own, vanilla: base }, stage.doubt(name), {});
  const cut = complete(own) && complete(base)
    ? Infinity
    : Math.min(own.ids.length, base.ids.length);
  const [ids, baseIds] = [own.ids.slice(0, cut), base.ids.slice(0, cut)];
  return {
    rounds,
    final,
    trusted,
    predicted: predicted(own, base),
    same: final === null ? null : firstDifference(ids, baseIds) < 0,
  };
}

const found = {};
for (const [key, path] of Object.entries(traces)) {
  const { lanes: told } = await readFile(new Blob([readFileSync(path)]));
  const names = Object.keys(told);
  const lanes = Object.fromEntries(names.map((name) => [name, buildLane(told[name])]));
  const baseline = baselineOf(lanes, names);
  const others = names.filter((name) => baseline && name !== baseline);
  found[key] = {
    baseline,
    lanes: Object.fromEntries(names.map((name) => [name, alone(lanes[name])])),
    against: Object.fromEntries(others.map((name) => [name, against(lanes, name, baseline)])),
  };
}

/** A figure's values at `x`, from an answer that ships. */
const drawn = formulas.map(({ path, formula, values, line, x }) => {
  const recorded = JSON.parse(readFileSync(path, 'utf8'));
  const figure = recorded.report.figures.find((one) => one.formula === formula);
  const { data } = FORMULAS[formula](recorded, figure, values, null);
  const points = data.find(({ name }) => name === line);
  return x === null ? points.x[0] : points.y[points.x.indexOf(x)];
});
const answer = { traces: found, spellings: spellings.map(joinPieces), formulas: drawn };
writeFileSync(out, JSON.stringify(answer));
