"""Keys and values of a run in one buffer, and how a pass reads them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.maths.trees import visible
from specdiff_core.models.network import Shape

ROOM = 128  # positions of the smallest buffer; a full one is replaced by one twice as long
BLOCK = 512  # keys in a block of torch's attention on a CPU
BORDERS = (192, 384, BLOCK)
"""Lengths of a block at which a row's sum doesn't depend on what follows: any up to the first, then
only these (MKL splits longer fp32 sums into parts of up to 192 numbers on AMD, 384 on Intel)."""
TILE = 4  # in multiples of this, the number of queries does not change a query's bits on a CPU


class KeyValues:
    """``[layers, 2, 1, Hkv, room, D]``, zeros: masked values, multiplied by 0, must be finite.

    Args:
        context: most positions.
    """

    def __init__(self, shape: Shape, context: int, *, dtype: torch.dtype, device: torch.device) -> None:
        self._max_room = -(-context // BLOCK) * BLOCK
        room = min(ROOM, self._max_room)
        self._buffer = torch.zeros(shape.layers, 2, 1, shape.kv_heads, room, shape.head_dim, dtype=dtype, device=device)
        self.dtype, self.length, self.groups = dtype, 0, shape.heads // shape.kv_heads

    @property
    def device(self) -> torch.device:
        return self._buffer.device

    @property
    def room(self) -> int:
        """Positions in the current buffer."""
        return self._buffer.shape[-2]

    def reserve(self, room: int) -> None:
        """Make room for ``room`` positions; the buffer at least doubles."""
        if room > self.room:
            longer = max(min(2 * self.room, self._max_room), -(-room // ROOM) * ROOM)
            self._buffer = F.pad(self._buffer, (0, 0, 0, longer - self.room))

    def views(self, first: int, end: int) -> tuple[Tensor, ...]:
        """Keys, values of each layer at ``first .. end − 1``: ``[1, Hkv, end − first, D]``."""
        return self._buffer[..., first:end, :].flatten(0, 1).unbind(0)

    @torch.inference_mode()
    def keep(self, scored: int, rows: Sequence[int]) -> None:
        """Of the last ``scored`` positions keep only ``rows`` (ascending)."""
        first = self.length - scored
        if list(rows) != list(range(len(rows))):
            index = torch.tensor(list(rows)).to(self.device, non_blocking=True) + first
            kept_rows = self._buffer.index_select(-2, index)  # a copy
            self._buffer[..., first : first + len(rows), :] = kept_rows
        self.length = first + len(rows)

    @torch.inference_mode()
    def clear(self) -> None:
        """Empty and zero the buffer: a failed run may have left NaNs."""
        self._buffer.zero_()
        self.length = 0


class Pool:
    """Buffers of ended runs, reused (new memory costs a run 2 to 4 ms on two CPU cores).

    Args:
        like: a network of this lab, with ``shape``, ``dtype`` and ``device``.
        context: most positions.
    """

    def __init__(self, like: Any, context: int) -> None:
        self._new = partial(KeyValues, like.shape, context, dtype=like.dtype, device=like.device)
        self._free: list[KeyValues] = []
        self._lock = threading.Lock()

    def take(self, owner: object) -> KeyValues:
        """An empty buffer, returned when ``owner`` is garbage-collected."""
        with self._lock:
            buffer = self._free.pop() if self._free else self._new()
        weakref.finalize(owner, self._take_back, buffer).atexit = False
        return buffer

    def _take_back(self, buffer: KeyValues) -> None:
        buffer.clear()
        self._free.append(buffer)


class CausalReading:
    """Attention of a pass over the cache and the pass's own earlier rows.

    Queries that share a key head are stacked, so keys are never copied.

    Args:
        cache: the rows are written after its ``length`` positions.
        new: number of rows n.
        parents: of a tree, for all rows after its anchor; those before the last n are cached.
    """

    def __init__(self, cache: KeyValues, new: int, parents: Sequence[int] | None) -> None:
        self._groups, device = cache.groups, cache.device
        self._parts = []  # first row, end, queries of a key head, mask, keys and values by layer
        parts = split_rows(cache.length, new) if device.type == "cpu" else [(0, new, cache.length + new)]
        cache.reserve(parts[-1][2])
        self._slots = cache.views(cache.length, cache.length + new)
        for first, end, room in parts:
            mask = _mask(cache, new, parents, first, end, room).repeat(self._groups, 1)
            queries = -(-len(mask) // TILE) * TILE
            mask = F.pad(mask, (0, 0, 0, queries - len(mask)))  # padding rows read everything
            self._parts.append((first, end, queries, mask, cache.views(0, room)))

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self._slots[2 * layer].copy_(k)
        self._slots[2 * layer + 1].copy_(v)
        outputs = []
        for first, end, queries, mask, kv in self._parts:
            rows = q if len(self._parts) == 1 else q[:, :, first:end]
            shape = rows.shape
            rows = rows.reshape(1, shape[1] // self._groups, -1, shape[3])
            count = rows.shape[2]
            if count < queries:
                rows = F.pad(rows, (0, 0, 0, queries - count))
            output = F.scaled_dot_product_attention(rows, kv[2 * layer], kv[2 * layer + 1], attn_mask=mask)
            outputs.append((output if count == queries else output[:, :, :count]).reshape(shape))
        return outputs[0] if len(outputs) == 1 else torch.cat(outputs, 2)


def _mask(cache: KeyValues, new: int, parents: Sequence[int] | None, first: int, end: int, room: int) -> Tensor:
    """``[end - first, room]``: 0 where a row reads, else -inf; see :class:`CausalReading`."""
    mask = torch.full((end - first, room), -torch.inf, dtype=cache.dtype, device=cache.device)
    if parents is None:
        return mask.triu_(cache.length + first + 1)
    readable = visible(parents)[-new:][first:end].to(cache.device)
    begin = cache.length + new - readable.shape[1]
    mask[:, :begin] = 0.0
    mask[:, begin : begin + readable.shape[1]].masked_fill_(readable[:, : room - begin], 0.0)
    return mask


def split_rows(cached: int, new: int) -> list[tuple[int, int, int]]:
    """Split ``new`` rows after ``cached`` positions into (first row, end, keys that all read).

    A row at position p of its block of :data:`BLOCK` keys reads up to the next of :data:`BORDERS`;
    before the first border, only to the end of the pass, rounded up."""
    parts, first = [], 0
    while first < new:
        begin = (cached + first) // BLOCK * BLOCK
        border = begin + next(border for border in BORDERS if cached + first < begin + border)
        end = min(new, border - cached)
        room = border if border - begin > BORDERS[0] else -(-(cached + end) // 32) * 32
        parts.append((first, end, room))
        first = end
    return parts
