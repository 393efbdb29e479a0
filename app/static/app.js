// The player of the page, for any number of lanes: it holds the trace of this visitor in the browser and moves the
// playhead; it hears the server and asks it for nothing while it plays. Live and Race are two of it.
// @ts-check

import { Playhead, autoSlow } from './state/playhead.js';
import { baselineOf, choose, passed, rowAt, standings, stopsOf } from './state/race.js';
import { momentAt, momentQuery, readMoment, stopOf } from './state/moment.js';
import { buildLane, isServed, isVanilla, stateAt } from './state/lane.js';
import { tokenOf } from './state/inspect.js';
import { busyWords, narrate, queueWords } from './state/format.js';
import { fetchTrace, gzip, serialise, unpack } from './state/trace.js';
import { nameLanes } from './state/marks.js';
import { runOf } from './state/findings.js';
import { piece, sharePieces } from './state/detokenize.js';
import { waiting } from './state/metrics.js';
import { Job, listen } from './job.js';
import { REFUSAL, isOpen, isShown, keepRuns, measuring, openTab, register } from './page.js';
import { commit, land } from './views/commit.js';
import { download, text } from './views/dom.js';
import { giveLink, say } from './views/link.js';
import { know } from './views/glossary.js';
import { layOut } from './views/stage.js';
import { leadWords } from './views/score.js';
import { linkTo } from './views/notes.js';
/** @import { Event, Verified } from './state/events.d.ts' */
/** @import { Lane, State, Window } from './state/lane.js' */
/** @import { Method, Named } from './state/marks.js' */
/** @import { Lanes } from './state/race.js' */
/** @import { Moment } from './state/moment.js' */
/** @import { Trace } from './state/trace.js' */
/** @import { Phase } from './views/window.js' */

/**
 * @typedef {object} Options what the server says about the page (app/page.py)
 * @property {'live' | 'race'} kind
 * @property {string} plotly @property {number} crowded @property {number} patience seconds the server takes for a stopped run's last frame
 * @property {string[]} noSteps drafters that denoise nothing
 * @property {Record<string, Method>} methods
 * @property {{title: string, url: string, asked: Record<string, string | number | boolean | null>}[]} recordings the first opens the page
 * @property {import('./views/glossary.js').Symbols} symbols what they mean
 * @property {string} prefix with which the ids of its controls begin
 * @property {string} empty what to say before there is a race
 */

/** @typedef {{run: string, events: Record<string, Event[]>, warming: boolean, told: boolean, coming: string[], lane: string, phase: string}} Race that is measured: what was heard of it */
/** @typedef {ReturnType<App['actions']>} Actions */
/** @typedef {ReturnType<App['scene']>} Scene what the figures show */
/** @typedef {Record<string, import('./views/score.js').Clock | null>} Clocks by lane */

const NOT_RUN = 'What stands in the controls has not run yet: this is another race. Press Run.';
const NO_DRAFT = 'Vanilla drafts nothing: every token costs one pass of the target.';
const SERVED = 'An attached server does not tell what it drafts and tests: what came, and when, is all that is known here.';

const WORDS = { waits: 'Waiting for a free place…', alone: 'One race runs at a time, to keep its clock undisturbed.', stops: 'Stopping…' };
const UNREADABLE = { title: 'This trace cannot be shown', message: 'It was read, but its events do not fit together.', hint: 'Try another file, or run again.' };

/** Values as a link holds them; the controls say theirs in the same way (app/scripts.py). @param {Record<string, string | number | boolean | null>} asked */
const linkOf = (asked) => new URLSearchParams(Object.entries(asked).filter(([, value]) => value !== null && value !== '').map(([name, value]) => [name, String(value)])).toString();

/** The name of a recording's file, which is also its name in a link. @param {string} url */
const fileOf = (url) => decodeURIComponent(url.split('/').slice(-1)[0]);

