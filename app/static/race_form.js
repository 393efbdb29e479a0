// The form of Live and Race on the page: whether it matches the stage, its model, and what it starts.

import { fits } from './views/link.js';
import { fileOf } from './staging.js';
import { FormValues } from './state/form_values.js';
import { html, render } from './views/ui.js';
import { linkOf } from './state/moment.js';
import { predictedWords } from './state/predicted.js';
import { RunForm } from './views/run_form.js';
import { RunSettings } from './state/run_settings.js';
import { soon } from './store.js';
import { until } from './views/dom.js';
/** @import { Gradio } from './job.js' */
/** @import { PlayerOptions as Options, RunFormOptions, State } from './tabs.d.ts' */
/** @import { RaceJob } from './race_job.js' */
/** @import { Staging } from './staging.js' */

const NOT_RUN = 'The form’s settings haven’t been run yet.';
const SELECTED = 'Selected. Its weights load when you first run it.';
/** @type {RunFormOptions} of an export, which runs nothing */
const NONE = { fields: [], opening: {}, pairs: {}, examples: {}, run: '', drawer: '', command: '' };

export class RaceForm {
  /** @param {State} state @param {Options} options
   *  @param {{gradio: Gradio, job: RaceJob, staging: Staging, noSteps: Set<string>}} player */
  constructor(state, options, player) {
    this.state = state;
    this.options = options;
    this.player = player;
    this.settings = new RunSettings(options.form ?? NONE);
    this.own = new FormValues(options.form?.own ?? [], {}, () => this.draw());
    this.model = { words: '', fetching: false, own: false };
    /** @type {Element | null} */
    this.home = null;
    this.draw = soon(() => this.home && render(this.view(), this.home));
    if (!options.form) return;
    until(() => document.querySelector(`#${options.prefix}-controls .sd`), Infinity).then(
      (home) => {
        this.home = home;
        this.draw();
      },
    );
    addEventListener('specdiff:model', (event) => { // app/actions.py
      const { tab, ...message } = /** @type {CustomEvent} */ (event).detail;
      if (tab === options.kind) this.showModel(message);
    });
  }

  /** Fill the form from the link that opened the page; what cannot run gets a card.
   *  @param {string} search */
  async open(search) {
    const { settings, state, options: { kind, recordings }, player: { gradio, job } } = this;
    const query = new URLSearchParams(search);
    const recording = recordings.find(({ url }) => fileOf(url) === query.get('trace'));
    const changed = query.has('lesson') && settings.fields.some(({ name }) => query.has(name));
    const shown = recording && !changed ? new URLSearchParams(linkOf(recording.settings)) : query;
    const isHere = !shown.has('explore') && shown.has('methods') === (kind === 'race');
    const named = isHere ? settings.read(shown) : {};
    settings.redraw = () => this.showMatch();
    if (job.calls) state.formSettings = settings.link;
    else this.showMatch();
    const check = Object.keys(named).length && !recording && gradio.server.check;
    const card = check && await check(named);
    if (card) job.card.show(card);
  }

  /** Draw the form, and show the recording that it matches now. */
  showMatch() {
    const { state, player: { job, staging } } = this;
    this.draw();
    const before = state.formSettings;
    const settings = this.settings.link;
    state.formSettings = settings;
    if (job.live || job.busy) return;
    const unchanged = settings === state.shown.settings ||
      (before ? settings === before : staging.chosen);
    const match = unchanged
      ? null
      : staging.recordings.find((recording) => recording.settings === settings);
    if (match && ['recording', ''].includes(state.shown.source)) {
      staging.showRecording({ url: match.url }, false);
    } else this.compare();
  }

  /** Note whether the form matches the stage. */
  compare() {
    const { state, options: { predictions, typical }, player: { job, noSteps } } = this;
    const { formSettings, runSettings, shown: { trace, settings, source } } = state;
    const runs = job.state !== 'idle' && formSettings === runSettings;
    const differs = trace && formSettings && formSettings !== settings && !runs &&
      !['measured', 'file'].includes(source);
    const drafter = new URLSearchParams(formSettings).get('drafter') ?? '';
    const predicted = () =>
      predictedWords(predictions, typical, formSettings, !noSteps.has(drafter));
    state.stale = differs ? `${NOT_RUN}${job.pressWords} ${predicted()}` : '';
  }

  run() {
    if (this.player.job.state === 'idle') this.player.job.press('run');
  }

  /** Note the settings of a run that begins. */
  noteRun() {
    this.state.runSettings = this.settings.link;
    this.compare();
  }

  /** Put the settings into the address: Gradio reloads the page when the server is back. */
  writeAddress() {
    const { formSettings } = this.state;
    if (formSettings && fits(formSettings)) {
      history.replaceState(null, '', `${location.pathname}?${formSettings}`);
    }
  }

  /** Let the visitor type a prompt. */
  askForPrompt() {
    const box = document.getElementById(`${this.options.prefix}-prompt`);
    if (box instanceof HTMLTextAreaElement) {
      box.focus(); // which scrolls there
      box.select();
    }
  }

  /** Offer the pairs that the server has now, and this one. */
  async offerPairs(pair = this.settings.raw.pair) {
    const pairs = await this.player.gradio.server.offered?.(pair);
    if (pairs) this.settings.offer(pairs);
  }

  /** Fetch the pair's file, or look up a visitor's own pair.
   *  @param {{pair: string} | {own: Record<string, any>}} request */
  getModel(request) {
    this.model = { words: '', fetching: true, own: 'own' in request };
    this.draw();
    this.player.gradio.trigger('apply', request);
  }

  /** Show a message about a model that is fetched, or loaded in the background.
   *  @param {{run?: string, message?: string, pair?: string, finished?: boolean,
   *  card?: import('./views/notes.js').Card}} message */
  async showModel({ run, message = '', pair = '', finished = false, card }) {
    const { own } = this.model;
    const found = own && finished ? pair : '';
    const words = card ? `${card.message} ${card.hint}` : found ? SELECTED : message;
    if (finished) await this.offerPairs(found || undefined); // before there is a button again
    this.model = { words, fetching: Boolean(run) && !finished, own };
    this.draw();
    if (found) this.settings.fill({ pair: found });
  }

  view() {
    const { settings, own, model, options: { prefix }, player: { gradio, job } } = this;
    const act = {
      run: () => this.run(),
      stop: () => job.press('stop'),
      offerPairs: () => this.offerPairs(),
      getModel: () => this.getModel({ pair: settings.raw.pair }),
      useOwn: () => this.getModel({ own: own.values() }),
      stopModel: () => gradio.trigger('clear'),
    };
    return html`
      <${RunForm} prefix=${prefix} form=${settings} own=${own} model=${model}
        going=${job.state !== 'idle'} act=${act} />
    `;
  }
}
