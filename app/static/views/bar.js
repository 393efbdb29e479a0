// The bar of playback: play, step, scrub, pace, download; and what the playhead does now.

import { Button, html, icon, Link, Select } from './ui.js';
import { seconds, slowWords } from '../state/format.js';
/** @import { Playhead } from '../state/playhead.js' */

const SPEEDS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000];
const STEPS = 1000; // of the range input
const PACE =
  'The first rounds play slowly, so that each of their steps is seen, then the race runs ' +
  'in real time. All lanes share one clock, the decode clock.';

/** What the playhead does. @param {Playhead} playhead */
function doingWords({ atEdge, growing, playing, isSlow, t, duration }) {
  if (atEdge) return '● live';
  if (!playing) return growing || t < duration ? 'paused' : 'the end';
  return isSlow ? 'slow motion' : 'real time';
}

/** @param {{playhead: Playhead, move: (change: (playhead: Playhead) => void) => void,
 *  toEdge: () => void, save: () => void}} props */
export function Bar({ playhead, move, toEdge, save }) {
  const { t, duration, playing, growing, slow, atEdge } = playhead;
  const share = duration ? t / duration : 0;
  const scrub = ({ currentTarget }) =>
    move((playhead) => playhead.pauseAt(Number(currentTarget.value) / STEPS * playhead.duration));
  const pick = (value) =>
    move((playhead) => Object.assign(playhead, { slow: value === 'auto' ? value : Number(value) }));
  const step = (count) => () => move((playhead) => playhead.step(count));
  const speeds = [
    ['auto', 'slow at first'],
    ...SPEEDS.map((speed) => [speed, slowWords(speed)]),
  ];
  const [play, sign] = playing ? ['Pause (space)', 'pause'] : ['Play (space)', 'play'];
  const [value, style] = [Math.round(share * STEPS), { '--share': `${(100 * share).toFixed(2)}%` }];
  const place = `${seconds(t)} of ${seconds(duration)} seconds of decode time`;
  const time = `${seconds(t)} / ${seconds(duration)} s`;
  return html`
    <div class="sd-bar" role="group" aria-label="Playback" data-area="bar">
      <${Button} name="sd-bar-back" label="Back to the start"
        act=${() => move((playhead) => playhead.pauseAt(0))}>${icon('start')}<//>
      <${Button} name="sd-bar-prev" label="One step back (left arrow; with shift, ten)"
        act=${step(-1)}>${icon('back')}<//>
      <${Button} name="sd-bar-play" label=${play} act=${() =>
        move((playhead) => playhead.toggle())}>${icon(
          sign,
        )}<//>
      <${Button} name="sd-bar-next" label="One step forward (right arrow; with shift, ten)"
        act=${step(1)}>${icon('next')}<//>
      <input type="range" class="sd-bar-scrub" min="0" max=${STEPS} step="1" value=${value}
        style=${style} aria-label="Position in the race" aria-valuetext=${place} oninput=${scrub} />
      <span class="sd-bar-pace" data-live=${String(growing)}>${!growing || atEdge
        ? doingWords(playhead)
        : html`<${Link} act=${toEdge} name="sd-bar-live">● go live<//> · ${
          doingWords(playhead)
        }`}</span>
      <span class="sd-bar-time">${time}</span>
        <${Select} class="sd-pick" label="Playback speed, the same for all lanes" title=${PACE}
          value=${slow} options=${speeds} act=${pick} />
        <${Button} name="sd-bar-save" label="Download this trace (.jsonl.gz)" act=${save} data-hide="presenting">${icon(
          'save',
        )}<span>Trace</span><//>
      </div>
  `;
}
