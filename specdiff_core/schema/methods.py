"""The methods, one record each: settings of the loop, description, formulas, papers, and style in
charts. Cards, API documents, presets, charts, the README's table and the command line's choices are
made from these records."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from specdiff_core.schema.errors import ConfigError, no_such
from specdiff_core.schema.pairs import PAIRS, find_pair
from specdiff_core.schema.settings import DecodeConfig


@dataclass(frozen=True, slots=True)
class Formula:
    """A formula in LaTeX, and its text alternative."""

    latex: str
    words: str


@dataclass(frozen=True, slots=True)
class Paper:
    """A source, with its arXiv number if it has one."""

    title: str
    arxiv: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Method:
    """One method. ``settings`` are the fields of :class:`DecodeConfig` that it sets."""

    name: str
    label: str
    short: str  # where a chart has little room
    settings: Mapping[str, Any]
    about: str  # what it does, what a round costs, and when it wins and loses
    exact: str  # by which rule it is exact, and why
    formulas: tuple[Formula, ...]
    letters: str  # what the letters of the formulas mean
    papers: tuple[Paper, ...]
    colour: str  # a role of the palette
    mark: str  # a symbol of Plotly's

    @property
    def drafter(self) -> str:
        """The name of its drafter."""
        return str(self.settings["drafter"])

    def config(self, base: DecodeConfig) -> DecodeConfig:
        """``base`` with this method's settings and the pair's drafter for it; other method settings
        are :data:`PLAIN`."""
        pair = PAIRS.get(base.pair)
        drafter = pair.drafter_for(self.drafter) if pair else None
        choice = {"drafter": drafter.name} if drafter else {}
        return DecodeConfig.parse({**base.to_dict(), **PLAIN, **self.settings, **choice})


PLAIN: dict[str, Any] = {
    "gamma": 1,
    "steps": 1,
    "order": "left_to_right",
    "tree_nodes": 0,
    "num_drafts": 1,
    "selection": "self",
    "auto": False,
}
"""Defaults of the settings that a method may set."""

BASELINE = "vanilla"  # the first method of every race: the baseline of every speed-up

DRAFTED = "drafted"  # the other lane of a race of two

_RATIO = (
    "The default test accepts a drafted x with probability min(1, p/q), and after a rejection "
    "draws from the normalised residual max(0, p − q): together exactly p."
)
_WALK = (
    "The tree is fixed before the target draws. At each node the target draws its own token and "
    "descends while that is a child, so every token is a draw from p, whatever the tree contains."
)
_KEEP = Formula(
    r"P(\text{accept } x) = \min\left(1, \frac{p(x)}{q(x)}\right)",
    "The probability of accepting x is the smaller of 1 and p of x over q of x.",
)
_LEVIATHAN, _DFLASH = Paper("Leviathan et al.", "2211.17192"), Paper("DFlash", "2602.06036")

# fmt: off
METHODS: tuple[Method, ...] = (  # the baseline first: so a race runs
    Method(
        name=BASELINE, label="Vanilla", short="Vanilla",
        settings={"drafter": "none"},
        about="The target writes alone, one token after the other. A round is one pass of the "
        "target over one position, and yields one token. It is the baseline of all others, and it "
        "wins when drafts are rarely accepted or when reading γ + 1 positions costs much more than "
        "reading one.",
        exact="It samples directly from the target's distribution, which every other method must match.",
        formulas=(
            Formula(r"y_t \sim p(\cdot \mid s, y_{<t}), \qquad E = 1",
                "y t is drawn from p given the prompt s and every y before it; E is 1."),
        ),
        letters="p: the target’s distribution after temperature, top-k and top-p. s: the prompt. E: tokens per round.",
        papers=(Paper("Standard sampling"),),
        colour="target", mark="line-ns",
    ),
    Method(
        name="autoregressive", label="Small autoregressive drafter", short="Small AR drafter",
        settings={"drafter": "autoregressive", "gamma": 4, "steps": 4},
        about="A small model of the target’s own kind drafts γ tokens one by one, and the target "
        "tests them all in one pass. A round is γ small passes and one pass of the target over γ + "
        "1 positions. It wins while the small model is cheap and agrees with the target, and loses "
        "with wide windows, because its passes add up with γ.",
        exact=f"{_RATIO} Each token was drawn from the q that it is tested with, given all tokens to its left.",
        formulas=(
            _KEEP,
            Formula(r"E = \frac{1 - \alpha^{\gamma + 1}}{1 - \alpha}",
                "E is 1 minus alpha to the power gamma plus 1, over 1 minus alpha."),
        ),
        letters="q: the drafter’s distribution. α: probability that a position is accepted, "
        "assumed equal for all. E: tokens per round.",
        papers=(_LEVIATHAN, Paper("Chen et al.", "2302.01318")),
        colour="lane-1", mark="circle",
    ),
    Method(
        name="prompt_lookup", label="Prompt lookup", short="Prompt lookup",
        settings={"drafter": "prompt_lookup", "gamma": 9},
        about="It finds the latest earlier occurrence of the text’s last tokens, and copies what "
        "followed. A round is a search of the text and one pass of the target, without "
        "any drafter pass. It wins when answers repeat their prompt, as in summaries, edits and "
        "code, and is just plain decoding when nothing repeats.",
        exact="A copy is a point mass: x is accepted with probability p(x), and after a rejection "
        "the target draws from p without x. Both together give p.",
        formulas=(
            Formula(r"x_j = s_{i+j}, \qquad s_{i-n+1 \dots i} = s_{t-n+1 \dots t}",
                "x j is s at i plus j, where the n tokens of s that end at i are those that end at t."),
        ),
        letters="s: all text so far, t tokens. i: the latest earlier place of its last n tokens (3, else 2, else 1).",
        papers=(Paper("Saxena 2023, prompt lookup decoding"),),
        colour="lane-2", mark="square",
    ),
    Method(
        name="eagle", label="EAGLE", short="EAGLE",
        settings={"drafter": "eagle", "gamma": 4, "steps": 4},
        about="One decoder layer predicts the target’s next feature, the state just below its "
        "head, and the target’s own head turns the prediction into a token, one after the other. A "
        "round is γ passes of that one layer, each with the whole vocabulary head, and one pass of "
        "the target over γ + 1 positions. It wins because features are easier to continue than "
        "text, and loses with wide windows, because its passes add up and its errors accumulate.",
        exact=f"{_RATIO} Each token was drawn from the q that it is tested with. (The paper drafts "
        "a fixed tree; here it is a chain, and EAGLE-2 is the tree.)",
        formulas=(
            Formula(r"\hat f_{j+1} = g_\theta(\hat f_{\le j}, e(x_{\le j+1})), \qquad "
                r"q_{j+2} = \mathrm{softmax}(W \hat f_{j+1})",
                "The predicted f at j plus 1 is g theta of the features up to j and the embeddings "
                "of the tokens up to j plus 1; the next q is the softmax of W times that guess."),
        ),
        letters="f: the feature below the target’s head, f̂ its prediction. g: one "
        "decoder layer. e, W: the target’s embedding and head.",
        papers=(Paper("Li et al., EAGLE", "2401.15077"),),
        colour="lane-3", mark="triangle-up",
    ),
    Method(
        name="eagle2", label="EAGLE-2 (dynamic draft tree)", short="EAGLE-2",
        settings={"drafter": "eagle", "gamma": 6, "steps": 6, "tree_nodes": 9},
        about="The same layer makes a draft tree: at each depth it continues the prefixes with the "
        "largest cumulative probability, and keeps the best nodes of all depths. A round is one "
        "pass of the layer per depth and one pass of the target over the kept nodes, each of which "
        "sees only its own branch. It beats a chain when the drafter’s confidence shows where "
        "alternatives are needed, and loses when the nodes cost more than the tokens they save.",
        exact=_WALK,
        formulas=(
            Formula(r"V(x_{1 \dots m}) = \prod_{j \le m} q_j(x_j \mid x_{<j})",
                "V of x 1 to m is the product over j up to m of q j of x j given the tokens before it."),
        ),
        letters="V: the draft’s own probability of a prefix, an estimate of the probability that "
        "it is accepted. The nodes with the largest V are grown and kept.",
        papers=(Paper("Li et al., EAGLE-2", "2406.16858"),),
        colour="lane-4", mark="diamond",
    ),
    Method(
        name="specdiff", label="SpecDiff", short="SpecDiff",
        settings={"drafter": "mdlm", "gamma": 4},
        about="A masked diffusion model fills a window of γ masks in T passes, all positions side "
        "by side. A round is T passes of a denoiser that reads the whole context again each time, "
        "and one pass of the target over γ + 1 positions. It wins because a window of any width "
        "takes the same few passes, and loses at late positions, where tokens that were drawn in "
        "parallel don’t fit together.",
        exact=f"{_RATIO} With T = 1, or revealed from left to right, q is the distribution that x was drawn from. In "
        "other orders a token revealed before one to its left is tested as a point mass instead.",
        formulas=(
            Formula(r"E = 1 + \sum_{m=1}^{\gamma} \prod_{j \le m} \alpha_j",
                "E is 1 plus the sum over m from 1 to gamma of the product over j up to m of alpha j."),
            Formula(r"\alpha_j = \sum_x \min\left(p_j(x), q_j(x)\right)",
                "Alpha j is the sum over x of the smaller of p j of x and q j of x."),
        ),
        letters="q: the denoiser’s distribution when it reveals a position. α: probability that "
        "the ratio test accepts position j if all before it were accepted. E: tokens per round.",
        papers=(Paper("Christopher et al.", "2408.05636"), Paper("the denoiser: Sahoo et al.", "2406.07524")),
        colour="lane-5", mark="triangle-down",
    ),
    Method(
        name="specdiff2", label="SpecDiff-2", short="SpecDiff-2",
        settings={"drafter": "mdlm_streak", "gamma": 9, "num_drafts": 4, "selection": "self"},
        about="The same denoiser is trained for long accepted runs (streak-distillation), and the "
        "target selects the best of K drafts before it tests one (self-selection). A round is one "
        "drafter pass and one pass of the target over at most K · γ + 1 positions. It wins when "
        "the target reads many positions nearly for free, as on a GPU, and loses on few cores, "
        "where each draft adds cost.",
        exact="The selection depends on p, so the selected draft is tested as a point mass: accept "
        "with probability p(x), and after a rejection draw from p without x. The ratio test would "
        "be biased here, because selected drafts no longer have the distribution q.",
        formulas=(
            Formula(r"J(\theta) = \mathbb{E}_{x \sim p}"
                r"\left[\sum_{m=1}^{\gamma} \prod_{j \le m} q_j(x_j \mid s, \theta)\right]",
                "J of theta is the expectation, over x drawn from p, of the sum over m from 1 to "
                "gamma of the product over j up to m of q j of x j given s."),
            Formula(r"S(x) = \sum_{m=1}^{\gamma} \prod_{j \le m} p_j(x_j \mid s, x_{<j})",
                "S of x is the sum over m from 1 to gamma of the product over j up to m of p j of "
                "x j given s and the tokens before it."),
        ),
        letters="J: the training objective, on text x that the target wrote after s. S: the "
        "expected number of accepted tokens; the draft with the largest S is tested.",
        papers=(Paper("Sandler et al.", "2511.00606"),),
        colour="lane-6", mark="star",
    ),
    Method(
        name="dflash", label="Block diffusion (DFlash)", short="DFlash",
        settings={"drafter": "block", "gamma": 9},
        about="A small diffusion model denoises the next block while it reads the target’s hidden "
        "states, and uses the target’s embedding and head. A round is one pass of a few layers "
        "over γ + 1 positions, and one pass of the target over as many. It wins because it reads "
        "the target’s own view of the context, and loses in open text, where a position is "
        "uncertain until its left neighbour is known.",
        exact=f"{_RATIO} One pass draws every position from its own q, so the test holds. (The "
        "paper drafts the most probable tokens and accepts those that the target draws too: also "
        "exact, but fewer when sampling.)",
        formulas=(
            Formula(r"q_{1 \dots \gamma} = "
                r"\mathrm{softmax}\left(W \cdot f_\theta(y_0, M \dots M \mid h_{\le t})\right)",
                "q 1 to q gamma are the softmax of W times f theta of the last token followed by "
                "masks, given the target's hidden states h up to t."),
        ),
        letters="y₀: the last token. M: a mask, γ of them. h: hidden states of several layers of "
        "the target. W: the target’s own head.",
        papers=(_DFLASH,),
        colour="lane-7", mark="cross",
    ),
    Method(
        name="ddtree", label="Block diffusion, draft tree (DDTree)", short="DDTree",
        settings={"drafter": "block", "gamma": 9, "tree_nodes": 9},
        about="One pass of the block drafter gives a distribution for every position, and the most "
        "probable prefixes become a draft tree of B nodes. A round is one drafter pass and one "
        "pass of the target over B + 1 positions, each of which sees only its own branch. It wins "
        "when the second choice is often right, and loses when reading B more positions costs more "
        "than the tokens they save.",
        exact=_WALK,
        formulas=(
            Formula(r"\mathrm{Tree} = \underset{x_{1 \dots m},\, B}{\text{arg max}} \sum_{j \le m} \log q_j(x_j)",
                "The tree is the B prefixes x 1 to m with the largest sums over j up to m of log q j of x j."),
        ),
        letters="B: nodes of the tree. q: the block drafter’s distribution at position j, all from one pass. A prefix "
        "is never less probable than what continues it, so the B best form a tree.",
        papers=(Paper("DDTree", "2604.12989"), Paper("on the drafter of DFlash", "2602.06036")),
        colour="lane-8", mark="hexagon2",
    ),
    Method(
        name="markov", label="Block diffusion, Markov head (DSpark)", short="DSpark",
        settings={"drafter": "block_markov", "gamma": 9},
        about="After the block drafter’s single pass, a small head scores how well each candidate "
        "follows its left neighbour: each token is drawn given the previous one. A round is one "
        "pass of a few layers over γ + 1 positions, a small network over pairs of candidates, and "
        "one pass of the target over γ + 1 positions. It wins when tokens drawn in parallel would "
        "not fit together, and only adds the cost of its head when every position is certain by "
        "itself.",
        exact=f"{_RATIO} The chain is drawn from left to right, so q is the distribution given the "
        "token before, and zero outside the candidates: that q is what the test uses.",
        formulas=(
            Formula(r"g_j = h_j + D \, \sigma\left(A h_j + B e(x_{j-1})\right)",
                "g j is h j plus D times sigma of A h j plus B times the embedding of the token before it."),
            Formula(r"q_j(x_j \mid x_{j-1}) = \mathrm{softmax}(W g_j)",
                "q j of x j given the token before it is the softmax of W times g j."),
        ),
        letters="h: the block drafter’s state at position j, from its one pass. e, W: the target’s "
        "embedding and head, W for the most probable candidates only. σ: SiLU. A, B, D: the head’s "
        "matrices; with D = 0 it is DFlash.",
        papers=(Paper("DSpark, here with the target’s own head instead of a low-rank bias", "2607.05147"),
            Paper("on the drafter of DFlash", "2602.06036")),
        colour="lane-9", mark="pentagon",
    ),
    Method(
        name="markov_tree",
        label="Markov head, draft tree (DSpark + DDTree)", short="DSpark + DDTree",
        settings={"drafter": "block_markov", "gamma": 16, "tree_nodes": 16},
        about="The Markov head scores what follows each candidate, and the B most probable "
        "prefixes become the draft tree: each branch continues with tokens that fit it. A round is "
        "one drafter pass, a small network over pairs of candidates, and one pass of the target "
        "over B + 1 positions, each of which sees only its own branch. It wins when the second "
        "choice is often right, because its branch fits it, and loses when reading B more "
        "positions costs more than the tokens they save.",
        exact=_WALK,
        formulas=(
            Formula(r"\mathrm{Tree} = \underset{x_{1 \dots m},\, B}{\text{arg max}} "
                r"\sum_{j \le m} \log q_j(x_j | x_{j-1})",
                "The tree is the B prefixes x 1 to m with the largest sums over j up to m of log q "
                "j of x j given the token before it."),
        ),
        letters="B: nodes of the tree. q: the Markov head’s distribution at position j, given the token before it.",
        papers=(Paper("the head of DSpark", "2607.05147"), Paper("the tree of DDTree", "2604.12989")),
        colour="lane-10", mark="star-diamond",
    ),
    Method(
        name="auto", label="Block diffusion, adaptive length (Auto)", short="Auto",
        settings={"drafter": "block", "gamma": 16, "auto": True},
        about="The block drafter fills its whole window, and a controller cuts the draft where a "
        "further position would gain fewer tokens than its row in the target’s pass costs. A round "
        "is one drafter pass and one pass of the target over the positions that pay off, by "
        "running estimates of acceptance and of both costs. It wins when certain and uncertain "
        "passages alternate, and loses a little at the start, before it has measured the costs.",
        exact=f"{_RATIO} Choices before a draft depend on the past only, and a cut depends on the "
        "drafter’s distributions, never on a drawn value, so the test remains valid.",
        formulas=(
            Formula(r"m \text{ stays if } \prod_{j \le m} b_j^{\,\kappa} \ge v_1 R",
                "Position m stays if the product over j up to m of b j to the power kappa is at least v 1 times R."),
        ),
        letters="b: the drafter’s largest probability at position j. κ: inferred from earlier drafts. v₁: "
        "seconds of one more row of the target’s pass. R: tokens per second of the rounds so far.",
        papers=(Paper("This project’s rule, on the costs of Christopher et al.", "2408.05636"),),
        colour="lane-11", mark="triangle-right",
    ),
)
# fmt: on


def find_method(name: str) -> Method:
    """Find a method by name.

    Raises:
        ConfigError: there is none of that name.
    """
    by_name = {method.name: method for method in METHODS}
    if name not in by_name:
        raise no_such("method", name, by_name, "methods")
    return by_name[name]


def methods_of(pair: str) -> tuple[Method, ...]:
    """The methods with an available drafter in ``pair``, in order.

    Raises:
        ConfigError: there is no such pair.
    """
    spec = find_pair(pair)
    offered = ((method, spec.drafter_for(method.drafter)) for method in METHODS)
    return tuple(method for method, drafter in offered if drafter is not None and drafter.has_files)


def resolve_methods(pair: str, names: Iterable[str]) -> tuple[Method, ...]:
    """The methods of these names, each once.

    Raises:
        ConfigError: a method is unknown, or ``pair`` has no drafter for it; the hint lists its methods.
    """
    chosen, available = tuple(map(find_method, dict.fromkeys(names))), methods_of(pair)
    if missing := [method.name for method in chosen if method not in available]:
        what = f"The pair {find_pair(pair).label} has no drafter for {', '.join(sorted(missing))}."
        hint = f"Choose among {', '.join(method.name for method in available)}."
        raise ConfigError(what, field="methods", hint=hint)
    return chosen


def two_lanes(config: DecodeConfig) -> dict[str, DecodeConfig]:
    """The baseline, and the lane of ``config`` if it differs."""
    vanilla = {BASELINE: dataclasses.replace(config, drafter="none")}
    return vanilla if config.drafter == "none" else {**vanilla, DRAFTED: config}


def race_lanes(base: DecodeConfig, names: Iterable[str]) -> dict[str, DecodeConfig]:
    """The lanes of a race: the baseline, then the named methods in the order of :data:`METHODS`.

    Args:
        base: settings that all lanes share; a method's own replace them.

    Raises:
        ConfigError: a method is unknown, or the pair has no drafter for it.
    """
    chosen = resolve_methods(base.pair, (BASELINE, *names))
    return {method.name: method.config(base) for method in METHODS if method in chosen}
