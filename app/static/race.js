// The player of the Race tab: any lanes on one axis of decode time, one of them selected for the window below.

import { App, listen } from './app.js';
import { Player } from './player.js';
import { baselineOf, choose, raceStops, rowAt, shortName, standings } from './standings.js';
import { buildLane, check, piece, sharePieces, stateAt, waiting } from './fold.js';
import { layOutRace } from './race_layout.js';
import { REFUSAL, measuring } from './measuring.js';
import { busyWords, narrate } from './words.js';
import { openTab, takeRaces } from './tabs.js';
import { stylesOf } from './race_chart.js';
import { attribute, text } from './dom.js';
import { unzip } from './trace.js';

class Race extends App {
  constructor(root, options) {
    super(root, options, { run: 'race-run', stop: 'race-stop', queue: 'race-queue', prefix: 'race' });
    this.crowded = options.crowded;
    this.follow = true; // while measuring, the lane that is measured is the selected one, until somebody chooses
    this.methods = options.methods; // name -> {label, paper}
    this.names = [];
    this.own = {}; // labels that came with a recording
    this.kept = {}; // those of the trace, while another race is measured
    this.calls = 0; // recordings and files that were asked for
    this.selected = null;
    this.root.classList.add('race-none');
  }

  arrange(options) {
    return layOutRace(this.root, { ...options, select: (name) => this.select(name), redraw: () => this.redraw() });
  }

  get elsewhere() {
    return true; // Live shows it
  }

  get everyone() {
    return 'all lanes';
  }

  spoken(lane) {
    return this.label(lane);
  }

  label(name) {
    if (Object.hasOwn(this.own, name)) return this.own[name];
    return Object.hasOwn(this.methods, name) ? this.methods[name].label : shortName(name);
  }

  /** The paper of the method that a lane is named after. */
  about(name) {
    return Object.hasOwn(this.methods, name) && !Object.hasOwn(this.own, name) ? this.methods[name].paper : '';
  }

  /** The lanes that are on the stage: of the trace, or of the race that is measured. */
  stage(names, lanes) {
    const labels = Object.fromEntries(names.map((name) => [name, this.label(name)]));
    const abouts = Object.fromEntries(names.map((name) => [name, this.about(name)]));
    this.baseline = baselineOf(lanes, names);
    this.styles = stylesOf(names, this.baseline);
    this.short = Object.fromEntries(names.map((name) => [name, shortName(name, this.own)]));
    this.list.reset(names, lanes, labels, abouts, this.styles);
    this.texts.reset(names, lanes, labels, this.styles);
    this.root.classList.toggle('race-none', !names.length);
    this.root.classList.toggle('race-untold', !this.trace);
    this.doubt(names, lanes);
  }

  /** Strike the speed-ups of lanes that were measured on a busy machine, and say why. */
  doubt(names, lanes) {
    const busy = (name) => (waiting(lanes[name]) ?? 0) >= this.crowded;
    for (const [name, row] of this.list.rows) {
      const waits = [name, this.baseline].filter((one, i, all) => one && all.indexOf(one) === i && busy(one));
      row.doubt(waits.length ? busyWords(waits.map((one) => [this.short[one], waiting(lanes[one])])) : '');
    }
  }

  clear(message) {
    const known = this.live && this.live.run === message.run;
    super.clear(message);
    if (known || !this.live.coming) return;
    this.own = {};
    this.calls += 1; // no recording that is still under way may take its place
    this.follow = true;
    if (!this.live.coming.includes(this.selected)) this.selected = this.live.coming[this.live.coming.length - 1];
    this.stage(this.live.coming, {});
    this.point();
    this.window.reset();
    this.rounds.reset(null);
  }

  async receive(message) {
    const file = message.source === 'file';
    if (file && message.trace) this.calls += 1; // what was asked for before comes too late
    await super.receive(message);
    if (file && message.trace) openTab('race');
  }

