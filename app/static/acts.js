// What the buttons of a player do.

import { fileOf } from './staging.js';
import { giveLink, say } from './views/link.js';
import { save } from './run_links.js';
import { visit } from './page.js';
/** @import { App } from './app.js' */

/** @typedef {ReturnType<typeof visitorActs>} Acts */
/** @param {Pick<App, 'form' | 'gradio' | 'job' | 'momentQuery' | 'options' | 'playback' | 'query' | 'staging' |
 *  'state'>} player */
export const visitorActs = (player) => ({
  stopRedraft: () => player.gradio.trigger('end'),
  runQuietly: () => player.job.runQuietly(),
  askForPrompt: () => player.form.askForPrompt(),
  save: () => save(player.state.shown),

  /** Show a recording from the list. @param {{url: string}} recording */
  async chooseRecording(recording) {
    const { job, options, staging, state } = player;
    const shown = staging.showRecording(recording);
    const file = encodeURIComponent(fileOf(recording.url));
    if (!job.live) visit(`tab=${options.kind}&trace=${file}`);
    await shown;
    if (state.shown.settings) player.form.settings.take(state.shown.settings);
  },

  /** Have the staged round of the visitor's run drafted again with other windows and steps. */
  redraft() {
    const { gradio, state } = player;
    state.redrafting = { shown: state.shown, part: 0, parts: 0 };
    gradio.trigger('retry', { file: state.shown.file });
  },

  /** The server drafts it, has drafted it, or couldn't (app/actions.py).
   *  @param {any} [message] none if it broke off */
  async redrafted(message) {
    const { job, staging, state } = player;
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
      player.query(),
      `The small model got ${number} out of my prompt. Find one that it can’t guess:`,
    );
  },

  /** A link to what is on the stage, paused. @param {HTMLElement} button that was pressed */
  keepMoment(button) {
    const query = player.momentQuery();
    if (!query) return say(button, 'Nothing to link to');
    player.playback.act((playhead) => playhead.pause());
    giveLink(button, query);
  },
});
