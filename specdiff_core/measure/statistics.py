"""Speed-ups and means over prompts, with 95 % intervals: percentiles of a bootstrap, too narrow
over few prompts; there, Student's t on the jackknife. Also shares, and Pearson's χ² test."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import msgspec

if TYPE_CHECKING:
    import numpy as np

LEVEL = 0.95
RESAMPLES = 2000
FEW = 10
"""If a group has fewer prompts, the interval is Student's."""


class Interval(msgspec.Struct, frozen=True, omit_defaults=True):
    """A ratio, a mean or a share, its bounds at :data:`LEVEL`, and how they were made."""

    value: float
    low: float
    high: float
    by: Literal["bootstrap", "student", "wilson"] = "bootstrap"


Costs = Mapping[str, tuple[float, float]]  # prompt -> (seconds or rounds, tokens), repeats added up


def costs(runs: Iterable[tuple[str, float, int]]) -> Costs:
    """The costs of runs given as (prompt, seconds or rounds, tokens)."""
    sums: dict[str, tuple[float, int]] = {}
    for prompt, spent, tokens in runs:
        before = sums.get(prompt, (0.0, 0))
        sums[prompt] = (before[0] + spent, before[1] + tokens)
    return sums


def interval(baseline: Costs, other: Costs, groups: Mapping[str, Sequence[str]]) -> dict[str, Interval]:
    """The baseline's cost per token over the other's, by group of prompts and as ``mean`` of the
    groups. Both sides of a resample have the same prompts (paired), drawn within their group;
    repeats of a prompt stay together."""
    import numpy as np

    sampled, ratios = Resampled([len(prompts) for prompts in groups.values()]), list[Any]()
    for number, prompts in enumerate(groups.values()):
        values = [[*baseline[prompt], *other[prompt]] for prompt in prompts]
        cost, tokens, other_cost, other_tokens = sampled.sums(number, values)
        ratios.append(cost * other_tokens / (tokens * other_cost))
    ratios.append(np.mean(ratios, axis=0))
    return {
        name: sampled.interval(ratio, positive=bool((ratio > 0).all()))
        for name, ratio in zip([*groups, "mean"], ratios, strict=True)
    }


def paired(baseline: Sequence[tuple[float, float]], other: Sequence[tuple[float, float]]) -> Interval:
    """:func:`interval` of two lists of (seconds or rounds, tokens) of the same prompts, as one group."""
    first, second = ({str(number): cost for number, cost in enumerate(side)} for side in (baseline, other))
    return interval(first, second, {"all": list(first)})["all"]


def ratios(counts: Costs, groups: Mapping[str, Sequence[str]]) -> dict[str, Interval]:
    """The second of two counts over the first, such as tokens over rounds: by group of prompts, and as ``mean`` of the
    groups, as in :func:`interval`; nothing without a group."""
    return interval(dict.fromkeys(counts, (1.0, 1)), counts, groups) if groups else {}


class Resampled:
    """Resampled sums over prompts: as measured, then with prompts drawn with replacement within their group or, if a
    group is small, with each prompt left out once.

    Args:
        counts: of the prompts in each group.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        import numpy as np

        rng = np.random.default_rng(0)
        self._ends = np.cumsum([0, *counts])
        self._drawn = [rng.integers(0, count, size=(RESAMPLES, count)) for count in counts if min(counts) >= FEW]

    def sums(self, group: int, values: Any) -> Any:
        """The sums of a group's ``values [prompts, n]``: ``[n, 1 + resamples]``, the measured ones first."""
        import numpy as np

        values = np.array(values, dtype=np.float64)
        if self._drawn:
            return np.vstack([values.sum(0), values[self._drawn[group]].sum(1)]).T
        sums = np.tile(values.sum(0), (1 + self._ends[-1], 1))
        if len(values) > 1:
            sums[1 + self._ends[group] : 1 + self._ends[group + 1]] -= values
        return sums.T

    def interval(self, values: Any, *, level: float = LEVEL, positive: bool = True) -> Interval:
        """The interval of a statistic of the sums, ``[1 + resamples]``; Student's is symmetric in logs if the statistic
        is ``positive``."""
        import numpy as np

        if self._drawn:
            low, high = np.percentile(values[1:], (50 * (1 - level), 50 * (1 + level)))
            return Interval(float(values[0]), float(low), float(high))
        first, *left_out = np.split(np.log(values) if positive else values, 1 + self._ends[:-1])
        # Of each group: its part of the variance, and its degrees of freedom, which Satterthwaite's formula combines.
        parts = [(group.var() * (len(group) - 1), len(group) - 1) for group in left_out if len(group) > 1]
        variance = sum(part for part, _ in parts)
        half = variance and variance**0.5 * student(
            0.5 + level / 2, variance**2 / sum(part**2 / freedom for part, freedom in parts)
        )
        low, high = (np.exp(end) if positive else end for end in (first[0] - half, first[0] + half))
        return Interval(float(values[0]), float(low), float(high), by="student")


def student(share: float, freedom: float) -> float:
    """The quantile of Student's t for a share of at least ½: √f · tan φ, where φ has a density of cos^{f−1} φ."""
    import numpy as np

    angles = np.linspace(0, np.pi / 2, 20_001)
    density = np.cos(angles) ** (freedom - 1)
    areas = np.cumsum([0, *(density[1:] + density[:-1])])
    return float(freedom**0.5 * np.tan(np.interp((2 * share - 1) * areas[-1], areas, angles)))


def wilson(hits: int, count: int) -> Interval:
    """The share of ``hits``, with Wilson's interval."""
    share, z = hits / count, 1.96
    middle = (share + z * z / (2 * count)) / (1 + z * z / count)
    half = z * math.sqrt(share * (1 - share) / count + z * z / (4 * count * count)) / (1 + z * z / count)
    return Interval(share, middle - half, middle + half, "wilson")


def chi_squared(observed: np.ndarray, expected: np.ndarray) -> float:
    """The p-value of Pearson's χ² test of counts ``observed [n]``; outcomes with fewer than 5
    expected are pooled. The page reads this module without torch, so the incomplete gamma function
    Q is summed here."""
    rare = expected < 5
    pooled = [*zip(observed[~rare], expected[~rare], strict=True), (observed[rare].sum(), expected[rare].sum())]
    cells = [(count, mean) for count, mean in pooled if mean > 0]
    half = sum((count - mean) ** 2 / mean for count, mean in cells) / 2
    if len(cells) < 2 or half == 0:
        return 1.0
    steps, odd = divmod(len(cells) - 1, 2)  # Q(a + 1, x) = Q(a, x) + xᵃ e⁻ˣ / Γ(a + 1)
    terms = (math.exp(a * math.log(half) - half - math.lgamma(a + 1)) for a in (i + odd / 2 for i in range(steps)))
    return sum(terms, math.erfc(half**0.5) if odd else 0.0)
