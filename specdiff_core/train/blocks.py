"""Cuts text into the blocks a drafter is trained on: rows, random anchors, random masks. Knows no model and no loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
import torch
from torch import Tensor

from specdiff_core.train.corpus import Mixture
from specdiff_core.train.written import Written


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """A batch of texts. Anchors may stand at ``first[i] .. last[i]``; tokens from ``lengths[i]`` on are padding."""

    tokens: Tensor  # [B, L] int64
    lengths: Tensor  # [B] int64
    first: Tensor  # [B] int64
    last: Tensor  # [B] int64, inclusive

    def to(self, device: torch.device) -> Rows:
        moved = (part.to(device) for part in (self.tokens, self.lengths, self.first, self.last))
        return Rows(**dict(zip(("tokens", "lengths", "first", "last"), moved, strict=True)))


class RowSource(Protocol):
    """An endless, seeded stream of batches."""

    def batch(self) -> Rows:
        """The next batch; its shape never changes."""

    def skip(self) -> None:
        """Draw it and drop it."""


class MixedRows:
    """Rows from packed corpus text and from text that the target wrote, in a fixed ratio.

    Args:
        share: of the rows, how many are target-written.
        greedy: of those, how many were written at temperature 0; None takes the rows as often as they were written.
    """

    def __init__(
        self,
        corpus: Mixture,
        written: Written | None,
        *,
        rows: int,
        length: int,
        share: float,
        seed: int,
        greedy: float | None = None,
    ) -> None:
        self._corpus, self._written = corpus, written
        self._own = round(rows * share) if written is not None else 0
        self._odds = None if written is None else _odds(written.temperatures == 0, greedy)
        self._packed, self._length = rows - self._own, length
        self._rng = np.random.default_rng([seed, 0xB10C])

    def batch(self) -> Rows:
        length = self._length
        tokens = np.zeros((self._packed + self._own, length), dtype=np.int64)
        sizes = np.full(len(tokens), length)
        first = np.ones(len(tokens), dtype=np.int64)
        if self._packed:
            tokens[: self._packed] = self._corpus.batch(self._packed, length)
        if self._written is not None and self._own:
            chosen = self._rng.choice(len(self._written.tokens), size=self._own, p=self._odds)
            piece = self._written.tokens[chosen, :length].astype(np.int64)
            tokens[self._packed :, : piece.shape[1]] = piece
            sizes[self._packed :] = np.minimum(self._written.lengths[chosen], length)
            first[self._packed :] = np.maximum(1, self._written.prompts[chosen] - 1)
        last = np.maximum(first, sizes - 2)
        return Rows(
            tokens=torch.from_numpy(tokens),
            lengths=torch.from_numpy(sizes),
            first=torch.from_numpy(first),
            last=torch.from_numpy(last),
        )

    def skip(self) -> None:
        self.batch()


def _odds(chosen: np.ndarray, share: float | None) -> np.ndarray | None:
    """Probability of each row such that those ``chosen`` make up ``share`` of the draws; None is uniform."""
    if share is None or chosen.all() or not chosen.any():
        return None
    odds: np.ndarray = np.where(chosen, share / chosen.sum(), (1 - share) / (~chosen).sum())
    return odds


@dataclass(frozen=True, slots=True)
class Blocks:
    """What the drafter sees and must predict: A blocks of b slots (the anchor is slot 0) in each of B rows."""

    ids: Tensor  # [B, A, b] int64, mask id where masked
    anchors: Tensor  # [B, A] int64
    masked: Tensor  # [B, A, b] bool
    known: Tensor  # [B, A, b] bool: inside the text, and nothing before it in the block ended the text
    truth: Tensor  # [B, A, b] int64, the text's own tokens


def cut_blocks(rows: Rows, anchors: Tensor, size: int, end: int) -> tuple[Tensor, Tensor]:
    """The text at ``anchors [B, A]``: ``truth [B, A, b]`` and ``known [B, A, b]`` (see :class:`Blocks`)."""
    places = anchors[..., None] + torch.arange(size, device=anchors.device)  # [B, A, b]
    longest = rows.tokens.shape[1] - 1
    truth = rows.tokens.gather(1, places.clamp_max(longest).flatten(1)).view_as(places)
    ended = (truth == end).long()
    ended[..., 0] = 0  # an anchor may be the separator itself
    before = ended.cumsum(-1) - ended
    return truth, (places < rows.lengths[:, None, None]) & (before == 0)


def draw_blocks(
    rows: Rows, count: int, size: int, mask_id: int, end: int, generator: torch.Generator, *, whole: float = 0.5
) -> Blocks:
    """Random anchors and masks: ``whole`` of the blocks fully masked; of the rest, 3 in 5 at a uniform random ratio,
    2 in 5 with a random clean beginning (what left-to-right denoising with T > 1 meets)."""
    batch = rows.tokens.shape[0]

    def uniform(*shape: int) -> Tensor:
        return torch.rand(shape, generator=generator, device=rows.tokens.device)

    room = (rows.last - rows.first + 1)[:, None]
    anchors = rows.first[:, None] + (uniform(batch, count) * room).long().clamp_max(room - 1)
    truth, known = cut_blocks(rows, anchors, size, end)
    kind = uniform(batch, count, 1)
    slots = torch.arange(size, device=anchors.device)
    scattered = uniform(batch, count, size) < uniform(batch, count, 1)
    beginning = slots > (uniform(batch, count, 1) * (size - 1)).long()
    masked = torch.where(kind < whole + 0.6 * (1 - whole), scattered, beginning)
    masked = (kind < whole) | masked
    masked = masked | ~known  # what lies behind the text's end is never shown
    masked[..., 0] = False
    return Blocks(torch.where(masked, mask_id, truth), anchors, masked, known, truth)
