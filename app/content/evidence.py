"""Numbers of the lessons, computed from recordings: the answer to each lesson's question. If a
recording cannot be read, only its sentence is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from math import exp
from typing import Any, Literal, TypeVar

from specdiff_core.explorations.prediction import expected_tau
from specdiff_core.explorations.run import ExplorationResult
from specdiff_core.explorations.wording import percent, speedup
from specdiff_core.measure.store import read_result
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.events import Committed, Verified
from specdiff_core.schema.pairs import ASSETS, EMBEDDED, find_pair
from specdiff_core.schema.trace import Trace, read_trace

Text = TypeVar("Text", str, int)
LOG = logging.getLogger(__name__)
P, Q = {"cat": 0.6, "dog": 0.3, "owl": 0.1}, {"cat": 0.3, "dog": 0.6, "owl": 0.1}
"""Target and drafter of the lesson on the test; the sliders of “Three tokens” open with them."""
ROWS = 17


@cache
def answer(stem: str) -> Any:
    """A shipped result: ``explore/NAME`` or ``compare/NAME``."""
    return read_result(ASSETS / f"{stem}.json", ExplorationResult)


def row(stem: str, **values: object) -> dict[str, Any]:
    """The first row of a recorded answer with these values."""
    return next(entry for entry in answer(stem).rows if all(entry[name] == value for name, value in values.items()))


def compared(method: str, temperature: float, stem: str = "compare/compare") -> dict[str, Any]:
    """A method of a comparison over all its texts, by name or, if it has none, by label."""
    return row(stem, method=method, temperature=temperature, flavour="mean")


def _model(stem: str) -> str:
    """The target of a recorded answer."""
    return find_pair(answer(stem).settings.get("pair", EMBEDDED.name)).short


MAP, COMPARISONS = "explore/window-map.smollm2-0", ("compare/compare.smollm2", "compare/compare")
COSTS, TEMPERATURES = "explore/what-it-takes", "explore/temperature"
DEGREE, SERVED, DRAFTED = 0.7, 16, 4
"""Settings in the questions: the target's temperature, texts served at once, and tokens drafted for each."""
CROWDS = 1, 2, 4, 32
"""Texts served at once, by which lesson 8 compares windows."""


def cost(curve: Sequence[tuple[float, float]], size: float) -> float:
    """Seconds of a pass over ``size`` rows, interpolated and extrapolated linearly."""
    index = max(1, sum(width < size for width, _ in curve[:-1]))
    (x0, y0), (x1, y1) = curve[index - 1], curve[index]
    return float(y0 + (y1 - y0) * (size - x0) / (x1 - x0))


def served(count: int, gamma: int) -> float:
    """Predicted speed-up with ``count`` texts served at once: drafter passes grow with their rows as the target's do.
    For the method of the figure “serving”, which drafts in one pass (static/state/serving.js)."""
    result = answer(COSTS)
    (race,) = (figure.race for figure in result.report.figures if figure.key == "serving")
    method, curve = row(COSTS, race=race), result.facts["curve"]
    draft = cost(result.facts["drafts"][method["drafter"]], gamma) * cost(curve, gamma * count) / cost(curve, gamma)
    seconds = draft + cost(curve, count * (gamma + 1))
    return expected_tau(method["alpha_at"][:gamma]) * cost(curve, count) / seconds


def overlap(target: float, drafter: float) -> float:
    """α of first drafted tokens, computed from recorded probabilities: Σ min(p, q) at two temperatures."""

    def heated(counts: Sequence[float], logs: Sequence[float], degree: float) -> list[float]:
        """Probabilities of whole groups of tokens."""
        top = max(logs)
        if degree == 0:
            return [float(i == logs.index(top)) for i in range(len(logs))]
        weights = [count * exp((log - top) / degree) for count, log in zip(counts, logs, strict=True)]
        return [weight / sum(weights) for weight in weights]

    places = answer(TEMPERATURES).facts["places"]
    sums = (
        sum(map(min, heated(at["counts"], at["p"], target), heated(at["counts"], at["q"], drafter))) for at in places
    )
    return sum(sums) / len(places)


def matched(target: float) -> float:
    """The drafter temperature, in steps of 0.05 up to 2, at which :func:`overlap` is largest."""
    return max((step / 20 for step in range(41)), key=lambda degree: overlap(target, degree))


@cache
def recording(name: str) -> Trace:
    """A shipped recording, by its file's name."""
    return read_trace(ASSETS / "traces" / name)


ROUNDS = "smollm2-chat-four-denoising-steps.jsonl.gz"
"""The recording of the first lesson."""


def _round() -> str:
    events = recording(ROUNDS).lanes["drafted"]
    accepted = {one.round: one.accepted for one in events if isinstance(one, Verified)}
    added = {one.round: len(one.ids) for one in events if isinstance(one, Committed)}
    more = sum(added[number] == accepted[number] + 1 for number in added)
    return (
        f"In this recording, {more} of {len(added)} rounds add one token more than they accept: the target’s own. "
        f"It has {sum(added.values())} tokens in {len(added)} rounds: τ = {sum(added.values()) / len(added):.2f}."
    )


def _one_pass() -> str:
    curve = dict(answer(COSTS).facts["curve"])
    one, far = 1000 * curve[1], 1000 * curve[ROWS]
    return (
        f"With {_model(COSTS)} it takes {far / one:.2f} times as long: {one:.1f} ms for 1 row, {far:.1f} ms for {ROWS}."
    )


