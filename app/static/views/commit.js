// The animation of a commit: accepted tokens fly from the window into the text, cut ones fall.

const MILLISECONDS = 250;
const EASE = 'cubic-bezier(.3, 0, .2, 1)';

/**
 * @param {HTMLElement[]} from cells of the window, one for each committed token, in order
 * @param {HTMLElement[]} to the tokens in the text
 * @param {HTMLElement[]} cut cells of tokens that were not accepted
 */
export function commit(from, to, cut) {
  if (window.matchMedia('(prefers-reduced-motion: reduce)').matches) return;
  from.slice(0, to.length).forEach((cell, i) => {
    const [start, end] = [cell.getBoundingClientRect(), to[i].getBoundingClientRect()];
    if (!start.width || !end.width) return;
    const ghost = document.createElement('span');
    ghost.className = 'sd-ghost';
    ghost.textContent = to[i].textContent;
    ghost.style.left = `${start.left + start.width / 2}px`;
    ghost.style.top = `${start.top + start.height / 2}px`;
    document.body.append(ghost);
    const [x, y] = [
      end.left + end.width / 2 - start.left - start.width / 2,
      end.top + end.height / 2 - start.top - start.height / 2,
    ];
    ghost.animate([{ transform: 'translate(-50%, -50%)', opacity: 1 }, {
      transform: `translate(calc(${x}px - 50%), calc(${y}px - 50%))`,
      opacity: 0.2,
    }], { duration: MILLISECONDS, easing: EASE }).finished.finally(() => ghost.remove());
    to[i].animate([{ opacity: 0 }, { opacity: 0, offset: 0.7 }, { opacity: 1 }], {
      duration: MILLISECONDS,
    });
  });
  for (const cell of cut) {
    cell.animate([
      { transform: 'none', opacity: 1 },
      { transform: 'translateY(14px)', opacity: 0 },
      { transform: 'none', opacity: 1 },
    ], { duration: 2 * MILLISECONDS, easing: EASE });
  }
}

/** Remove tokens in flight when the player is hidden; they would float over another tab. */
export function land() {
  for (const ghost of document.querySelectorAll('.sd-ghost')) ghost.remove();
}
