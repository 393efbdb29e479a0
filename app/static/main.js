// The player: holds the trace of this visitor in the browser, folds it to the playhead and draws. The server is asked
// for nothing while it plays.

import { Player, autoSlow } from './player.js';
import { buildLane, check, countAt, piece, stateAt, stopsOf } from './fold.js';
import { gzip, serialise, unpack, unzip } from './trace.js';
import { h, text } from './dom.js';
import { layOut } from './layout.js';
import { narrate } from './words.js';

const QUIET_MS = 1600; // after Stop: how long to wait for the server's last frame

class App {
  constructor(root, { plotly, recordings, crowded }) {
    this.root = root;
    this.lanes = { drafted: null, vanilla: null };
    this.states = { drafted: null, vanilla: null };
    this.player = new Player({ duration: 0, stops: [] });
    this.measured = null;
    this.trace = null; // {title, lanes, bytes}
    this.dirty = true;
    this.frame = this.frame.bind(this);
    this.asked = 0; // the animation frame that was asked for; none while nothing moves
    this.last = 0;
    this.build({ plotly, recordings, crowded });
    this.wake();
  }

  build(options) {
    Object.assign(this, layOut(this.root, {
      ...options,
      jump: (round) => this.jump(round),
      wake: () => this.wake(),
      actions: {
        toggle: () => this.act(() => this.player.toggle()),
        step: (count) => this.act(() => this.player.step(count)),
        seek: (share) => this.act(() => { this.player.pause(); this.player.seek(share * this.player.duration); }),
        slow: (factor) => this.act(() => { this.player.slow = factor ?? autoSlow(this.player.duration); }),
        save: () => this.save(),
        replay: (url) => this.replay(url),
      },
    }));
    document.addEventListener('keydown', (event) => this.keys(event));
    document.addEventListener('input', (event) => {
      if (event.target.closest && event.target.closest('.sd-invalid')) this.card.hide();
    });
    const stop = document.getElementById('sd-stop');
    if (stop) stop.addEventListener('click', () => this.pressedStop());
    const run = document.getElementById('sd-run');
    if (run) run.addEventListener('click', () => this.pressedRun());
    const queue = document.getElementById('sd-queue');
    if (queue) new MutationObserver(() => this.queued(queue)).observe(queue, { childList: true, characterData: true, subtree: true });
    new MutationObserver(() => this.repaint()).observe(document.body, { attributeFilter: ['class'] });
  }

  /** The race that the server prepares or measures: {run, events, warming, told}, or null. Its end frees the frames (calm.js). */
  get live() {
    return this.measured;
  }

  set live(race) {
    const over = this.measured && !race;
    this.measured = race;
    if (over) window.dispatchEvent(new Event('specdiff:measured'));
  }

  /** A message of the server. */
  async receive(message) {
    this.waiting = false;
    if (message.source === 'file' && this.live) return; // a file that was opened while a race is measured comes too late
    if (message.card) {
      this.live = null;
      this.status.show('');
      this.busy(false);
      if (message.trace) this.show(await unpack(message.trace), message.source); // what was measured before it failed
      else this.restage();
      this.card.show(message.card);
      return;
    }
    if (message.phase === 'loading') {
      this.card.hide();
      this.busy(true);
      this.status.show(`${message.message || 'Loading'}…`);
      return;
    }
    if (message.phase === 'warming' || message.phase === 'measuring') {
      this.measuring(message);
      return;
    }
    this.busy(false);
    this.status.show('');
    if (message.trace) {
      this.live = null;
      this.card.hide();
      this.show(await unpack(message.trace), message.source);
    } else if (message.phase === 'stopped') this.finishLocally();
  }

  /** Keep the events of a race that is measured. */
  hear(events) {
    for (const { lane, ...event } of events) {
      (this.live.events[lane] ??= []).push(event);
      this.live.told = true;
    }
  }

  /** Clear the stage for a race, before its clocks start: this is most of what a race draws before it is over. */
  clear(run) {
    if (this.live && this.live.run === run) return;
    this.live = { run, events: {}, warming: true, told: false };
    this.source.measuring();
    this.rail.blank();
    this.redraw();
  }

  /**
   * Slim news of a lane: text and clock, at most once a second while it is measured. While it warms up, off the clock,
   * the page draws what it has heard as quickly as it likes; the words are the same, so that the start draws nothing.
   */
  measuring(message) {
    this.clear(message.run);
    const race = this.live;
    race.warming = message.phase === 'warming';
    if (race.warming) setTimeout(() => { race.warming = false; }, 800 * message.settle); // and needs no word at the start
    this.hear(message.events);
    this.busy(true);
    const name = message.lane === 'vanilla' ? 'vanilla' : 'the drafted lane';
    this.status.show(`Measuring ${name}: a short warm-up off the clock, then undisturbed, with one update a second. The race replays when both lanes are done.`);
    this.redraw();
  }