/** @extends {Job<Race>} */
export class App extends Job {
  /** @param {HTMLElement} root @param {Options} options */
  constructor(root, options) {
    super(root, options.prefix, options.patience, WORDS);
    this.options = options;
    this.recordings = options.recordings.map((one) => ({ ...one, asked: linkOf(one.asked) }));
    /** @type {string[]} */
    this.names = [];
    /** @type {Lanes} */
    this.lanes = {};
    /** @type {Record<string, State | null>} */
    this.states = {};
    /** @type {Record<string, Named>} */
    this.named = {};
    /** @type {ReturnType<typeof standings>} */
    this.ends = {};
    /** @type {string | null} */
    this.baseline = null;
    /** @type {string | null} the lane whose window and numbers are shown */
    this.selected = null;
    this.follow = true; // while measuring, the lane that is measured is the selected one, until somebody chooses
    /** @type {Record<string, {label: string, method?: string}>} words that came with a recording */
    this.own = {};
    this.total = 1;
    this.player = new Playhead({ duration: 0, stops: [] });
    /** @type {Trace | null} */
    this.trace = null;
    this.source = ''; // where the trace comes from
    this.asked = ''; // what the trace was asked for, as a link holds it
    this.file = ''; // of a recording that ships with the page, its name
    this.wanted = ''; // what the controls ask for now
    this.linked = false; // a link chose the recording: the controls, which speak later, take it away only when they change
    /** @type {number | null} threads that the next run is to use */
    this.threads = null;
    this.calls = 0; // recordings and files that were asked for: an earlier one that arrives late is dropped
    this.left = 0; // lanes that are not shown
    /** @type {{round: number, committed: boolean} | null} of the window that was drawn last */
    this.before = null;
    this.dirty = true;
    this.frameAsked = 0; // the animation frame that was asked for; none while nothing moves
    this.last = 0;
    this.asleep = true; // another tab of the page is open
    this.views = layOut(this, options, this.actions());
    this.content = this.views.main;
    document.addEventListener('keydown', (event) => this.keys(event));
    document.addEventListener('input', ({ target }) => {
      if (target instanceof Element && target.closest('.sd-invalid')) this.card.hide();
    });
    new ResizeObserver(() => this.turn()).observe(this.views.voice); // its size becomes nothing, or something
    this.stage([], {});
    this.turn();
  }

  actions() {
    return {
      toggle: () => this.act(() => this.player.toggle()),
      step: (/** @type {number} */ count) => this.act(() => this.player.step(count)),
      seek: (/** @type {number} */ share) => this.act(() => { this.player.pause(); this.player.seek(share * this.player.duration); }),
      slow: (/** @type {number | null} */ factor) => this.act(() => { this.player.slow = factor ?? autoSlow(this.player.duration); }),
      save: () => this.save(),
      replay: (/** @type {string} */ url) => this.open({ url }),
      keep: (/** @type {HTMLElement} */ button) => this.keepMoment(button),
      show: (/** @type {string} */ kind) => this.showKind(kind),
      round: (/** @type {number} */ round) => this.jump(round),
      token: (/** @type {string} */ name, /** @type {number} */ token, byKey = false) => this.pinToken(name, token, byKey),
      select: (/** @type {string} */ name) => this.select(name),
      quietly: () => { this.threads = 1; document.getElementById(`${this.prefix}-run`)?.click(); },
      redraw: () => this.redraw(),
    };
  }

  // ---- what the server says ----

  /** @override @param {any} message */
  async receive(message) {
    const { card } = this;
    if (message.source === 'file') {
      if (measuring()) { // it was chosen before the measurement began
        if (message.trace || !this.asleep) card.show(REFUSAL);
        return;
      }
      if (message.card && this.asleep) { // it is shown where the visitor looks
        if (this.options.kind === 'race' || isOpen('race')) return;
        openTab('live');
      }
      this.calls += 1;
    }
    super.receive(message);
    if (message.phase === 'loading' || message.phase === 'warming' || message.phase === 'measuring') {
      this.hear(message);
      return;
    }
    const trace = typeof message.trace === 'string' ? await unpack(message.trace) : message.trace ?? null; // an export has read it already
    const { live } = this;
    this.over();
    card.hide();
    if (trace) {
      this.show(trace, message.source);
      if (message.source === 'file') openTab(this.options.kind);
    } else if (message.phase === 'stopped') this.finishLocally(live);
    else this.restage();
    if (message.card) card.show(message.card);
  }

