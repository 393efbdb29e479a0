"""Speed-ups and means over prompts, with bootstrap intervals."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

LEVEL = 0.95
RESAMPLES = 2000
BOUNDS = (50 * (1 - LEVEL), 50 * (1 + LEVEL))
"""Percentiles of the resampled values."""


class Interval(msgspec.Struct, frozen=True):
    """A ratio or a mean, and its bounds at :data:`LEVEL`."""

    value: float
    low: float
    high: float


Costs = Mapping[str, tuple[float, int]]  # prompt -> (seconds or rounds, tokens), repeats added up


def costs(runs: Iterable[tuple[str, float, int]]) -> Costs:
    """The costs of runs given as (prompt, seconds or rounds, tokens)."""
    sums: dict[str, tuple[float, int]] = {}
    for prompt, spent, tokens in runs:
        before = sums.get(prompt, (0.0, 0))
        sums[prompt] = (before[0] + spent, before[1] + tokens)
    return sums


def interval(
    baseline: Costs, other: Costs, groups: Mapping[str, Sequence[str]], *, seed: int = 0
) -> dict[str, Interval]:
    """The baseline's cost per token over the other's, by group of prompts and as ``mean`` of the
    groups, each with a percentile bootstrap interval: prompts are resampled within their group,
    repeats of a prompt stay together."""
    import numpy as np

    rng = np.random.default_rng(seed)
    ratios: list[Any] = []  # of each group, [1 + RESAMPLES]: the measured one first
    for prompts in groups.values():
        sums = np.array([[*baseline[prompt], *other[prompt]] for prompt in prompts], dtype=np.float64)  # [prompts, 4]
        cost, tokens, other_cost, other_tokens = sums[resamples(len(prompts), rng)].sum(1).T
        ratios.append((cost / tokens) / (other_cost / other_tokens))
    ratios.append(np.mean(ratios, axis=0))
    return {
        name: Interval(*map(float, (ratio[0], *np.percentile(ratio[1:], BOUNDS))))
        for name, ratio in zip([*groups, "mean"], ratios, strict=True)
    }


def resamples(count: int, rng: Any = None) -> Any:
    """Indices of ``count`` items, ``[1 + RESAMPLES, count]``: first each once, then drawn with replacement.

    Args:
        rng: a numpy generator; by default one with a fixed seed.
    """
    import numpy as np

    drawn = (rng or np.random.default_rng(0)).integers(0, count, size=(RESAMPLES, count))
    return np.vstack([np.arange(count), drawn])


def mean_interval(values: Sequence[float]) -> Interval:
    """The mean over prompts with a percentile bootstrap interval."""
    import numpy as np

    drawn = resamples(len(values))[1:]
    low, high = np.percentile(np.array(values)[drawn].mean(1), BOUNDS)
    return Interval(float(np.mean(values)), float(low), float(high))
