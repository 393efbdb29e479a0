// The playhead: a moment of the race on the stage, and how it moves on: paused, stepwise, slowly or in
// real time. While a race is under way it plays up to the last moment that all lanes have reached.
// Changes only itself.

/** @import { Stop } from './stops.js' */

const EPSILON = 1e-9; // seconds
const NEAR = 0.4; // seconds behind the last event that still count as live: events come in leaps

/** How long a round is shown, in seconds, if the pace is a person's: the first of those that are
 *  shown slowly takes a while, each further one less, until the race runs in real time. */
const FIRST = 3.2;
const SHORTER = 0.65;

/** @param {number} round among those with a draft, from 0 */
export const roundSeconds = (round) => FIRST * SHORTER ** round;

export class Playhead {
  /** @param {{duration?: number, stops?: Stop[], growing?: boolean}} [race] */
  constructor({ duration = 0, stops = [], growing = false } = {}) {
    this.duration = duration; // of a race under way: that all lanes have reached
    this.stops = stops;
    this.growing = growing;
    this.t = 0;
    this.stop = -1; // index of the stop it is on, or -1 between stops
    this.dwelt = 0; // seconds on this stop
    this.share = 1; // of the time on this stop that has passed; 1 while it doesn't play
    this.seen = -1; // index of the last stop whose time has passed
    this.playing = false;
    /** @type {number | 'auto'} wall seconds per decode second; auto: a person's pace */
    this.slow = 'auto';
    this.still = false; // for people who want no motion: always at the end of what has arrived
  }

  /** The race has come further. @param {number} duration @param {boolean} growing */
  grow(duration, growing) {
    this.duration = Math.max(this.duration, duration);
    this.growing = growing;
    if (this.still && this.playing) this.toEdge();
    if (!growing && this.t >= this.duration - EPSILON) this.playing = false;
  }

  play() {
    if (!this.growing && this.t >= this.duration) this.seek(0);
    this.playing = this.growing || this.duration > 0;
  }

  pause() {
    this.playing = false;
  }

  toggle() {
    if (this.playing) this.pause();
    else this.play();
  }

  /** Whether the playhead shows the race as it happens. */
  get atEdge() {
    return this.growing && this.playing && !this.isSlow && this.t >= this.duration - NEAR;
  }

  /** Whether it plays more slowly than the race ran. */
  get isSlow() {
    return this.slow === 'auto' ? this.stop >= 0 : this.slow > 1;
  }

  /** Go to the last moment that has arrived, and on with the race. */
  toEdge() {
    this.slow = 1;
    this.seek(this.duration);
    this.playing = this.growing;
  }

  /** Wall milliseconds passed. Returns whether the playhead moved. */
  tick(milliseconds) {
    if (!this.playing) return false;
    const { t, stop, dwelt } = this;
    let seconds = milliseconds / 1000;
    if (this.slow !== 'auto') this.run(seconds / this.slow, this.duration);
    else while (seconds > 0) seconds = this.stop >= 0 ? this.dwell(seconds) : this.walk(seconds);
    if (!this.growing && this.t >= this.duration - EPSILON && this.stop < 0) this.playing = false;
    return t !== this.t || stop !== this.stop || dwelt !== this.dwelt || !this.playing;
  }

  /** Move on to a time at most. Returns the seconds that are left. */
  run(seconds, end) {
    const to = Math.min(end, this.t + seconds);
    const left = seconds - Math.max(0, to - this.t);
    this.t = Math.max(this.t, to);
    this.stop = -1;
    return left;
  }

  /** Stay on a stop for its time, while the clock moves to the next. Returns the seconds left. */
  dwell(seconds) {
    const [here, next] = [this.stops[this.stop], this.stops[this.stop + 1]];
    const end = Math.min(next?.t ?? this.duration, this.duration);
    if (!next && this.growing) return 0; // it is still being computed
    const stay = Math.max(here.dwell, end - here.t, 1e-9); // never faster than the race ran
    const spent = Math.min(seconds, Math.max(0, stay - this.dwelt));
    this.dwelt += spent;
    const share = Math.min(1, this.dwelt / stay);
    this.share = share;
    this.t = Math.max(this.t, here.t + share * (end - here.t));
    if (share < 1) return 0;
    if (next?.dwell && next.t > this.duration + EPSILON) return 0; // not all lanes are there yet
    this.seen = this.stop;
    if (next?.dwell) this.playFrom(this.stop + 1);
    else this.stop = -1;
    return seconds - spent;
  }

  /** Real time, up to the next stop that takes time; nothing is seen before the first stop, and of a
   *  replay nothing before the staged round. Returns the seconds left. */
  walk(seconds) {
    const begin = (this.stops[0]?.t ?? 0) - 1e-6;
    const staged = this.growing ? undefined : this.stops[this.staged]; // a replay begins at the blanks
    if (this.t < begin) this.t = Math.min(staged ? staged.t - 1e-6 : begin, this.duration);
    const next = this.stops.findIndex(({ dwell, t }, i) =>
      i > this.seen && dwell > 0 && t >= this.t - EPSILON
    );
    const stop = this.stops[next];
    const left = this.run(seconds, Math.min(stop?.t ?? this.duration, this.duration));
    if (!stop || this.t < stop.t - EPSILON) return 0;
    this.playFrom(next);
    return left;
  }

  /** Play on from a stop. */
  playFrom(index) {
    const { seen } = this;
    this.goToStop(index);
    Object.assign(this, { playing: true, share: 0, seen });
  }

  /** The first stop that a person's pace stays at: the beginning of the staged round. */
  get staged() {
    return this.stops.findIndex(({ dwell }) => dwell > 0);
  }

  /** Play the staged round from its beginning. */
  playStaged() {
    if (this.staged < 0) return;
    this.slow = 'auto';
    this.playFrom(this.staged);
    this.playing = !this.still;
  }

  /** Leave slow motion: on with the race as it happens, or in real time. */
  skip() {
    if (this.growing) return this.toEdge();
    this.slow = 1;
    const last = this.stops.findLastIndex(({ dwell }) => dwell > 0);
    this.seek(Math.max(this.t, this.stops[last]?.t ?? 0));
    this.playing = true;
  }

  seek(t) {
    this.t = Math.max(0, Math.min(this.duration, t));
    this.stop = -1;
    this.share = 1;
    this.seen = -1;
  }

  /** Stop playing at a time. */
  pauseAt(t) {
    this.playing = false;
    this.seek(t);
  }

  /** Stand exactly on a stop, even where several share one time. */
  goToStop(index) {
    if (!this.stops.length) return;
    this.playing = false;
    this.dwelt = 0;
    this.share = 1;
    this.seen = -1;
    this.stop = Math.max(0, Math.min(this.stops.length - 1, index));
    this.t = this.stops[this.stop].t;
  }

  /** Go `count` stops forward (negative: back) from here. */
  step(count) {
    const passed = this.stops.findLastIndex(({ t }) => t <= this.t + EPSILON);
    const between = this.stop < 0 && !(this.stops[passed]?.t >= this.t - EPSILON);
    const current = this.stop >= 0 ? this.stop : passed;
    this.goToStop(current + count + Number(between && count < 0));
  }
}
