"""Exact enumeration of what is left to chance: a :class:`Sampler` that walks every branch.

``outcomes(experiment)`` runs it once per branch and returns the distribution of its result."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Hashable, Iterator, Sequence
from typing import Any, TypeVar

import pytest
import torch
from torch import Tensor

from specdiff_core.maths.randomness import Candidates

Value = TypeVar("Value")
Result = TypeVar("Result", bound=Hashable)


class Branches:
    """Follows a path of branch numbers, then first branches, and notes what else there was."""

    def __init__(self, path: Sequence[int]) -> None:
        self._path = list(path)
        self.taken: list[int] = []
        self.widths: list[int] = []
        self.weight = 1.0
        self.drawn = 1.0  # the part of ``weight`` that comes from drawn tokens

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
            index, probability = support[self._branch([w for _, w in support])]
            chosen.append(index)
            self.drawn *= probability
        return torch.tensor(chosen, dtype=torch.long)

    def accept(self, threshold: float) -> tuple[bool, float]:
        options = [(True, threshold), (False, 1.0 - threshold)]
        options = [(yes, w) for yes, w in options if w > 0.0]
        yes = options[self._branch([w for _, w in options])][0]
        return yes, (0.0 if yes else 1.0)

    def fork(self) -> Branches:
        return self

    def choose(self, count: int) -> int:
        return self._branch([1.0 / count] * count)


class OneStream:
    """Stands for ``Streams``: every stream of a run is the one sampler."""

    def __init__(self, sampler: Branches) -> None:
        self._sampler = sampler

    def __call__(self, seed: int, *, shared: bool) -> OneStream:
        return self

    def draft(self, round: int) -> Branches:
        return self._sampler

    def verify(self, round: int) -> Branches:
        return self._sampler


def walked(experiment: Callable[[Branches], Value]) -> Iterator[tuple[Value, float]]:
    """The result of every branch of ``experiment``, and its probability."""
    path: list[int] | None = []
    while path is not None:
        sampler = Branches(path)
        result = experiment(sampler)
        yield result, sampler.weight
        path = None
        for depth in reversed(range(len(sampler.taken))):
            if sampler.taken[depth] + 1 < sampler.widths[depth]:
                path = [*sampler.taken[:depth], sampler.taken[depth] + 1]
                break


def outcomes(experiment: Callable[[Branches], Result]) -> dict[Result, float]:
    """The exact distribution of ``experiment``'s result."""
    distribution: dict[Result, float] = {}
    for result, weight in walked(experiment):
        distribution[result] = distribution.get(result, 0.0) + weight
    return distribution


def in_turn(first: Callable[[Branches], Value], second: Callable[[Value, Branches], Result]) -> dict[Result, float]:
    """The distribution of ``second(first(sampler), sampler)``; ``first`` runs once per branch."""
    distribution: dict[Result, float] = {}
    for value, weight in walked(first):
        for result, more in walked(functools.partial(second, value)):
            distribution[result] = distribution.get(result, 0.0) + weight * more
    return distribution


def chain(
    round_of: Callable[[tuple[int, ...]], dict[tuple[int, ...], float]], length: int
) -> dict[tuple[int, ...], float]:
    """The joint distribution of the first ``length`` tokens when rounds follow one another."""
    done: dict[tuple[int, ...], float] = {}
    cache: dict[tuple[int, ...], dict[tuple[int, ...], float]] = {}
    open_: dict[tuple[int, ...], float] = {(): 1.0}
    while open_:
        following: dict[tuple[int, ...], float] = {}
        for prefix, weight in open_.items():
            if prefix not in cache:
                cache[prefix] = round_of(prefix)
            for emitted, probability in cache[prefix].items():
                text = prefix + emitted
                into, key = (done, text[:length]) if len(text) >= length else (following, text)
                into[key] = into.get(key, 0.0) + weight * probability
        open_ = following
    return done


def total_variation(left: dict[tuple[int, ...], float], right: dict[tuple[int, ...], float]) -> float:
    return 0.5 * sum(abs(left.get(key, 0.0) - right.get(key, 0.0)) for key in {*left, *right})


def cell(*values: Any, quick: bool) -> Any:
    """Parameters of a test, which is marked slow unless it is quick."""
    return pytest.param(*values, marks=() if quick else pytest.mark.slow)


def spread(*lists: Sequence[Any]) -> list[Any]:
    """The product of ``lists`` as parameters of a test. By default a part runs that has every value
    of each list; the rest is marked slow."""
    chosen = {tuple(n % len(values) for values in lists) for n in range(max(map(len, lists)))}
    cells = itertools.product(*(range(len(values)) for values in lists))
    return [cell(*(values[i] for values, i in zip(lists, at, strict=True)), quick=at in chosen) for at in cells]
