// What every player of the page does: it holds the trace of this visitor in the browser and moves the playhead; it hears
// the server and asks it for nothing while it plays. Knows neither the names of the lanes nor what stands where.

import { Player, autoSlow } from './player.js';
import { countAt } from './fold.js';
import { gzip, serialise, unpack, unzip } from './trace.js';
import { h, text } from './dom.js';
import { REFUSAL, guard, measuring } from './measuring.js';
import { knowNoSteps } from './draw_lanes.js';
import { Silence } from './silence.js';

/**
 * What every player of the page does. A player of its own says what stands where (`arrange`), and knows its lanes: `show`
 * a trace, `restage` it, `draw` a moment of it, `drawLive` what was heard so far, `jump` to a round.
 */
export class App {
  /**
   * @param {{patience: number, noSteps: string[]}} options seconds the server takes for a stopped run's last frame; drafters that denoise nothing
   * @param {{run: string, stop: string, queue: string, prefix: string}} ids of the controls that belong to the player
   */
  constructor(root, options, ids) {
    this.root = root;
    this.ids = ids;
    this.quiet = 1000 * options.patience + 300; // after Stop: milliseconds to wait for the last frame
    knowNoSteps(options.noSteps);
    this.lanes = {};
    this.states = {};
    this.player = new Player({ duration: 0, stops: [] });
    this.measured = null;
    this.trace = null; // {title, lanes, bytes}
    this.dirty = true;
    this.silence = new Silence(() => this.waiting || this.root.classList.contains('sd-busy'), () => this.lost());
    this.frame = this.frame.bind(this);
    this.asked = 0; // the animation frame that was asked for; none while nothing moves
    this.last = 0;
    this.asleep = !root.offsetParent; // another tab of the page is open
    this.build(options);
    new ResizeObserver(() => this.turn()).observe(root); // its size becomes nothing, or something
    this.wake();
  }

