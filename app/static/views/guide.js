// The card of a guide: a step's words, the answers to choose from, and their verdict.

import { glossed, html, Link } from './ui.js';
/** @import { Child } from '../vendor/preact.d.ts' */
/** @import { Guide } from '../guide.js' */

/** @typedef {{words: string, right?: boolean, why?: string}} Option without `right`: no verdict */
/**
 * @typedef {object} Step
 * @property {string} title @property {string[]} words
 * @property {string} [instead] shown to a room until the words are revealed
 * @property {Option[]} [options] @property {boolean} [skips] whether its question can be skipped
 * @property {() => Child} [scene] before its words
 * @property {() => Child} [extra] after them; both hidden from a room until it is revealed
 * @property {() => Child} [proof] shown with the verdict
 * @property {() => Element | null | Promise<Element | null>} [show] opens what it points at
 */
/** @typedef {Pick<Guide, 'steps' | 'at' | 'open' | 'onward' | 'chosen' | 'fixed' | 'room' | 'led' |
 *  'votes' | 'present' | 'note' | 'about'>} Shown */

/** The answers to a step's question. @param {{guide: Shown, choose: (option: number) => void}} props */
function Answers({ guide, choose }) {
  const { at, steps, room, led, open, votes, present, note, fixed } = guide;
  const { options = [], proof } = steps[at];
  const hides = (room || led) && !open; // until it is revealed
  const total = votes?.reduce((sum, count) => sum + count, 0) ?? 0;
  const chosen = guide.chosen[at] ?? -1;
  const mark = (/** @type {Option} */ { right, why }) => `${right ? '✓' : '✕'} ${why}`;
  const picked = options[chosen];
  const noted = note ? '' : led ? 'Noted.' : 'Noted. Now watch.';
  const verdict = room || !picked
    ? ''
    : picked.right !== undefined && !hides
    ? mark(picked)
    : noted;
  const choice = (/** @type {Option} */ option, i) => {
    const judged = option.right !== undefined && !hides && (room || led || i === chosen);
    const count = votes?.[i] ?? 0;
    return html`
      <button type="button" class="sd-guide-option" aria-pressed=${String(i === chosen)}
        aria-disabled=${fixed ? 'true' : null} data-right=${judged
          ? String(option.right)
          : null} onclick=${() => choose(i)}>
        ${option.words}${room && judged && html`<small>${mark(option)}</small>`}
        ${room && open && total > 0 &&
          html`<span class="sd-guide-votes" style="--share: ${
            count / total
          }">${count}</span>`}</button>
    `;
  };
  return html`
    <div class="sd-guide-options" role="group" aria-label="Answers">${options.map(choice)}</div>
    <p class="sd-guide-verdict" role="status">${verdict}</p>
    ${room && present > 0 && html`<p class="sd-sub">${total} of ${present} answered</p>`}
    ${proof && !hides && (room || led || picked) &&
      html`<div class="sd-guide-proof">${proof()}</div>`}
  `;
}

/** A step, without what is still hidden.
 *  @param {{guide: Shown, act: {go: (at: number) => void, choose: (option: number) => void,
 *  skip: () => void, end: () => void}}} props */
export function Card({ guide, act }) {
  const { at, steps, open, onward } = guide;
  const { title, words, instead, options = [], skips = false, scene, extra } = steps[at];
  const said = open || !instead ? words : [instead];
  const waits = options.length > 0 && guide.chosen[at] === undefined;
  const last = at === steps.length - 1;
  return html`
    ${guide.about()}<header><b>${title}</b><span class="sd-sub">${steps.length > 1 &&
      `${at + 1} of ${steps.length}`}</span></header>
    <div class="sd-guide-body" aria-live="polite" key=${at}>
      ${open && scene?.()}${said.map((sentence) => html`<p>${glossed(sentence)}</p>`)}
      ${open && extra?.()}${options.length > 0 &&
        html`<${Answers} guide=${guide} choose=${(option) => act.choose(option)} />`}
      <p class="sd-guide-note" role="status">${guide.note}</p></div>
    <div class="sd-guide-buttons" data-hide="presenting">
      <${Link} act=${() => act.end()}>${last && onward && !waits ? 'Done' : 'End here'}<//>
      ${!guide.led && html`
        ${skips && waits && html`<${Link} act=${() => act.skip()}>Skip<//>`}
        <button type="button" class="sd-button" disabled=${at === 0}
          onclick=${() => act.go(at - 1)}>Back</button>
        <button type="button" class="sd-button sd-guide-next" disabled=${waits}
          onclick=${() => act.go(at + 1)}>${last ? onward || 'Done' : 'Next'}</button>
      `}</div>
  `;
}
