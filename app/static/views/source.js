// Describes the race on the stage: a sentence with its result, its origin, and how it was measured.

import { Component, Dialog, Facts, html, Link, Pick } from './ui.js';
import { dateOf, endsOf, factsOf, headerOf, modelOf, placeOf } from '../state/report.js';
import { isRun } from '../state/moment.js';
import { keptRuns } from '../storage.js';
import { leadOf } from '../state/lead.js';
import { milliseconds, seconds } from '../state/format.js';
/** @import { PlayerOptions as Options, Recording } from '../tabs.d.ts' */
/** @import { ShownRace } from '../state/shown_race.js' */
/** @import { Scene } from '../state/stage.js' */
/** @import { Lanes } from '../state/race.js' */

const KINDS = {
  recording: '◉ Recording',
  run: '● Your run',
  kept: '● Run from a link',
  measured: '● Measured here',
  file: '◎ Opened file',
  stopped: '■ Stopped run',
  failed: '! Run that failed',
};
const TITLED = ['recording', 'measured', 'file'];
const TOGETHER = ['recording', 'run', 'kept', 'stopped', 'failed']; // this lab's races
const LINKED = 'A link that opens this run, paused at this step.';
const PHASES = ['prefill', 'draft', 'score', 'verify', 'other'];

/** The first sentence, and in its place, when the replay ends, its result. Both keep their room.
 *  @param {{scene: Scene}} props */
export function LeadSentence({ scene }) {
  const { before, after } = leadOf(scene);
  const part = (words, shown) =>
    words && html`<span style=${{ visibility: shown ? 'visible' : 'hidden' }}>${words}</span>`;
  return html`<p class="sd-source-lead" data-hide="presenting">${part(before, !scene.over)}${
    part(after, scene.over)
  }</p>`;
}

/** @param {{lanes: Lanes, title: string, together: boolean}} props */
function Report({ lanes, title, together }) {
  const header = headerOf(lanes);
  const ended = endsOf(lanes);
  if (!header) return null;
  const row = ([name, { seconds_by: by, seconds: all }]) => {
    const parts = PHASES.map((phase) => html`<td>${milliseconds(by[phase] || 0)}</td>`);
    return html`<tr><th scope="row">${name}</th>${parts}<td>${seconds(all)} s</td></tr>`;
  };
  return html`
    <${Facts} all=${factsOf(lanes, header, title, together)} />
    ${ended.length > 0 && html`
      <table class="sd-table" tabindex="0">
        <caption>Where the decode time went</caption>
        <thead>
          <tr>${['lane', ...PHASES, 'total'].map((words) =>
            html`<th scope="col">${words}</th>`
          )}</tr>
        </thead>
        <tbody>${ended.map(row)}</tbody>
      </table>
    `}
  `;
}

/**
 * @typedef {object} Props
 * @property {ShownRace} shown @property {Pick<Options, 'tabName' | 'recordings' | 'kept'>} options
 * @property {(recording: Recording) => void} choose one
 * @property {(button: HTMLElement) => void} keepMoment gives a link to it
 */

/** @extends {Component<Props, {open: boolean}>} */
export class Source extends Component {
  /** @override */ state = { open: false };

  /** @param {Props} props @param {{open: boolean}} state @override */
  render({ shown, options, choose, keepMoment }, { open }) {
    const { stage, trace, source, file, growing } = shown;
    const { tabName, recordings, kept } = options;
    const runs = growing ? [] : keptRuns(kept);
    const days = Math.round(kept / 86400);
    const header = headerOf(stage.lanes);
    const titled = tabName === 'race' && TITLED.includes(source) ? ` · ${trace?.title}` : '';
    const note = `${titled}${stage.left ? ` · ${stage.left} more lanes are not shown` : ''}`;
    const words = header
      ? `${modelOf(header)} on ${placeOf(header)} · ${dateOf(header.started_at)}${note}`
      : note;
    const isOwn = source === 'kept' && runs.some(({ query }) => query.includes(file));
    const cut = Object.values(stage.lanes).some((lane) => lane?.finished?.reason === 'stopped');
    const kind = !isOwn ? source : cut ? 'stopped' : 'run';
    const stays = `${LINKED} This server keeps it for ${days} days, or until it restarts.`;
    const show = (open) => () => this.setState({ open });
    const facts = html`<${Dialog} title="How this was measured" open=${open} closed=${show(false)}>
      ${
      open && html`
        <${Report} lanes=${stage.lanes} title=${trace?.title ?? ''}
          together=${TOGETHER.includes(source)} />
      `
    }<//>`;
    return html`
      <div class="sd-source" data-hide="presenting">
            <span class="sd-source-chip" data-kind=${kind}>${KINDS[kind] || kind}</span>
            <span class="sd-source-words">${words}</span>
            ${header &&
              html`<${Link} act=${show(true)} aria-haspopup="dialog">How this was measured<//>`}
            ${header && file && html`
              <${Link} act=${(event) => keepMoment(event.currentTarget)}
                title=${isRun(file) ? stays : LINKED}>Link to this moment<//>
            `}
            ${!growing && recordings.length > 1 && html`
              <${Pick} name="sd-more" label="Examples" all=${recordings}
                words=${({ title }) => title} open=${(recording) => choose(recording)} />
            `}
            <${Pick} label="My runs" all=${runs} words=${({ title }) => title}
              open=${({ query }) => location.search = query} />
            ${facts}</div>
    `;
  }
}
