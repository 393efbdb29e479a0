// The view of the Explore and the Compare tab: the questions, the form of one, and where its answer
// comes from.

import { ElementSlot, glossed, html, Select } from './ui.js';
import { RoomNotice } from './notes.js';
/** @import { Source } from '../state/answers.js' */

const CHIPS = { live: '● Measured here', recorded: '◉ Recording' };

/** @typedef {{words: string, title?: string | null, pressed: boolean, act: () => void}} Choice a
 *  button */

/** @param {Choice[]} choices */
export const buttons = (choices) =>
  choices.map(({ words, title = null, pressed, act }) =>
    html`
      <button type="button" aria-pressed=${String(pressed)} title=${title}
        onclick=${act}>${words}</button>
    `
  );

/**
 * @typedef {object} Props
 * @property {Record<string, {title: string, question: string}>} forms by question
 * @property {string} name of the question that is open @property {(name: string) => void} choose
 * @property {unknown} form its fields @property {boolean} unfolded whether they are shown at first
 * @property {boolean} runs @property {string} about how long a measurement takes
 * @property {{max: number, value: number} | null} bar its progress
 * @property {(act: 'run' | 'stop') => void} press
 * @property {() => void} offer the pairs that the server has
 * @property {HTMLElement} card for errors @property {HTMLElement} status of a run
 * @property {string} voice what assistive technology reads out
 * @property {Source} from @property {string} origin of the answer, in words
 * @property {[source: Source, file: string, words: string][]} available answers
 * @property {number} at which of them is shown @property {(answer: Props['available'][0]) => void}
 *  pick @property {string} busy why its times can't be trusted, if so
 * @property {boolean} there whether there is an answer @property {unknown} children the answer
 */

/** @param {Props} props */
export function Explored(props) {
  const { forms, name, runs, bar, press, available, from, there } = props;
  const questions = Object.entries(forms).map(([key, { title, question }]) => ({
    words: title,
    title: question,
    pressed: key === name,
    act: () => key !== name && props.choose(key),
  }));
  return html`
    <div class="sd-cmp-legend sd-exp-questions" role="group" aria-label="Questions"
      hidden=${questions.length < 2}>${buttons(questions)}</div>
    <${ElementSlot} element=${props.card} />
    <section class="sd-panel sd-exp-ask" aria-label="What to measure">
      <header>
        <h2>${forms[name].title}</h2>
      </header>
      <p class="sd-exp-question">${glossed(forms[name].question)}</p>
      <${RoomNotice} />
      <div class="sd-exp-buttons">
        <button type="button" class="sd-exp-run" disabled=${runs} onclick=${() =>
          press('run')}>Measure here (${props.about})</button>
        <button type="button" class="sd-exp-stop" hidden=${!runs} onclick=${() =>
          press('stop')}>Stop</button>
        <progress class="sd-exp-bar" aria-label="Progress" hidden=${!bar} ...${bar ?? {}} /></div>
      <details class="sd-exp-fields" key=${name} open=${props.unfolded}
        ontoggleCapture=${({ target }) => target.open && props.offer()}>
        <summary>Settings</summary>${props.form}</details>
    </section>
    <${ElementSlot} element=${props.status} />
    <div class="sd-voice" aria-live="polite">${props.voice}</div>
    <div class="sd-source">
      <span class="sd-chip" data-kind=${from === 'live' ? 'measured' : 'recording'}>${there &&
        CHIPS[from]}</span>
      <span class="sd-source-words">${props.origin}</span>
      ${available.length > 1 && html`
        <${Select} class="sd-pick" label="Answer" value=${props.at}
          options=${available.map(([, , title], i) => [i, title])}
          act=${(i) => props.pick(available[i])} />
      `}
    </div>
    <p class="sd-busy-machine" role="status">${props.busy}</p>
    <div class="sd-cmp-full" hidden=${!there}>${props.children}</div>
  `;
}
