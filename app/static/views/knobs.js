// The knobs of a block: it is drafted again with another window and other steps.

import { glossed, html, Link } from './ui.js';
import { longest, stepsOf, stepsWords, variantWords } from '../state/block.js';
import { plural } from '../state/format.js';
/** @import { Block } from '../state/block.js' */

/** @typedef {{gamma: number, steps: number}} Size of a window, and its denoising steps */

/** Sliders that draft the block again. @param {{block: Block, size: Size, set: (size: Size) => void,
 *  effect: string}} props `effect`: on whole answers */
export function Knobs({ block, size: { gamma, steps }, set, effect }) {
  const choices = stepsOf(block, gamma);
  const variant = block.get(`${gamma}/${steps}`);
  const others = steps === 1 ? 4 : 1; // to compare with
  const other = block.get(`${gamma}/${others}`);
  const resize = (value) => {
    const fitting = stepsOf(block, value).filter((count) => count <= steps);
    set({ gamma: value, steps: fitting.at(-1) ?? 1 });
  };
  const step = (i) => set({ gamma, steps: choices[i] });
  return html`
    <div class="sd-knobs">
      <label>γ <input type="range" min="1" max=${longest(block)} value=${gamma}
        aria-label="γ, guesses" oninput=${(event) => resize(Number(event.currentTarget.value))} />
        <output>${gamma}</output></label>
      <label>T <input type="range" min="0" max=${choices.length - 1} value=${choices.indexOf(steps)}
        aria-label="T, denoising steps" aria-valuetext=${String(steps)}
        oninput=${(event) => step(Number(event.currentTarget.value))} />
        <output>${steps}</output></label>
      ${other &&
        html`<${Link} act=${() => set({ gamma, steps: others })}>Try ${plural(others, 'step')}<//>`}
      <p>${variant && variantWords(variant)} ${variant && other &&
        stepsWords(variant, other, others)}<br/>${glossed(effect)}</p>
    </div>
  `;
}

/** Offers to draft the block on the stage again, and says how far that is.
 *  @param {{redrafting: {part: number, parts: number} | null, redraft: () => void,
 *  stop: () => void}} props */
export const Redraft = ({ redrafting, redraft, stop }) =>
  html`
    <p class="sd-knobs">${redrafting
      ? html`
        <span role="status">Drafting this block again: ${redrafting.part} of ${redrafting
          .parts} sizes…</span>
        <${Link} act=${stop}>Stop<//>
      `
      : html`<${Link} act=${redraft}>Try other γ and T on this block<//>`}</p>
  `;
