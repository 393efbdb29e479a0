// A tour of the Live tab: six steps that point at its elements. Offered once.

import { Component, html, Link } from './ui.js';
import { Guide } from './guide.js';
import { canRun } from '../page.js';
import { keep, recall } from '../storage.js';
/** @import { App } from '../app.js' */

const KEPT = 'specdiff-tour';

/** @type {[string, string, string, string][]} selector, moment, title, words */
const STEPS = [
  [
    '.sd-window .sd-gridwrap',
    'draft',
    'Draft',
    'The drafter fills a window of masks with guesses. Each row is one pass; darker cells ' +
    'are guesses it is sure of.',
  ],
  [
    '.sd-window .sd-phases',
    'score',
    'Score',
    'The large model, the target, reads all guesses in one pass. Reading eight tokens hardly ' +
    'takes longer than reading one. That’s the whole trick.',
  ],
  [
    '.sd-window .sd-gridwrap',
    'verify',
    'Verify',
    'Each guess is tested, from left to right. ✓ is accepted. The first ✕ ends the round, and ' +
    'the target writes its own token there. Press a cell to see the numbers.',
  ],
  [
    '[data-area=lanes]',
    'commit',
    'Commit',
    'Accepted guesses become text. Colour and glyph show where each token came from: guessed, ' +
    'corrected, or added by the target. The other lane is the target alone.',
  ],
  [
    '.sd-lane-list .sd-lane',
    'commit',
    'Clock',
    'Both lanes run on the same engine and on one clock: always the one that is behind goes on. ' +
    'The clock is stopped while this page draws.',
  ],
  [
    '[data-area=hero]',
    'end',
    'The number',
    'The speed-up of the drafted lane. The line below says what is guaranteed about its text.',
  ],
];

/** @typedef {Pick<App, 'stand' | 'pointAt'>} Acts */

/** @extends {Component<{act: Acts}, {seen: boolean}>} */
export class TourOffer extends Component {
  /** @param {{act: Acts}} props */
  constructor(props) {
    super(props);
    this.guide = new Guide(() => props.act.stand('start'));
    this.state = { seen: recall(KEPT) !== null }; // without storage it would be offered every time
  }

  remember() {
    this.setState({ seen: true });
    keep(KEPT, 'seen');
  }

  start() {
    const { act } = this.props;
    this.remember();
    const next = canRun('live') ? 'Now press Run.' : 'To race a prompt of your own, start the lab.';
    this.guide.start(
      'Tour',
      STEPS.map(([area, at, title, words], i) => ({
        title,
        words: i === STEPS.length - 1 ? [words, next] : [words],
        show: () => act.pointAt(at, area),
      })),
    );
  }

  /** @param {{act: Acts}} props @param {{seen: boolean}} state @override */
  render(props, { seen }) {
    return html`
      <p class="sd-tour-offer"
        hidden=${seen}>First time here? <${Link} act=${() =>
          this.start()}>Take the tour (one minute)<//>${' '}
            <button type="button" class="sd-b" aria-label="No tour" onclick=${() =>
              this.remember()}>✕</button></p>
    `;
  }
}
