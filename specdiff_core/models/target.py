"""The target, and the test whether its logits depend on how many tokens a pass reads."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import torch

from specdiff_core.models.cache import BORDERS, Pool
from specdiff_core.models.reader import NetworkSession, Reader

PARTS = (17, 1, 1, 1, 1, 2, 3, 7)
"""Tokens of the test's passes: in all the longest window, and its anchor."""
STRIDE = 7919
"""A prime: the ids of the test are its multiples, from all over the vocabulary."""


class Target(Reader):
    """The causal language model whose distribution lossless text has. Arguments as of :class:`Reader`."""

    def __init__(self, model: Any, *, context: int, suppress: Sequence[int] = ()) -> None:
        super().__init__(model, context=context, suppress=suppress)
        self._exactness: dict[int, str] = {}  # threads -> exactness

    def exactness(self, stopped: Callable[[], bool] = lambda: False) -> str:
        """``bitwise`` if a token's logits have the same bits whatever window it is read in,
        otherwise ``rounding``; "" if the test, which takes a second or two, was ``stopped``.

        Tested on first use, with these weights, on this machine, for each number of threads."""
        threads = torch.get_num_threads()
        if threads not in self._exactness:
            invariant = self._invariant(stopped)
            if stopped():
                return ""
            self._exactness[threads] = "bitwise" if invariant else "rounding"
        return self._exactness[threads]

    def _invariant(self, stopped: Callable[[], bool]) -> bool:
        """Whether reading tokens at once and in parts gives the same logits, keys and values, at
        the beginning and at the borders where sums are split; False if stopped."""
        if self._pool is None:
            return False
        pool = self._pool  # on a CPU a temporary one: its buffers are large (94 MB for SmolLM2)
        if self.model.device.type == "cpu":
            pool = Pool(self.model, self.context)
        ids = [STRIDE * i % self.vocab_size for i in range(sum(PARTS))][: self.context]
        joint, split = (NetworkSession(self.model, (), pool, self.context) for _ in range(2))
        for border in (0, *(border for border in BORDERS if border + len(ids) <= self.context)):
            for run in (joint, split):
                if stopped():
                    return False
                if missing := max(0, border - len(ids) // 2 - run.length):
                    run.read([ids[i % len(ids)] for i in range(missing)])
            begun = joint.length
            at_once = joint.score(ids).logits
            pieces = [ids[end - part : end] for part, end in zip(PARTS, itertools.accumulate(PARTS), strict=True)]
            part_logits = []
            for piece in filter(None, pieces):
                if stopped():
                    return False
                part_logits.append(split.score(piece).logits)
            cached = zip(joint.cached(begun), split.cached(begun), strict=True)
            if not all(torch.equal(a, b) for a, b in [(torch.cat(part_logits), at_once), *cached]):
                return False
        return True
