// deno-fmt-ignore-file
// Made by `python -m tests.event_types`.

export const BASELINE = /** @type {string} */ ("vanilla");
export const DRAFTED = /** @type {string} */ ("drafted");
export const SCHEMA = /** @type {number} */ (2);
export const ANSWER_SCHEMA = /** @type {number} */ (1);
export const MAX_BYTES = /** @type {number} */ (64000000);
export const ENOUGH = /** @type {number} */ (8);
export const END = /** @type {string} */ ("∎");
export const CONTROL = /** @type {string} */ ("◇");
export const DEFAULTS = /** @type {Record<string, object>} */ ({
 RunStarted: {"schema": 2, "exactness": "", "network": "", "server": "", "started_at": ""},
 Decided: {
  best_gamma: 0,
  tokens: 0.0,
  seconds: 0.0,
  rate: 0.0,
  alphas: [],
  pass_seconds: 0.0,
  row_seconds: 0.0,
 },
 DraftReady: {"parents": [], "branches": [], "node_q": []},
 Verified: {"path": [], "scores": [], "chosen": null, "fallback": "", "lossless": true},
 Finished: {"seconds_by": {}, "peak_bytes": null, "waited_seconds": null, "quoted": null},
 Failed: {"run": ""},
});
export const TEST_KINDS = /** @type {import('./events.d.ts').TestKinds} */ ({
 ratio: {
  words: "p = {p}, q = {q}; accepted with probability min(1, p/q) = {threshold}, drawn u = {draw}",
  short: "u {draw} {outcome} {threshold}",
  passed: null,
  outcomes: ["<", "≥"],
  question: "Does this token pass the test?",
  bound: "min(1, p/q)",
  draws: true,
  walks: false,
 },
 delta: {
  words: "p = {p}, q = {q}; accepted with probability p = {threshold}, drawn u = {draw}",
  short: "u {draw} {outcome} {threshold}",
  passed: null,
  outcomes: ["<", "≥"],
  question: "Does this token pass the test?",
  bound: "p",
  draws: true,
  walks: false,
 },
 block: {
  words: "p = {p}, q = {q}; the draft up to here passes as a whole with probability {threshold}, drawn u = {draw}",
  short: "u {draw} {outcome} {threshold}",
  passed: [
   "p = {p}, q = {q}; the draft up to here passes as a whole with probability {threshold}; a longer part of it passed",
   "in the block",
  ],
  outcomes: ["<", "≥"],
  question: "Does this token pass the test?",
  bound: "",
  draws: true,
  walks: false,
 },
 match: {
  words: "p = {p}, q = {q}; shared noise: accepted if the target draws the same token",
  short: "{outcome}",
  passed: null,
  outcomes: ["same", "differs"],
  question: "Does the target draw this token too?",
  bound: "",
  draws: false,
  walks: false,
 },
 tree: {
  words: "the branches here have p = {threshold} together; the target drew {outcome}",
  short: "Σp {threshold}",
  passed: null,
  outcomes: ["one of them", "another token"],
  question: "Does the target take one of these tokens?",
  bound: "",
  draws: false,
  walks: true,
 },
});
export const SAMPLING = /** @type {Record<string, unknown>} */ ({
 top_k: 0,
 top_p: 1.0,
 draft_temperature: null,
 rule: "block",
});
export const EARLY = /** @type {number} */ (6);
export const LEAD = /** @type {string} */ ("A small model fills the blanks. A big one checks them all at once.");
export const LONGEST_LINK = /** @type {number} */ (1200);
export const RUN_NAME = /** @type {string} */ ("[\\w-]{22}");
export const OPENS = /** @type {Record<string, string | null>} */ ({
 open: null,
 lesson: "learn",
 explore: "explore",
 tab: null,
 methods: "race",
});
export const LIVE_LANES = /** @type {string[]} */ (["vanilla", "drafted"]);
export const OWN_TARGETS = /** @type {Record<string, string>} */ ({
 embedded: "Llama-Tales",
});
export const SAME_TEXT = /** @type {unknown[]} */ (["match"]);
