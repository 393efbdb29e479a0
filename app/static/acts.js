// What the buttons of the Live and the Race tab do.

import { fileOf } from './staging.js';
import { giveLink, say } from './views/link.js';
import { save } from './run_links.js';
import { beginEntry } from './page.js';
/** @import { PlayerTab } from './player_tab.js' */

/** @typedef {ReturnType<typeof visitorActs>} Acts */
/** @param {Pick<PlayerTab, 'form' | 'gradio' | 'job' | 'momentQuery' | 'options' | 'playback' | 'query' |
 *  'staging' | 'state'>} tab */
export const visitorActs = (tab) => ({
  stopRedraft: () => tab.gradio.trigger('stop_redraft'),
  runQuietly: () => tab.job.runQuietly(),
  askForPrompt: () => tab.form.askForPrompt(),
  save: () => save(tab.state.shown),

  /** Show a recording from the list. @param {{url: string}} recording */
  async chooseRecording(recording) {
    const { job, options, staging, state } = tab;
    const shown = staging.showRecording(recording);
    const file = encodeURIComponent(fileOf(recording.url));
    if (!job.live) beginEntry(`tab=${options.tabName}&trace=${file}`);
    await shown;
    if (state.shown.settings) tab.form.settings.take(state.shown.settings);
  },

  /** Have the staged round of the visitor's run drafted again with other windows and steps. */
  redraft() {
    const { gradio, state } = tab;
    state.redrafting = { shown: state.shown, part: 0, parts: 0 };
    gradio.trigger('redraft', { file: state.shown.file });
  },

  /** The server drafts it, has drafted it, or couldn't (app/actions.py).
   *  @param {any} [message] none if it broke off */
  async redrafted(message) {
    const { job, staging, state } = tab;
    const { redrafting } = state;
    const { finished = !message, phase, trace, card, parts: [part, parts] = [0, 0] } = message ??
      {};
    if (!redrafting) return;
    state.redrafting = finished ? null : { ...redrafting, part, parts };
    if (card) job.card.show(card);
    else if (finished && phase === 'finished') await staging.fetchBlock(trace, redrafting.shown);
  },

  /** Copy a challenge, with a link to the visitor's own run. @param {HTMLElement} button that was
   *  pressed @param {string} number its speed-up */
  challenge(button, number) {
    giveLink(
      button,
      tab.query(),
      `The small model got ${number} out of my prompt. Find one that it can’t guess:`,
    );
  },

  /** A link to what is on the stage, paused. @param {HTMLElement} button that was pressed */
  keepMoment(button) {
    const query = tab.momentQuery();
    if (!query) return say(button, 'Nothing to link to');
    tab.playback.act((playhead) => playhead.pause());
    giveLink(button, query);
  },
});