  /** Another recording that ships with the page. */
  async replay(url) {
    try {
      const answer = await fetch(new URL(url, document.baseURI));
      if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
      const trace = await unzip(new Uint8Array(await answer.arrayBuffer()));
      if (!this.live) this.show(trace, 'recording');
    } catch (error) {
      this.card.show({ title: 'This recording could not be shown', message: 'The server did not send it whole.', hint: 'Reload the page, or press Run for a race of your own.', field: '' });
      console.warn('recording not shown:', error);
    }
  }

  pressedRun() {
    this.card.hide();
    this.waiting = true;
    this.status.show('Waiting for a free place…');
    this.status.element.scrollIntoView({ block: 'nearest' }); // on a phone the stage lies below the controls
  }

  /** Gradio writes the place in the queue into its own status; the player repeats it in words. */
  queued(element) {
    const place = /queue:\s*(\d+)\s*\/\s*(\d+)/i.exec(element.textContent);
    if (place && !this.waiting && !this.root.classList.contains('sd-busy')) this.pressedRun(); // started by a key
    if (element.querySelector('.error') && this.live) {
      this.finishLocally();
      return;
    }
    if (!this.waiting) return;
    if (place) this.status.show(`One race runs at a time, to keep its clock undisturbed. Yours is number ${place[1]} of ${place[2]} in the queue.`);
    if (element.querySelector('.error')) {
      this.waiting = false;
      this.busy(false);
      this.status.show('');
    }
  }

  /** Stop was pressed: if no last frame comes, keep what was heard. */
  pressedStop() {
    this.waiting = false;
    if (!this.root.classList.contains('sd-busy')) {
      this.status.show('');
      return;
    }
    const run = this.live ? this.live.run : null;
    this.status.show('Stopping…');
    setTimeout(() => {
      if (this.root.classList.contains('sd-busy') && (this.live ? this.live.run : null) === run) this.finishLocally();
    }, QUIET_MS);
  }

  finishLocally() {
    const { live } = this;
    this.live = null;
    this.busy(false);
    this.status.show('');
    if (live && Object.values(live.events).some((events) => events.some((event) => event.kind === 'RunStarted'))) {
      this.show({ title: 'Stopped run', lanes: live.events, bytes: null }, 'stopped');
    } else this.restage();
  }

  busy(on) {
    this.root.classList.toggle('sd-busy', on);
    this.root.querySelector('.sd-main').setAttribute('aria-busy', String(on)); // not what speaks: the status line
    const open = document.querySelector('#sd-open');
    if (open) open.inert = on; // its file would replace the race that is measured
  }

  /** Put a trace on the stage and play it. */
  show(trace, source) {
    const known = (name) => (trace.lanes[name] && trace.lanes[name].length ? buildLane(trace.lanes[name]) : null);
    const lanes = { drafted: known('drafted'), vanilla: known('vanilla') };
    for (const lane of Object.values(lanes)) if (lane) check(lane); // before anything on the stage is touched
    this.trace = trace;
    this.lanes = lanes;
    this.told = [trace.title === 'Stopped run' ? 'stopped' : source, { lanes }, trace.title];
    const both = Object.values(this.lanes).filter(Boolean);
    this.states = { drafted: null, vanilla: null };
    this.player = new Player({ duration: Math.max(0, ...both.map((lane) => lane.duration)), stops: stopsOf(this.lanes) });
    this.restage();
    this.window.reset();
    this.rounds.reset(this.lanes.drafted);
    this.bar.reset(this.player);
    if (window.matchMedia('(prefers-reduced-motion: reduce)').matches) this.player.seek(this.player.duration);
    else this.player.play();
    this.redraw();
  }

  /** Give the text panels back to the trace (a live run may have borrowed them). */
  restage() {
    const absent = this.trace && this.trace.title === 'Stopped run' ? 'Stopped before its turn.' : '';
    for (const [name, view] of Object.entries(this.views)) {
      view.reset(this.lanes[name], absent);
      view.waiting = false;
    }
    if (this.told) this.source.reset(...this.told);
    this.rail.reset(this.lanes);
    this.redraw();
  }

  act(change) {
    change();
    this.redraw();
    if (!this.player.playing) this.say();
  }

  /** Stand on the verdict of a round. */
  jump(round) {
    const index = this.player.stops.findIndex((stop) => {
      if (stop.lane !== 'drafted') return false;
      const event = this.lanes.drafted.events[stop.n - 1];
      return event.kind === 'Committed' && event.round === round;
    });
    if (index >= 0) this.act(() => this.player.stand(index));
  }

