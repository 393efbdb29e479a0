// What the comparison shows, as plain values: rows, captions, races. Pure: no element, no chart, no request.
// @ts-nocheck: it reads no event

import { dash, plural, ratio } from './format.js';
import { GLYPHS, spare, usedAs } from './marks.js';

export const MEAN = 'mean';

/**
 * group -> {glyph, symbol, role, dash, pattern}, the same in every table and chart. What a method is in the records, it
 * is here; a group that no method names takes a mark that is left.
 */
export function marksOf(tables, methods) {
  const marks = new Map();
  const free = spare(methods);
  let next = 0;
  for (const cell of tables.flatMap((table) => table.cells)) {
    if (marks.has(cell.group)) continue;
    const vanilla = cell.drafter === 'none';
    const method = vanilla ? methods.vanilla : methods[cell.method];
    const { mark, colour } = method || free(next++);
    const [dash, pattern] = usedAs(cell.group.slice(cell.drafter.length + 1));
    marks.set(cell.group, { glyph: GLYPHS[mark], symbol: mark, role: colour, dash: vanilla ? 'dot' : dash, pattern: vanilla ? '' : pattern });
  }
  return marks;
}

/** Numbers of a cell for a flavour, or for all of them: {value, low, high, tau, cost}. */
export function numbersOf(cell, flavour) {
  if (flavour !== MEAN) return cell.by_flavour[flavour];
  return { ...cell.speedup, tau: cell.tau, alpha: cell.alpha, cost: cell.cost };
}

/** Cells of a table as rows of the leaderboard, fastest first; vanilla stands where it belongs. */
export function leaderboard(table, flavour) {
  const rows = table.cells.map((cell) => {
    const shown = numbersOf(cell, flavour);
    const passes = flavour === MEAN ? 100 * cell.target_passes_per_token : (100 * cell.target_passes_per_token * cell.tau) / shown.tau;
    return { cell, ...shown, passes, drafterPasses: cell.drafter_passes_per_round };
  });
  return rows.sort((a, b) => b.value - a.value);
}

/** A round end of the axis of speed-ups, at least 2. */
export function axisEnd(rows) {
  const most = Math.max(2, ...rows.map((row) => row.high ?? row.value));
  return Math.ceil(most * 2.1) / 2;
}

/** The flavour whose speed-up is closest to the mean: the race that a bar of the mean opens. */
export function typicalFlavour(table, cell) {
  const away = (flavour) => Math.abs(cell.by_flavour[flavour].value - cell.speedup.value);
  return table.flavours.reduce((best, flavour) => (away(flavour) < away(best) ? flavour : best));
}

/** The race behind a bar, or null if none was recorded: {flavour, race, lanes, labels, title}. */
export function raceOf(table, cell, flavour) {
  const drafted = cell.drafter === 'none' ? table.cells.find((one) => one.drafter !== 'none') : cell;
  if (!drafted) return null;
  const chosen = flavour === MEAN ? typicalFlavour(table, drafted) : flavour;
  const race = table.races && table.races[chosen];
  if (!race || !race.lanes.includes(drafted.key)) return null;
  return { flavour: chosen, race, lanes: ['vanilla', drafted.key], labels: { vanilla: { label: 'Vanilla' }, [drafted.key]: { label: drafted.label, method: drafted.method } }, title: race.title };
}

export const megabytes = (bytes) => (bytes ? `${(bytes / 1e6).toFixed(0)} MB` : dash);
export const degrees = (value) => String(Number(value));

/** `2.31 to 2.48`, or why there is no interval. */
export function intervalWords(numbers, cell) {
  if (cell.drafter === 'none') return 'the baseline';
  if (numbers.low === null) return 'no interval: fewer than two prompts of a flavour';
  return `95 % interval ${ratio(numbers.low)} to ${ratio(numbers.high)}`;
}

