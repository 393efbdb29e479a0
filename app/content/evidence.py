"""Numbers of the lessons, computed from recordings: the answer to each lesson's question. If a
recording cannot be read, only its sentence is missing.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from specdiff_core.explorations.base import ExplorationResult
from specdiff_core.explorations.figures import percent
from specdiff_core.explorations.window_map import expected_tau
from specdiff_core.measure.store import read_result
from specdiff_core.measure.sweep import Sweep
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import ASSETS, EMBEDDED, find_pair

LOG = logging.getLogger(__name__)
P, Q = {"cat": 0.6, "dog": 0.3, "owl": 0.1}, {"cat": 0.3, "dog": 0.6, "owl": 0.1}
"""Target and drafter of the lesson on the test; the sliders of “Three tokens” open with them."""
ROWS = 17


@cache
def answer(stem: str) -> Any:
    """A shipped result: ``explore/NAME`` or ``compare/NAME``."""
    return read_result(ASSETS / f"{stem}.json", ExplorationResult, Sweep)


def row(stem: str, **values: object) -> dict[str, Any]:
    """The first row of a recorded answer with these values."""
    return next(entry for entry in answer(stem).rows if all(entry[name] == value for name, value in values.items()))


def compared(method: str, temperature: float, stem: str = "compare/compare") -> dict[str, Any]:
    """A method of a comparison over all its texts, by name or, if it has none, by label."""
    return row(stem, method=method, temperature=temperature, flavour="mean")


def twins(temperature: float) -> tuple[dict[str, Any], dict[str, Any]]:
    """The drafter mdlm and its streak-distilled twin, with equal windows."""
    return compared("specdiff", temperature), compared("SpecDiff-2, one window", temperature)


GREEDY, SWEPT = (3.25, 1.74), 40
"""Tokens per round and speed-up of the drafter of :func:`selection` with one window of the same γ
if it is as greedy as the target, over so many prompts (BENCHMARKS.md)."""


def selection() -> tuple[float, list[tuple[int, float, float]]]:
    """The drafter's temperature under self-selection; K, tokens per round and speed-up at the
    target's temperature 0, on the same prompts."""
    sweep = answer("compare/selection")
    points = [(entry.num_drafts, entry.tau, entry.speedup.value) for entry in sweep.entries if entry.drafter != "none"]
    return sweep.settings["draft_temperature"], points


def gain(alphas: Sequence[float], position: int, increase: float = 0.05) -> float:
    """Tokens per round gained by a slightly higher acceptance rate at one position."""
    raised = [*alphas[:position], alphas[position] + increase, *alphas[position + 1 :]]
    return expected_tau(raised) - expected_tau(alphas)


def _model(stem: str) -> str:
    """The target of a recorded answer."""
    return find_pair(answer(stem).settings.get("pair", EMBEDDED.name)).short


MAPS = "explore/window-map.smollm2-0", "explore/window-map.block"
COMPARISONS = "compare/compare.smollm2", "compare/compare"


def _one_pass() -> str:
    stem = "explore/what-it-takes"
    curve = dict(answer(stem).facts["curve"])
    one, far = 1000 * curve[1], 1000 * curve[ROWS]
    return (
        f"With {_model(stem)} it takes {far / one:.2f} times as long: {one:.1f} ms for 1 row, {far:.1f} ms for {ROWS}."
    )


def _gamma() -> str:
    sentences = []
    for stem in reversed(MAPS):  # the lesson shows the embedded pair
        few, many = (row(stem, gamma=gamma, steps=1) for gamma in (4, max(one["gamma"] for one in answer(stem).rows)))
        sentences.append(
            f"With {_model(stem)} ({few['prompts']} prompts) a window of {few['gamma']} runs at "
            f"{few['speedup']:.2f}× and a window of {many['gamma']} at {many['speedup']:.2f}×; the "
            f"tokens per round grow from {few['tau']:.2f} to {many['tau']:.2f}."
        )
    return " ".join(sentences)


