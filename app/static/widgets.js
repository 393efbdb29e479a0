// The interactive panels of Explore's questions, each made when its question is first shown.

import { Playground } from './views/playground.js';
import { Sandbox } from './views/sandbox.js';
import { SideBySide } from './side_by_side.js';
/** @import { Tools } from './side_by_side.js' */
/** @import { Widget } from './tabs.d.ts' */

/** @type {Record<string, new (changed: () => void, tools: Tools) => Widget>} */
const KINDS = { 'what-it-takes': Sandbox, losslessness: Playground, 'side-by-side': SideBySide };

export class Widgets {
  /** @param {() => void} changed draws the page again @param {Tools} tools */
  constructor(changed, tools) {
    this.changed = changed;
    this.tools = tools;
    /** @type {Record<string, Widget>} by question */
    this.made = {};
  }

  /** The panel of a question; null if it has none. @param {string} question */
  of(question) {
    const Kind = KINDS[question];
    if (Kind) this.made[question] ??= new Kind(this.changed, this.tools);
    return this.made[question] ?? null;
  }

  /** A measurement is over. */
  ended() {
    for (const widget of Object.values(this.made)) widget.ended?.();
  }
}
