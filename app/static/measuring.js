// Whether something is measured for this page, by whichever tab. Knows the players by their global names, draws nothing.

const players = () => [window.specdiff, window.specdiffRace, window.specdiffCompare].filter(Boolean);

/** Whether the server works for this page, or the visitor waits for it: what is drawn meanwhile disturbs the clock. */
export const measuring = () => players().some((one) => Boolean(one.live) || one.root.classList.contains('sd-busy'));

/** A replay would take its share of the processor. */
export function pauseAll() {
  for (const { player } of players()) if (player) player.pause();
}

/** “Open trace” cannot be pressed meanwhile: its file would be drawn beside the clock. Called where that changes. */
export function guard() {
  const open = document.querySelector('#sd-open');
  if (open) open.inert = measuring();
}

/** What a player says instead of a recording or a file. */
export const REFUSAL = {
  title: 'Something is being measured', message: 'This was not opened: drawing it would disturb the clock.', hint: 'Open it again when the measurement is over, or press Stop.', field: '',
};