  /**
   * A race that somebody asked for: {url, lanes, title, labels, source}; of several the last. `source`: 'recording', or
   * 'measured' for one that was measured here.
   */
  async open({ url, lanes = null, title = '', labels = {}, source = 'recording' }) {
    if (measuring()) {
      this.card.show(REFUSAL);
      return;
    }
    const call = (this.calls += 1);
    try {
      const answer = await fetch(new URL(url, document.baseURI));
      if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
      const trace = await unzip(new Uint8Array(await answer.arrayBuffer()));
      if (call !== this.calls || measuring()) return;
      this.card.hide();
      this.show({ ...trace, title: title || trace.title }, source, { wanted: lanes, labels, asked: true });
    } catch (error) {
      if (call !== this.calls) return;
      this.card.show({ title: 'This recording could not be shown', message: 'It did not arrive whole, or holds none of the lanes that were asked for.', hint: 'Reload the page, or press Run race for one of your own.', field: '' });
      console.warn('recording not shown:', error);
    }
  }

  /** Put a trace on the stage and play it. */
  show(trace, source, { wanted = null, labels = {}, asked = false } = {}) {
    if (source === 'recording' && !asked && this.calls) return; // the opening recording, after one that was asked for
    const { names, left } = choose(trace.lanes, wanted);
    if (!names.length) throw new TypeError('a race without lanes');
    const lanes = Object.fromEntries(names.map((name) => [name, trace.lanes[name].length ? buildLane(trace.lanes[name]) : null]));
    for (const lane of Object.values(lanes)) if (lane) check(lane); // before anything on the stage is touched
    sharePieces(Object.values(lanes).filter(Boolean));
    Object.assign(this, { trace, names, lanes, left, own: labels, kept: labels });
    this.told = [trace.title === 'Stopped run' ? 'stopped' : source, { lanes }, trace.title];
    this.ends = standings(lanes, names);
    this.total = Math.max(1, ...Object.values(lanes).filter(Boolean).map((lane) => lane.shown.length));
    this.states = Object.fromEntries(names.map((name) => [name, null]));
    const there = names.filter((name) => lanes[name]);
    if (wanted || this.follow || !there.includes(this.selected)) this.selected = this.latest();
    const durations = there.map((name) => lanes[name].duration);
    this.player = new Player({ duration: Math.max(0, ...durations), stops: raceStops(lanes, names, this.selected) });
    this.bar.reset(this.player);
    this.restage();
    if (window.matchMedia('(prefers-reduced-motion: reduce)').matches) this.player.seek(this.player.duration);
    else if (!measuring()) this.player.play();
    this.redraw();
  }

  /** The last lane of the trace that has events. */
  latest() {
    const there = this.names.filter((name) => this.lanes[name]);
    return there[there.length - 1] ?? this.names[this.names.length - 1];
  }

  /** Give the stage back to the trace (a live run may have borrowed it). */
  restage() {
    if (!this.trace) {
      this.stage([], {});
      return;
    }
    this.own = this.kept;
    if (!this.names.includes(this.selected)) this.selected = this.latest();
    this.source.reset(...this.told);
    const more = this.left ? ` · ${this.left} more lanes are not shown` : '';
    const title = ['recording', 'measured', 'file'].includes(this.told[0]) ? ` · ${this.trace.title}` : '';
    text(this.source.words, `${this.source.words.textContent.replace(' · press Run for your own', '')}${title}${more}`);
    this.stage(this.names, this.lanes);
    this.point();
    this.redraw();
  }

  /** Choose the lane whose text, window and numbers are shown. The playhead stays where it is. */
  select(name) {
    this.follow = false;
    if (this.selected === name) return;
    this.selected = name;
    if (this.player.stop >= 0) this.player.seek(this.player.t);
    this.point();
    this.redraw();
    if (!this.player.playing) this.say();
  }

  point() {
    const { selected } = this;
    this.list.select(selected);
    this.texts.select(selected);
    text(this.chosen, selected ? this.label(selected) : '');
    attribute(this.panel, 'aria-label', selected ? this.label(selected) : 'Selected lane');
    if (this.live) return;
    const lane = this.lanes[selected];
    const plain = selected === this.baseline;
    this.player.stops = raceStops(this.lanes, this.names, selected);
    this.window.reset();
    this.rounds.reset(plain ? null : lane);
    this.rail.reset({ drafted: plain ? null : lane, vanilla: this.lanes[this.baseline] ?? null }, { drafted: this.short[selected], vanilla: this.short[this.baseline] });
    this.texts.draw(this.lanes, this.states, null, this.absent);
  }

