// Plotly figures of the latest state, updated at most 12 times a second and only while visible.
// Keeps its own reference to Plotly, because other components may replace the global one.

import { glossAxis } from './glossary.js';
import { text } from './dom.js';
import { labelHeights } from '../state/race.js';
import { piece } from '../state/detokenize.js';
import { cell, exact } from '../state/format.js';
/** @import { Scene } from '../state/stage.js' */

/** @typedef {Record<string, string>} Colours by role of the palette */
/** @typedef {{data: object[], layout: object} | string} Figure or why there is none */

const LEAST_MS = 1000 / 12;
const SHARE = 5; // at most a fifth of the time goes into charts
let library = null;

/** Load Plotly once, from this server. */
function loadPlotly(address) {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = address;
    script.onload = () => resolve(/** @type {any} */ (window).Plotly);
    script.onerror = () => reject(new Error('Plotly could not be loaded'));
    document.head.append(script);
  });
  return library;
}

/** Colours of the page by role, from the palette's custom properties. */
function colours(element) {
  const style = getComputedStyle(element);
  return new Proxy({}, { get: (_, role) => style.getPropertyValue(`--sd-${String(role)}`).trim() });
}

export const axis = (/** @type {Colours} */ c, title, more = {}) => ({
  title: { text: title, font: { size: 11.5, color: c.muted }, standoff: 6 },
  gridcolor: c.line,
  linecolor: c.line,
  zeroline: false,
  tickfont: { size: 11, color: c.muted },
  automargin: true,
  fixedrange: true,
  ...more,
});

export const layout = (
  /** @type {Colours} */ c,
  /** @type {object} */ x,
  /** @type {object} */ y,
) => ({
  margin: { l: 44, r: 10, t: 8, b: 38 },
  showlegend: false,
  paper_bgcolor: 'rgba(0,0,0,0)',
  plot_bgcolor: 'rgba(0,0,0,0)',
  font: { family: 'Inter, system-ui, sans-serif', size: 12, color: c.ink },
  xaxis: x,
  yaxis: y,
  uirevision: 'keep',
  hoverlabel: { bgcolor: c.card, bordercolor: c.edge, font: { color: c.ink, size: 12 } },
  bargap: 0.35,
  dragmode: false,
});

/** Escape a label: Plotly interprets markup, and a lane's name may be foreign. */
export const escaped = (words) =>
  words.replace(/&/g, '&amp;').replace(/</g, '&lt;').replace(/>/g, '&gt;');

/** Tokens over decode time of all lanes, up to now: colour, dash, mark and a label on each line. @param {Scene} scene @param {Colours} c */
export function tokensFigure({ names, named, states, clocks, duration, total, selected }, c) {
  const most = Math.max(1, total);
  const gap = most * 0.075;
  const drawn = names.flatMap((name) => { // leaves out lanes that failed before their first token
    const [state, clock] = [states[name], clocks[name]];
    return state && clock && named[name] && (state.tokens.length || !clock.done)
      ? [{ name, own: named[name], points: state.points, clock }]
      : [];
  });
  if (!drawn.length) return 'Each lane gets a line when it has tokens.';
  const data = drawn.map(({ name, own, points, clock }) => {
    const x = [...points.map((point) => point.t), clock.seconds];
    const y = [...points.map((point) => point.total), points[points.length - 1].total];
    return {
      x,
      y,
      name: own.label,
      type: 'scatter',
      mode: 'lines+markers',
      marker: {
        symbol: own.mark,
        size: 8,
        opacity: x.map((_, i) => Number(i === x.length - 1)),
        color: c[own.colour],
      },
      line: {
        shape: 'hv',
        width: name === selected ? 3 : 1.8,
        color: c[own.colour],
        dash: own.dash,
      },
      hovertemplate: `${escaped(own.label)}: %{y} tokens at %{x:.4f} s<extra></extra>`,
    };
  });
  const ends = drawn.map(({ points, clock }) => ({
    x: clock.seconds,
    y: points[points.length - 1].total,
    done: clock.done,
  }));
  const heights = labelHeights(ends, most, gap);
  const annotations = drawn.map(({ own }, i) => ({
    x: ends[i].x,
    y: ends[i].y,
    ax: ends[i].x,
    ay: heights[i],
    axref: 'x',
    ayref: 'y',
    text: escaped(own.label),
    showarrow: true,
    arrowhead: 0,
    arrowwidth: 1,
    arrowcolor: c[own.colour],
    font: { size: 11.5, color: c[own.colour] },
    bgcolor: c.card,
    borderpad: 1,
    xanchor: ends[i].x > 0.55 * duration ? 'right' : 'left',
    xshift: 0,
  }));
  const y = axis(c, 'tokens', {
    range: [0, most + gap * (names.length + 1)],
    tickvals: ticks(most),
  });
  const x = axis(c, 'decode time, s', { range: [0, duration * 1.04 || 1] });
  return { data, layout: { ...layout(c, x, y), annotations } };
}