  /**
   * News of a race under way: text and clock, at most once a second while a lane is measured. While it warms up, off the
   * clock, the page draws what it has heard as quickly as it likes; the words are the same, so that the start draws nothing.
   * @param {any} message
   */
  hear(message) {
    if (!this.live) this.card.hide(); // given up, and there again
    this.clear(message);
    const race = /** @type {Race} */ (this.live);
    Object.assign(race, { lane: message.lane || '', phase: message.phase, warming: message.phase !== 'measuring' });
    if (message.phase === 'warming') setTimeout(() => { race.warming = false; }, 800 * message.settle); // and needs no word at the start
    for (const { lane, ...event } of message.events || []) {
      (race.events[lane] ??= []).push(event);
      race.told = true;
    }
    this.busy = true;
    const label = this.named[race.lane]?.label ?? race.lane;
    this.status.show(message.phase === 'loading' ? `${message.message || 'Loading'}…`
      : `Measuring ${label}: a short warm-up off the clock, then undisturbed, with one update a second. The race replays when all lanes are done.`);
    this.redraw();
  }

  /** Clear the stage for a race, before its clocks start: this is most of what a race draws before it is over. @param {any} message */
  clear({ run, lanes }) {
    if (this.live && this.live.run === run) return;
    const coming = lanes || this.live?.coming || [];
    this.live = { run, events: {}, warming: true, told: false, coming, lane: '', phase: 'loading' };
    this.calls += 1;
    this.follow = true;
    if (!coming.includes(this.selected)) this.selected = coming[coming.length - 1] ?? null;
    this.views.bar.disable(true);
    this.views.source.measuring();
    this.views.source.differs('');
    this.stage(coming, {});
    this.views.lanes.slow(1); // these clocks are not slowed
    this.views.score.blank();
    this.views.charts.blank('Its figures follow when all lanes are measured.');
    this.views.window.reset('The draft windows follow when all lanes are measured.');
    this.views.rounds.reset(null);
    this.before = null;
  }

  /** Show a trace that the server offers as a file. @param {{url: string, lanes?: string[] | null, title?: string, labels?: App['own'], source?: string}} race */
  async open({ url, lanes = null, title = '', labels = {}, source = 'recording' }) {
    if (measuring()) {
      this.card.show(REFUSAL);
      return;
    }
    const call = (this.calls += 1);
    this.card.hide();
    try {
      const trace = await fetchTrace(url);
      if (call !== this.calls || measuring()) return;
      const known = this.recordings.find((one) => one.url === url);
      this.file = known ? fileOf(url) : '';
      this.show({ ...trace, title: title || trace.title }, source, { wanted: lanes, labels, asked: known ? known.asked : '' });
    } catch (error) {
      if (call !== this.calls) return;
      this.card.show({ title: 'This recording could not be shown', message: 'It did not arrive whole, or holds none of the lanes that were asked for.', hint: 'Reload the page, or press Run for a race of your own.' });
      console.warn('recording not shown:', error);
    }
  }

  // ---- what is on the stage ----

  /** Put a trace on the stage and play it. @param {Trace} trace @param {string} source @param {{wanted?: string[] | null, labels?: App['own'], asked?: string | null}} [more] */
  show(trace, source, { wanted = null, labels = {}, asked = null } = {}) {
    if (source !== 'recording') this.file = '';
    const { names, left } = choose(trace.lanes, wanted);
    if (!names.length) throw new TypeError('a race without lanes');
    const lanes = Object.fromEntries(names.map((name) => [name, trace.lanes[name].length ? buildLane(trace.lanes[name]) : null]));
    const there = names.filter((name) => lanes[name]);
    sharePieces(there.map((name) => /** @type {Lane} */ (lanes[name])));
    Object.assign(this, { trace, names, lanes, left, own: labels });
    this.source = trace.title === 'Stopped run' ? 'stopped' : source;
    this.asked = asked ?? (source === 'run' || source === 'failed' ? this.wanted : '');
    this.ends = standings(lanes, names);
    this.total = Math.max(1, ...there.map((name) => lanes[name]?.shown.length ?? 0));
    this.states = Object.fromEntries(names.map((name) => [name, null])); // a name may be __proto__
    if (wanted || this.follow || !this.selected || !there.includes(this.selected)) this.selected = this.latest();
    this.player = new Playhead({ duration: Math.max(0, ...there.map((name) => lanes[name]?.duration ?? 0)), stops: [] });
    this.views.bar.reset(this.player);
    this.restage();
    if (source === 'run' || source === 'failed') keepRuns(names.flatMap((name) => (name === this.baseline ? [] : this.numbersOf(lanes[name], !this.disturbed(name).length) ?? [])));
    if (window.matchMedia('(prefers-reduced-motion: reduce)').matches) this.player.seek(this.player.duration);
    else if (!measuring()) this.player.play();
    this.redraw();
  }

