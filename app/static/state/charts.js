// The figures of a race, whose colours are roles (views/figure.js paints them). Pure.

import { cell, testWords } from './format.js';
import { isGreedy } from './lane.js';
import { labelHeights } from './race.js';
import { piece } from './detokenize.js';
/** @import { Figure } from './exploration.js' */
/** @import { Scene } from './stage.js' */

/** Escape a label: Plotly interprets markup, and a lane's name may be foreign. */
const escaped = (words) => words.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

/** Round tick values up to the longest text. */
function ticks(most) {
  const step = [1, 2, 5, 10, 20, 25, 50, 100, 200].find((value) => most / value <= 6) || 100;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

const MOST_LETTERS = 20; // of a label

/** Tokens over decode time of all lanes, up to now: colour, dash and mark, and labels in the margin.
 *  @param {Scene} scene @returns {Partial<Figure>} */
export function tokensFigure({ names, named, states, clocks, duration, total, selected }) {
  const most = Math.max(1, total);
  const drawn = names.flatMap((name) => { // leaves out lanes that failed before their first token
    const [state, clock, look] = [states[name], clocks[name], named[name]];
    if (!state || !clock || !look || (clock.done && !state.tokens.length)) return [];
    const [colour, label] = [`@${look.colour}`, escaped(look.label)];
    const { short } = look;
    const cut = short.length > MOST_LETTERS ? `${short.slice(0, MOST_LETTERS - 1)}…` : short;
    const end = { x: clock.seconds, y: state.points.at(-1)?.total ?? 0 };
    return [{
      name,
      look,
      colour,
      label,
      words: `${look.glyph} ${cut}`,
      points: state.points,
      end,
    }];
  });
  if (!drawn.length) return { empty: 'A line appears for each lane once it has tokens.' };
  const heights = labelHeights(drawn.map(({ end }) => end), most * 0.075);
  return {
    data: drawn.map(({ name, look, colour, label, points, end }) => ({
      x: [...points.map(({ t }) => t), end.x],
      y: [...points.map((point) => point.total), end.y],
      name: look.label,
      type: 'scatter',
      mode: 'lines+markers',
      marker: {
        symbol: look.mark,
        size: 8,
        opacity: [...points.map(() => 0), 1],
        color: colour,
      },
      line: { shape: 'hv', width: name === selected ? 3 : 1.8, color: colour, dash: look.dash },
      hovertemplate: `${label}: %{y} tokens at %{x:.4f} s<extra></extra>`,
    })),
    layout: {
      margin: { r: 10 + 6.5 * Math.max(...drawn.map(({ words }) => words.length)) },
      xaxis: { title: 'decode time, s', range: [0, duration * 1.02 || 1] },
      yaxis: { title: 'tokens', range: [0, most * 1.04], tickvals: ticks(most) },
      annotations: drawn.map(({ colour, words }, i) => ({
        x: 1,
        xref: 'paper',
        xanchor: 'left',
        y: heights[i],
        text: escaped(words),
        showarrow: false,
        font: { size: 11.5, color: colour },
      })),
    },
  };
}

/** The axis of the positions in a window. */
const positions = (size, start) => ({
  title: 'position in the window',
  range: [start, size + 1 - start],
  dtick: size > 16 ? 4 : 1,
  showgrid: false,
});

/** Shares accepted by position, and this round's tests. @param {Scene} scene
 *  @returns {Partial<Figure>} */
export function acceptanceFigure({ lane, state, view }) {
  if (!lane || !state) return { empty: 'Vanilla drafts nothing, so nothing is tested.' };
  const { testedAt, acceptedAt } = state.sums;
  const tests = view?.verified?.tests ?? [];
  if (!testedAt.length && !tests.length) return { empty: 'No draft has been tested yet.' };
  const greedy = isGreedy(lane); // then u has no effect
  const marks = (of, y, marker) => ({
    type: 'scatter',
    mode: 'markers',
    x: of.map((t) => t.position + 1),
    y,
    customdata: of.map((t) => [
      `“${cell(piece(lane, t.id))}” ${t.accepted ? 'accepted' : 'rejected'}`,
      testWords(t, greedy).replace(/[,;] /g, '<br>'),
    ]),
    marker,
    hovertemplate: '%{customdata[0]}<br>%{customdata[1]}<extra>position %{x}</extra>',
  });
  const drawn = greedy ? [] : tests.filter((t) => t.draw !== null);
  return {
    data: [
      {
        type: 'bar',
        x: testedAt.map((_, i) => i + 1),
        y: testedAt.map((n, i) => acceptedAt[i] / n),
        customdata: testedAt.map((n, i) => [acceptedAt[i], n]),
        marker: { color: '@draft-tint', line: { color: '@draft', width: 1 } },
        hovertemplate: 'position %{x}: %{customdata[0]} of %{customdata[1]} tests accepted so ' +
          'far<extra></extra>',
      },
      marks(tests, tests.map((t) => t.threshold), {
        size: 10,
        symbol: tests.map((t) => t.accepted ? 'circle' : 'x'),
        color: tests.map((t) => t.accepted ? '@draft' : '@residual'),
        line: { color: '@card', width: 1 },
      }),
      marks(drawn, drawn.map((t) => t.draw), {
        size: 15,
        symbol: 'line-ew',
        line: { color: '@ink', width: 2 },
      }),
    ],
    layout: {
      xaxis: positions(Math.max(1, ...lane.rounds.map((round) => round.size)), 0.4),
      yaxis: { title: 'acceptance probability', range: [-0.04, 1.06], dtick: 0.25 },
    },
  };
}

/** Confidence by denoising step and position of a round. @param {Scene} scene
 *  @returns {Partial<Figure>} */
export function confidenceFigure({ lane, view }) {
  if (!lane) return { empty: 'Vanilla has no drafter.' };
  if (!view?.passes.length) {
    return {
      empty: view?.copied
        ? 'A copied draft has no confidence, because it needs no drafter pass.'
        : 'No drafter pass of this round has been recorded yet.',
    };
  }
  const { passes, size } = view;
  const total = Math.max(view.steps, passes.length);
  const x = Array.from({ length: size }, (_, i) => i + 1);
  const rows = Array.from({ length: total }, (_, step) => passes[step]); // undefined: still to come
  return {
    data: [{
      type: 'heatmap',
      x,
      y: rows.map((_, step) => step + 1),
      // a tree may be shallower than the window
      z: rows.map((pass) => pass ? pass.confidence.slice(0, size) : x.map(() => null)),
      text: rows.map((pass) =>
        x.map((_, i) => {
          const id = pass?.ids[i] ?? null;
          return id === null ? 'masked' : `“${cell(piece(lane, id))}”`;
        })
      ),
      zmin: 0,
      zmax: 1,
      xgap: 2,
      ygap: 2,
      colorscale: [[0, '@raised'], [0.02, '@draft-tint'], [1, '@draft']],
      hovertemplate: 'position %{x}, step %{y}<br>%{text}<br>confidence %{z:.7~g}<extra></extra>',
      colorbar: {
        thickness: 8,
        len: 1,
        outlinewidth: 0,
        tickfont: { size: 10.5, color: '@muted' },
        tickvals: [0, 0.5, 1],
      },
    }],
    layout: {
      xaxis: positions(size, 0.5),
      yaxis: {
        title: 'denoising step',
        autorange: 'reversed',
        dtick: total > 12 ? 4 : 1,
        showgrid: false,
      },
    },
  };
}
