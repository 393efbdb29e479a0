// Two runs along one text; a rejection can be inspected and continued with another token.

import { buildLane, isGreedy } from './state/lane.js';
import { stateAt } from './state/progress.js';
import { Another, SIGNS, Tracks } from './views/tracks.js';
import { fetchTrace } from './files.js';
import { html, Link } from './views/ui.js';
import { inspected } from './state/inspect.js';
import { Inspector } from './views/inspector.js';
import { sharePieces } from './state/detokenize.js';
/** @import { Answer } from './state/exploration.js' */
/** @import { Lane } from './state/lane.js' */
/** @import { Looked } from './views/tracks.js' */

/** @typedef {{race: (name: string) => Promise<string | undefined>, open: (name: string) => void,
 *  measure: (values: Record<string, any>) => boolean}} Tools `race`: the address of a race's trace;
 *  `open`: plays it; `measure`: starts a measurement and returns whether it began */
export class SideBySide {
  leads = true; // it comes before the figures

  /** @param {() => void} changed draws the page again @param {Tools} tools */
  constructor(changed, tools) {
    this.changed = changed;
    this.tools = tools;
    /** @type {Answer | null} */
    this.answer = null;
    /** @type {Answer | null} the answer whose runs are drawn */
    this.drawnOf = null;
    this.waits = false; // for the runs of an answer that is being measured
    /** @type {Record<string, Lane>} */
    this.lanes = {};
    /** @type {Looked | null} */
    this.looked = null;
    this.going = ''; // the status of a branch
    this.requested = false; // whether a branch was requested
  }

  /** @param {Answer} answer */
  async show(answer) {
    if (this.answer === answer) return;
    const fresh = this.answer?.provenance.date !== answer.provenance.date;
    this.answer = answer;
    const url = await this.tools.race('runs');
    const lanes = url && this.answer === answer ? (await fetchTrace(url)).lanes : null;
    if (this.answer !== answer) return;
    if (lanes) {
      this.lanes = Object.fromEntries(
        Object.entries(lanes).map(([name, events]) => [name, buildLane(events)]),
      );
      sharePieces(Object.values(this.lanes));
      this.drawnOf = answer;
      this.looked = null;
    }
    this.waits = !lanes && (fresh || this.waits);
    this.changed();
  }

  /** Inspect the rejection of a round. @param {string} key run/round */
  pick(key) {
    const at = key.lastIndexOf('/');
    const [name, round] = [key.slice(0, at), Number(key.slice(at + 1))];
    const lane = this.lanes[name];
    const view = lane && stateAt(lane, lane.rounds[round]?.ends.Committed ?? 0).window;
    const verified = view?.verified;
    if (!verified) return;
    const greedy = isGreedy(lane);
    const what = inspected(view, verified.accepted, greedy);
    this.looked = { key, name, round, lane, view, verified, what, greedy };
    this.going = '';
    this.changed();
    document.querySelector('.sd-widget .sd-inspector')?.scrollIntoView({ block: 'nearest' });
  }

  unpin() {
    this.looked = null;
    this.changed();
  }

  /** Reset after the requested measurement has ended or failed. */
  ended() {
    Object.assign(this, { going: '', requested: false });
  }

  /** Request a branch of the run. @param {Looked} looked @param {Record<string, any>} values */
  go({ name, round }, values) {
    this.requested = this.tools.measure({ branch: name, round: round + 1, ...values });
    this.going = !this.requested
      ? 'A measurement is already running. Wait until it is done.'
      : 'The engine decodes both runs again, and then the branch…';
    this.changed();
  }

  view() {
    const { looked, drawnOf } = this;
    return html`
      <section class="sd-panel sd-widget" aria-label="The text, token by token">
        <header>
          <h2>The text, token by token</h2>
          <span class="sd-sub">one column for each token; click a rejection ✕ to inspect it</span>
          <${Link} class="sd-link sd-answer-saves"
            act=${() => this.tools.open('runs')}>Open both in the player<//></header>
            ${this.waits && html`<p class="sd-sub">The text appears when all runs are done.</p>`}
            ${drawnOf && !this.waits &&
              html`
                <${Tracks} lanes=${this.lanes} answer=${drawnOf} pinned=${looked?.key ?? ''}
                  pick=${(key) => this.pick(key)} />
              `}
            ${looked && !this.waits && html`
              <${Inspector} round=${looked.view} lane=${looked.lane}
                place=${looked.verified.accepted} who=${SIGNS[looked.name]} close=${() =>
                  this.unpin()} />
              <${Another} looked=${looked} requested=${this.requested} going=${this.going}
                seed=${(this.answer?.settings.branch_seed ?? 0) + 1}
                go=${(values) => this.go(looked, values)} />
            `}</section>
    `;
  }
}