  /** A lane beside the baseline of the race, in numbers, as lessons quote them. @param {Lane | null} lane @param {boolean} [quiet] @param {Lane | null} [vanilla] */
  numbersOf(lane, quiet = true, vanilla = this.baseline ? this.lanes[this.baseline] : null) {
    return runOf(lane, vanilla, new Set(this.options.noSteps), quiet);
  }

  /** A recording that ships, in numbers, without a place on the stage; null: there is none of that name, or it would disturb a clock. @param {string} file */
  async numbersOfRecording(file) {
    const found = this.recordings.find(({ url }) => fileOf(url) === file);
    if (!found || measuring()) return null;
    const { title, lanes } = await fetchTrace(found.url);
    const run = this.numbersOf(buildLane(lanes.drafted ?? []), true, buildLane(lanes.vanilla ?? []));
    return run && { title, run };
  }

  /** The last lane of the trace that has events. @returns {string | null} */
  latest() {
    const there = this.names.filter((name) => this.lanes[name]);
    return there[there.length - 1] ?? this.names[this.names.length - 1] ?? null;
  }

  /** Give the stage back to the trace (a live run may have borrowed it). */
  restage() {
    const { source } = this.views;
    if (!this.trace) {
      this.stage([], {});
      return;
    }
    if (!this.selected || !this.names.includes(this.selected)) this.selected = this.latest();
    this.stage(this.names, this.lanes);
    const name = this.latest() ?? '';
    const [drafted, vanilla] = [this.lanes[name], this.baseline ? this.lanes[this.baseline] : null];
    const two = this.names.length <= 2;
    const first = two ? name : this.names.find((one) => this.ends[one].place === 1 && one !== this.baseline);
    const who = !first ? '' : !two ? `First of ${this.names.length}, ${this.named[first].label}` : first === 'drafted' ? 'A drafter' : this.named[first].label;
    const title = this.options.kind === 'race' && ['recording', 'measured', 'file'].includes(this.source) ? ` · ${this.trace.title}` : '';
    source.reset(this.source, this.lanes, this.trace.title, {
      lead: first && first !== this.baseline ? leadWords(this.lanes[first] ?? null, vanilla ?? null, who, two, !this.disturbed(first).length) : '',
      own: two && drafted && drafted.header && this.options.kind === 'live' ? linkTo(drafted.header) : null,
      keepable: Boolean(this.file),
      note: `${title}${this.left ? ` · ${this.left} more lanes are not shown` : ''}`,
    });
    this.point();
    this.compare();
    this.redraw();
  }

  /** The lanes that are on the stage: of the trace, or of the race that is measured. @param {string[]} names @param {App['lanes']} lanes */
  stage(names, lanes) {
    this.baseline = baselineOf(lanes, names);
    this.named = nameLanes(names, lanes, this.baseline, this.options.methods, this.live ? {} : this.own);
    this.views.lanes.reset(names, lanes, this.named, this.absent);
    this.views.main.dataset.layout = names.length <= 2 ? 'columns' : 'rows';
    this.root.classList.toggle('sd-none', !names.length);
    for (const [name, view] of this.views.lanes.views) {
      const waits = this.disturbed(name, lanes);
      view.doubt(waits.length ? busyWords(waits) : '');
    }
  }

  /** Of a lane and the baseline, those whose threads had to wait while they were measured. @param {string | null} name @param {App['lanes']} [lanes] @returns {[string, number | null][]} */
  disturbed(name, lanes = this.lanes) {
    const both = [...new Set([name, this.baseline])].flatMap((one) => (one && lanes[one] ? [one] : []));
    return both.filter((one) => (waiting(lanes[one]) ?? 0) >= this.options.crowded).map((one) => [this.named[one].label, waiting(lanes[one])]);
  }

  get absent() {
    if (this.live) return 'Waits for its turn.';
    return this.source === 'stopped' ? 'Stopped before its turn.' : 'This trace has no events of this lane.';
  }