def _accept() -> str:
    kept = {token: min(P[token], Q[token]) for token in P}
    parts = " + ".join(f"{share:g}" for share in kept.values())
    return f"It is accepted {percent(sum(kept.values()))} of the time: {parts}, the smaller of the two for each token."


def _denoise() -> str:
    one, four = (row(MAPS[1], gamma=8, steps=steps) for steps in (1, 4))
    return (
        f"With {_model(MAPS[1])} (γ 8, {four['prompts']} prompts) four passes give τ {four['tau']:.2f} and one "
        f"{one['tau']:.2f}, but the speed-ups are {four['speedup']:.2f}× and {one['speedup']:.2f}×."
    )


def _temperature() -> str:
    stem = "explore/temperature"
    cold, warm = (row(stem, temperature=temperature, draft_temperature=temperature) for temperature in (0.0, 1.0))
    return (
        f"With {_model(stem)}, over {cold['prompts']} prompts, it falls from "
        f"{percent(cold['alpha'])} at temperature 0 to {percent(warm['alpha'])} at temperature 1, "
        f"if the drafter has the same temperature; τ falls from {cold['tau']:.2f} to "
        f"{warm['tau']:.2f}."
    )


def _alignment() -> str:
    plain, twin = twins(0.0)
    alphas = plain["alpha_at"]
    first, last = gain(alphas, 0), gain(alphas, len(alphas) - 1)
    return (
        f"For mdlm, raising the acceptance rate by 5 points adds {first:.2f} tokens per round at "
        f"position 1, and {last:.2f} at position {len(alphas)}, the last. Its twin’s drafts are "
        f"accepted more often at every position: τ {twin['tau']:.2f} against {plain['tau']:.2f} in "
        f"{twin['prompts']} texts, γ {len(alphas)}, temperature 0."
    )


def _trees() -> str:
    sentences = []
    for stem in COMPARISONS:
        words = []
        for temperature in (0.0, 1.0):
            rows = [compared(method, temperature, stem) for method in ("ddtree", "dflash")]
            tree, window = (entry["tau"] for entry in rows)
            lead = f"{percent(abs(tree / window - 1))} {'more' if tree > window else 'fewer'} tokens per round"
            words.append(f"{lead} at temperature {temperature:g} ({tree:.2f} against {window:.2f})")
        sentences.append(
            f"With {_model(stem)}, over {rows[0]['prompts']} texts, the tree gives {words[0]}, and {words[1]}."
        )
    return " ".join(sentences)


def _lossless() -> str:
    rows = [entry for entry in answer("explore/losslessness.coins").rows if entry["rule"] == "naive"]
    seen = next(entry for entry in rows if entry["distance"] > entry["floor_high"])
    hidden = seen["floor_high"] * (seen["runs"] / 10) ** 0.5
    return (
        f"It stands out after {seen['runs']:,} runs: its text is {seen['distance']:.2f} away from "
        f"the exact distribution, and 99 % of exact samples stay below {seen['floor_high']:.2f}. "
        f"After 10 runs that noise would reach about {hidden:.1f} and hide it."
    )


def by_lesson(*makers: Callable[[], str]) -> dict[str, Callable[[], str]]:
    """Functions by the lesson that each is named after: ``_one_pass`` by ``one-pass``."""
    return {make.__name__.removeprefix("_").replace("_", "-"): make for make in makers}


TRUTHS = by_lesson(_one_pass, _gamma, _accept, _denoise, _temperature, _alignment, _trees, _lossless)


def truth(lesson: str) -> str:
    """The answer to a lesson's first question; empty if its recording cannot be read."""
    return read(TRUTHS[lesson])


def read(make: Callable[[], str]) -> str:
    """Call ``make``, which reads recordings; empty if one cannot be read."""
    try:
        return make()
    except (ConfigError, ValueError, KeyError, TypeError, StopIteration) as error:  # the lesson stays
        LOG.warning("A lesson is shown without its numbers: %r", error)
        return ""