/** Round tick values up to the longest text; the space for labels above it has none. */
function ticks(most) {
  const step = [1, 2, 5, 10, 20, 25, 50, 100, 200].find((value) => most / value <= 6) || 100;
  return Array.from({ length: Math.floor(most / step) + 1 }, (_, i) => i * step);
}

/** Shares accepted by position, and this round's tests. @param {Scene} scene @param {Colours} c */
export function acceptanceFigure({ lane, state, view }, c) {
  if (!lane || !state) return 'Vanilla drafts nothing, so nothing is tested.';
  const { testedAt, acceptedAt } = state.sums;
  const tests = view && view.verified ? view.verified.tests : [];
  if (!testedAt.length && !tests.length) return 'No draft has been tested yet.';
  const word = (id) => cell(piece(lane, id));
  const greedy = lane.header?.config.temperature === 0; // then u has no effect
  const marks = (of, y, marker) => ({
    type: 'scatter',
    mode: 'markers',
    x: of.map((t) => t.position + 1),
    y,
    customdata: of.map((t) => [
      cell(piece(lane, t.id)),
      ...[t.p, t.q, t.threshold].map(exact),
      t.draw === null ? 'none (shared noise)' : exact(t.draw),
      t.accepted ? 'accepted' : 'rejected',
    ]),
    marker,
    hovertemplate:
      '“%{customdata[0]}” %{customdata[5]}<br>p = %{customdata[1]}<br>q = %{customdata[2]}<br>threshold = %{customdata[3]}<br>u = %{customdata[4]}<extra>position %{x}</extra>',
  });
  const drawn = greedy ? [] : tests.filter((t) => t.draw !== null);
  const data = [
    {
      type: 'bar',
      x: testedAt.map((_, i) => i + 1),
      y: testedAt.map((n, i) => acceptedAt[i] / n),
      customdata: testedAt.map((n, i) => [acceptedAt[i], n]),
      marker: { color: c['draft-tint'], line: { color: c.draft, width: 1 } },
      hovertemplate:
        'position %{x}: %{customdata[0]} of %{customdata[1]} tests accepted so far<extra></extra>',
    },
    marks(tests, tests.map((t) => t.threshold), {
      size: 10,
      symbol: tests.map((t) => t.accepted ? 'circle' : 'x'),
      color: tests.map((t) => t.accepted ? c.draft : c.residual),
      line: { color: c.card, width: 1 },
    }),
    marks(drawn, drawn.map((t) => t.draw), {
      size: 15,
      symbol: 'line-ew',
      line: { color: c.ink, width: 2 },
    }),
  ];
  const width = Math.max(1, ...lane.rounds.map((round) => round.size));
  const y = axis(c, 'acceptance probability', { range: [-0.04, 1.06], dtick: 0.25 });
  return { data, layout: layout(c, positions(c, width, 0.4), y) };
}

/** The axis of the positions in a window. @param {Colours} c */
const positions = (c, size, start) =>
  axis(c, 'position in the window', {
    range: [start, size + 1 - start],
    dtick: size > 16 ? 4 : 1,
    showgrid: false,
  });

/** Confidence by denoising step and position of a round. @param {Scene} scene @param {Colours} c */
export function confidenceFigure({ lane, view }, c) {
  if (!lane) return 'Vanilla has no drafter.';
  if (!view || !view.passes.length) {
    return view && view.copied
      ? 'A copied draft has no confidence, because it needs no drafter pass.'
      : 'No drafter pass of this round has been recorded yet.';
  }
  const steps = view.passes;
  const total = Math.max(view.steps, steps.length, 1);
  const x = Array.from({ length: view.size }, (_, i) => i + 1);
  const rows = Array.from({ length: total }, (_, s) => s);
  const z = rows.map((s) => steps[s] ? steps[s].confidence.slice(0, view.size) : x.map(() => null)); // a tree may be shallower than the window
  const words = rows.map((s) =>
    x.map((_, i) => {
      const id = steps[s] ? steps[s].ids[i] : null;
      return id === null || id === undefined ? 'masked' : `“${cell(piece(lane, id))}”`;
    })
  );
  const data = [{
    type: 'heatmap',
    x,
    y: rows.map((s) => s + 1),
    z,
    text: words,
    zmin: 0,
    zmax: 1,
    xgap: 2,
    ygap: 2,
    colorscale: [[0, c.raised], [0.02, c['draft-tint']], [1, c.draft]],
    hovertemplate: 'position %{x}, step %{y}<br>%{text}<br>confidence %{z:.7~g}<extra></extra>',
    colorbar: {
      thickness: 8,
      len: 1,
      outlinewidth: 0,
      tickfont: { size: 10.5, color: c.muted },
      tickvals: [0, 0.5, 1],
    },
  }];
  const y = axis(c, 'denoising step', {
    autorange: 'reversed',
    dtick: total > 12 ? 4 : 1,
    showgrid: false,
  });
  return { data, layout: layout(c, positions(c, view.size, 0.5), y) };
}

