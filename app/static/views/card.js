// A picture and a looping clip of a run's staged round, drawn here, without any service.

import { captionOf, resultsOf, stateAfter, tailOf, tilesOf } from '../state/blanks.js';
import { LEAD } from '../state/declared.js';
import { stagedRound } from '../state/stops.js';
import { stateAt } from '../state/progress.js';
import { modelOf } from '../state/report.js';
import { download } from './dom.js';
/** @import { Lane } from '../state/lane.js' */
/** @import { Tile } from '../state/blanks.js' */

/** @typedef {{lane: Lane, baseline: Lane | null, number: string}} Run `number`: its speed-up in
 *  words, or empty */
/** @typedef {{before: string, tiles: Tile[], caption: string, number: string, seconds: number}} Frame
 *  `before`: the end of the text before the block */

const [WIDTH, HEIGHT, EDGE] = [1200, 630, 64];
const TYPES = ['video/mp4', 'video/webm']; // that browsers can record, the most widely shown first

/** The frames of a clip: each step of the staged round, each result, then the number.
 *  @param {Run} run @returns {Frame[]} */
export function framesOf({ lane, baseline, number }) {
  const round = stagedRound(lane);
  if (round < 0) return [];
  const stops = lane.stops.filter((index) => {
    const event = lane.events[index];
    return 'round' in event && event.round === round;
  });
  const before = tailOf(lane.texts.slice(0, lane.rounds[round].first).join(''));
  const frames = stops.flatMap((index) => {
    const window = stateAt(lane, index + 1).window;
    if (!window) return [];
    const judges = lane.events[index].kind === 'Verified';
    const counts = judges ? Array.from({ length: resultsOf(window) + 1 }, (_, i) => i) : [Infinity];
    return counts.map((count) => ({
      before,
      tiles: tilesOf(lane, window, count),
      caption: captionOf(lane, window, baseline, count),
      number: '',
      seconds: judges ? 0.45 : 0.8,
    }));
  });
  const { window } = stateAfter(lane, round);
  if (!window) return frames;
  const last = { before, tiles: tilesOf(lane, window), caption: captionOf(lane, window, baseline) };
  return [...frames, { ...last, number, seconds: 2.5 }];
}

/** @param {CanvasRenderingContext2D} pen @param {string} words @param {number} room in pixels
 *  @param {boolean} end whether to keep the end */
function cut(pen, words, room, end) {
  let text = words;
  while (text.length > 1 && pen.measureText(text).width > room) {
    text = end ? `…${text.slice(2)}` : `${text.slice(0, -2)}…`;
  }
  return text;
}

/** @param {CanvasRenderingContext2D} pen @param {Run} run @param {Frame} frame */
export function draw(pen, { lane }, { before, tiles, caption, number }) {
  const style = getComputedStyle(document.body);
  const colour = (role) => style.getPropertyValue(`--sd-${role}`).trim();
  const write = (
    words,
    x,
    y,
    size,
    { weight = 400, role = 'ink', room = WIDTH - 2 * EDGE, end = false } = {},
  ) => {
    pen.font = `${weight} ${size}px Inter, sans-serif`;
    pen.fillStyle = colour(role);
    pen.fillText(cut(pen, words, room, end), x, y);
  };
  pen.fillStyle = colour('card');
  pen.fillRect(0, 0, WIDTH, HEIGHT);
  write(LEAD, EDGE, 84, 33, { weight: 640 });
  write((lane.header?.prompt ?? '').replace(/\s+/g, ' '), EDGE, 134, 26, { role: 'muted' });
  write(before, EDGE, 182, 28, { end: true });
  const shown = tiles.slice(0, 8);
  const width = Math.min(170, (WIDTH - 2 * EDGE - 14 * (shown.length - 1)) / shown.length);
  shown.forEach(({ kind, words, heat, mark }, i) => {
    const [x, y] = [EDGE + i * (width + 14), 206];
    const wrong = kind === 'wrong' || kind === 'own';
    const drafted = ['fresh', 'known', 'right'].includes(kind);
    pen.beginPath();
    pen.roundRect(x, y, width, 112, 16);
    pen.fillStyle = colour(wrong ? 'residual-tint' : 'card');
    pen.fill();
    if (drafted) {
      pen.globalAlpha = [0, 0.08, 0.15, 0.24, 0.35, 0.47][heat];
      pen.fillStyle = colour('draft');
      pen.fill();
      pen.globalAlpha = 1;
    }
    pen.setLineDash(kind === 'blank' || kind === 'cut' ? [7, 6] : []);
    pen.lineWidth = mark ? 4 : 2;
    pen.strokeStyle = colour(wrong ? 'residual' : drafted ? 'draft' : 'edge');
    pen.stroke();
    pen.setLineDash([]);
    pen.textAlign = 'center';
    const role = kind === 'cut' ? 'muted' : 'ink';
    write(words, x + width / 2, y + 66, 27, { weight: 620, role, room: width - 18 });
    pen.textAlign = 'right';
    write(mark, x + width - 10, y + 30, 22, { weight: 700, role: wrong ? 'residual' : 'draft' });
    pen.textAlign = 'left';
  });
  write(caption, EDGE, 366, 25);
  write(number, EDGE - 4, 498, 104, { weight: 660, role: 'draft' });
  if (number) write('the big model’s own speed', EDGE, 544, 24, { role: 'muted' });
  const { header } = lane;
  const where = header
    ? ['SpecDiff Lab', modelOf(header), header.device, header.started_at.slice(0, 10)].join(' · ')
    : 'SpecDiff Lab';
  write(where, EDGE, 598, 20, { role: 'muted' });
}

/** A canvas for the frames. */
function canvasOf() {
  const canvas = Object.assign(document.createElement('canvas'), { width: WIDTH, height: HEIGHT });
  return { canvas, pen: /** @type {CanvasRenderingContext2D} */ (canvas.getContext('2d')) };
}

/** Download the last frame as a picture. @param {Run} run */
export async function savePicture(run) {
  const frame = framesOf(run).at(-1);
  if (!frame) return;
  const { canvas, pen } = canvasOf();
  draw(pen, run, frame);
  const blob = await new Promise((done) => canvas.toBlob(done, 'image/png'));
  download(blob, 'image/png', 'specdiff.png');
}

/** Whether this browser can record a clip. */
export const canRecord = () =>
  'MediaRecorder' in window && TYPES.some((type) => MediaRecorder.isTypeSupported(type));

/** Record the frames in real time, and download them as a clip. @param {Run} run */
export async function saveClip(run) {
  const type = TYPES.find((one) => MediaRecorder.isTypeSupported(one)) ?? '';
  const { canvas, pen } = canvasOf();
  const recorder = new MediaRecorder(canvas.captureStream(25), { mimeType: type });
  const parts = /** @type {Blob[]} */ ([]);
  recorder.ondataavailable = ({ data }) => parts.push(data);
  const over = new Promise((done) => {
    recorder.onstop = done;
  });
  const frames = framesOf(run);
  recorder.start();
  for (const frame of frames) {
    const end = performance.now() + 1000 * frame.seconds;
    while (performance.now() < end) {
      draw(pen, run, frame); // a stream without changes has no frames
      await new Promise(requestAnimationFrame);
    }
  }
  recorder.stop();
  await over;
  download(new Blob(parts), type, `specdiff.${type.split('/')[1]}`);
}
