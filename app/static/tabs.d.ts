// What the server says about the tabs (app/tabs), and what parts of a tab share.

import type { Answer } from './state/exploration.js';
import type { Field, Pair } from './state/form_values.js';
import type { Looks } from './state/marks.js';
import type { Measured, Predictions } from './state/predicted.js';
import type { Settings } from './state/moment.js';
import type { Shown } from './state/shown.js';
import type { Symbols } from './views/glossary.js';
import type { TabName } from './state/events.d.ts';

/** The Live or the Race tab. */
export interface PlayerOptions extends Looks {
  kind: 'live' | 'race';
  plotly: string;
  crowded: number;
  exactness: Record<string, string>; // what is claimed about a text, by a run's exactness
  patience: number; // seconds the server takes for a stopped run's last frame
  noSteps: string[]; // drafters that don't denoise
  drafters: Record<string, Record<string, string>>; // what they are called, by pair
  /** The first opens the page; `block`: its staged round with other windows and steps. */
  recordings: { title: string; url: string; settings: Settings; block?: string }[];
  symbols: Symbols;
  kept: number; // seconds that the server keeps a run
  prefix: TabName; // with which the ids of its controls begin
  predictions: Predictions; // by pair and drafter
  typical: Measured[]; // ranges of similar settings
  empty: string; // shown before there is a race
  form?: RunFormOptions; // an export has none
}

/** What the form of Live or Race is drawn from (app/controls.py). */
export interface RunFormOptions {
  fields: Field[];
  opening: Record<string, unknown>; // the values that the page opens with
  pairs: Record<string, Pair>;
  examples: Record<string, [words: string, prompt: string][]>;
  run: string; // what the button says
  drawer: string; // what its settings are called
  command: string; // says why pairs are missing
  presets?: [words: string, values: Record<string, unknown>][];
  dares?: [words: string, values: Record<string, unknown>][];
  own?: Field[]; // of a visitor's own pair
  usual?: Record<string, string[]>; // methods of the recorded races, by pair
}

/** With its settings as a link's query. */
export type Recording = Omit<PlayerOptions['recordings'][0], 'settings'> & { settings: string };

export interface State {
  shown: Shown; // on the stage
  place: any; // the race on the stage, as `restore` takes it; null: it can't be opened again
  formSettings: string; // of the controls
  runSettings: string; // of the latest run; the controls may have changed since
  stale: string; // a note that the controls do not match the stage
  /** Whose block the server drafts now, and how many of its sizes it has begun. */
  redrafting: { shown: Shown; part: number; parts: number } | null;
}

/** The Explore or the Compare tab. */
export interface ExploreOptions {
  prefix: 'explore' | 'compare'; // with which the ids of its controls begin
  /** By question. */
  forms: Record<string, {
    title: string;
    question: string;
    columns: Record<string, string>;
    takes: number;
    scales: string[];
    pairless: Record<string, string[]>; // setting -> values with which no pair is measured
    fields: Field[];
  }>;
  pairs: Record<string, Pair>;
  folder: string; // of the recorded answers
  recorded: Record<string, Record<string, string>>; // by question: file, no ending -> label
  crowded: number;
  patience: number; // seconds that a stopped measurement gets
  plotly: string;
  symbols: Symbols;
}

/** An interactive panel of a question. */
export interface Widget {
  view: () => unknown;
  leads?: boolean; // whether it comes before the figures
  adds?: (key: string) => { data: object[] };
  show?: (answer: Answer) => void;
  pick?: (key: string) => void;
  figure?: string;
  ended?: () => void;
  sliders?: { p: number[]; q: number[]; tokens: string[] };
}

/** Part of a figure that a lesson shows. */
export type Part = { panel: string; lines: string[] } | null;
