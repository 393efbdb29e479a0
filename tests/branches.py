"""Exact enumeration of everything that is left to sampler: a :class:`Sampler` that walks every branch.

``outcomes(experiment)`` runs ``experiment(sampler)`` once per branch and returns the law of its result.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import TypeVar

import torch
from torch import Tensor

from specdiff_core.maths.randomness import Candidates

Result = TypeVar("Result", bound=Hashable)


class Branches:
    """Follows a given path of branch numbers, then always the first branch, and remembers what else there was."""

    def __init__(self, path: Sequence[int]) -> None:
        self._path = list(path)
        self.taken: list[int] = []
        self.widths: list[int] = []
        self.weight = 1.0

    def _branch(self, weights: Sequence[float]) -> int:
        depth = len(self.taken)
        number = self._path[depth] if depth < len(self._path) else 0
        self.taken.append(number)
        self.widths.append(len(weights))
        self.weight *= weights[number]
        return number

    def sample(self, probs: Tensor, positions: Sequence[int], among: Candidates | None = None) -> Tensor:
        assert len(probs) == len(positions)
        chosen = []
        for row in probs.tolist():
            support = [(i, w) for i, w in enumerate(row) if w > 0.0]
            chosen.append(support[self._branch([w for _, w in support])][0])
        return torch.tensor(chosen, dtype=torch.long)

    def accept(self, threshold: float) -> tuple[bool, float]:
        options = [(True, threshold), (False, 1.0 - threshold)]
        options = [(yes, w) for yes, w in options if w > 0.0]
        yes = options[self._branch([w for _, w in options])][0]
        return yes, (0.0 if yes else 1.0)

    def another(self) -> Branches:
        return self

    def choose(self, count: int) -> int:
        return self._branch([1.0 / count] * count)


def outcomes(experiment: Callable[[Branches], Result]) -> dict[Result, float]:
    """The exact law of ``experiment``'s result."""
    law: dict[Result, float] = {}
    path: list[int] | None = []
    while path is not None:
        sampler = Branches(path)
        result = experiment(sampler)
        law[result] = law.get(result, 0.0) + sampler.weight
        path = None
        for depth in reversed(range(len(sampler.taken))):
            if sampler.taken[depth] + 1 < sampler.widths[depth]:
                path = [*sampler.taken[:depth], sampler.taken[depth] + 1]
                break
    return law


def chain(
    round_law: Callable[[tuple[int, ...]], dict[tuple[int, ...], float]], length: int
) -> dict[tuple[int, ...], float]:
    """The joint law of the first ``length`` tokens when rounds follow one another."""
    done: dict[tuple[int, ...], float] = {}
    cache: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {}
    open_: dict[tuple[int, ...], float] = {(): 1.0}
    while open_:
        following: dict[tuple[int, ...], float] = {}
        for prefix, weight in open_.items():
            if prefix not in cache:
                cache[prefix] = round_law(prefix)
            for emitted, probability in cache[prefix].items():
                text = prefix + emitted
                into, key = (done, text[:length]) if len(text) >= length else (following, text)
                into[key] = into.get(key, 0.0) + weight * probability
        open_ = following
    return done


def total_variation(left: dict[tuple[int, ...], float], right: dict[tuple[int, ...], float]) -> float:
    return 0.5 * sum(abs(left.get(key, 0.0) - right.get(key, 0.0)) for key in {*left, *right})
