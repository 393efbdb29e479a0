"""The formula of each method, and what its letters mean. Knows notation only; facts follow the papers."""

from __future__ import annotations

from app.mathml import bracket, formula, fraction, hat, power, product, row, space, sub, total, under

_BELOW, _TO_M = row("m", "=", "1"), row("j", "≤", "m")
_BEFORE = sub("x", "<", "j")
_X, _Q, _P = sub("x", "j"), sub("q", "j"), sub("p", "j")
_RUN = row(total(_BELOW, "γ"), product(_TO_M))  # of chances: the length of a run that ends at its first refusal

RATIO = formula(
    "P", bracket("keep", space("0.3em"), "x"), "=", "min",
    bracket("1", ",", fraction(row("p", bracket("x")), row("q", bracket("x")))),
    words="The chance to keep x is the smaller of 1 and p of x over q of x.",
)  # fmt: skip
EXPECTED = formula(
    "E",
    "=",
    "1",
    "+",
    _RUN,
    sub("α", "j"),
    words="E is 1 plus the sum over m from 1 to gamma of the product over j up to m of alpha j.",
)
OVERLAP = formula(
    sub("α", "j"), "=", total("x"), "min", bracket(row(_P, bracket("x")), ",", row(_Q, bracket("x"))),
    words="Alpha j is the sum over x of the smaller of p j of x and q j of x.",
)  # fmt: skip