/** [words, explanation] of how exact a cell's texts are. */
export function exactness(table, cell) {
  if (cell.drafter === 'none') return ['the target itself', 'Vanilla decoding: one pass of the target for each token.'];
  if (!table.lossless) return ['✕ not exact', `The rule ${table.rule} can change the distribution of the text.`];
  if (cell.same_text_as_vanilla === null) {
    return ['✓ same distribution', `The rule ${table.rule} keeps the target’s distribution. At temperature ${degrees(table.temperature)} two samples of one distribution differ, so texts are not compared.`];
  }
  const all = cell.same_text_as_vanilla === cell.texts;
  return [`${all ? '✓' : '≈'} ${cell.same_text_as_vanilla} of ${cell.texts} texts`,
    `${cell.same_text_as_vanilla} of ${cell.texts} prompts gave, token for token, vanilla’s text${all ? '' : '; where not, the cause was not examined here (usually a tie within rounding; “bench equality” examines it)'}. The rule ${table.rule} keeps the target’s distribution.`];
}

const flavourCounts = (table) => Object.entries(table.prompts).map(([name, count]) => `${name} ${count}`).join(', ');

/** Where a table comes from: [label, value] pairs. */
export function origin(table) {
  const { origin: from } = table;
  const machine = from.device.startsWith('cuda') ? `${from.gpu || from.device}` : `${from.cpu}, ${plural(from.cores, 'core')}`;
  const versions = Object.entries(from.versions).filter(([, version]) => version).map(([name, version]) => `${name} ${version}`).join(', ');
  return [
    ['machine', `${machine}; ${from.system}`],
    ['numbers', `${from.dtype}, ${plural(from.threads, 'thread')}`],
    ['software', versions],
    ['measured', `${when(from.date)}${from.sittings > 1 ? `, in ${from.sittings} sittings` : ''}`],
    ['prompts', `${flavourCounts(table)}; ${plural(table.repeats, 'repeat')}, ${table.settings.max_new_tokens} new tokens${table.settings.ignore_eos ? ', end of text ignored' : ''}, interleaved`],
    ['commit', `${from.commit || 'no repository'}${from.dirty ? ' with local changes' : ''}`],
    ...(from.command ? [['command', from.command]] : []),
  ];
}

/** `2026-11-22 09:43 UTC` */
export const when = (date) => date.replace('T', ' ').replace(/([+]00:00|Z)$/, ' UTC');

/** [label, title] of the mean: it says how many flavours it is of where those are not all that were asked for. */
export function meanWords(table) {
  const { length } = table.flavours;
  const all = table.asked ? table.asked.flavours : length;
  return length < all ? [`Mean of ${plural(length, 'flavour')}`, `Stopped early: ${length} of ${all} flavours were measured`] : ['Mean', 'Mean of the flavours'];
}

/** Keys of the cells whose speed-ups cannot be trusted: from `crowded` threads waiting on; vanilla spoils all. */
export function doubted(table, crowded) {
  const busy = (cell) => (cell.waiting ?? 0) >= crowded;
  const all = table.cells.some((cell) => cell.drafter === 'none' && busy(cell));
  return new Set(table.cells.filter((cell) => all || busy(cell)).map((cell) => cell.key));
}

/** A warning where threads had to wait for a processor; empty where they had not. */
export function busyMachine(table, crowded) {
  if (!doubted(table, crowded).size) return '';
  const worst = Math.max(...table.cells.map((cell) => cell.waiting ?? 0));
  return `⚠ Busy machine: other programs held the processor, so the speed-ups that are struck out may be many times too large or too small. Threads that had to wait, on average, in the worst of these rows: ${ratio(worst)}. On a quiet machine it is 0.`;
}

/** What a visitor must know first about the numbers on screen. */
export function sourceWords(table, live) {
  const day = when(table.origin.date);
  if (!live) return `Recorded on ${table.origin.cpu || table.origin.device}, ${day}, not on this machine.`;
  const { asked } = table;
  const missing = table.left_out.map((words) => words.replace(/[.]$/, '')).join('; ');
  const machine = `Measured on this machine, ${day}: ${table.origin.device}, ${table.origin.dtype}, ${plural(table.origin.threads, 'thread')}.` + (missing ? ` Left out: ${missing}.` : '');
  if (!asked || asked.finished >= asked.runs) return machine;
  return `${machine} Stopped early: ${asked.finished} of ${asked.runs} runs were finished, ${asked.used} belong to whole turns and are shown (${flavourCounts(table)}).`;
}

/** One line about a measurement under way. */
export function progressWords(message) {
  if (message.phase === 'loading') return `${message.message}…`;
  const doing = message.doing ? `: ${message.doing}` : '';
  if (message.phase === 'warming') return `Warming up off the record${doing}…`;
  if (message.phase === 'folding') return 'Adding up…';
  return `Measuring run ${Math.min(message.count + 1, message.total)} of ${message.total}${doing}. ${leftWords(message.left)}`;
}