  get absent() {
    return this.trace && this.trace.title === 'Stopped run' ? 'Stopped before its turn.' : 'This trace has no events of this lane.';
  }

  /** Stand on the verdict of a round of the selected lane. */
  jump(round) {
    const index = this.player.stops.findIndex((stop) => {
      if (stop.lane !== this.selected) return false;
      const event = this.lanes[this.selected].events[stop.n - 1];
      return event.kind === 'Committed' && event.round === round;
    });
    if (index >= 0) this.act(() => this.player.stand(index));
  }

  draw() {
    if (!this.trace) return;
    const { player, lanes, states, names, selected, baseline } = this;
    for (const name of names) if (lanes[name]) states[name] = stateAt(lanes[name], this.passed(name), states[name]);
    const plain = selected === baseline;
    const lane = lanes[selected];
    const { view, ahead } = plain || !lane ? { view: null, ahead: false } : this.visibleWindow(states[selected]);
    const rows = Object.fromEntries(names.map((name) => [name, rowAt(lanes, states, name, baseline, player.t, this.total)]));
    for (const [name, row] of this.list.rows) {
      if (rows[name]) row.draw(lanes[name], rows[name], this.ends[name]);
      else row.say(this.absent);
    }
    this.texts.draw(lanes, states, view, this.absent);
    this.drawWindow(lane, view, ahead, plain);
    const clocks = Object.fromEntries(names.map((name) => [name, rows[name] ? rows[name].clock : null]));
    const pair = (of) => ({ drafted: plain ? null : of[selected] ?? null, vanilla: baseline ? of[baseline] ?? null : null });
    this.rail.draw(pair(states), pair(clocks));
    if (plain) text(this.rail.speedWords, 'the baseline: every speed-up of this race is over its tokens per second');
    this.bar.draw(player);
    const race = { names, labels: this.short, styles: this.styles, states: { ...states }, clocks, duration: player.duration, total: this.total, selected };
    this.charts.offer({ lanes: pair(lanes), states: pair(states), clocks: pair(clocks), view, duration: player.duration, race });
  }

  drawWindow(lane, view, ahead, plain) {
    if (plain || !lane || !lane.header) {
      const words = plain && lane ? 'Vanilla drafts nothing: every token costs one pass of the target. Select another lane to see its window.'
        : lane && lane.failed ? `This lane has no window: ${lane.failed.message}` : this.absent;
      this.window.draw(null, null, words, false);
      return;
    }
    this.window.draw(view, lane, narrate(view, (id) => piece(lane, id)), ahead);
    this.rounds.draw(this.states[this.selected], view);
  }

  /** What was heard of a race that is measured. Its numbers follow when all lanes are done. */
  drawLive() {
    const { events, coming, lane: now, phase } = this.live;
    const lanes = {};
    const states = {};
    if (this.follow && now && now !== this.selected) {
      this.selected = now;
      this.point();
    }
    for (const name of coming || Object.keys(events)) {
      const row = this.list.rows.get(name);
      if (!row) continue;
      const lane = events[name] ? buildLane(events[name]) : null;
      if (!lane) {
        row.mark(name === now ? '…' : '', name === now ? 'now' : 'waits');
        row.say(name === now && phase === 'loading' ? 'made ready' : 'waits for its turn');
        continue;
      }
      lanes[name] = lane;
      states[name] = stateAt(lane, lane.events.length);
      const total = lane.header ? lane.header.config.max_new_tokens : 1;
      if (!row.heard && lane.header) row.reset(lane, this.about(name));
      row.heard = Boolean(lane.header);
      row.draw(lane, rowAt(lanes, states, name, null, lane.duration, total), { short: false, done: false });
      if (lane.failed) continue;
      if (lane.finished) row.mark('✓', 'measured');
      else row.mark('…', 'now');
    }
    this.texts.draw(lanes, states, null, 'Waits for its turn.');
  }
}

/** Called by the component (app/build.py) once per page. */
export function mount(element, props, watch, options) {
  const root = element.querySelector('.sd');
  const app = new Race(root, options);
  window.specdiffRace = app;
  listen(app, props, watch, { late: true });
  takeRaces((detail) => app.open(detail));
}
