// Live Plotly charts: latest state only, at most 12 updates a second, drawn only while visible. Keeps its own reference
// to Plotly, because other components may replace the global one.

import { piece } from './fold.js';
import { cell, exact } from './words.js';

const LEAST_MS = 1000 / 12;
const SHARE = 5; // at most a fifth of the time goes into charts
const LANE_ROLES = Array.from({ length: 7 }, (_, i) => `lane-${i + 1}`); // app/palette.py
let library = null;

/** Load Plotly once, from this server. */
export function loadPlotly(address) {
  library ??= new Promise((resolve, reject) => {
    const script = document.createElement('script');
    script.src = address;
    script.onload = () => resolve(window.Plotly);
    script.onerror = () => reject(new Error('Plotly could not be loaded'));
    document.head.append(script);
  });
  return library;
}

/** Colours of the page, read from the palette's custom properties. */
function colours(element) {
  const style = getComputedStyle(element);
  const role = (name) => style.getPropertyValue(`--sd-${name}`).trim();
  return Object.fromEntries(['ink', 'muted', 'line', 'card', 'draft', 'draft-tint', 'deep', 'residual', 'bonus', 'target', 'mask', 'raised', 'edge', ...LANE_ROLES].map((name) => [name, role(name)]));
}

export const axis = (c, title, more = {}) => ({
  title: { text: title, font: { size: 11.5, color: c.muted }, standoff: 6 }, gridcolor: c.line, linecolor: c.line, zeroline: false,
  tickfont: { size: 11, color: c.muted }, fixedrange: false, automargin: true, ...more,
});

export const layout = (c, x, y) => ({
  margin: { l: 44, r: 10, t: 8, b: 38 }, paper_bgcolor: 'rgba(0,0,0,0)', plot_bgcolor: 'rgba(0,0,0,0)', showlegend: false,
  font: { family: getComputedStyle(document.body).fontFamily, size: 12, color: c.ink }, xaxis: x, yaxis: y, uirevision: 'keep',
  hoverlabel: { bgcolor: c.card, bordercolor: c.edge, font: { color: c.ink, size: 12 } }, bargap: 0.35, dragmode: false,
});

/** Tokens over decode time of both lanes, up to now. */
export function tokensFigure(scene, c) {
  const line = (name, state, clock, style) => {
    const points = state ? state.points : [];
    const x = points.map((point) => point.t);
    const y = points.map((point) => point.total);
    if (clock && points.length) {
      x.push(clock.seconds);
      y.push(y[y.length - 1]);
    }
    return { x, y, name, type: 'scatter', mode: 'lines', line: { shape: 'hv', width: 2, ...style },
      hovertemplate: `${name}: %{y} tokens at %{x:.4f} s<extra></extra>` };
  };
  const data = [
    line('vanilla', scene.states.vanilla, scene.clocks.vanilla, { color: c.target, dash: 'dot' }),
    line('drafted', scene.states.drafted, scene.clocks.drafted, { color: c.draft }),
  ];
  const most = Math.max(1, ...Object.values(scene.lanes).filter(Boolean).map((lane) => lane.shown.length));
  return { data, layout: layout(c, axis(c, 'decode time, s', { range: [0, scene.duration * 1.02 || 1] }), axis(c, 'tokens', { range: [0, most * 1.06] })) };
}

/** Share accepted at each position so far, and the tests of the round on screen. */
export function acceptanceFigure(scene, c) {
  const { drafted } = scene.states;
  const sums = drafted ? drafted.sums : { testedAt: [], acceptedAt: [] };
  const tests = scene.view && scene.view.verified ? scene.view.verified.tests : [];
  const word = (id) => cell(piece(scene.lanes.drafted, id));
  const positions = sums.testedAt.map((_, i) => i + 1);
  const details = tests.map((t) => [word(t.id), exact(t.p), exact(t.q), exact(t.threshold), t.draw === null ? 'none (shared noise)' : exact(t.draw), t.accepted ? 'accepted' : 'refused']);
  const template = '“%{customdata[0]}” %{customdata[5]}<br>p = %{customdata[1]}<br>q = %{customdata[2]}<br>threshold = %{customdata[3]}<br>u = %{customdata[4]}<extra>position %{x}</extra>';
  const drawn = tests.filter((t) => t.draw !== null);
  const data = [
    { type: 'bar', x: positions, y: sums.testedAt.map((n, i) => sums.acceptedAt[i] / n), customdata: sums.testedAt.map((n, i) => [sums.acceptedAt[i], n]),
      marker: { color: c['draft-tint'], line: { color: c.draft, width: 1 } }, hovertemplate: 'position %{x}: %{customdata[0]} of %{customdata[1]} tests accepted so far<extra></extra>' },
    { type: 'scatter', mode: 'markers', x: tests.map((t) => t.position + 1), y: tests.map((t) => t.threshold), customdata: details,
      marker: { size: 10, symbol: tests.map((t) => (t.accepted ? 'circle' : 'x')), color: tests.map((t) => (t.accepted ? c.draft : c.residual)), line: { color: c.card, width: 1 } }, hovertemplate: template },
    { type: 'scatter', mode: 'markers', x: drawn.map((t) => t.position + 1), y: drawn.map((t) => t.draw), customdata: details.filter((_, i) => tests[i].draw !== null),
      marker: { size: 15, symbol: 'line-ew', line: { color: c.ink, width: 2 } }, hovertemplate: template },
  ];
  const width = Math.max(1, ...(scene.lanes.drafted ? scene.lanes.drafted.rounds.map((round) => round.size) : [1]));
  return { data, layout: layout(c, axis(c, 'position in the window', { range: [0.4, width + 0.6], dtick: width > 16 ? 4 : 1, showgrid: false }), axis(c, 'acceptance probability', { range: [-0.04, 1.06], dtick: 0.25 })) };
}

