// The Live or the Race tab: its form, its job, and the race on its stage, which it draws.

import { arrowTabs } from './views/keys.js';
import { ElementSlot, html, render } from './views/ui.js';
import { fileOf, Staging } from './staging.js';
import { Frames } from './frames.js';
import { isOnScreen, register } from './page.js';
import { isRun, linkOf, readMoment } from './state/moment.js';
import { setSymbols } from './views/glossary.js';
import { listen } from './messages.js';
import { PlaybackControls } from './playback_controls.js';
import { PlayerView } from './views/player.js';
import { Playhead } from './state/playhead.js';
import { RaceForm } from './race_form.js';
import { RaceJob } from './race_job.js';
import { raceLesson } from './lesson_race.js';
import { recall } from './storage.js';
import { RoomNotice } from './views/notes.js';
import { ShownRace } from './state/shown_race.js';
import { Stage } from './state/stage.js';
import { store } from './store.js';
import { visitorActs } from './acts.js';
/** @import { Gradio } from './job.js' */
/** @import { PlayerOptions as Options, ServedOptions, State } from './tabs.d.ts' */

const UNREADABLE = {
  title: 'This trace cannot be shown',
  message: 'The file was read, but its events are inconsistent.',
  hint: 'Try another file, or run again.',
};
const BETWEEN = 80; // milliseconds between two pictures of a race under way, at least

export class PlayerTab {
  /** @param {HTMLElement} root @param {Options} options @param {Gradio} gradio */
  constructor(root, options, gradio) {
    this.root = root;
    this.options = options;
    this.gradio = gradio;
    this.frames = new Frames({
      tick: (milliseconds) => this.playback.tick(milliseconds),
      draw: () => this.tryToDraw(),
      gap: () => this.shown.growing ? BETWEEN : 0,
    });
    /** @type {State} */
    this.state = store({
      shown: new ShownRace(new Stage([], {}, options), new Playhead()),
      place: null,
      formSettings: '',
      runSettings: '',
      stale: '',
      redrafting: /** @type {State['redrafting']} */ (null),
    }, () => this.frames.requestDraw());
    this.playback = new PlaybackControls(
      root,
      () => this.shown,
      this.frames,
      () => this.momentQuery() || this.query(),
    );
    /** @type {RaceJob} */
    this.job = new RaceJob(root, options, this, gradio.trigger);
    this.staging = new Staging(this.state, options, this, () => {
      this.form.compare();
      this.frames.requestDraw();
    });
    /** @type {RaceForm} */
    this.form = new RaceForm(this.state, options, this);
    this.acts = visitorActs(this);
    this.lesson = raceLesson(this);
    this.draw();
    this.job.content = /** @type {HTMLElement} */ (root.querySelector('.sd-player-main'));
    // Fires when the tab is shown or hidden: the size changes from or to zero.
    new ResizeObserver(() => this.wake()).observe(
      /** @type {Element} */ (root.querySelector('.sd-voice')),
    );
    this.wake();
  }

  /** Work only while the tab is open. */
  wake() {
    const open = isOnScreen(this.root);
    if (open && !this.frames.awake) this.form.offerPairs(); // models fetched elsewhere
    this.frames.setAwake(open);
  }

  get shown() {
    return this.state.shown;
  }

  /** The race on the stage, for the browser's history. */
  get place() {
    return this.state.place;
  }

  /** @param {Parameters<Staging['showRecording']>[0]} race */
  showRecording(race) {
    return this.staging.showRecording(race);
  }

  restore = this.showRecording;

  /** On a phone, scroll to a race that begins: in Live to the stage, in Race to the lanes. */
  raceBegan() {
    if (this.frames.awake && window.matchMedia('(max-width: 700px)').matches) {
      this.draw();
      const lanes = this.options.tabName === 'race' && this.root.querySelector('.sd-lanes');
      (lanes || document.querySelector('.sd-stage'))?.scrollIntoView({ block: 'start' });
    }
  }

  /** The moment on the stage as a link's query; empty if it has none. */
  momentQuery() {
    return this.shown.moment(this.options.tabName);
  }

  /** The query of a link to what the tab shows: the visitor's run, or else the form; without
   *  one, in an export, the moment. */
  query() {
    return this.shown.link(this.options.tabName) || this.state.formSettings || this.momentQuery();
  }

  /** Draw what is on the stage now. */
  draw() {
    const { job, options, playback, root, state } = this;
    const { shown } = state;
    const scene = shown.scene();
    root.classList.toggle('sd-player-none', !scene.names.length);
    const pair = new URLSearchParams(state.formSettings).get('pair');
    const foreign = Boolean(pair && shown.pair && shown.pair !== pair); // not what the page describes
    document.getElementById(`${options.tabName}-about`)?.toggleAttribute('hidden', foreign);
    playback.describe(scene);
    render(
      html`
        <${PlayerView} scene=${scene} shown=${shown} options=${options} card=${job.card.element}
          redrafting=${state.redrafting} playback=${playback} acts=${this.acts}>
          <${RoomNotice} />
          <p class="sd-player-stale" role="status" data-hide="presenting"
            hidden=${!state.stale}>${state.stale}</p>
          <${ElementSlot} element=${job.status.element} />
          <//>
      `,
      root,
    );
  }

  /** Draw, or say that the trace is unreadable: an export opens files unchecked. */
  tryToDraw() {
    try {
      this.draw();
    } catch (error) {
      this.shown.playhead.pause();
      this.job.card.show(UNREADABLE);
      console.error('not drawn:', error);
    }
  }
}

/** Called by the component of each tab (app/scripts.py: mount) once per page.
 *  @param {Gradio} gradio @param {ServedOptions} options */
export function mount(element, gradio, options) {
  const { tabName } = options;
  const recordings = options.recordings.map((recording) => ({
    ...recording,
    settings: linkOf(recording.settings),
  }));
  if (tabName === 'live') {
    const theme = recall('specdiff-theme'); // of the Theme button (app/scripts.py)
    if (theme) document.body.classList.toggle('dark', theme === 'dark');
    arrowTabs();
  }
  setSymbols(options.symbols);
  const root = /** @type {HTMLElement} */ (element.querySelector('.sd'));
  const tab = new PlayerTab(root, { ...options, recordings }, gradio);
  const { acts, form, job, shown, staging } = tab;
  register(tabName, tab); // which may open a race that another tab requested
  listen(job, gradio, UNREADABLE, {
    file: (message) => job.openFile(message),
    block: (message) => acts.redrafted(message),
  });
  const moment = readMoment(location.search);
  const opensHere = moment &&
    (isRun(moment.trace)
      ? moment.tab === tabName
      : recordings.some(({ url }) => fileOf(url) === moment.trace));
  if (moment && opensHere) staging.openMoment(moment);
  form.open(location.search);
  const [opening] = recordings;
  if (opening && !shown.trace && !job.live && !job.requests) {
    staging.showRecording({ url: opening.url }, false);
  }
}
