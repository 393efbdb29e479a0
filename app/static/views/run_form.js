// The form of Live and Race: the model, the prompt and Run, what to try, and all other settings.

import { FormField } from './form.js';
import { html, Select } from './ui.js';
import { plural } from '../state/format.js';
/** @import { FormValues } from '../state/form_values.js' */
/** @import { RunSettings } from '../state/run_settings.js' */

const FIRST = ['pair', 'prompt']; // fields beside the button
const GOING = {
  'aria-disabled': 'true',
  title: 'A run is under way. To start another, press Stop.',
};

/**
 * @typedef {object} Props
 * @property {string} prefix of the ids @property {RunSettings} form
 * @property {FormValues} own the form of a visitor's own pair
 * @property {Model} model @property {boolean} going whether a race runs @property {Acts} act
 *
 * @typedef {{words: string, fetching: boolean, own: boolean}} Model what is fetched, and its status;
 *  `own`: by the form of a visitor's own pair
 *
 * @typedef {object} Acts what the buttons do
 * @property {() => void} run @property {() => void} stop
 * @property {() => void} offerPairs that the server has now @property {() => void} getModel the pair's file
 * @property {() => void} useOwn pair @property {() => void} stopModel what is fetched
 */

/** @param {Props} props */
export function RunForm({ prefix, form, own, model, going, act }) {
  const { pair, missing, presets, options: { run, drawer, dares, command } } = form;
  const { words, fetching } = model;
  const first = FIRST.map((name) => form.fields.find((field) => field.name === name));
  const tries = dares ?? form.examples;
  const legend = dares ? 'Make it lose' : 'Examples';
  const waits = going ? GOING : {}; // not disabled: the focus stays
  const choose = (/** @type {Record<string, unknown>} */ values) => {
    if (dares && going) return;
    form.fill(values);
    if (dares) act.run();
  };
  return html`
    <div class="sd-about" data-hide="presenting">
      <p id="${prefix}-about">${pair?.about}</p>
      <p id="${prefix}-fetching" role="status">${!model.own && words}</p>
      <button type="button" class="sd-get" id="${prefix}-get" hidden=${!pair?.get || fetching}
        data-hide="seated" onclick=${act.getModel}>${pair?.get}</button>
      <button type="button" class="sd-get" id="${prefix}-get-stop" hidden=${model.own || !fetching}
        data-hide="seated" onclick=${act.stopModel}>Stop</button>
    </div>
    <div class="sd-panel sd-controls" data-hide="presenting seated">
      <div class="sd-controls-line">${first.map((field) =>
        field && html`
          <${FormField} form=${form} field=${field} prefix=${prefix} enter=${act.run} />
        `
      )}
        <button type="button" class="sd-run" id="${prefix}-run" onclick=${act
          .run} ...${waits}>${run}</button>
        <button type="button" class="sd-stop" hidden=${!going} onclick=${act
          .stop}>Stop</button></div>
      <div class="sd-controls-tries">
        <div class="sd-choices" role="group" aria-label=${legend}><span
          class="sd-sub">${legend}</span>
          ${tries.map(([words, values]) =>
            html`
              <button type="button" onclick=${() => choose(values)}
                ...${dares && waits}>${words}</button>
            `
          )}</div>
        <details id="${prefix}-drawer" ontoggle=${({ target }) => target.open && act.offerPairs()}>
          <summary>${drawer}</summary>
          <div class="sd-form">
            ${presets.length > 0 && html`
              <div class="sd-field"><label for="${prefix}-preset">Method</label>
                <${Select} id="${prefix}-preset" label="Method" value=${form.preset}
                  options=${[...presets, ['', 'Your own settings']]} act=${(index) =>
                    form.fill(index ? form.presetValues(index) : {})} />
                <small>Settings to start from.</small></div>
            `}
            ${form.fields.filter((field) => !first.includes(field)).map((field) =>
              html`<${FormField} form=${form} field=${field} prefix=${prefix} />`
            )}</div>
          ${own.fields.length > 0 && html`
            <details class="sd-form-more">
              <summary>Use your own pair</summary>
              <div class="sd-form">${own.fields.map((field) =>
                html`<${FormField} form=${own} field=${field} prefix="own" />`
              )}</div>
              <div class="sd-explored-buttons">
                <button type="button" class="sd-get" id="own-use" disabled=${fetching}
                  onclick=${act.useOwn}>Use this pair</button>
                <button type="button" class="sd-get" id="own-stop" hidden=${!model.own || !fetching}
                  onclick=${act.stopModel}>Stop</button>
                <p id="own-message" role="status">${model.own && words}</p>
              </div>
            </details>
          `}
          <p class="sd-sub" hidden=${!missing}>${plural(missing, 'more pair')} can’t run on this
            machine; this command says why: <code>${command}</code></p>
        </details>
      </div>
    </div>
  `;
}
