"""Targets and drafters that compute each text once, and made-up ones, so that a run takes a millisecond or two."""

from __future__ import annotations

import dataclasses
import functools
import math
import sys
from collections.abc import Callable, Generator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from specdiff_core.drafters.base import Context, DenoiseState, Draft
from specdiff_core.drafters.denoise import denoise
from specdiff_core.engine import Engine
from specdiff_core.models.device import on_device
from specdiff_core.models.reader import Scores

TokenIds = tuple[int, ...]
MASK = 3
"""Mask id of the constructed cases, whose symbols are 0, 1 and 2."""


class CachedTarget:
    """A target that computes each text once; the part of
    :class:`~specdiff_core.models.target.Target` and its session that the loop uses."""

    room = 1 << 20

    def __init__(self, ask: Callable[[TokenIds], Tensor], vocab_size: int, suppress: Sequence[int]) -> None:
        self.logits = functools.cache(ask)  # [V] of the token after a text
        self.vocab_size, self.suppress = vocab_size, tuple(suppress)
        self._text: list[int] = []

    def start(self, layers: Sequence[int] = ()) -> CachedTarget:
        self._text = []
        return self

    @property
    def length(self) -> int:
        return len(self._text)

    def read(self, ids: Sequence[int]) -> None:
        self._text += ids

    def score(self, ids: Sequence[int], parents: Sequence[int] | None = None) -> Scores:
        before = range(-1, len(ids) - 1) if parents is None else (-1, *(parent + 1 for parent in parents))
        texts: list[TokenIds] = []  # up to and including each id
        for token, parent in zip(ids, before, strict=True):
            texts.append((*(texts[parent] if parent >= 0 else self._text), token))
        rows = torch.stack([self.logits(text) for text in texts])
        self._text += ids
        return Scores(rows, None)

    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        kept = [self._text[len(self._text) - scored + row] for row in rows]
        self._text[len(self._text) - scored :] = kept


class TableDrafter:
    """Denoises with a function from text and window to logits."""

    name, layers, room = "table", (), sys.maxsize

    def __init__(self, guess: Callable[[TokenIds, TokenIds], Tensor], mask_id: int = MASK) -> None:
        self._guess, self._mask_id = functools.cache(guess), mask_id

    def logits(self, text: TokenIds, gamma: int) -> Tensor:
        """``[gamma, V]`` of a window of masks behind a text."""
        return self._guess(text, (self._mask_id,) * gamma)

    def start(self) -> TableDrafter:
        return self

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """No state."""

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        text = tuple(context.ids)
        return (
            yield from denoise(lambda window: self._guess(text, tuple(window.tolist())), context, mask_id=self._mask_id)
        )


def of_pair(engine: Engine, name: str) -> tuple[CachedTarget, Any]:
    """A pair's target and one of its denoisers."""
    real = engine.target

    def ask(text: TokenIds) -> Tensor:
        run = real.start()
        run.read(text[:-1])
        return run.score(text[-1:]).logits[0]

    denoiser: Any = engine.drafter(name)
    logits = functools.cache(lambda ids, gamma: denoiser.logits(on_device(ids, denoiser.device), gamma))
    cached: Any = dataclasses.replace(denoiser)
    cached.logits = lambda ids, gamma: logits(tuple(ids.tolist()), gamma)
    return CachedTarget(ask, real.vocab_size, real.suppress), cached


def constructed(seed: int, *, coins: bool) -> tuple[CachedTarget, TableDrafter, TokenIds]:
    """Target, drafter and prompt of two fair coins, or of random distributions over three symbols."""

    def table(text: TokenIds) -> Tensor:
        return logs([0.5, 0.5, 0.0, 0.0] if coins else dirichlet(seed, 1, *text))

    guess = _coin_drafter if coins else functools.partial(random_drafter, seed)
    return CachedTarget(table, 4, (MASK,)), TableDrafter(guess), (0,)


def _coin_drafter(text: TokenIds, window: TokenIds) -> Tensor:
    """Reveals a fair coin in the last slot first, because its confidence elsewhere is lower, then
    copies it into the others: p/q accepts a first token with probability ½ only, which changes the
    distribution of the last token, as it is never rejected."""
    last = window[-1]
    if last == MASK:
        rows = [logs([1.0, 1.0, 1.0, 0.0])] * (len(window) - 1) + [logs([0.5, 0.5, 0.0, 0.0])]
    else:
        rows = [logs([float(symbol == last) for symbol in range(4)])] * len(window)
    return torch.stack(rows)


def random_drafter(seed: int, text: TokenIds, window: TokenIds, symbols: int = 3, spread: float = 0.8) -> Tensor:
    """A random drafter that sees the revealed symbols of the window."""
    return torch.stack(
        [
            logs(dirichlet(seed, 2, slot, *text, 9, *window, symbols=symbols, spread=spread))
            for slot in range(len(window))
        ]
    )


def dirichlet(*key: int, symbols: int = 3, spread: float = 0.8) -> list[float]:
    """A distribution over the symbols, fixed by the key; the mask has no probability."""
    return [*np.random.default_rng(key).dirichlet([spread] * symbols).tolist(), 0.0]


def logs(weights: Sequence[float]) -> Tensor:
    return torch.tensor([math.log(weight) if weight > 0 else -math.inf for weight in weights])