  /** Choose the lane whose text, window and numbers are shown. The playhead stays where it is. @param {string} name */
  select(name) {
    if (this.selected === name || this.views.lanes.columns) return;
    this.follow = false;
    this.selected = name;
    if (this.player.stop >= 0) this.player.seek(this.player.t);
    this.point();
    this.redraw();
    if (!this.player.playing) this.say();
  }

  point() {
    const { lanes, window, rounds, score } = this.views;
    const { selected } = this;
    lanes.select(selected);
    if (this.live) return;
    const { drafted, vanilla } = this.pair(this.lanes);
    this.player.stops = stopsOf(this.lanes, this.names, selected);
    window.reset();
    rounds.reset(drafted);
    this.before = null;
    const name = this.names.length > 2 && selected ? this.named[selected].label : '';
    score.reset({ drafted, vanilla }, name, { drafted: selected ? this.named[selected]?.label : '', vanilla: this.baseline ? this.named[this.baseline]?.label : '' });
  }

  /** The selected lane, if it drafts, and the baseline. @template T @param {Record<string, T | null>} of @returns {{drafted: T | null, vanilla: T | null}} */
  pair(of) {
    const { selected, baseline } = this;
    return { drafted: selected && selected !== baseline ? of[selected] ?? null : null, vanilla: baseline ? of[baseline] ?? null : null };
  }

  // ---- drawing ----

  /** Stand on the verdict of a round of the selected lane. @param {number} round */
  jump(round) {
    const lane = this.selected ? this.lanes[this.selected] : null;
    const index = this.player.stops.findIndex((stop) => {
      const event = lane && stop.lane === this.selected ? lane.events[stop.n - 1] : null;
      return Boolean(event && event.kind === 'Committed' && event.round === round);
    });
    if (index >= 0) this.act(() => this.player.stand(index));
  }

  /** Look closely at a token of a text: of a lane that drafts, its round is shown, too. @param {string} name of the lane @param {number} token its place among the new ones @param {boolean} byKey the focus follows */
  pinToken(name, token, byKey) {
    const lane = this.lanes[name];
    const found = lane && tokenOf(lane, token);
    const body = this.views.lanes.views.get(name)?.body;
    if (this.live || !lane || !found || !body) return;
    this.select(name);
    if (name === this.selected && !isVanilla(lane)) this.jump(found.view.round);
    const { inspector } = this.views.window;
    body.pin(token);
    this.views.window.pin(found.view, lane, found.place, {
      get element() { return body.spans[token] ?? null; }, // it is drawn a moment later
      walk: (by) => this.pinToken(name, token + by, byKey),
      away: () => body.pin(-1),
    }, name === this.selected && this.names.length <= 2 ? '' : this.named[name].label);
    if (byKey) inspector.element.focus({ preventScroll: true });
    inspector.element.scrollIntoView({ block: 'nearest' });
  }

  /** Of the selected lane the round to show, its phase, and why it is an earlier one if it is. @param {State | null} state @returns {{view: Window | null, phase: Phase, older: string}} */
  visible(state) {
    const view = state && state.window;
    if (!state || !view) return { view: null, phase: 'draft', older: '' };
    if (!view.size && state.last) return { view: state.last, phase: 'commit', older: `${view.round + 1} drafts nothing` };
    const begun = view.passes.length || view.draft || view.scored;
    if (!begun && state.last && this.player.stop < 0) return { view: state.last, phase: 'commit', older: '' };
    return { view, phase: view.committed ? 'commit' : view.verified ? 'verify' : view.scored || view.draft ? 'score' : 'draft', older: '' };
  }

  /** Draw; of a file that an export opened, nobody has checked that its events fit together. */
  drawOrSay() {
    try {
      this.draw();
    } catch (error) {
      this.player.pause();
      this.card.show(UNREADABLE);
      console.error('not drawn:', error);
    }
  }