function leftWords(left) {
  if (left === null || left === undefined) return 'Time left: not known yet.';
  if (left < 1) return 'Estimate: less than a second left.';
  return left < 90 ? `Estimate: about ${plural(Math.ceil(left), 'second')} left.` : `Estimate: about ${Math.ceil(left / 60)} minutes left.`;
}

/** What a file of this comparison may hold: only a comparison of a schema that is known. */
export function check(comparison) {
  const fits = comparison && comparison.kind === 'comparison' && comparison.schema === 1 && Array.isArray(comparison.tables) && comparison.tables.length > 0;
  if (!fits) throw new Error('no comparison of a known form');
  return comparison;
}

/** Without the packed races: what a visitor downloads as numbers. */
export function withoutRaces(comparison) {
  const bare = ({ data, ...told }) => told;
  const tables = comparison.tables.map((table) => ({ ...table, races: Object.fromEntries(Object.entries(table.races || {}).map(([name, race]) => [name, bare(race)])) }));
  return { ...comparison, tables };
}

export const LABEL_PIXELS = 6.1; // of a character of a chart label

/** Where labels of points stand, as `placeLabels` says it, and how much each covers there. */
function standing(points, width, size, height) {
  const gap = 9;
  const boxes = points.map(({ x, y }) => [x - 6, y - 6, x + 6, y + 6]);
  const places = {
    'middle right': (x, y, w) => [x + gap, y - height / 2, x + gap + w, y + height / 2],
    'middle left': (x, y, w) => [x - gap - w, y - height / 2, x - gap, y + height / 2],
    'top center': (x, y, w) => [x - w / 2, y - gap - height, x + w / 2, y - gap],
    'bottom center': (x, y, w) => [x - w / 2, y + gap, x + w / 2, y + gap + height],
    'top right': (x, y, w) => [x, y - gap - height, x + w, y - gap],
    'bottom right': (x, y, w) => [x, y + gap, x + w, y + gap + height],
    'top left': (x, y, w) => [x - w, y - gap - height, x, y - gap],
    'bottom left': (x, y, w) => [x - w, y + gap, x, y + gap + height],
  };
  const covered = (a, b) => Math.max(0, Math.min(a[2], b[2]) - Math.max(a[0], b[0])) * Math.max(0, Math.min(a[3], b[3]) - Math.max(a[1], b[1]));
  const outside = (box) => Math.max(0, -box[0]) + Math.max(0, box[2] - size.width) + Math.max(0, -box[1]) + Math.max(0, box[3] - size.height);
  const taken = points.map(() => null);
  for (let round = 0; round < 3; round += 1) { // later rounds know where all others stand
    points.forEach(({ x, y, text }, i) => {
      const others = [...boxes.filter((_, j) => j !== i), ...taken.filter((one, j) => one && j !== i).map((one) => one.area)];
      taken[i] = null;
      for (const [name, box] of Object.entries(places)) {
        const area = box(x, y, width(text));
        const cost = others.reduce((sum, other) => sum + covered(area, other), 0) + 50 * outside(area);
        if (!taken[i] || cost < taken[i].cost) taken[i] = { name, area, cost };
      }
    });
  }
  return taken;
}

/**
 * Where labels of points stand, so that they do not cover each other or another point: a text position of Plotly for
 * each. Points are in pixels, `width(text)` too; the first place that is free is taken, the least crowded one else.
 */
export const placeLabels = (points, width, size, height = 14) => standing(points, width, size, height).map(({ name }) => name);

/** The same for more labels than fit: null for those that would cover something, the worst of them first; `kept` ones stay. */
export function fitLabels(points, width, size, height = 14) {
  const left = points.map((point) => ({ ...point }));
  for (;;) {
    const taken = standing(left, width, size, height);
    const over = left.flatMap(({ text, kept }, i) => (text && !kept && taken[i].cost > 0 ? [i] : []));
    if (!over.length) return left.map(({ text }, i) => (text ? taken[i].name : null));
    left[over.reduce((worst, i) => (taken[i].cost > taken[worst].cost ? i : worst))].text = '';
  }
}