FORMULAS: dict[str, tuple[tuple[str, ...], str]] = {
    "vanilla": (
        (
            formula(
                sub("y", "t"), "∼", "p", bracket("·", "∣", "c", ",", sub("y", "<", "t")), ",", space(), "E", "=", "1",
                words="y t is drawn from p given the prompt c and every y before it; E is 1.",
            ),
        ),
        "p: the target’s law after temperature, top-k and top-p. c: the prompt. E: tokens per round.",
    ),
    "autoregressive": (
        (
            RATIO,
            formula(
                "E", "=", fraction(row("1", "−", power("α", "γ", "+", "1")), row("1", "−", "α")),
                words="E is 1 minus alpha to the power gamma plus 1, over 1 minus alpha.",
            ),
        ),
        "q: the drafter’s law. α: chance that a position is kept, taken as the same for all. E: tokens per round.",
    ),
    "prompt_lookup": (
        (
            formula(
                sub("x", "j"), "=", sub("c", "i", "+", "j"), ",", space(),
                sub("c", "i", "−", "n", "+", "1", "…", "i"), "=", sub("c", "t", "−", "n", "+", "1", "…", "t"),
                words="x j is c at i plus j, where the n tokens of c that end at i are those that end at t.",
            ),
        ),
        "c: all text so far, t tokens. i: where its last n tokens (3, else 2, else 1) stood before, the latest place.",
    ),
    "specdiff": (
        (EXPECTED, OVERLAP),
        "q: the denoiser’s law when it reveals a position. α: chance that position j is kept if all before it were. "
        "E: tokens per round.",
    ),
    "specdiff2": (
        (
            formula(
                "J", bracket("θ"), "=", sub("E", "x", "∼", "p"), bracket(_RUN, _Q, bracket(_X, "∣", "s", ",", "θ"),
                ends="[]"),
                words="J of theta is the expectation, over x drawn from p, of the sum over m from 1 to gamma of the "
                "product over j up to m of q j of x j given s.",
            ),
            formula(
                "S", bracket("x"), "=", _RUN, _P, bracket(_X, "∣", "s", ",", _BEFORE),
                words="S of x is the sum over m from 1 to gamma of the product over j up to m of p j of x j given s "
                "and the tokens before it.",
            ),
        ),
        "J: what training raises, on text x that the target wrote after s. S: the run that a draft is expected to "
        "survive; the draft with the largest S is tested.",
    ),
    "dflash": (
        (
            formula(
                sub("q", "1", "…", "γ"), "=", "softmax",
                bracket("W", "·", sub("f", "θ"), bracket(sub("y", "0"), ",", "M", "…", "M", "∣", sub("h", "≤", "t"))),
                words="q 1 to q gamma are the softmax of W times f theta of the last token followed by masks, given "
                "the target's hidden states h up to t.",
            ),
        ),
        "y₀: the last token. M: a mask, γ of them. h: hidden states of several layers of the target. W: the target’s "
        "own head.",
    ),
    "ddtree": (
        (
            formula(
                "Tree", "=", under("arg max", row(sub("x", "1", "…", "m"), ",", "B")), total(_TO_M), "log", _Q,
                bracket(_X),
                words="The tree is the B prefixes x 1 to m with the largest sums over j up to m of log q j of x j.",
            ),
        ),
        "B: nodes of the tree. q: the block drafter’s law at position j, all from one pass. A prefix is never less "
        "probable than what continues it, so the B best form a tree.",
    ),
    "markov": (
        (
            formula(
                sub("g", "j"), "=", sub("h", "j"), "+", "D", "σ",
                bracket("A", sub("h", "j"), "+", "B", "e", bracket(sub("x", "j", "−", "1"))),
                words="g j is h j plus D times sigma of A h j plus B times the embedding of the token before it.",
            ),
            formula(
                _Q, bracket(sub("x", "j"), "∣", sub("x", "j", "−", "1")), "=", "softmax",
                bracket("W", sub("g", "j")),
                words="q j of x j given the token before it is the softmax of W times g j.",
            ),
        ),
        "h: the block drafter’s state at position j, from its one pass. e, W: the target’s embedding and head, W for "
        "the most probable candidates only. σ: SiLU. A, B, D: the head’s matrices; with D = 0 it is DFlash.",
    ),
    "markov_tree": (
        (
            formula(
                "Tree", "=", under("arg max", row(sub("x", "1", "…", "m"), ",", "B")), total(_TO_M), "log", _Q,
                bracket(_X, "∣", sub("x", "j", "−", "1")),
                words="The tree is the B prefixes x 1 to m with the largest sums over j up to m of log q j of x j "
                "given the token before it.",
            ),
        ),
        "B: nodes of the tree. q: the Markov head’s law at position j, given the token before it.",
    ),
    "auto": (
        (
            formula(
                "m", space(), "stays", space(), "if", space(), product(_TO_M), power(sub("b", "j"), "κ"), "≥",
                sub("v", "1"), "R",
                words="Position m stays if the product over j up to m of b j to the power kappa is at least v 1 "
                "times R.",
            ),
        ),
        "b: the drafter’s largest belief at position j. κ: inferred from what came of earlier beliefs. v₁: seconds of "
        "one more row of the target’s pass. R: tokens per second of the rounds so far.",
    ),
    "eagle": (
        (
            formula(
                sub(hat("f"), "j", "+", "1"), "=", sub("g", "θ"), bracket(sub(hat("f"), "≤", "j"), ",",
                "e", bracket(sub("x", "≤", "j", "+", "1"))), ",", space(),
                sub("q", "j", "+", "2"), "=", "softmax", bracket("W", hat("f")),
                words="The guess f at j plus 1 is g theta of the features up to j and the embeddings of the tokens up "
                "to j plus 1; the next q is the softmax of W times that guess.",
            ),
        ),
        "f: the feature below the target’s head, f̂ the guess at the next one. g: one decoder layer. e, W: the "
        "target’s embedding and head.",
    ),
    "eagle2": (
        (
            formula(
                "V", bracket(sub("x", "1", "…", "m")), "=", product(_TO_M), _Q, bracket(_X, "∣", _BEFORE),
                words="V of x 1 to m is the product over j up to m of q j of x j given the tokens before it.",
            ),
        ),
        "V: the draft’s own chance of a prefix, a guess at the chance that it is accepted. The nodes with the largest "
        "V are grown and kept.",
    ),
}  # fmt: skip
"""Method -> its formulas, and a line on their letters."""
