// One bar per round: how many drafted tokens were accepted. A bar jumps to its verdict.

import { html } from './ui.js';
import { walk } from './keys.js';
/** @import { Round } from '../state/lane.js' */
/** @import { Scene } from '../state/stage.js' */

/** @param {Round} round @param {boolean} open whether its verdict may be shown */
function words({ round, size, accepted, drafted, extra }, open) {
  if (!open) return `round ${round + 1}: not judged yet`;
  if (!size) return `round ${round + 1}: nothing drafted, one token by the target`;
  return `round ${round + 1}: ${accepted} of ${drafted} accepted${
    accepted === drafted && accepted && extra ? ', and a bonus token' : ''
  }`;
}

/** @param {{scene: Scene, closed: number, jump: (round: number) => void}} props `closed`: the round
 *  from which on no verdict may be shown */
export function Rounds({ scene: { lane, state, view, shown }, closed, jump }) {
  const rounds = lane && lane.rounds.some((round) => round.size) ? lane.rounds : [];
  const tallest = Math.max(1, ...rounds.map((round) => round.size));
  const current = shown.older ? state?.window?.round : view?.round;
  const keys = (event) => {
    const to = walk(event, [...event.currentTarget.children]);
    if (to >= 0) jump(to);
  };
  const bar = (/** @type {Round} */ round) => {
    const open = round.round < closed;
    const full = open && round.accepted > 0 && round.accepted === round.drafted;
    const kind = `sd-rounds-bar${full ? ' sd-rounds-full' : ''}${
      round.round < (state?.sums.rounds ?? 0) ? ' sd-rounds-past' : ''
    }`;
    const [height, share] = [
      (100 * Math.max(round.size, 0.4)) / tallest,
      round.size && open ? (100 * round.accepted) / round.size : 0,
    ];
    const said = words(round, open);
    return html`
      <button type="button" key=${round.round} class=${kind} title=${said} aria-label=${said}
        aria-current=${String(round.round === current)} tabindex=${round.round === (current ?? 0)
          ? 0
          : -1}
        onclick=${() => jump(round.round)}>
        <i style="height: ${height}%"><b style="height: ${share}%"></b></i></button>
    `;
  };
  return html`
    <div class="sd-rounds" role="group" aria-label="Rounds: accepted tokens, click to jump"
      onkeydown=${keys}>${rounds.map(bar)}</div>
  `;
}
