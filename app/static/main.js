// The player of the Live tab: a drafted lane against vanilla, folded to the playhead and drawn.

import { App, listen } from './app.js';
import { Player } from './player.js';
import { buildLane, check, piece, stateAt, stopsOf } from './fold.js';
import { expectRaces, openTab } from './tabs.js';
import { layOut } from './layout.js';
import { measuring } from './measuring.js';
import { narrate } from './words.js';
import { text } from './dom.js';

class Live extends App {
  constructor(root, options) {
    super(root, options, { run: 'sd-run', stop: 'sd-stop', queue: 'sd-queue', prefix: 'set' });
    this.lanes = { drafted: null, vanilla: null };
    this.states = { drafted: null, vanilla: null };
  }

  arrange(options) {
    return layOut(this.root, options);
  }

  get elsewhere() {
    return Boolean(window.specdiffRace && !window.specdiffRace.asleep);
  }

  get everyone() {
    return 'both lanes';
  }

  spoken(lane) {
    return lane === 'vanilla' ? 'vanilla' : 'the drafted lane';
  }

  async receive(message) {
    await super.receive(message);
    if (message.source === 'file' && message.card && this.asleep && !this.elsewhere) openTab('live'); // its card can be seen there
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
    else if (!measuring()) this.player.play();
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

  /** Stand on the verdict of a round. */
  jump(round) {
    const index = this.player.stops.findIndex((stop) => {
      if (stop.lane !== 'drafted') return false;
      const event = this.lanes.drafted.events[stop.n - 1];
      return event.kind === 'Committed' && event.round === round;
    });
    if (index >= 0) this.act(() => this.player.stand(index));
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
  const app = new Live(element.querySelector('.sd'), options);
  listen(app, props, watch);
  window.specdiff = app;
  expectRaces();
}
