// The playhead: play, pause, step, seek, speed. Pure: the player calls tick() and draws.

/** @import { Stop } from './race.js' */

export const RACE_SECONDS = 12;

const EPSILON = 1e-9; // seconds
const FELT = 60; // tokens per second; slower races can be watched in real time

/** Slow-motion factor (wall seconds per decode second) at which a race lasts about twelve seconds;
 *  races below FELT are not slowed. @param {number} [rate] tokens per second of the baseline */
export function autoSlow(duration, rate = Infinity) {
  if (!(duration > 0)) return 1;
  const factor = RACE_SECONDS / duration;
  return rate < FELT && factor > 1 ? 1 : Number(factor.toPrecision(2));
}

export class Playhead {
  /** @param {{duration: number, stops: Stop[], rate?: number}} race */
  constructor({ duration, stops, rate }) {
    this.duration = duration;
    this.stops = stops;
    this.t = 0;
    this.stop = -1; // index of the stop we stand on, or -1 between stops
    this.playing = false;
    this.auto = autoSlow(duration, rate);
    this.slow = this.auto;
  }

  play() {
    if (this.t >= this.duration) this.seek(0);
    this.playing = this.duration > 0;
    this.stop = -1;
  }

  pause() {
    this.playing = false;
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** Wall milliseconds passed. Returns whether the playhead moved. */
  tick(milliseconds) {
    if (!this.playing) return false;
    this.t = Math.min(this.duration, this.t + milliseconds / 1000 / this.slow);
    this.stop = -1;
    if (this.t >= this.duration) this.playing = false;
    return true;
  }

  seek(t) {
    this.t = Math.max(0, Math.min(this.duration, t));
    this.stop = -1;
  }

  /** Stop playing at a time. */
  rest(t) {
    this.playing = false;
    this.seek(t);
  }

  /** Stand exactly on a stop, even where several share one time. */
  stand(index) {
    if (!this.stops.length) return;
    this.playing = false;
    this.stop = Math.max(0, Math.min(this.stops.length - 1, index));
    this.t = this.stops[this.stop].t;
  }

  /** Go `count` stops forward (negative: back) from here. */
  step(count) {
    const passed = this.stops.findLastIndex(({ t }) => t <= this.t + EPSILON);
    const between = this.stop < 0 && !(this.stops[passed]?.t >= this.t - EPSILON);
    const current = this.stop >= 0 ? this.stop : passed;
    this.stand(current + count + Number(between && count < 0));
  }
}
