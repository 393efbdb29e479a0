// Gradio's controls of a player's tab: whether they match the stage, and what they asked for.

import { fits } from './views/link.js';
import { linkOf } from './state/moment.js';
import { predictedWords } from './state/predicted.js';
/** @import { Gradio } from './job.js' */
/** @import { PlayerOptions as Options, State } from './tabs.d.ts' */
/** @import { RaceJob } from './race_job.js' */
/** @import { Settings } from './state/moment.js' */
/** @import { Staging } from './staging.js' */

const NOT_RUN = 'The form’s settings haven’t been run yet.';

export class RaceForm {
  /** @param {State} state @param {Options} options
   *  @param {{gradio: Gradio, job: RaceJob, staging: Staging, noSteps: Set<string>}} player */
  constructor(state, options, player) {
    this.state = state;
    this.options = options;
    this.player = player;
    /** @type {Settings} what the controls held when other values were asked for */
    this.asked = {};
    /** @type {Settings} the answer */
    this.filled = {};
  }

  /** Show the recording that matches changed controls. @param {Settings} values */
  controlsChanged(values) {
    const { state, player: { job, staging } } = this;
    const before = state.formSettings;
    const settings = linkOf(values);
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

  /** Note whether the controls match the stage. */
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

  /** Called by Gradio for each run (app/scripts.py). Returns its threads, if they are chosen.
   *  @param {Settings} values */
  runSubmitted(values) {
    this.state.runSettings = linkOf(values);
    this.compare();
    return this.player.job.takeThreads();
  }

  /** Give the form the model, prompt and settings of the race on the stage. */
  async fill() {
    const { options: { kind }, player: { gradio, job }, state: { shown } } = this;
    this.asked = { .../** @type {any} */ (window).specdiffControls?.[kind] }; // app/scripts.py
    const { card, ...filled } = await gradio.server.settings(shown.settings);
    if (shown !== this.state.shown) return; // another race is on the stage by now
    if (card) return job.card.show(card);
    this.filled = filled;
    gradio.trigger('apply');
  }

  /** The controls' values with those that were asked for; what changed meanwhile stays. Called by
   *  Gradio (app/scripts.py). @param {Settings} values */
  take(values) {
    const { asked, filled } = this;
    return Object.entries(values).map(([name, value]) =>
      name in filled && JSON.stringify(value) === JSON.stringify(asked[name]) ? filled[name] : value
    );
  }

  /** Put the settings into the address: Gradio reloads the page when the server is back. */
  keep() {
    const { formSettings } = this.state;
    if (formSettings && fits(formSettings)) {
      history.replaceState(null, '', `${location.pathname}?${formSettings}`);
    }
  }

  /** Let the visitor type a prompt. */
  askForPrompt() {
    const box = document.querySelector(`#${this.options.prefix}-prompt textarea`);
    if (box instanceof HTMLTextAreaElement) {
      box.focus(); // which scrolls there
      box.select();
    }
  }
}
