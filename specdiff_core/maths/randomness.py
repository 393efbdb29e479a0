"""The one source of randomness: named, seeded streams. Nothing else that decodes may draw or seed.

With named streams a change in the drafter cannot move the target's draws. Noise by position depends
on (seed, position) only: so ``match`` returns vanilla's text (arXiv 2408.07978)."""

from __future__ import annotations

import functools
import hashlib
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import torch
from torch import Tensor

from specdiff_core.maths.distributions import to_host

NOISE = 64
"""Positions of a run whose noise is kept, for their test and for later rounds."""


class Candidates(NamedTuple):
    """The ids that columns of a distribution stand for, if not the whole vocabulary."""

    ids: Tensor  # [n, k]
    vocab: int


class Sampler(Protocol):
    """Every random decision of drafting and verification; in tests an exact enumerator."""

    def sample(self, probs: Tensor, positions: Sequence[int], among: Candidates | None = None) -> Tensor:
        """Draw a column of each row of ``probs [n, V]``, or ``[n, k]`` with ``among``, at absolute
        ``positions``: ``[n]`` int64 on the CPU, ids, or with ``among`` positions in its rows."""

    def accept(self, threshold: float) -> tuple[bool, float]:
        """Whether an event of probability ``threshold`` happens (u < threshold), and the draw u."""

    def fork(self) -> Sampler:
        """Randomness for a further draft of the same round, which must not repeat the first."""

    def choose(self, count: int) -> int:
        """One of ``count`` equally likely indices: used by the random reveal order."""


def _seed(*parts: int | str) -> int:
    """A seed for each name. torch's CPU generator keeps its lower 32 bits: that any two of 500
    positions of a text share their noise has a probability below 3e-5."""
    digest = hashlib.blake2b(repr(parts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "little") >> 1


def _certain(probs: Tensor) -> Tensor | None:
    """The columns of one-hot rows, which no draw could change; None if a row is not one-hot."""
    best = probs.max(-1)
    values, columns = to_host(best.values, best.indices)
    return columns if bool((values == 1.0).all()) else None


def _gumbel(root: int, position: int, size: int) -> Tensor:
    """The noise of one position ``[size]``."""
    generator = torch.Generator().manual_seed(_seed("noise", root, position))
    return -torch.empty(size, dtype=torch.float64).exponential_(generator=generator).log()


class Independent:
    """Fresh uniform draws in float64 from one named stream."""

    def __init__(self, *key: int | str) -> None:
        self._named = key

    @functools.cached_property
    def _generator(self) -> torch.Generator:
        return torch.Generator().manual_seed(_seed(*self._named))  # made at the first draw

    def _uniform(self, count: int) -> Tensor:
        return torch.rand(count, dtype=torch.float64, generator=self._generator)

    def sample(self, probs: Tensor, positions: Sequence[int], among: Candidates | None = None) -> Tensor:
        probs = probs.to(torch.float64)
        if (certain := _certain(probs)) is not None:
            return certain
        cumulative = probs.cumsum(-1)  # [n, V]
        total = cumulative[:, -1:]
        draws = self._uniform(len(positions)).to(probs.device, non_blocking=True)[:, None] * total
        draws = torch.minimum(draws, total.nextafter(torch.zeros_like(total)))  # after rounding
        # u < cumulative strictly: an id of probability zero is never drawn.
        return torch.searchsorted(cumulative, draws, right=True)[:, 0].cpu()

    def accept(self, threshold: float) -> tuple[bool, float]:
        draw = float(self._uniform(1))
        return draw < threshold, draw

    def fork(self) -> Sampler:
        return self

    def choose(self, count: int) -> int:
        return min(int(float(self._uniform(1)) * count), count - 1)


class SharedGumbel(Independent):
    """Samples by the Gumbel-max trick with noise keyed by (seed, absolute position).

    ``sample`` returns argmax(log probs + g_position). Drafter and target use the same g at a
    position, so they agree with a probability of at least (1 − TV)/(1 + TV), and the emitted token
    is a function of (seed, position, p) only."""

    def __init__(self, seed: int, *key: int | str, gumbel: Callable[[int, int, int], Tensor] = _gumbel) -> None:
        super().__init__("shared", seed, *key)
        self._root, self._key, self._gumbel = seed, key, gumbel

    def fork(self) -> Sampler:
        return Independent("fresh", self._root, *self._key)

    def sample(self, probs: Tensor, positions: Sequence[int], among: Candidates | None = None) -> Tensor:
        probs = probs.to(torch.float64)
        if (certain := _certain(probs)) is not None:
            return certain
        size = probs.shape[-1] if among is None else among.vocab
        noise = torch.stack([self.noise(position, size) for position in positions]).to(probs.device, non_blocking=True)
        if among is not None:  # noise belongs to an id
            noise = noise.gather(-1, among.ids)
        return (probs.log() + noise).argmax(-1).cpu()

    def noise(self, position: int, size: int) -> Tensor:
        """g ``[size]`` float64, standard Gumbel, read-only: the draft and its test share it."""
        return self._gumbel(self._root, position, size)


class Streams:
    """All randomness of one run, by name and round."""

    def __init__(self, seed: int, *, shared: bool) -> None:
        self._seed, self._shared = seed, shared
        self._gumbel = functools.lru_cache(maxsize=NOISE)(_gumbel)

    def _stream(self, name: str, round: int) -> Sampler:
        if not self._shared:
            return Independent(name, self._seed, round)
        return SharedGumbel(self._seed, name, round, gumbel=self._gumbel)

    def draft(self, round: int) -> Sampler:
        """For the drafter in one round."""
        return self._stream("draft", round)

    def verify(self, round: int) -> Sampler:
        """For the verification of one round, independent of drafting unless noise is shared."""
        return self._stream("verify", round)
