"""What follows from the acceptance at each position and the cost of bare passes: tokens per round and speed-up."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Any

from specdiff_core.measure.grid import BenchSetting
from specdiff_core.schema.metrics import Metrics

if TYPE_CHECKING:
    from specdiff_core.measure.passes import PassCosts


def joint_rates(alphas: Sequence[float | None]) -> list[float]:
    """Π_{j≤m} α_j for m = 0, 1, …: the share of the drafts with m or more accepted tokens. None: a position that was
    never reached."""
    return list(accumulate((alpha or 0.0 for alpha in alphas), mul, initial=1.0))


def expected_tau(alphas: Sequence[float | None]) -> float:
    """E[τ] = 1 + Σ_m Π_{j≤m} α_j, from the acceptance rate of each position given that it is reached."""
    return sum(joint_rates(alphas))


def geometric_tau(alpha: float, gamma: int) -> float:
    """(1 − α^{γ+1}) / (1 − α), with one α for all positions (arXiv 2211.17192, equation 1)."""
    return gamma + 1.0 if alpha >= 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def break_even(cost: float, gamma: int) -> float | None:
    """The smallest α, one for all positions, at which :func:`geometric_tau` is the cost of a round in vanilla tokens
    (arXiv 2211.17192, theorem 3.8); None if not even γ + 1 tokens pay for it."""
    if cost > gamma + 1:
        return None
    low, high = 0.0, 1.0
    for _ in range(40):
        middle = (low + high) / 2
        low, high = (middle, high) if geometric_tau(middle, gamma) < cost else (low, middle)
    return high


def predicted(cell: BenchSetting, drafted: Metrics, vanilla: Metrics, curve: PassCosts) -> dict[str, float]:
    """The prediction for a cell: E[τ] from its measured α_j, and the speed-up if a round costs T bare drafter passes
    and one bare pass of the target over γ + 1 rows. Prefill costs both the same."""
    tau = expected_tau(drafted.alpha_at)
    tokens = drafted.committed
    prefill = vanilla.seconds_by["prefill"] / vanilla.committed * tokens
    round = curve.drafting(cell.gamma, cell.steps) + curve.target[cell.gamma + 1]
    return {
        "predicted_tau": tau,
        "geometric_tau": geometric_tau(drafted.alpha or 0.0, cell.gamma),
        "predicted": (prefill + tokens * curve.target[1]) / (prefill + tokens / tau * round),
    }


def agreement(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How many cells were measured, and the share whose predicted speed-up is within 10 % of the measured one."""
    pairs = [(row["predicted"], row["speedup"]) for row in rows if "predicted" in row]
    close = sum(abs(guess / measured - 1) <= 0.1 for guess, measured in pairs)
    return {"cells": len(pairs), "within_10_percent": close / len(pairs) if pairs else 0.0}
