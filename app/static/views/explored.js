// The view of the Explore and the Compare tab: the questions, the form of one, and where its answer
// comes from.

import { ElementSlot, glossed, html, Select } from './ui.js';
import { RoomNotice } from './notes.js';
/** @import { Child } from '../vendor/preact.d.ts' */
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
 * @property {Question} question @property {Run} run @property {AnswerShown} shown
 * @property {Child} children the answer
 *
 * @typedef {object} Question what can be measured
 * @property {Record<string, {title: string, question: string}>} forms by question
 * @property {string} name of the question that is open @property {(name: string) => void} choose
 * @property {Child} fields its form @property {boolean} unfolded whether they are shown at first
 * @property {() => void} offer the pairs that the server has
 *
 * @typedef {object} Run a measurement
 * @property {boolean} busy @property {string} about how long it takes
 * @property {{max: number, value: number} | null} bar its progress
 * @property {(act: 'run' | 'stop') => void} press
 * @property {HTMLElement} card for errors @property {HTMLElement} status
 * @property {string} voice what assistive technology reads out
 *
 * @typedef {object} AnswerShown the answer, if `there` is one
 * @property {boolean} there @property {Source} from @property {string} origin of the answer, in words
 * @property {[source: Source, file: string, words: string][]} available answers
 * @property {number} at which of them is shown @property {(answer: AnswerShown['available'][0]) => void}
 *  pick @property {string} doubt why its times can't be trusted, if so
 */

/** @param {Props} props */
export function Explored({ question, run, shown, children }) {
  const { forms, name } = question;
  const { busy, bar } = run;
  const { there, from, available } = shown;
  const kind = from === 'live' ? 'measured' : 'recording';
  const questions = Object.entries(forms).map(([key, { title, question: words }]) => ({
    words: title,
    title: words,
    pressed: key === name,
    act: () => key !== name && question.choose(key),
  }));
  return html`
    <div class="sd-choices sd-explored-questions" role="group" aria-label="Questions"
      data-hide="presenting" hidden=${questions.length < 2}>${buttons(questions)}</div>
    <${ElementSlot} element=${run.card} />
    <section class="sd-panel sd-explored-ask" aria-label="What to measure" data-hide="presenting">
      <header>
        <h2>${forms[name].title}</h2>
      </header>
      <p class="sd-explored-question">${glossed(forms[name].question)}</p>
      <${RoomNotice} />
      <div class="sd-explored-buttons" data-hide="seated exported">
        <button type="button" class="sd-explored-run" disabled=${busy} onclick=${() =>
          run.press('run')}>Measure here (${run.about})</button>
        <button type="button" class="sd-explored-stop" hidden=${!busy} onclick=${() =>
          run.press('stop')}>Stop</button>
        <progress class="sd-explored-progress" aria-label="Progress" hidden=${!bar} ...${bar ??
          {}} /></div>
      <details class="sd-explored-fields" key=${name} data-hide="seated exported"
        open=${question.unfolded} ontoggleCapture=${({ target }) =>
          target.open && question.offer()}>
        <summary>Settings</summary>${question.fields}</details>
    </section>
    <${ElementSlot} element=${run.status} />
    <div class="sd-voice" aria-live="polite">${run.voice}</div>
    <div class="sd-source" data-hide="presenting">
      <span class="sd-source-chip" data-kind=${kind}>${there && CHIPS[from]}</span>
      <span class="sd-source-words">${shown.origin}</span>
      ${available.length > 1 && html`
        <${Select} class="sd-pick" label="Answer" value=${shown.at}
          options=${available.map(([, , title], i) => [i, title])}
          act=${(i) => shown.pick(available[i])} />
      `}
    </div>
    <p class="sd-busy-machine" role="status">${shown.doubt}</p>
    <div class="sd-explored-answer" hidden=${!there}>${children}</div>
  `;
}