def _gamma() -> str:
    one, four, eight, steps = (row(MAP, gamma=gamma, steps=T) for gamma, T in ((1, 1), (4, 1), (8, 1), (8, 4)))
    best = next(entry for entry in answer(MAP).rows if entry["behind"] == 1)
    return (
        f"{_model(MAP)}, {best['prompts']} prompts: {speedup(one['speedup'])} at γ 1, {speedup(four['speedup'])} at 4, "
        f"{speedup(eight['speedup'])} at 8. From 4 to 8, τ only grows from {four['tau']:.2f} to {eight['tau']:.2f}. "
        f"Prompt by prompt, the fastest window, γ {best['gamma']}, is {_behind(one)} times as fast as γ 1, and "
        f"{_behind(eight)} times as fast as γ 8. Four steps give τ {steps['tau']:.2f}, but {speedup(steps['speedup'])}."
    )


def _behind(slow: Mapping[str, Any]) -> str:
    """Speed of the fastest setting over a slower one, with its interval."""
    return f"{slow['behind']:.2f} ({slow['behind_low']:.2f}–{slow['behind_high']:.2f})"


def _accept() -> str:
    kept = {token: min(P[token], Q[token]) for token in P}
    parts = " + ".join(f"{share:g}" for share in kept.values())
    return f"It is accepted {percent(sum(kept.values()))} of the time: {parts}, the smaller of the two for each token."


def _temperature() -> str:
    best = matched(DEGREE)
    own, cold = (row(TEMPERATURES, temperature=DEGREE, draft_temperature=degree) for degree in (DEGREE, 0.0))
    return (
        f"Computed from {_model(TEMPERATURES)}’s first drafted tokens, α is largest at {best:g}: "
        f"{overlap(DEGREE, best):.2f}, against {overlap(DEGREE, 0.0):.2f} at 0 and {overlap(DEGREE, 2.0):.2f} at 2. "
        f"Measured over all positions ({own['prompts']} prompts): {own['alpha']:.2f} at "
        f"{DEGREE:g}, {cold['alpha']:.2f} at 0."
    )


def _guesses() -> str:
    stem, other = COMPARISONS
    tree, window = (compared(method, 0.0, stem) for method in ("ddtree", "dflash"))
    more = leads(0.0, stem)
    far = leads(1.0, other)
    return (
        f"With {_model(stem)} at temperature 0, the tree gives {tree['tau']:.2f} tokens per round and the window "
        f"{window['tau']:.2f} ({tree['prompts']} texts): more in {sum(lead > 1 for lead in more)} of {len(more)} "
        "kinds of text. "
        f"With {_model(other)} at temperature 1, the tree gives more in {sum(lead > 1 for lead in far)} of {len(far)}."
    )


def leads(temperature: float, stem: str) -> list[float]:
    """Tokens per round of a tree over those of a window of the same drafter, by kind of text."""
    kinds = dict.fromkeys(entry["flavour"] for entry in answer(stem).rows if entry["flavour"] != "mean")
    taus = (
        [row(stem, method=method, temperature=temperature, flavour=kind)["tau"] for method in ("ddtree", "dflash")]
        for kind in kinds
    )
    return [tree / window for tree, window in taus]


def best_window(count: int) -> int:
    """The fastest γ for ``count`` texts served at once, of those whose passes were timed."""
    widest, _ = answer(COSTS).facts["curve"][-1]
    return max((g for g in (1, 2, DRAFTED, 8) if count * (g + 1) <= widest), key=lambda g: served(count, g))


def _load() -> str:
    best = {count: best_window(count) for count in CROWDS}
    fastest = "; ".join(f"for {count}, γ {gamma} ({speedup(served(count, gamma))})" for count, gamma in best.items())
    return (
        f"Predicted with {_model(COSTS)}: {speedup(served(SERVED, DRAFTED))} with γ {DRAFTED} for {SERVED} texts, "
        f"against {speedup(served(1, DRAFTED))} for one. The best γ: {fastest}."
    )


COINS = "explore/losslessness.coins"


def _lossless() -> str:
    exact, wrong = ([one for one in answer(COINS).rows if one["rule"] == rule] for rule in ("ratio", "naive"))
    few, many = exact[0]["runs"], exact[-1]["runs"]
    return (
        f"From {few} to {many:,} runs, the exact rule’s distance falls from {exact[0]['distance']:.3f} to "
        f"{exact[-1]['distance']:.3f}. The wrong rule’s goes from {wrong[0]['distance']:.3f} to "
        f"{wrong[-1]['distance']:.3f}: its bias, which no number of runs removes."
    )


def by_lesson(*makers: Callable[[], str]) -> dict[str, Callable[[], str]]:
    """Functions by the lesson that each is named after: ``_one_pass`` by ``one-pass``."""
    return {make.__name__.removeprefix("_").replace("_", "-"): make for make in makers}


TRUTHS = by_lesson(_round, _one_pass, _gamma, _accept, _lossless, _temperature, _guesses, _load)


def truth(lesson: str) -> str:
    """The answer to a lesson's first question; empty if it asks none or its recording cannot be read."""
    return read(TRUTHS[lesson]) if lesson in TRUTHS else ""


def read(make: Callable[[], Text]) -> Text | Literal[""]:
    """Call ``make``, which reads recordings; empty if one cannot be read."""
    try:
        return make()
    except (SpecDiffError, ValueError, KeyError, TypeError, StopIteration) as error:  # the lesson stays
        LOG.warning("A lesson is shown without its numbers: %r", error)
        return ""
