// Controls of the race on the stage: they play, step and seek, select a lane, and read out what is shown.

import { isFree } from './views/keys.js';
import { leadOf } from './state/lead.js';
import { sentenceOf, wordsOf } from './state/narrate.js';
import { Study } from './study.js';
/** @import { Frames } from './frames.js' */
/** @import { Moment } from './state/moment.js' */
/** @import { Playhead } from './state/playhead.js' */
/** @import { Scene } from './state/stage.js' */
/** @import { ShownRace } from './state/shown_race.js' */

export class PlaybackControls {
  /** @param {HTMLElement} root @param {() => ShownRace} shown what is on the stage
   *  @param {Frames} frames @param {() => string} query of a link to it */
  constructor(root, shown, frames, query) {
    this.root = root;
    this.shown = shown;
    this.frames = frames;
    this.voice = ''; // what assistive technology reads out
    this.speaks = false; // whether the next drawing is read out
    this.study = new Study(root, {
      shown,
      selectLane: (name) => this.selectLane(name),
      goToRound: (round) => this.goToRound(round),
      pauseAt: (seconds) => this.act((playhead) => playhead.pauseAt(seconds)),
      draw: () => frames.on.draw(),
      speak: () => this.speak(),
      query,
    });
    document.addEventListener('keydown', (event) => this.keys(event));
  }

  /** @param {(playhead: Playhead) => void} change of the playhead */
  act(change) {
    const { playhead } = this.shown();
    this.study.game = null;
    change(playhead);
    this.speaks ||= !playhead.playing;
    this.frames.requestDraw();
  }

  /** Back to what happens now. */
  toEdge() {
    this.study.leave();
    this.act((playhead) => playhead.toEdge());
  }

  /** Select the lane whose text, window and numbers are shown. @param {string} name */
  selectLane(name) {
    const shown = this.shown();
    if (!shown.select(name)) return;
    this.study.leave();
    this.speaks = !shown.playhead.playing;
    this.frames.requestDraw();
  }

  /** @param {Pick<Moment, 'lane' | 'round' | 'at'>} moment */
  goTo(moment) {
    const shown = this.shown();
    if (shown.lanes[moment.lane]) this.selectLane(moment.lane);
    this.act(() => shown.goTo(moment));
  }

  /** Go to the verdict of a round of the selected lane. */
  goToRound(round) {
    this.goTo({ lane: this.shown().selected ?? '', round: round + 1, at: 'commit' });
  }

  /** Go to the verdict of a round, and scroll to the window. */
  scrollToRound(round) {
    this.goToRound(round);
    const panel = /** @type {HTMLElement} */ (this.root.querySelector('.sd-window'));
    panel.focus({ preventScroll: true });
    panel.scrollIntoView({ block: 'center' });
  }

  keys(event) {
    const { target } = event;
    if (event.defaultPrevented || !this.frames.awake || !isFree(event)) return;
    if (
      target.closest(
        'dialog, [role=tablist]:not([aria-orientation=vertical]), [role=listbox], ' +
          'input:not(.sd-bar-scrub)',
      )
    ) return;
    if (this.study.game) {
      if (this.study.key(event)) event.preventDefault();
      return;
    }
    const grid = target.closest('.sd-grid-scroll');
    if (grid && grid.scrollWidth > grid.clientWidth) return; // arrows scroll it
    const by = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (event.key === ' ' && !target.closest('button, a, summary, [role=tab]')) {
      this.act((playhead) => playhead.toggle());
    } else if (by) this.act((playhead) => playhead.step(event.shiftKey ? 10 * by : by));
    else return;
    event.preventDefault();
  }

  /** Wall milliseconds passed. Returns whether the playhead plays on. */
  tick(milliseconds) {
    const { playhead } = this.shown();
    const wasPlaying = playhead.playing;
    if (playhead.tick(milliseconds)) this.frames.dirty = true;
    this.speaks ||= wasPlaying && !playhead.playing;
    return playhead.playing;
  }

  /** Read the next drawing out. */
  speak() {
    this.speaks = true;
    this.frames.requestDraw();
  }

  /** Update what is read out with a drawing. @param {Scene} scene */
  describe(scene) {
    if (this.speaks) {
      const { game } = this.study;
      const result = scene.over ? leadOf(scene).after : '';
      this.voice = game?.words(wordsOf(game.lane)) ??
        [sentenceOf(scene), result].filter(Boolean).join(' ');
    }
    this.speaks = false;
  }
}
