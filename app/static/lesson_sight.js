// What a lesson points at: opens it in its tab, offers to run it, and quotes its numbers.

import { canRun, openTab, page } from './page.js';
import { glossed, html } from './views/ui.js';
import { proven, watched } from './state/findings.js';
import { until } from './views/dom.js';
/** @import { App } from './app.js' */
/** @import { Child } from './vendor/preact.d.ts' */
/** @import { Explore } from './explore.js' */
/** @import { Guide } from './guide.js' */
/** @import { Lesson } from './learn.js' */
/** @import { Moment } from './state/moment.js' */
/** @import { Watch } from './state/events.d.ts' */

// of a round that a lesson shows
const VERDICT = { tab: 'live', lane: 'drafted', at: 'verify', settings: '' };

/** The tab that a lesson points at. @param {Watch} watch */
const tabOf = ({ trace, explore }) =>
  trace ? 'live' : { '': 'learn', compare: 'compare' }[explore] ?? 'explore';

/** The player of a tab, which is opened if the player does not exist yet; null if none appears.
 *  @param {'live' | 'explore' | 'compare'} kind */
function playerOf(kind) {
  if (!page.players[kind]) openTab(kind);
  return until(() => page.players[kind]);
}

const paragraphs = (sentences) => sentences.map((words) => html`<p>${glossed(words)}</p>`);

export class LessonSight {
  /** @param {Guide} guide that points at it */
  constructor(guide) {
    this.guide = guide;
    /** @type {Child} measured numbers, and a button to measure them */
    this.numbers = null;
    /** @type {Child} shown below the verdict of a check */
    this.proof = null;
    /** @type {{lesson: Lesson | undefined, moment: Moment | null} | null} requested by the link
     *  that opened the page, until it is shown */
    this.linked = null;
  }

  /** Open what a lesson points at, and return its element. @param {Lesson} lesson */
  async open(lesson) {
    const { explore, answer, panel, lines, query, trace, area } = lesson.watch;
    const tab = /** @type {'live' | 'explore' | 'compare'} */ (tabOf(lesson.watch));
    openTab(tab);
    if (trace) {
      const player = /** @type {App | null} */ (await playerOf('live'));
      if (!player) return null;
      this.offer([], player, 'live', () => this.runRace(player));
      const moment = this.linked?.lesson === lesson ? this.linked.moment : null; // the first time
      this.linked = null;
      if (!(moment && (await player.staging.openMoment(moment)))) {
        await player.staging.openMoment({ ...VERDICT, trace, round: lesson.round });
      }
      player.draw(); // the element must exist now, not in the next frame
      return player.root.querySelector(area) ?? document.querySelector(area);
    }
    const player = /** @type {Explore} */ (await playerOf(tab));
    if (!player) return null;
    player.showPart(explore, answer, lines.length ? { panel, lines } : null);
    const offer = async () => {
      const sentence = watched(lesson.name, await player.answerOf(explore, answer));
      this.offer(
        sentence ? [sentence] : [],
        player,
        tab,
        Object.keys(query).length ? () => player.measureWith(query) : null,
        offer,
      );
    };
    await offer();
    const panelOf = (key) =>
      player.root.querySelector(`[data-figure="${key}"]`)?.closest('.sd-panel') ?? null;
    panelOf(panel)?.closest('details')?.setAttribute('open', '');
    const selector = { board: '.sd-exp-board', widget: '.sd-exp-aside' }[panel];
    return selector ? player.root.querySelector(selector) : panelOf(panel);
  }

  /** Show sentences, and offer to run what a lesson shows. A room only watches the recording.
   *  @param {string[]} sentences
   *  @param {App | Explore} player @param {string} prefix @param {(() => unknown) | null} start
   *  @param {() => unknown} [ended] */
  offer(sentences, player, prefix, start, ended = () => this.say(null)) {
    const can = start && !this.guide.room && canRun(prefix);
    const run = async () => {
      const { spot } = this.guide;
      const back = () => spot === this.guide.spot && this.guide.look(); // a run scrolls away
      await start?.();
      let words = '';
      await until(() => {
        const status = player.job.status.element.textContent;
        if (words !== status) {
          this.say(html`<p class="sd-sub" aria-live="off">${status}</p>`);
          back();
        }
        words = status;
        return player.job.state === 'idle';
      }, Infinity);
      await ended();
      back();
    };
    this.say([
      paragraphs(sentences),
      can && html`<button type="button" class="sd-link" onclick=${run}>Run it here</button>`,
    ]);
  }

  /** @param {Child} numbers */
  say(numbers) {
    this.numbers = numbers;
    this.guide.draw();
  }

  /** Run the recording's race; the server first fills in its settings. @param {App} player */
  async runRace(player) {
    const { settings } = player.shown;
    if (settings) player.job.press('fill');
    await until(() => !settings || player.state.formSettings === settings);
    player.job.press('run');
  }

  /** Set the numbers below the verdict of a check: of the visitor's own runs. Points at nothing.
   *  @param {Lesson} lesson */
  prove(lesson) {
    const { name, watch } = lesson;
    const explore = /** @type {Explore | undefined} */ (page.players.explore);
    const widget = watch.panel === 'widget' ? explore?.widgets[watch.explore] : null;
    this.proof = paragraphs(proven(name, page.runs, widget?.sliders ?? null));
    this.guide.draw();
    return null;
  }

  /** Show whole figures again. */
  leave() {
    for (const tab of /** @type {const} */ (['explore', 'compare'])) {
      const player = /** @type {Explore | undefined} */ (page.players[tab]);
      if (player) player.state.only = null;
    }
  }
}