  keys(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target.closest('textarea, select, [contenteditable], dialog, [role=tablist], [role=listbox], input:not(.sd-scrub)')) return;
    if (!this.root.offsetParent) return; // another tab of the page is open
    const grid = target.closest('.sd-gridwrap');
    if (grid && grid.scrollWidth > grid.clientWidth) return; // arrows scroll it
    if (event.key === ' ' && !target.closest('button, a, summary')) this.act(() => this.player.toggle());
    else if (event.key === 'ArrowRight') this.act(() => this.player.step(event.shiftKey ? 10 : 1));
    else if (event.key === 'ArrowLeft') this.act(() => this.player.step(event.shiftKey ? -10 : -1));
    else return;
    event.preventDefault();
  }

  redraw() {
    this.dirty = true;
    this.wake();
  }

  /** Ask for one animation frame. While nothing changes there are none: a browser on the same machine leaves the decode clock alone. */
  wake() {
    if (!this.asked) this.asked = requestAnimationFrame(this.frame);
  }

  /** The theme changed: charts carry their colours with them. */
  repaint() {
    this.redraw();
  }

  say() {
    requestAnimationFrame(() => text(this.voice, this.window.say.textContent));
  }

  frame(now) {
    this.asked = 0;
    if (!this.root.isConnected) return;
    const passed = this.last ? Math.min(250, now - this.last) : 0;
    this.last = now;
    const wasPlaying = this.player.playing;
    if (!this.live && this.player.tick(passed)) this.dirty = true;
    if (this.dirty && !document.hidden) {
      this.dirty = false;
      if (this.live) this.drawLive();
      else this.draw();
      if (wasPlaying && !this.player.playing) this.say();
    }
    this.charts.tick(now);
    const moving = this.player.playing && !this.live;
    if (moving || this.dirty || this.charts.waiting) this.wake();
    else this.last = 0; // the next frame begins a new movement
  }

  /** How many events of a lane the playhead has passed. */
  passed(name) {
    const { player } = this;
    const stop = player.stop >= 0 ? player.stops[player.stop] : null;
    return stop && stop.lane === name ? stop.n : countAt(this.lanes[name], player.t);
  }

  draw() {
    const { player, lanes, states } = this;
    for (const name of ['drafted', 'vanilla']) {
      if (lanes[name]) states[name] = stateAt(lanes[name], this.passed(name), states[name]);
    }
    const { view, ahead } = this.visibleWindow(states.drafted);
    const total = Math.max(1, ...Object.values(lanes).filter(Boolean).map((lane) => lane.shown.length));
    const clocks = {
      drafted: this.views.drafted.draw(states.drafted, player.t, total, view),
      vanilla: this.views.vanilla.draw(states.vanilla, player.t, total, null),
    };
    if (lanes.drafted) {
      const sentence = narrate(view, (id) => piece(lanes.drafted, id));
      this.window.draw(view, lanes.drafted, sentence, ahead);
      this.rounds.draw(states.drafted, view);
    } else this.window.draw(null, null, lanes.vanilla ? 'Only vanilla ran: every token cost one pass of the target.' : '', false);
    this.rail.draw(states, clocks);
    this.bar.draw(player);
    this.charts.offer({ lanes, states, clocks, view, duration: player.duration });
  }

  /**
   * While the drafter works on its first pass there is nothing new to see, so the last verdict stays on screen
   * (`ahead`); stepping by hand shows the masks instead.
   */
  visibleWindow(state) {
    if (!state || !state.window) return { view: null, ahead: false };
    const empty = !state.window.steps.length && !state.window.draft && !state.window.scored;
    if (empty && state.previous && this.player.stop < 0) return { view: state.previous, ahead: true };
    return { view: state.window, ahead: false };
  }

  drawLive() {
    for (const [name, view] of Object.entries(this.views)) {
      const events = this.live.events[name];
      if (!events) {
        if (view.lane !== null || !view.waiting) view.reset(null);
        view.waiting = true;
        text(view.count, 'waits for its turn');
        continue;
      }
      const lane = buildLane(events);
      view.reset(lane);
      view.draw(stateAt(lane, lane.events.length), lane.duration, lane.header ? lane.header.config.max_new_tokens : 0, null);
    }
  }

  /** Hand the visitor the trace file: the server's own bytes, or the same format written here after a Stop. */
  async save() {
    if (!this.trace) return;
    const bytes = this.trace.bytes || (await gzip(new TextEncoder().encode(serialise(this.trace))));
    const address = URL.createObjectURL(new Blob([bytes], { type: 'application/gzip' }));
    const lane = this.lanes.drafted || this.lanes.vanilla;
    const stamp = lane && lane.header ? lane.header.started_at.slice(0, 19).replace(/[^0-9]/g, '') : '';
    h('a', { href: address, download: `specdiff-${stamp || 'trace'}.jsonl.gz` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
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

/** Called by the component (app/build.py) once per page. */
export function mount(element, props, watch, options) {
  restoreTheme();
  for (const [id, words] of Object.entries(options.help)) document.getElementById(id)?.setAttribute('title', words);
  const root = element.querySelector('.sd');
  const app = new App(root, options);
  let last = '';
  let turn = Promise.resolve(); // messages are shown in the order they came, though unpacking takes a moment
  const tell = (text) => {
    turn = turn.then(() => app.receive(JSON.parse(text))).catch((error) => {
      app.card.show({ title: 'This trace cannot be shown', message: 'It was read, but its events do not fit together.', hint: 'Try another file, or run again.', field: '' });
      console.warn('trace could not be drawn:', error);
    });
  };
  const take = () => {
    const value = props.value;
    if (!value || value === last) return; // a heartbeat
    last = value;
    tell(value);
  };
  if (props.recording) tell(props.recording);
  watch('value', take);
  take();
  window.specdiff = app;
}