  draw() {
    if (!this.trace) return;
    const { player, lanes, states, names, selected, baseline, views } = this;
    for (const name of names) {
      const lane = lanes[name];
      if (lane) states[name] = stateAt(lane, passed(lane, name, player), states[name]);
    }
    const { drafted: lane } = this.pair(lanes);
    const own = this.pair(states);
    const scene = this.visible(own.drafted);
    /** @type {Clocks} */
    const clocks = {};
    for (const [name, view] of views.lanes.views) {
      const row = rowAt(lanes, states, name, baseline, player.t, this.total);
      clocks[name] = row && row.clock;
      if (row) view.draw(row, this.ends[name]);
    }
    views.lanes.slow(player.slow);
    views.lanes.draw(states, scene.view);
    this.drawWindow(lane, own.drafted, scene);
    views.score.draw(own, this.pair(clocks), selected === baseline && this.names.length > 1);
    views.bar.draw(player);
    views.charts.offer(this.scene(clocks, lane, own.drafted, scene.view));
  }

  /** What the figures show: `lane` and its `state` are of the selected lane, if it drafts, `view` is the window on screen. @param {Clocks} clocks @param {Lane | null} lane @param {State | null} state @param {Window | null} view */
  scene(clocks, lane, state, view) {
    const { names, named, selected, total, player } = this;
    return { names, named, states: { ...this.states }, clocks, duration: player.duration, total, selected, lane, state, view };
  }

  /** @param {Lane | null} lane @param {State | null} state @param {ReturnType<App['visible']>} scene */
  drawWindow(lane, state, { view, phase, older }) {
    const { window: grid, rounds } = this.views;
    if (!lane || !lane.header || !state) {
      const vanilla = isVanilla(this.lanes[this.selected ?? '']);
      const failed = lane && lane.failed ? `This lane has no window: ${lane.failed.message}` : this.absent;
      grid.draw({ view: null, lane: null, sentence: vanilla ? NO_DRAFT : failed });
      return;
    }
    const now = state.window;
    const sentence = isServed(lane) ? SERVED : narrate(older ? now : view, (id) => piece(lane, id), lane.header.config.temperature === 0);
    grid.draw({ view, lane, sentence, phase, older });
    rounds.draw(state, older ? now : view);
    const fresh = view && view.committed && this.before && this.before.round === view.round && !this.before.committed;
    const body = this.views.lanes.views.get(this.selected ?? '')?.body;
    if (fresh && view && body) {
      const { accepted } = /** @type {Verified} */ (view.verified);
      const cells = grid.tests.map((test) => test.element);
      commit([...cells.slice(0, accepted), ...cells.slice(-1)], body.lit, cells.slice(accepted, -1));
    }
    this.before = view && { round: view.round, committed: Boolean(view.committed) };
  }

  /** What was heard of a race that is measured. Its numbers follow when all lanes are done. */
  drawLive() {
    const { events, coming, lane: now, phase } = /** @type {Race} */ (this.live);
    /** @type {App['lanes']} */
    const lanes = {};
    /** @type {App['states']} */
    const states = {};
    if (this.follow && now && now !== this.selected) {
      this.selected = now;
      this.views.lanes.select(now);
    }
    for (const name of coming) {
      const view = this.views.lanes.views.get(name);
      if (!view) continue;
      const lane = events[name] ? buildLane(events[name]) : null;
      if (!lane) {
        view.mark(name === now ? '…' : '', name === now ? 'now' : 'waits');
        view.say(name === now && phase === 'loading' ? 'made ready' : 'waits for its turn');
        continue;
      }
      lanes[name] = lane;
      states[name] = stateAt(lane, lane.events.length);
      if (lane.header && !view.lane?.header) view.reset(lane, '', this.views.lanes.noSteps);
      view.give(lane);
      const total = Number(lane.header?.config.max_new_tokens ?? 1);
      const row = rowAt(lanes, states, name, null, lane.duration, total);
      if (row) view.draw(row, { place: null, short: false, done: false });
      if (lane.failed) continue;
      view.mark(lane.finished ? '✓' : '…', lane.finished ? 'measured' : 'now');
    }
    this.views.lanes.draw(states, null);
  }

  // ---- what the visitor does ----

  /** Somebody changed the controls, or a link did: they and the stage must agree. @param {string} asked as a link holds it */
  controls(asked) {
    const before = this.wanted;
    this.wanted = asked;
    if (this.live || this.busy) return;
    const same = asked === this.asked || (before ? asked === before : this.linked);
    const match = same ? null : this.recordings.find((one) => one.asked === asked);
    if (match && ['recording', ''].includes(this.source)) this.open({ url: match.url });
    else this.compare();
  }

