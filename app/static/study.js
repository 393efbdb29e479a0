// What a visitor looks at closely: a position that is inspected, or a round that they judge as its
// verifier. One at a time: the inspector would reveal the answer.

import { stagedRound } from './state/stops.js';
import { besides } from './state/grid.js';
import { tokenOf } from './state/inspect.js';
import { isVanilla } from './state/lane.js';
import { Verifier } from './state/verifier.js';
import { giveLink } from './views/link.js';
/** @import { Lane } from './state/lane.js' */
/** @import { PartialRound } from './state/progress.js' */
/** @import { Place } from './state/inspect.js' */
/** @import { ShownRace } from './state/shown_race.js' */

/** @typedef {{name: string, token: number, lane: Lane, view: PartialRound, place: Place,
 *  who: string}} Pinned a position; `token`: of the text, or −1 */

export class Study {
  /** @param {HTMLElement} root of the tab
   *  @param {{shown: () => ShownRace, selectLane: (name: string) => void, goToRound: (round: number) => void,
   *  pauseAt: (seconds: number) => void, draw: () => void, speak: () => void, query: () => string}} on
   *  what is on the stage, and how the playhead moves */
  constructor(root, on) {
    this.root = root;
    this.on = on;
    /** @type {Pinned | null} */
    this.pinned = null;
    /** @type {Verifier | null} while the visitor is the verifier */
    this.game = null;
    /** @type {number | null} where the playhead returns to after the game */
    this.back = null;
  }

  /** Look at nothing closely. */
  leave() {
    this.pinned = null;
    this.game = null;
  }

  /** Inspect a place of the round. @param {Lane} lane @param {PartialRound} view
   *  @param {Place} place */
  pin(lane, view, place) {
    if (this.game) return;
    const name = this.on.shown().selected ?? '';
    this.pinned = { name, token: -1, lane, view, place, who: '' };
    this.on.draw();
  }

  /** Inspect a token of a text; in a lane that drafts, its round is shown, too.
   *  @param {string} name of the lane @param {number} token its place among the new ones
   *  @param {boolean} byKey the focus follows */
  pinToken(name, token, byKey) {
    const { lanes } = this.on.shown();
    const lane = lanes[name];
    const origin = lane && tokenOf(lane, token);
    if (!lane || !origin) return;
    this.on.selectLane(name);
    const { view, place } = origin;
    const { selected, stage } = this.on.shown();
    if (name === selected && !isVanilla(lane)) this.on.goToRound(view.round);
    const who = name === selected && stage.names.length <= 2 ? '' : stage.named[name].label;
    this.pinned = { name, token, lane, view, place, who };
    this.on.draw();
    const inspector = /** @type {HTMLElement} */ (this.root.querySelector('.sd-inspector'));
    if (byKey) inspector.focus({ preventScroll: true });
    inspector.scrollIntoView({ block: 'nearest' });
  }

  /** Inspect the position before or after. */
  walk(by) {
    const { name, token, lane, view, place } = /** @type {Pinned} */ (this.pinned);
    const next = token < 0 ? besides(view, place, by) : null;
    if (next !== null) this.pin(lane, view, next);
    else if (token >= 0) this.pinToken(name, token + by, false);
  }

  unpin() {
    const marked = this.root.querySelector('.sd-token.sd-pinned') ??
      this.root.querySelector('.sd-grid .sd-pinned');
    if (marked instanceof HTMLElement) marked.focus({ preventScroll: true });
    this.pinned = null;
    this.on.draw();
  }

  /** Let the visitor judge the round on the stage, or the next if its verdict is shown; at the end of
   *  a race the staged one, and then return to the end. */
  verify() {
    const shown = this.on.shown();
    const { view, over } = shown.scene();
    const { lane, playhead } = shown;
    if (!lane) return;
    const next = view ? view.round + Number(Boolean(view.verified)) : 0;
    this.pinned = null;
    this.deal(new Verifier(lane, over ? Math.max(0, stagedRound(lane)) : next));
    this.back = over ? playhead.duration : null;
  }

  /** Move the playhead to the end of the round's draft. @param {Verifier} game */
  deal(game) {
    this.on.pauseAt(game.time);
    this.game = game;
  }

  judge(accept) {
    this.game?.judge(accept);
    this.on.speak();
  }

  judgeNext() {
    const { game } = this;
    if (game?.next()) this.deal(game);
    this.on.speak();
  }

  /** Copy the score, with a link to the race. @param {HTMLElement} button that was pressed */
  share(button) {
    const { judged = 0, agreed = 0 } = this.game ?? {};
    giveLink(
      button,
      this.on.query(),
      `I was the big model and judged ${agreed} of ${judged} guesses like it. Can you?`,
    );
  }

  /** Leave the game, and show the verdict of its round. */
  leaveGame() {
    const { back } = this;
    if (back === null) this.on.goToRound(this.game?.view.round ?? 0);
    else this.on.pauseAt(back);
    this.on.draw();
    const links =
      /** @type {NodeListOf<HTMLElement>} */ (document.querySelectorAll('[name=verify]'));
    [...links].find((link) => link.offsetParent)?.focus({ preventScroll: true }); // of this tab
  }

  /** A key that belongs to the game. @param {KeyboardEvent} event */
  key({ key }) {
    const act = {
      a: () => this.judge(true),
      r: () => this.judge(false),
      arrowright: () => this.judgeNext(),
      escape: () => this.leaveGame(),
    }[key.toLowerCase()];
    act?.();
    return Boolean(act);
  }
}