  build(options) {
    Object.assign(this, this.arrange({
      ...options,
      prefix: this.ids.prefix,
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
    const stop = document.getElementById(this.ids.stop);
    if (stop) stop.addEventListener('click', () => this.pressedStop());
    const run = document.getElementById(this.ids.run);
    if (run) run.addEventListener('click', () => this.pressedRun());
    const queue = document.getElementById(this.ids.queue);
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
    guard();
  }

  /** A message of the server. */
  async receive(message) {
    if (message.source === 'file' && measuring()) { // it was chosen before the measurement began
      if (message.trace || !this.asleep) this.card.show(REFUSAL);
      return;
    }
    if (message.source === 'file' && message.card && this.asleep && this.elsewhere) return; // the visitor looks at the other player
    this.waiting = false;
    this.silence.broken();
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
      if (message.lanes) this.clear(message);
      if (this.live) { // between two lanes, while no clock runs
        Object.assign(this.live, { warming: true, lane: message.lane || '', phase: message.phase });
        this.hear(message.events || []);
        this.redraw();
      }
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
  clear({ run, lanes = null }) {
    if (this.live && this.live.run === run) return;
    this.live = { run, events: {}, warming: true, told: false, coming: lanes, lane: '', phase: 'loading' };
    this.source.measuring();
    this.rail.blank();
    this.redraw();
  }

  /**
   * Slim news of a lane: text and clock, at most once a second while it is measured. While it warms up, off the clock,
   * the page draws what it has heard as quickly as it likes; the words are the same, so that the start draws nothing.
   */
  measuring(message) {
    if (!this.live) this.card.hide(); // given up, and there again
    this.clear(message);
    const race = this.live;
    race.lane = message.lane;
    race.phase = message.phase;
    race.warming = message.phase === 'warming';
    if (race.warming) setTimeout(() => { race.warming = false; }, 800 * message.settle); // and needs no word at the start
    this.hear(message.events);
    this.busy(true);
    this.status.show(`Measuring ${this.spoken(message.lane)}: a short warm-up off the clock, then undisturbed, with one update a second. The race replays when ${this.everyone} are done.`);
    this.redraw();
  }

  /** Another recording that ships with the page. */
  async replay(url) {
    if (measuring()) {
      this.card.show(REFUSAL);
      return;
    }
    try {
      const answer = await fetch(new URL(url, document.baseURI));
      if (!answer.ok) throw new Error(`${url}: ${answer.status}`);
      const trace = await unzip(new Uint8Array(await answer.arrayBuffer()));
      if (!measuring()) this.show(trace, 'recording');
    } catch (error) {
      this.card.show({ title: 'This recording could not be shown', message: 'The server did not send it whole.', hint: 'Reload the page, or press Run for a race of your own.', field: '' });
      console.warn('recording not shown:', error);
    }
  }

  pressedRun() {
    if (this.root.classList.contains('sd-busy')) return; // Gradio does not hear it either
    this.card.hide();
    this.waiting = true;
    this.silence.broken();
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
      if (!this.root.classList.contains('sd-busy') || (this.live ? this.live.run : null) !== run) return;
      const heard = Boolean(this.live && this.live.told);
      this.finishLocally();
      if (heard) this.card.show({ title: 'The result did not come in time', message: 'The server was asked to stop and has not answered. What the page had heard is shown: texts and clocks, no draft windows.', hint: 'Run again.', field: '' });
    }, this.quiet);
  }

  /** The server does not answer any more: keep what was heard, and the controls. */
  lost() {
    const heard = Boolean(this.live && this.live.told);
    this.waiting = false;
    this.keepInAddress();
    this.finishLocally();
    document.getElementById(this.ids.stop)?.click(); // for Gradio the run goes on: it would not begin another
    const kept = heard ? ' What the page had heard is shown: texts and clocks, no draft windows. Download it if you want to keep it.' : '';
    this.card.show({ title: 'The connection was lost', message: `The server does not answer any more.${kept}`, hint: 'When it is back, the page reloads itself with your prompt and settings.', field: '' });
  }

  /** Gradio reloads the page when a lost server is back: what was asked for (app/scripts.py) stands in the address then. */
  keepInAddress() {
    const asked = window.specdiffAsked?.[this.ids.prefix];
    if (asked && asked.length < 8000) history.replaceState(null, '', `${location.pathname}?${asked}`);
  }

  finishLocally() {
    const { live } = this;
    this.live = null;
    this.busy(false);
    this.status.show('');
    if (live && Object.values(live.events).some((events) => events.some((event) => event.kind === 'RunStarted'))) {
      const lanes = live.coming ? Object.fromEntries(live.coming.map((name) => [name, live.events[name] || []])) : live.events;
      this.show({ title: 'Stopped run', lanes, bytes: null }, 'stopped');
    } else this.restage();
  }

  busy(on) {
    this.root.classList.toggle('sd-busy', on);
    this.root.querySelector('.sd-main').setAttribute('aria-busy', String(on)); // not what speaks: the status line
    guard();
  }

  act(change) {
    change();
    this.redraw();
    if (!this.player.playing) this.say();
  }

  keys(event) {
    if (event.defaultPrevented || event.ctrlKey || event.metaKey || event.altKey) return;
    const target = event.target;
    if (target.closest('textarea, select, [contenteditable], dialog, [role=tablist]:not([aria-orientation=vertical]), [role=listbox], input:not(.sd-scrub)')) return;
    if (this.asleep) return;
    const grid = target.closest('.sd-gridwrap');
    if (grid && grid.scrollWidth > grid.clientWidth) return; // arrows scroll it
    if (event.key === ' ' && !target.closest('button, a, summary')) this.act(() => this.player.toggle());
    else if (event.key === 'ArrowRight') this.act(() => this.player.step(event.shiftKey ? 10 : 1));
    else if (event.key === 'ArrowLeft') this.act(() => this.player.step(event.shiftKey ? -10 : -1));
    else return;
    event.preventDefault();
  }

  /** The tab of this player was opened or left: a hidden one draws nothing and does not move. */
  turn() {
    this.asleep = !this.root.offsetParent;
    if (!this.asleep) this.wake();
  }

  redraw() {
    this.dirty = true;
    this.wake();
  }

  /** Ask for one animation frame. While nothing changes there are none: a browser on the same machine leaves the decode clock alone. */
  wake() {
    if (!this.asked && !this.asleep) this.asked = requestAnimationFrame(this.frame);
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
    if (this.asleep) {
      this.last = 0;
      return;
    }
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
    try {
      this.charts.tick(now);
    } catch (error) {
      console.error('a figure could not be drawn:', error); // the others, and the player, go on
    }
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

  /** Hand the visitor the trace file: the server's own bytes, or the same format written here after a Stop. */
  async save() {
    if (!this.trace) return;
    const bytes = this.trace.bytes || (await gzip(new TextEncoder().encode(serialise(this.trace))));
    const address = URL.createObjectURL(new Blob([bytes], { type: 'application/gzip' }));
    const lane = Object.values(this.lanes).find((one) => one && one.header);
    const stamp = lane ? lane.header.started_at.slice(0, 19).replace(/[^0-9]/g, '') : '';
    h('a', { href: address, download: `specdiff-${stamp || 'trace'}.jsonl.gz` }).click();
    setTimeout(() => URL.revokeObjectURL(address), 1000);
  }
}

/** Let a player hear its component: an equal value is a heartbeat, and fires nothing. */
export function listen(app, props, watch, { late = false } = {}) {
  let last = late && props.value && JSON.parse(props.value).card ? props.value : ''; // an old card says nothing any more
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
}
