"""Every symbol: its meaning, unit, and name in the code.

:func:`table` is the table of docs/theory.md, :func:`glossary` the page's tooltips. A test compares
both, and the settings, with this list."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Symbol:
    """One row. ``latex`` and ``meaning`` have formulas between dollar signs; ``engines``, what engines call it, is only
    in the table."""

    latex: str
    meaning: str  # begins with its name and a colon, if it has one
    unit: str
    code: str
    shown: str = ""  # how the page writes it; empty if it doesn't
    engines: str = ""
    prose: bool = True  # whether that letter in the page's prose means this symbol


# fmt: off
SYMBOLS = (
    Symbol(r"$\gamma$", "draft window: the most tokens that a round drafts in a row", "tokens",
        "`DecodeConfig.gamma`", "γ"),
    Symbol("$T$", "denoising steps: drafter passes that fill the window", "passes", "`DecodeConfig.steps`", "T"),
    Symbol("$B$", "nodes of a draft tree", "nodes", "`DecodeConfig.tree_nodes`", "B"),
    Symbol("$K$", "drafts of one round", "drafts", "`DecodeConfig.num_drafts`", "K"),
    Symbol("$s$", "the committed text when a round begins, prompt included", "tokens", "`Context.ids`"),
    Symbol("$x_j$", "the drafted token at position $j$ of the window", "token", "`Draft.ids`"),
    Symbol("$y$", "an emitted token; in a round, the one that the target adds", "token", "`Verdict.extra`"),
    Symbol("$p_j$",
        r"the target's distribution at position $j$, given the text $s$ and $x_1 \dots x_{j-1}$, after temperature, "
        "top-k and top-p", "probability", "`target_probs` in `decoding/verify.py`", "p"),
    Symbol("$q_j$",
        "the drafter's distribution at position $j$: the one that $x_j$ was actually drawn from",
        "probability", "`Draft.probs`", "q"),
    Symbol("$u$", "a uniform random number between 0 and 1, fresh for each test", "–", "`Test.draw`", "u"),
    Symbol("$g$", "Gumbel noise of one position, one number for each token of the vocabulary", "–",
        "`SharedGumbel.noise`"),
    Symbol("TV",
        r"total variation, $\frac{1}{2} \sum_z \lvert p(z) - q(z) \rvert = 1 - \sum_z \min(p(z), q(z))$",
        "–", "–", "TV"),
    Symbol(r"$\alpha$", "acceptance rate: accepted tokens over tested positions", "–", "`Metrics.alpha`", "α",
        engines="Engines divide by all drafted tokens (vLLM: draft_acceptance_rate, SGLang: spec_accept_rate)"),
    Symbol(r"$\alpha_j$", "acceptance rate at position $j$, conditional: among the rounds that reached it",
        "–", "`Metrics.alpha_at`, `Choice.alphas`", "α_j",
        engines="vLLM counts joint rates, over all drafts (spec_decode_num_accepted_tokens_per_pos)"),
    Symbol(r"$\tau$", "block efficiency: tokens committed per round, the target's own (bonus) included; measured",
        "tokens", "`Metrics.tau`", "τ",
        engines="vLLM: mean_acceptance_length, over the rounds that drafted; SGLang: spec_accept_length"),
    Symbol("$E$", r"the expected value of $\tau$, computed from $\alpha$ or the $\alpha_j$",
        "tokens", "`Choice.tokens`", "E[τ]"),
    Symbol("NFE", "drafter passes (number of function evaluations)", "passes", "`Metrics.nfe`", "NFE"),
    Symbol("$N$", "target passes: those after the prompt was read", "passes",
        "`Metrics.target_calls`", "N", prose=False),
    Symbol("$v$", "cost of a verifying pass of the target", "vanilla passes", "`Prediction.verify`", "v"),
    Symbol("$c$", "cost of a drafter pass", "vanilla passes", "`Prediction.cost`", "c"),
    Symbol("$C$", "expected time of a round", "seconds", "`Choice.seconds`"),
    Symbol("$d$", "time of a drafter pass", "seconds", "`Choice.pass_seconds`"),
    Symbol("$v_0$, $v_1$",
        "a target pass over $r$ rows takes $v_0 + v_1 r$; a row is one position that it reads",
        "seconds", "`Choice.row_seconds` is $v_1$"),
    Symbol("$R$", "tokens per second of the rounds so far", "tokens/s", "`Choice.rate`"),
    Symbol("$b_j$", "confidence: the drafter's largest probability at position $j$", "probability",
        "argument of `stop_criterion`"),
    Symbol(r"$\kappa$",
        r"exponent that turns confidence into a chance of acceptance, $b_j^{\kappa}$", "–",
        "`EXPONENTS` in `decoding/controller.py`"),
    Symbol("$S$", "score of one of $K$ drafts: how many of its tokens are expected to be accepted",
        "tokens", "`Verdict.scores`", "S"),
)
# fmt: on

_PLAIN = {
    r"\gamma": "γ", r"\alpha": "α", r"\tau": "τ", r"\dots": "…", r"\frac{1}{2}": "½", r"\sum_z": "Σ", r"\min": "min",
    r"\lvert ": "|", r" \rvert": "|", "-": "−",
}  # fmt: skip  # several pairs a line


def plain(text: str) -> str:
    """Text with its formulas as plain text: ``$x_{j-1}$`` as ``x_(j−1)``."""

    def formula(match: re.Match[str]) -> str:
        words = match[1]
        for latex, letters in _PLAIN.items():
            words = words.replace(latex, letters)
        return re.sub(r"\{(.*?)\}", r"(\1)", words)

    return re.sub(r"\$(.*?)\$", formula, text).replace("'", "’")


def glossary() -> dict[str, dict[str, str | bool]]:
    """Symbol as the page writes it -> meaning, unit, and whether it appears in prose."""
    return {
        symbol.shown: {"meaning": plain(symbol.meaning), "unit": symbol.unit.strip("–"), "prose": symbol.prose}
        for symbol in SYMBOLS
        if symbol.shown
    }


def table() -> str:
    """The table of docs/theory.md."""
    meaning = {s: f"{s.meaning}. {s.engines}" if s.engines else s.meaning for s in SYMBOLS}
    rows = [("symbol", "meaning", "unit", "in the code"), *((s.latex, meaning[s], s.unit, s.code) for s in SYMBOLS)]
    lines = ["| " + " | ".join(row) + " |\n" for row in rows]
    return "".join([lines[0], "|---|---|---|---|\n", *lines[1:]])
