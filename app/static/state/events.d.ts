// Made from specdiff_core/schema/events.py by `python -m tests.event_types`; a test compares the two.
export interface Span {
  name: string;
  start: number;
  seconds: number;
}
export interface Candidate {
  id: number;
  prob: number;
}
export interface Test {
  position: number;
  id: number;
  p: number;
  q: number;
  threshold: number;
  draw: number | null;
  wanted: number | null;
  accepted: boolean;
  kind: string;
}
export interface Quoted {
  steps: number | null;
  drafted: number | null;
  accepted: number | null;
  tokens_per_second: number | null;
}
export interface RunStarted {
  kind: 'RunStarted';
  schema: number;
  config: Record<string, boolean | number | string | null>;
  prompt: string;
  prompt_ids: number[];
  models: Record<string, string>;
  device: string;
  dtype: string;
  reason: string;
  threads: number;
  versions: Record<string, string>;
  grain: string;
  lossless: boolean;
  exactness: string;
  network: string;
  server: string;
  started_at: string;
}
export interface Prefilled {
  kind: 'Prefilled';
  tokens: number;
  span: Span;
}
export interface RoundStarted {
  kind: 'RoundStarted';
  round: number;
  length: number;
  anchor: number;
}
export interface Decided {
  kind: 'Decided';
  gamma: number;
  steps: number;
  best_gamma: number;
  tokens: number;
  seconds: number;
  rate: number;
  alphas: number[];
  pass_seconds: number;
  row_seconds: number;
  round: number;
}
export interface DenoiseStep {
  kind: 'DenoiseStep';
  round: number;
  step: number;
  ids: (number | null)[];
  revealed: number[];
  confidence: number[];
  candidates: Candidate[][];
  span: Span;
}
export interface DraftReady {
  kind: 'DraftReady';
  round: number;
  ids: number[];
  q: number[];
  reveal_steps: number[];
  exact_q: boolean[];
  proposal: string;
  nfe: number;
  parents: number[];
  branches: number[][];
  node_q: number[];
  span: Span;
}
export interface TargetScored {
  kind: 'TargetScored';
  round: number;
  p: number[];
  candidates: Candidate[][];
  span: Span;
}
export interface Verified {
  kind: 'Verified';
  tests: Test[];
  accepted: number;
  path: number[];
  scores: number[];
  chosen: number | null;
  extra: number;
  source: string;
  fallback: string;
  lossless: boolean;
  round: number;
  extra_candidates: Candidate[];
  rule: string;
  span: Span;
}
export interface Committed {
  kind: 'Committed';
  round: number;
  ids: number[];
  sources: string[];
  total: number;
  at: number;
}
export interface PiecesSeen {
  kind: 'PiecesSeen';
  pieces: Record<number, string>;
}
export interface Finished {
  kind: 'Finished';
  reason: string;
  text: string;
  ids: number[];
  rounds: number;
  seconds: number;
  seconds_by: Record<string, number>;
  peak_bytes: number | null;
  waited_seconds: number | null;
  quoted: Quoted | null;
}
export interface Failed {
  kind: 'Failed';
  code: string;
  message: string;
  hint: string;
  run: string;
}
export type Event = RunStarted | Prefilled | RoundStarted | Decided | DenoiseStep | DraftReady | TargetScored | Verified | Committed | PiecesSeen | Finished | Failed;