  /** Say whether what stands in the controls is what is on the stage. */
  compare() {
    const other = Boolean(this.trace && this.wanted && this.wanted !== this.asked && this.source !== 'measured' && this.source !== 'file');
    this.views.source.differs(other ? NOT_RUN : '');
  }

  /** @override @param {Element} element */
  queued(element) {
    const place = queueWords(element.textContent ?? '');
    if (place && !this.waiting && !this.busy) this.pressedRun(); // started by a key
    if (element.querySelector('.error')) {
      if (this.live) this.finishLocally();
      else if (this.waiting) this.over();
      return;
    }
    super.queued(element);
  }

  /** @override */
  over() {
    super.over();
    this.threads = null;
    this.views.bar.disable(false);
  }

  /** Keep what was heard, and the controls. @override @param {boolean} stopped */
  lost(stopped) {
    const kept = this.live?.told ? ' What the page had heard is shown: texts and clocks, no draft windows.' : '';
    this.finishLocally();
    if (stopped) {
      if (kept) this.card.show({ title: 'The result did not come in time', message: `The server was asked to stop and has not answered.${kept}`, hint: 'Run again.' });
      return;
    }
    if (this.wanted && this.wanted.length < 8000) history.replaceState(null, '', `${location.pathname}?${this.wanted}`); // Gradio reloads the page when the server is back
    this.cancel(); // for Gradio the run goes on: it would not begin another
    const download = kept && ' Download it if you want to keep it.';
    this.card.show({ title: 'The connection was lost', message: `The server does not answer any more.${kept}${download}`, hint: 'When it is back, the page reloads itself with your prompt and settings.' });
  }

  /** A race that ended without its last frame: show what was heard of it. */
  finishLocally(live = this.live) {
    this.over();
    if (live && Object.values(live.events).some((events) => events.some((event) => event.kind === 'RunStarted'))) {
      const lanes = Object.fromEntries(live.coming.map((name) => [name, live.events[name] || []]));
      this.show({ title: 'Stopped run', lanes, bytes: null }, 'run');
    } else this.restage();
  }

  /** @param {() => void} change */
  act(change) {
    change();
    this.redraw();
    if (!this.player.playing) this.say();
  }

