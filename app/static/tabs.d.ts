// What the server says about the tabs (app/tabs), and what the parts of a tab share.

import type { Answer } from './state/exploration.js';
import type { Field, Pair } from './state/form_values.js';
import type { Looks } from './state/marks.js';
import type { Measured } from './state/predicted.js';
import type { Settings } from './state/moment.js';
import type { ShownRace } from './state/shown_race.js';
import type { Symbols } from './views/glossary.js';

/** The Live or the Race tab. */
export interface PlayerOptions extends Looks {
  tabName: 'live' | 'race'; // the ids of its controls begin with it
  plotly: string;
  crowded: number;
  exactness: Record<string, string>; // what is claimed about a text, by a run's exactness
  patience: number; // seconds the server takes for a stopped run's last frame
  noSteps: string[]; // drafters that don't denoise
  drafters: Record<string, Record<string, string>>; // what they are called, by pair
  recordings: Recording[]; // the first opens the page
  symbols: Symbols;
  kept: number; // seconds that the server keeps a run
  measured: Measured[]; // recorded speed-ups by setting
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

/** `settings`: as a link's query; `block`: the staged round with other windows and steps. */
export type Recording = { title: string; url: string; settings: string; block?: string };

/** As the server sends them, with settings by name. */
export type ServedOptions = Omit<PlayerOptions, 'recordings'> & {
  recordings: (Omit<Recording, 'settings'> & { settings: Settings })[];
};

export interface State {
  shown: ShownRace;
  place: any; // the race on the stage, as `restore` takes it; null: it can't be opened again
  formSettings: string; // of the controls
  runSettings: string; // of the latest run; the controls may have changed since
  stale: string; // a note that the controls do not match the stage
  /** Whose block the server drafts now, and how many of its sizes it has begun. */
  redrafting: { shown: ShownRace; part: number; parts: number } | null;
}

/** The Explore or the Compare tab. */
export interface ExploreOptions {
  tabName: 'explore' | 'compare'; // the ids of its controls begin with it
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
