// The form of Live and Race: the model, the prompt and Run, what to try, and all other settings.

import { html, Select } from './ui.js';
import { plural } from '../state/format.js';
/** @import { Child } from '../vendor/preact.d.ts' */
/** @import { Pair } from '../state/form_values.js' */

/**
 * @typedef {object} Props
 * @property {string} prefix of the ids @property {string} run what the button says
 * @property {string} drawer its summary
 * @property {Pair | null} pair that is chosen, if it is known @property {Child} line pair and prompt
 * @property {Child} fields all others @property {Child[]} own those of a visitor's own pair
 * @property {boolean} dares whether `tries` are runs to lose, not examples
 * @property {{words: string, act: () => void}[]} tries @property {boolean} going whether a race runs
 * @property {{words: string, fetching: boolean, own: boolean}} model what is fetched; `own`: by the
 *  form of a visitor's own pair
 * @property {number} missing pairs that cannot run @property {string} command that says why
 * @property {[index: string, words: string][]} presets @property {string} preset that is chosen
 * @property {(index: string) => void} pick one @property {(act: 'run' | 'stop') => void} press
 * @property {() => void} look which pairs there are @property {() => void} get the pair's file
 * @property {() => void} use the own pair @property {() => void} halt what is fetched
 */

/** @param {Props} props */
export function RunForm(props) {
  const { prefix, pair, model: { words, fetching, own }, going, presets, missing } = props;
  return html`
    <div class="sd-about">
      <p id="${prefix}-about">${pair?.about}</p>
      <p id="${prefix}-fetching" role="status">${!own && words}</p>
      <button type="button" class="sd-get" id="${prefix}-get" hidden=${!pair?.get || fetching}
        onclick=${props.get}>${pair?.get}</button>
      <button type="button" class="sd-get" id="${prefix}-get-stop" hidden=${own || !fetching}
        onclick=${props.halt}>Stop</button>
    </div>
    <div class="sd-panel sd-controls">
      <div class="sd-line">${props.line}
        <button type="button" class="sd-run" id="${prefix}-run" onclick=${() =>
          props.press('run')}>${props.run}</button>
        <button type="button" class="sd-stop" hidden=${!going} onclick=${() =>
          props.press('stop')}>Stop</button></div>
      <div class="sd-tries">
        <div class="sd-cmp-legend" role="group"
          aria-label=${props.dares ? 'Make it lose' : 'Examples'}><span class="sd-sub">${props.dares
            ? 'Make it lose'
            : 'Examples'}</span>
          ${props.tries.map(({ words, act }) =>
            html`<button type="button" onclick=${act}>${words}</button>`
          )}</div>
        <details id="${prefix}-drawer" ontoggle=${({ target }) => target.open && props.look()}>
          <summary>${props.drawer}</summary>
          <div class="sd-form">
            ${presets.length > 0 && html`
              <div class="sd-field"><label for="${prefix}-preset">Method</label>
                <${Select} id="${prefix}-preset" label="Method" value=${props.preset}
                  options=${[...presets, ['', 'Your own settings']]} act=${props.pick} />
                <small>Settings to start from.</small></div>
            `}
            ${props.fields}</div>
          ${props.own.length > 0 && html`
            <details class="sd-form-more">
              <summary>Use your own pair</summary>
              <div class="sd-form">${props.own}</div>
              <div class="sd-exp-buttons">
                <button type="button" class="sd-get" id="own-use" disabled=${fetching}
                  onclick=${props.use}>Use this pair</button>
                <button type="button" class="sd-get" id="own-stop" hidden=${!own || !fetching}
                  onclick=${props.halt}>Stop</button>
                <p id="own-message" role="status">${own && words}</p>
              </div>
            </details>
          `}
          <p class="sd-sub" hidden=${!missing}>${plural(missing, 'more pair')} can’t run on this
            machine; this command says why: <code>${props.command}</code></p>
        </details>
      </div>
    </div>
  `;
}