/** Attach the meanings of symbols to the titles of a figure's axes. @param {HTMLElement} element */
function titles(element) {
  for (const title of element.querySelectorAll('.xtitle, .ytitle, .y2title')) {
    const name = title.classList[0].replace('title', '').replace(/^[xy]/, '$&axis'); // yaxis2
    const words = /** @type {any} */ (element).layout[name].title.text;
    glossAxis(title, words.replace('<sub>', '_').replace(/<[^>]*>/g, '')); // as in prose
  }
}

/** Draws figures in its own animation frames, while something new is on screen. */
export class Charts {
  /**
   * @param {Record<string, HTMLElement>} places figure name -> element
   * @param {Record<string, (scene: any, c: Colours) => Figure>} figures
   * @param {{plotly: string, without: string, share?: number, drawn?: (place: HTMLElement) => void}} options address of Plotly;
   *   shown if it cannot be loaded; at most one part in `share` of the time goes into figures; called after each drawing
   */
  constructor(places, figures, { plotly: address, without, share = SHARE, drawn = () => {} }) {
    this.places = places;
    this.figures = figures;
    this.share = share;
    this.drawn = drawn;
    this.visible = new Set();
    this.last = 0;
    this.pause = LEAST_MS;
    this.scene = null;
    this.dirty = new Set();
    this.frame = 0; // id of the requested animation frame
    this.plotly = null;
    const watcher = new IntersectionObserver((entries) => {
      for (const { target, isIntersecting } of entries) {
        const name = /** @type {HTMLElement} */ (target).dataset.figure ?? '';
        if (isIntersecting) this.visible.add(name);
        else this.visible.delete(name);
      }
      this.last = 0;
      this.wake();
    });
    for (const [name, element] of Object.entries(places)) {
      element.dataset.figure = name;
      watcher.observe(element);
    }
    new MutationObserver(() => this.offer(this.scene)).observe(document.body, {
      attributeFilter: ['class'],
    }); // figures contain the theme's colours
    loadPlotly(address).then((plotly) => {
      this.plotly = plotly;
      this.wake();
    }, (error) => {
      console.warn('no charts:', error);
      for (const element of Object.values(places)) element.textContent = without;
    });
  }

  /** Set the newest scene; earlier undrawn ones are dropped. */
  offer(scene) {
    this.scene = scene;
    for (const name of Object.keys(this.places)) this.dirty.add(name); // in waiting order
    this.wake();
  }

  /** Show a sentence instead of every figure. */
  blank(words) {
    this.scene = null;
    for (const element of Object.values(this.places)) this.say(element, words);
  }

  say(element, words) {
    if (this.plotly && element.classList.contains('js-plotly-plot')) this.plotly.purge(element);
    element.dataset.empty = 'true';
    text(element, words);
  }

  /** The visible figure that has waited longest for an update, if any. */
  get waiting() {
    return this.plotly && this.scene
      ? [...this.dirty].find((one) => this.visible.has(one))
      : undefined;
  }

  wake() {
    if (!this.frame && this.waiting) this.frame = requestAnimationFrame((now) => this.tick(now));
  }

  tick(now) {
    this.frame = 0;
    const name = this.waiting;
    if (name && now - this.last >= this.pause && this.places[name].offsetParent) {
      const began = performance.now();
      this.dirty.delete(name);
      try {
        const place = this.places[name];
        this.draw(place, this.figures[name](this.scene, colours(place)));
      } catch (error) {
        console.error('a figure could not be drawn:', error); // others continue
      }
      this.last = now;
      this.pause = Math.max(LEAST_MS, this.share * (performance.now() - began)); // no backlog
    }
    this.wake();
  }

  /** @param {Figure} figure */
  draw(element, figure) {
    if (typeof figure === 'string') {
      this.say(element, figure);
      return;
    }
    if (element.dataset.empty) element.textContent = '';
    delete element.dataset.empty;
    const made = !element.classList.contains('js-plotly-plot');
    this.plotly.react(element, figure.data, figure.layout, {
      displayModeBar: false,
      responsive: true,
    });
    if (made) /** @type {any} */ (element).on('plotly_afterplot', () => titles(element)); // resized
    titles(element);
    this.drawn(element);
  }
}
