"""Cuts text into training problems: packed rows, blocks behind an anchor, and windows at the end of a prefix."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from specdiff_core.schema.errors import CorpusError
from specdiff_core.train.corpus import Documents, EncodedCorpus, batches
from specdiff_core.train.settings import BlockSettings
from specdiff_core.train.target_text import TargetText

SLOTS = 16
"""The largest window that is cut; smaller ones fill the last slots."""


class PackedRows:
    """Endless batches of packed text: most rows from a corpus, the last ones from what the target wrote.

    Args:
        written: ``[N]`` tokens that the target wrote, if any; ``share`` of the rows come from there.

    Raises:
        CorpusError: ``written`` is shorter than a row.
    """

    def __init__(
        self,
        data: EncodedCorpus,
        seed: int,
        *,
        rows: int,
        length: int,
        written: np.ndarray | None = None,
        share: float = 0.0,
    ) -> None:
        self._written, self._seed, self._step, self.rows, self.length = written, seed, 0, rows, length
        self.own = 0 if written is None else round(rows * share)
        self._corpus = batches(data.split("train"), seed, rows=rows - self.own, length=length)
        if written is not None and self.own and len(written) < length:
            hint = "Let it write more: python -m specdiff_core train written"
            raise CorpusError(f"The target wrote {len(written)} tokens; a row takes {length}.", hint=hint)

    def draw(self) -> tuple[np.ndarray, np.random.Generator]:
        """The next batch ``[rows, length]`` int64, and random numbers for the rest of the step."""
        rng = np.random.default_rng([self._seed, self._step])
        self._step += 1
        parts = [next(self._corpus)] if self.own < self.rows else []
        if self._written is not None and self.own:
            starts = rng.integers(0, len(self._written) - self.length + 1, self.own)
            parts.append(self._written[starts[:, None] + np.arange(self.length)].astype(np.int64))
        return np.concatenate(parts), rng


def first_rows(tokens: np.ndarray, length: int, count: int) -> np.ndarray:
    """``[n, length]`` int64, the first rows of held-out ``tokens [N]``; n ≤ ``count``, and a short text is one row."""
    length = min(length, len(tokens))
    return tokens[: len(tokens) // length * length].reshape(-1, length)[:count].astype(np.int64)


@dataclass(frozen=True, slots=True)
class Rows:
    """A batch of texts. Anchors may stand at ``first[i] .. last[i]``; tokens from ``lengths[i]`` on are padding."""

    tokens: Tensor  # [B, L] int64
    lengths: Tensor  # [B] int64
    first: Tensor  # [B] int64
    last: Tensor  # [B] int64, inclusive

    def to(self, device: torch.device) -> Rows:
        return Rows(*(getattr(self, field.name).to(device) for field in dataclasses.fields(self)))


class AnchorRows:
    """Endless batches for a block drafter: packed corpus text, and whole texts of the target, in which anchors follow
    the prompt. ``settings`` say how many of each."""

    def __init__(self, documents: dict[str, Documents], text: TargetText, settings: BlockSettings) -> None:
        self._text, self.rows, self.length = text, settings.rows, settings.length
        self._packed = self.rows - round(self.rows * settings.share)
        self._corpus = batches(documents, settings.seed, rows=self._packed, length=self.length)
        greedy, self._odds = text.temperatures == 0, None  # of each text; None is uniform
        if settings.greedy is not None and greedy.any() and not greedy.all():
            share = settings.greedy
            self._odds = np.where(greedy, share / greedy.sum(), (1 - share) / (~greedy).sum())
        self._rng, self._seed = np.random.default_rng([settings.seed, 0xB10C]), settings.seed * 1_000_003

    def draw(self) -> tuple[Rows, int]:
        """The next batch, whose shape never changes, and the seed of what is random in the rest of the step."""
        packed, own, text = self._packed, self.rows - self._packed, self._text
        tokens = np.zeros((self.rows, self.length), dtype=np.int64)
        sizes, first = np.full(self.rows, self.length), np.ones(self.rows, dtype=np.int64)
        if packed:
            tokens[:packed] = next(self._corpus)
        if own:
            chosen = self._rng.choice(len(text.tokens), size=own, p=self._odds)
            found = text.tokens[chosen, : self.length]
            tokens[packed:, : found.shape[1]] = found
            sizes[packed:] = np.minimum(text.lengths[chosen], self.length)
            first[packed:] = np.maximum(1, text.prompts[chosen] - 1)
        parts = (tokens, sizes, first, np.maximum(first, sizes - 2))
        self._seed += 1
        return Rows(*(torch.from_numpy(part) for part in parts)), self._seed - 1


@dataclass(frozen=True, slots=True)
class Blocks:
    """What a block drafter sees and must predict: A blocks of b slots (the anchor is slot 0) in each of B rows."""

    ids: Tensor  # [B, A, b] int64, mask id where masked
    anchors: Tensor  # [B, A] int64
    masked: Tensor  # [B, A, b] bool
    known: Tensor  # [B, A, b] bool: inside the text, and nothing before it in the block ended the text
    truth: Tensor  # [B, A, b] int64, the text's own tokens


def cut_blocks(tokens: Tensor, lengths: Tensor, anchors: Tensor, size: int, end: int) -> tuple[Tensor, Tensor]:
    """The text at ``anchors [B, A]`` in ``tokens [B, L]``, whose row i is ``lengths[i]`` long: ``truth [B, A, b]`` and
    ``known [B, A, b]`` (see :class:`Blocks`)."""
    places = anchors[..., None] + torch.arange(size, device=anchors.device)  # [B, A, b]
    truth = tokens.gather(1, places.clamp_max(tokens.shape[1] - 1).flatten(1)).view_as(places)
    ended = (truth == end).long()
    ended[..., 0] = 0  # an anchor may be the separator itself
    before = ended.cumsum(-1) - ended
    return truth, (places < lengths[:, None, None]) & (before == 0)


def draw_blocks(
    rows: Rows, count: int, size: int, mask_id: int, end: int, generator: torch.Generator, *, whole: float = 0.5
) -> Blocks:
    """``count`` random anchors in each row, with random masks behind them.

    A fraction ``whole`` of the blocks is fully masked. Of the rest, 3 in 5 are masked at a uniform random ratio, and 2
    in 5 have a random clean beginning, which is what left-to-right denoising with T > 1 meets.
    """

    def uniform(*shape: int) -> Tensor:
        return torch.rand((len(rows.tokens), count, *shape), generator=generator, device=generator.device)

    room = (rows.last - rows.first + 1)[:, None]
    anchors = rows.first[:, None] + (uniform() * room).long().clamp_max(room - 1)
    truth, known = cut_blocks(rows.tokens, rows.lengths, anchors, size, end)
    kind = uniform(1)
    scattered = uniform(size) < uniform(1)
    beginning = torch.arange(size, device=anchors.device) > (uniform(1) * (size - 1)).long()
    masked = torch.where(kind < whole + 0.6 * (1 - whole), scattered, beginning)
    masked = (kind < whole) | masked | ~known  # what lies behind the text's end is never shown
    masked[..., 0] = False
    return Blocks(torch.where(masked, mask_id, truth), anchors, masked, known, truth)


@dataclass(frozen=True, slots=True)
class Windows:
    """N drafting problems of one length L: a clean prefix and a window at its right end, padded on the left."""

    ids: np.ndarray  # [N, L] int64, the mask id where masked
    padding: np.ndarray  # [N] int64, leading positions without meaning
    masked: np.ndarray  # [N, SLOTS] bool, of the last SLOTS positions
    rank: np.ndarray  # [N, SLOTS] int64, place in the window; negative before it
    row: np.ndarray  # [N] int64, the row each problem was cut from
    position: np.ndarray  # [N, SLOTS] int64, where in that row the last SLOTS positions lie (clipped at 0)


def draw_windows(
    rows: np.ndarray,
    rng: np.random.Generator,
    *,
    count: int,
    length: int,
    mask_id: int,
    sizes: tuple[int, int] = (4, SLOTS),
    whole: float = 0.5,
) -> Windows:
    """Cut ``count`` windows out of ``rows [R, S]``.

    Window sizes are uniform in ``sizes`` (inclusive); half of the contexts are as long as fits, the others uniform;
    a fraction ``whole`` of the windows is fully masked, the others at a uniform mask ratio (at least one mask).
    """
    size = rng.integers(sizes[0], sizes[1] + 1, count)
    row = np.arange(count) % len(rows)
    end = rng.integers(size + 1, rows.shape[1] + 1)  # exclusive; at least one token of context
    room = np.minimum(end, length) - size
    context = np.where(rng.random(count) < 0.5, room, rng.integers(1, room + 1))
    columns = end[:, None] - length + np.arange(length)
    ids = rows[row[:, None], columns.clip(0)].astype(np.int64)
    rank = np.arange(SLOTS) - (SLOTS - size[:, None])
    ratio = np.where(rng.random(count) < whole, 1.0, rng.random(count))
    masked = (rank >= 0) & (rng.random((count, SLOTS)) < ratio[:, None])
    masked[~masked.any(-1), -1] = True
    ids[:, -SLOTS:][masked] = mask_id
    return Windows(ids, length - context - size, masked, rank, row, columns[:, -SLOTS:].clip(0))
