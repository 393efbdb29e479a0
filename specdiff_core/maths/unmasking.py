"""Which masked positions a denoising step reveals, and which may then be tested with p/q."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import torch
from torch import Tensor

from specdiff_core.maths.randomness import Sampler
from specdiff_core.schema.settings import RevealOrder

BY_DISTRIBUTION = (RevealOrder.ENTROPY, RevealOrder.MARGIN, RevealOrder.MAX_PROB)
"""Orders that compare distributions."""


def schedule(window: int, steps: int) -> list[int]:
    """How many positions each of 1 <= ``steps`` <= ``window`` steps reveals: as equally many as possible."""
    bounds = [round(step * window / steps) for step in range(steps + 1)]
    return [after - before for before, after in itertools.pairwise(bounds)]


def next_revealed(order: RevealOrder, probs: Tensor, masked: Sequence[int], count: int, sampler: Sampler) -> list[int]:
    """Choose ``count`` of the ``masked`` positions, before any value of this step is drawn.

    Args:
        order: any but value confidence, which needs the drawn values (:func:`most_confident`).
        probs: ``[g, V]``, what the orders of :data:`BY_DISTRIBUTION` compare.
        masked: positions still masked, ascending.
    """
    if count >= len(masked):
        return list(masked)
    if order is RevealOrder.LEFT_TO_RIGHT:
        return list(masked[:count])
    if order is RevealOrder.RANDOM:
        remaining = list(masked)
        return sorted(remaining.pop(sampler.choose(len(remaining))) for _ in range(count))
    return most_confident(_score(order, probs[list(masked)]), masked, count)


def exact_positions(order: RevealOrder, reveal_steps: Sequence[int]) -> tuple[bool, ...]:
    """The running-maximum rule: position i may be tested with min(1, p/q) where no earlier position
    was revealed after it; where one was, there are drafters for which p/q is biased
    (docs/theory.md, Several denoising steps).

    At a position that may, everything that q_i and the decisions to its left depend on was fixed
    before x_i was drawn, so x_i ~ q_i still holds when it is tested. All other positions count as
    point masses. Under value confidence the revealed tokens were selected for being likely, so only
    a window that one step revealed as a whole escapes."""
    if order is RevealOrder.VALUE_CONFIDENCE:
        return (len(set(reveal_steps)) == 1,) * len(reveal_steps)
    latest, exact = -1, []
    for step in reveal_steps:
        exact.append(step >= latest)
        latest = max(latest, step)
    return tuple(exact)


def _score(order: RevealOrder, probs: Tensor) -> Tensor:
    """Larger is revealed earlier. ``probs [n, V]`` -> ``[n]``."""
    if order is RevealOrder.ENTROPY:
        negative: Tensor = torch.special.xlogy(probs, probs).sum(-1)
        return negative
    best, *second = probs.topk(min(2, probs.shape[-1]), -1).values.unbind(-1)
    return best - second[0] if order is RevealOrder.MARGIN and second else best  # with V = 1 there is no second


def most_confident(scores: Tensor, masked: Sequence[int], count: int) -> list[int]:
    """The ``count`` best-scored positions; ties go to the left."""
    best = scores.sort(dim=-1, descending=True, stable=True).indices[:count].tolist()
    return sorted(masked[i] for i in best)
