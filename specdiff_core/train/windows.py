"""Draws drafting problems from token rows: a clean prefix and a window of masks at its end.

Pure numpy; it knows no network and no objective.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from specdiff_core.train.written import Written

SLOTS = 16  # the largest window that is trained; smaller ones fill the last slots


@dataclass(frozen=True, slots=True, kw_only=True)
class Windows:
    """N drafting problems of one length L, window at the right end, padded on the left."""

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
    full: float = 0.5,
) -> Windows:
    """Cut ``count`` windows out of ``rows [R, S]``.

    Window sizes are uniform in ``sizes`` (inclusive); half of the contexts are as long as fits, the others uniform;
    a fraction ``full`` of the windows is fully masked, the others at a uniform mask ratio (at least one mask).
    """
    size = rng.integers(sizes[0], sizes[1] + 1, count)
    row = np.arange(count) % len(rows)
    end = rng.integers(size + 1, rows.shape[1] + 1)  # exclusive; at least one token of context
    room = np.minimum(end, length) - size
    context = np.where(rng.random(count) < 0.5, room, rng.integers(1, room + 1))
    columns = end[:, None] - length + np.arange(length)
    ids = rows[row[:, None], columns.clip(0)].astype(np.int64)
    rank = np.arange(SLOTS) - (SLOTS - size[:, None])
    ratio = np.where(rng.random(count) < full, 1.0, rng.random(count))
    masked = (rank >= 0) & (rng.random((count, SLOTS)) < ratio[:, None])
    masked[~masked.any(-1), -1] = True
    ids[:, -SLOTS:][masked] = mask_id
    return Windows(
        ids=ids,
        padding=length - context - size,
        masked=masked,
        rank=rank,
        row=row,
        position=columns[:, -SLOTS:].clip(0),
    )


def draw_rows(streams: Sequence[np.ndarray], rng: np.random.Generator, count: int, length: int) -> np.ndarray:
    """``[count, length]`` int64 slices at random places of flat token ``streams``, chosen by their sizes."""
    sizes = np.array([max(0, len(stream) - length + 1) for stream in streams], dtype=np.float64)
    chosen = rng.choice(len(streams), size=count, p=sizes / sizes.sum())
    rows = []
    for index in chosen:
        start = int(rng.integers(0, len(streams[index]) - length + 1))
        rows.append(streams[index][start : start + length])
    return np.stack(rows).astype(np.int64)


def stream_of(written: Written) -> np.ndarray:
    """All rows of target-written text, packed end to end without their padding: ``[tokens]`` uint16."""
    inside = np.arange(written.tokens.shape[1]) < written.lengths[:, None]
    return written.tokens[inside]
