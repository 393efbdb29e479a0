// The form of Live and Race on the page: whether it matches the stage, its model, and what it starts.

import { fits } from './views/link.js';
import { fileOf } from './staging.js';
import { Form } from './views/form.js';
import { html, render } from './views/ui.js';
import { linkOf } from './state/moment.js';
import { predictedWords } from './state/predicted.js';
import { RunForm } from './views/run_form.js';
import { RunSettings } from './run_settings.js';
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

export class RaceForm extends RunSettings {
  /** @param {State} state @param {Options} options
   *  @param {{gradio: Gradio, job: RaceJob, staging: Staging, noSteps: Set<string>}} player */
  constructor(state, options, player) {
    super(options.form ?? NONE, options.prefix);
    this.state = state;
    this.options = options;
    this.player = player;
    this.model = { words: '', fetching: false, own: false };
    this.own = new Form(this.more.own ?? [], 'own', {}, () => this.draw());
    /** @type {Element | null} */
    this.home = null;
    this.draw = soon(() => this.home && render(this.view(), this.home));
    if (!options.form) return;
    until(() => document.querySelector(`#${this.prefix}-controls .sd`), Infinity).then((home) => {
      this.home = home;
      this.draw();
    });
    addEventListener('specdiff:model', (event) => { // app/page.py
      const { tab, ...message } = /** @type {CustomEvent} */ (event).detail;
      if (tab === options.kind) this.report(message);
    });
  }

  /** Fill the form from the link that opened the page; what cannot run gets a card.
   *  @param {string} search */
  async open(search) {
    const { kind, recordings } = this.options;
    const query = new URLSearchParams(search);
    const recording = recordings.find(({ url }) => fileOf(url) === query.get('trace'));
    const changed = query.has('lesson') && this.fields.some(({ name }) => query.has(name));
    const shown = recording && !changed ? new URLSearchParams(linkOf(recording.settings)) : query;
    const isHere = !shown.has('explore') && shown.has('methods') === (kind === 'race');
    const settings = isHere ? this.read(shown) : {};
    this.redraw = () => this.showMatch();
    if (this.player.job.calls) this.state.formSettings = this.link;
    else this.showMatch();
    const check = Object.keys(settings).length && !recording && this.player.gradio.server.check;
    const card = check && await check(settings);
    if (card) this.player.job.card.show(card);
  }

  /** Draw the form, and show the recording that it matches now. */
  showMatch() {
    const { state, player: { job, staging } } = this;
    this.draw();
    const before = state.formSettings;
    const settings = this.link;
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

  /** Note the settings of a run that begins. */
  submitted() {
    this.state.runSettings = this.link;
    this.compare();
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
    const box = document.getElementById(`${this.prefix}-prompt`);
    if (box instanceof HTMLTextAreaElement) {
      box.focus(); // which scrolls there
      box.select();
    }
  }

  /** Offer the pairs that the server has now, and this one. */
  async lookUp(pair = this.raw.pair) {
    const pairs = await this.player.gradio.server.offered?.(pair);
    if (pairs) this.offer(pairs);
  }

  /** Fetch the pair's file, or look up a visitor's own pair. @param {Record<string, any>} asked */
  getModel(asked) {
    this.model = { words: '', fetching: true, own: 'own' in asked };
    this.draw();
    this.player.gradio.trigger('apply', asked);
  }

  /** A message about a model that is fetched, or loaded in the background.
   *  @param {{run?: string, message?: string, pair?: string, finished?: boolean,
   *  card?: import('./views/notes.js').Card}} message */
  async report({ run, message = '', pair = '', finished = false, card }) {
    const { own } = this.model;
    const chosen = own && finished ? pair : '';
    const words = card ? `${card.message} ${card.hint}` : chosen ? SELECTED : message;
    if (finished) await this.lookUp(chosen || this.raw.pair); // before there is a button again
    this.model = { words, fetching: Boolean(run) && !finished, own };
    this.draw();
    if (chosen) this.fill({ pair: chosen });
  }

  /** A line break in the prompt takes the Shift key. @override */
  input(field, common) {
    const onkeydown = (event) => {
      if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
      event.preventDefault();
      this.run();
    };
    return super.input(field, field.name === 'prompt' ? { ...common, onkeydown } : common);
  }

  run() {
    if (this.player.job.state === 'idle') this.player.job.press('run');
  }

  /** @override */ view() {
    const { more, model, player: { job, gradio }, prefix, raw } = this;
    const place = (/** @type {string[]} */ ...names) =>
      names.map((name) => this.fields.find((field) => field.name === name)).map((field) =>
        field && this.place(field)
      );
    const rest = this.fields.map(({ name }) => name).filter((name) =>
      !['prompt', 'pair'].includes(name)
    );
    const own = this.own.fields.map((field) => this.own.place(field));
    return html`
      <${RunForm} prefix=${prefix} run=${more.run} drawer=${more.drawer} model=${model}
        pair=${this.pairs[raw.pair] ?? null} line=${place('pair', 'prompt')} fields=${place(
          ...rest,
        )}
        own=${own} dares=${Boolean(more.dares)} tries=${this.tries(() =>
          this.run()
        )} going=${job.state !== 'idle'}
        missing=${this.available
          ? Object.keys(more.pairs).filter((name) => !this.available?.includes(name)).length
          : 0}
        command=${more.command} preset=${this.preset}
        presets=${this.presets.map((index) => [index, more.presets?.[index][0]])}
        pick=${(index) => this.fill(index ? this.presetValues(index) : {})}
        press=${(act) => act === 'run' ? this.run() : job.press(act)}
        look=${() => this.lookUp()} get=${() => this.getModel({ pair: raw.pair })}
        use=${() => this.getModel({ own: this.own.values() })}
        halt=${() => gradio.trigger('clear')} />
    `;
  }
}