/** Confidence of each denoising step at each position of the round on screen. */
export function confidenceFigure(scene, c) {
  const steps = scene.view ? scene.view.steps : [];
  const size = scene.view ? scene.view.size : 0;
  const total = scene.view ? Math.max(scene.view.total, steps.length, 1) : 1;
  const x = Array.from({ length: size }, (_, i) => i + 1);
  const z = Array.from({ length: total }, (_, s) => (steps[s] ? steps[s].confidence : x.map(() => null)));
  const words = Array.from({ length: total }, (_, s) => x.map((_, i) => {
    const id = steps[s] ? steps[s].ids[i] : null;
    return id === null || id === undefined ? 'masked' : `“${cell(piece(scene.lanes.drafted, id))}”`;
  }));
  const data = [{ type: 'heatmap', x, y: Array.from({ length: total }, (_, s) => s + 1), z, text: words, zmin: 0, zmax: 1, xgap: 2, ygap: 2,
    colorscale: [[0, c.raised], [0.02, c['draft-tint']], [1, c.draft]], hovertemplate: 'position %{x}, step %{y}<br>%{text}<br>confidence %{z:.7~g}<extra></extra>',
    colorbar: { thickness: 8, len: 1, outlinewidth: 0, tickfont: { size: 10.5, color: c.muted }, tickvals: [0, 0.5, 1] } }];
  return { data, layout: layout(c, axis(c, 'position in the window', { dtick: size > 16 ? 4 : 1, showgrid: false, range: [0.5, Math.max(1, size) + 0.5] }), axis(c, 'denoising step', { autorange: 'reversed', dtick: total > 12 ? 4 : 1, showgrid: false })) };
}

export class Charts {
  /**
   * @param {Record<string, HTMLElement>} places figure name -> element
   * @param {() => void} wake asks for animation frames again
   */
  constructor(places, figures, address, wake) {
    this.places = places;
    this.figures = figures;
    this.visible = new Set();
    this.last = 0;
    this.pause = LEAST_MS;
    this.scene = null;
    this.dirty = new Set();
    this.plotly = null;
    const watcher = new IntersectionObserver((entries) => {
      for (const entry of entries) {
        if (entry.isIntersecting) this.visible.add(entry.target.dataset.figure);
        else this.visible.delete(entry.target.dataset.figure);
      }
      this.last = 0;
      wake();
    });
    for (const [name, element] of Object.entries(places)) {
      element.dataset.figure = name;
      watcher.observe(element);
    }
    loadPlotly(address).then((plotly) => { this.plotly = plotly; wake(); }, (error) => {
      console.warn('no charts:', error);
      for (const element of Object.values(places)) element.textContent = 'The chart library could not be loaded; all numbers above are complete without it.';
    });
  }

  /** Remember the newest scene; older ones that were not drawn are dropped. */
  offer(scene) {
    this.scene = scene;
    for (const name of Object.keys(this.places)) this.dirty.add(name); // keeps the order of those already waiting
  }

  /** The figure that waited longest among those on screen, if one has something new. */
  get waiting() {
    return this.plotly && this.scene ? [...this.dirty].find((one) => this.visible.has(one)) : undefined;
  }

  /** Called in animation frames, as long as one is waiting. */
  tick(now) {
    const name = this.waiting;
    if (!name || now - this.last < this.pause) return;
    this.dirty.delete(name);
    const element = this.places[name];
    const figure = this.figures[name](this.scene, colours(element));
    const began = performance.now();
    this.plotly.react(element, figure.data, figure.layout, { displayModeBar: false, responsive: true });
    this.last = now;
    this.pause = Math.max(LEAST_MS, SHARE * (performance.now() - began)); // a slow machine gets fewer, never a backlog
  }
}
