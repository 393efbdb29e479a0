// The form of Live and Race on the page: whether it matches the stage, its model, and what it starts.

import { fits } from './views/link.js';
import { fileOf } from './staging.js';
import { FormValues } from './state/form_values.js';
import { html, render } from './views/ui.js';
import { predictedWords } from './state/predicted.js';
import { RunForm } from './views/run_form.js';
import { RunSettings } from './state/run_settings.js';
import { soon } from './store.js';
import { until } from './views/dom.js';
/** @import { PlayerOptions as Options, RunFormOptions, State } from './tabs.d.ts' */
/** @import { PlayerTab } from './player_tab.js' */

const NOT_RUN = 'The form’s settings haven’t been run yet.';
const SELECTED = 'Selected. Its weights load when you first run it.';
/** @type {RunFormOptions} of an export, which runs nothing */
const NONE = { fields: [], opening: {}, pairs: {}, examples: {}, run: '', drawer: '', command: '' };

export class RaceForm {
  /** @param {State} state @param {Options} options
   *  @param {Pick<PlayerTab, 'gradio' | 'job' | 'staging'>} tab */
  constructor(state, options, tab) {
    this.state = state;
    this.options = options;
    this.tab = tab;
    this.settings = new RunSettings(options.form ?? NONE);
    this.own = new FormValues(options.form?.own ?? [], {}, () => this.draw());
    this.model = { words: '', fetching: false, own: false };
    /** @type {Element | null} */
    this.home = null;
    this.draw = soon(() => this.home && render(this.view(), this.home));
    if (!options.form) return;
    until(() => document.querySelector(`#${options.tabName}-controls .sd`), Infinity).then(
      (home) => {
        this.home = home;
        this.draw();
      },
    );
    addEventListener('specdiff:model', (event) => { // app/actions.py
      const { tab: tabName, ...message } = /** @type {CustomEvent} */ (event).detail;
      if (tabName === options.tabName) this.showModel(message);
    });
  }

  /** Fill the form from the link that opened the page; what cannot run gets a card.
   *  @param {string} search */
  async open(search) {
    const { settings, state, options: { tabName, recordings }, tab: { gradio, job } } = this;
    const query = new URLSearchParams(search);
    const recording = recordings.find(({ url }) => fileOf(url) === query.get('trace'));
    const changed = query.has('lesson') && settings.fields.some(({ name }) => query.has(name));
    const shown = recording && !changed ? new URLSearchParams(recording.settings) : query;
    const isHere = !shown.has('explore') && shown.has('methods') === (tabName === 'race');
    const named = isHere ? settings.read(shown) : {};
    settings.redraw = () => this.showMatch();
    if (job.requests) state.formSettings = settings.link;
    else this.showMatch();
    const check = Object.keys(named).length && !recording && gradio.server.check;
    const card = check && await check(named);
    if (card) job.card.show(card);
  }

  /** Draw the form, and show the recording that it matches now. */
  showMatch() {
    const { state, tab: { job, staging } } = this;
    this.draw();
    const before = state.formSettings;
    const settings = this.settings.link;
    state.formSettings = settings;
    if (job.live || job.busy) return;
    const unchanged = settings === state.shown.settings ||
      (before ? settings === before : staging.chosen);
    const match = unchanged
      ? null
      : this.options.recordings.find((recording) => recording.settings === settings);
    if (match && ['recording', ''].includes(state.shown.source)) {
      staging.showRecording({ url: match.url }, false);
    } else this.compare();
  }

  /** Note whether the form matches the stage. */
  compare() {
    const { state, options: { measured, noSteps }, tab: { job } } = this;
    const { formSettings, runSettings, shown: { trace, settings, source } } = state;
    const runs = job.state !== 'idle' && formSettings === runSettings;
    const differs = trace && formSettings && formSettings !== settings && !runs &&
      !['measured', 'file'].includes(source);
    const drafter = new URLSearchParams(formSettings).get('drafter') ?? '';
    const predicted = () => predictedWords(measured, formSettings, !noSteps.includes(drafter));
    state.stale = differs ? `${NOT_RUN}${job.pressWords} ${predicted()}` : '';
  }

  run() {
    if (this.tab.job.state === 'idle') this.tab.job.press('run');
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
    const box = document.getElementById(`${this.options.tabName}-prompt`);
    if (box instanceof HTMLTextAreaElement) {
      box.focus(); // which scrolls there
      box.select();
    }
  }

  /** Offer the pairs that the server has now, and this one. */
  async offerPairs(pair = this.settings.raw.pair) {
    const pairs = await this.tab.gradio.server.offered?.(pair);
    if (pairs) this.settings.offer(pairs);
  }

  /** Fetch the pair's file, or look up a visitor's own pair.
   *  @param {{pair: string} | {own: Record<string, any>}} request */
  getModel(request) {
    this.model = { words: '', fetching: true, own: 'own' in request };
    this.draw();
    this.tab.gradio.trigger('get_model', request);
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
    const { settings, own, model, options: { tabName }, tab: { gradio, job } } = this;
    const act = {
      run: () => this.run(),
      stop: () => job.press('stop'),
      offerPairs: () => this.offerPairs(),
      getModel: () => this.getModel({ pair: settings.raw.pair }),
      useOwn: () => this.getModel({ own: own.values() }),
      stopModel: () => gradio.trigger('stop_model'),
    };
    return html`
      <${RunForm} prefix=${tabName} form=${settings} own=${own} model=${model}
        going=${job.state !== 'idle'} act=${act} />
    `;
  }
}