  /** @param {KeyboardEvent} event */
  keys(event) {
    const { target } = event;
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey || this.asleep || !(target instanceof Element)) return;
    if (target.closest('textarea, select, [contenteditable], dialog, [role=tablist]:not([aria-orientation=vertical]), [role=listbox], input:not(.sd-scrub)')) return;
    const grid = target.closest('.sd-gridwrap');
    if (grid && grid.scrollWidth > grid.clientWidth) return; // arrows scroll it
    const { toggle, step } = this.actions();
    if (event.key === ' ' && !target.closest('button, a, summary, [role=tab]')) toggle();
    else if (event.key === 'ArrowRight') step(event.shiftKey ? 10 : 1);
    else if (event.key === 'ArrowLeft') step(event.shiftKey ? -10 : -1);
    else return;
    event.preventDefault();
  }

  /** What is on the stage as a link holds it; empty unless it is a recording that ships. */
  momentQuery() {
    const [name, lane] = [this.selected ?? '', this.lanes[this.selected ?? '']];
    const found = this.file && lane ? momentAt(lane, passed(lane, name, this.player)) : null;
    return found ? momentQuery({ tab: this.options.kind, trace: this.file, lane: name, ...found }) : '';
  }

  /** A link to what is on the stage, paused; a recording that ships needs no server to be shown again. @param {HTMLElement} button that was pressed */
  keepMoment(button) {
    const query = this.momentQuery();
    if (!query) {
      say(button, 'Only recordings have links');
      return;
    }
    this.act(() => this.player.pause());
    giveLink(button, query);
  }

  /** Show a recording at one of its moments. @param {Moment} moment @returns {Promise<boolean>} whether there is such a recording */
  async openMoment(moment) {
    const wanted = this.recordings.find(({ url }) => fileOf(url) === moment.trace);
    if (!wanted) return false;
    this.linked = true;
    if (this.file !== moment.trace) await this.open(wanted);
    if (this.file === moment.trace) this.standAt(moment); // nothing else was asked for meanwhile
    return true;
  }

  /** Stand on the first event of a kind in the second round with a draft: the first round has less to show. @param {string} kind */
  showKind(kind) {
    const lane = this.lanes[this.selected ?? ''];
    const found = this.player.stops.flatMap((stop, index) => {
      const event = /** @type {any} */ (lane && stop.lane === this.selected ? lane.events[stop.n - 1] : null);
      return event && event.kind === kind && event.round >= 1 ? [index] : [];
    });
    if (found.length) this.act(() => this.player.stand(found[0]));
  }

  /** Stand where a link says. @param {Moment} moment */
  standAt(moment) {
    if (this.lanes[moment.lane]) this.select(moment.lane);
    const lane = this.lanes[this.selected ?? ''];
    const index = lane ? stopOf(this.player.stops, lane, this.selected ?? '', moment) : -1;
    this.act(() => { this.player.pause(); if (index >= 0) this.player.stand(index); });
  }

  /** Hand the visitor the trace file: the server's own bytes, or the same format written here after a Stop. */
  async save() {
    if (!this.trace) return;
    const bytes = this.trace.bytes || (await gzip(new TextEncoder().encode(serialise(this.trace))));
    const header = Object.values(this.lanes).find((lane) => lane && lane.header)?.header;
    const stamp = header ? header.started_at.slice(0, 19).replace(/[^0-9]/g, '') : '';
    download(/** @type {BlobPart} */ (bytes), 'application/gzip', `specdiff-${stamp || 'trace'}.jsonl.gz`);
  }

  // ---- frames ----

  /** The tab of this player was opened or left: a hidden one draws nothing and does not move. */
  turn() {
    this.asleep = !isShown(this.root);
    if (this.asleep) land();
    else this.wake();
  }

  redraw() {
    this.dirty = true;
    this.wake();
  }

  /** Ask for one animation frame. While nothing changes there are none: a browser on the same machine leaves the decode clock alone. */
  wake() {
    if (!this.frameAsked && !this.asleep) this.frameAsked = requestAnimationFrame((now) => this.frame(now));
  }

  say() {
    requestAnimationFrame(() => text(this.views.voice, this.views.window.say.textContent ?? ''));
  }

  /** @param {number} now */
  frame(now) {
    this.frameAsked = 0;
    if (!this.root.isConnected) return;
    if (this.asleep) {
      this.last = 0;
      return;
    }
    const elapsed = this.last ? Math.min(250, now - this.last) : 0;
    this.last = now;
    const wasPlaying = this.player.playing;
    if (!this.live && this.player.tick(elapsed)) this.dirty = true;
    if (this.dirty && !document.hidden) {
      this.dirty = false;
      if (this.live) this.drawLive();
      else this.drawOrSay();
      if (wasPlaying && !this.player.playing) this.say();
    }
    if (this.dirty || (this.player.playing && !this.live)) this.wake();
    else this.last = 0; // the next frame begins a new movement
  }
}

/** The visitor's choice of the Theme button (app/scripts.py), if there was one. */
function restoreTheme() {
  try {
    const kept = localStorage.getItem('specdiff-theme');
    if (kept) document.body.classList.toggle('dark', kept === 'dark');
  } catch (error) {
    console.info('no theme kept', error); // storage may be forbidden: the system's theme stays
  }
}

/** Called by each player's component (app/page.py) once per page. @param {HTMLElement} element @param {any} props @param {any} watch @param {Options} options */
export function mount(element, props, watch, options) {
  if (options.kind === 'live') restoreTheme();
  know(options.symbols);
  const app = new App(/** @type {HTMLElement} */ (element.querySelector('.sd')), options);
  register(options.kind, app); // which may open a race that was asked for
  listen(app, props, watch, UNREADABLE);
  const asked = (/** @type {any} */ (window).specdiffAsked)?.[options.kind] ?? '';
  if (app.calls) app.wanted = asked;
  else app.controls(asked);
  const moment = readMoment(location.search);
  const wanted = moment && options.recordings.some(({ url }) => fileOf(url) === moment.trace);
  const [opening] = options.recordings;
  if (moment && wanted) app.openMoment(moment);
  else if (opening && !app.trace && !app.live && !app.calls) app.open(opening);
}
