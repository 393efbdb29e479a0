"""Keys and values of one run in one buffer, and how a pass reads them. What is rolled back, and when, is the business
of the sessions that hold them.
"""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from functools import partial

import torch
from torch import Tensor

from specdiff_core.maths.trees import visible
from specdiff_core.models.graphs import Graphs, Passes
from specdiff_core.models.network import Shape, attend

ROOM = 128
"""Positions of the smallest buffer; a full one is replaced by one twice as long."""
BLOCK = 512
"""Keys that torch's attention on a CPU sums up before it goes on to the next."""
BORDERS = (192, 384, BLOCK)
"""Lengths of a block in which a row is summed with the same bits, whatever stands behind it: up to the first any, then
only these (fp32: MKL cuts longer sums into equal parts, of up to 192 numbers on AMD and 384 on Intel)."""
ROWS = 4
"""From so many queries on, a query's bits do not depend on how many others there are."""


class KeyValues:
    """``[layers, 2, 1, Hkv, room, D]``, zeroed at first: what a mask hides is multiplied by 0 and must be a number.

    Args:
        context: positions that it will ever be asked for.
        graphs: records passes over it, so it has all its room at once and never moves.
    """

    def __init__(
        self, shape: Shape, context: int, *, dtype: torch.dtype, device: torch.device, graphs: Graphs | None = None
    ) -> None:
        self._most = -(-context // BLOCK) * BLOCK
        room = min(ROOM, self._most) if graphs is None else self._most
        self.passes = None if graphs is None else Passes(graphs)
        self._buffer = torch.zeros(shape.layers, 2, 1, shape.kv_heads, room, shape.head_dim, dtype=dtype, device=device)
        self.length = 0

    @property
    def device(self) -> torch.device:
        return self._buffer.device

    @property
    def room(self) -> int:
        """Positions that it can hold as it is."""
        return self._buffer.shape[-2]

    def reserve(self, room: int) -> None:
        """Make room for so many positions; the buffer doubles at least, so that this stays rare."""
        held = self.room
        if room > held:
            size = list(self._buffer.shape)
            size[-2] = max(min(2 * held, self._most), -(-room // ROOM) * ROOM)
            longer = self._buffer.new_zeros(size)
            longer[..., :held, :] = self._buffer
            self._buffer = longer

    def views(self, first: int, end: int) -> tuple[Tensor, ...]:
        """Of the places ``first .. end − 1``: keys and values of the first layer, of the second, …, each
        ``[1, Hkv, end − first, D]``."""
        return self._buffer[..., first:end, :].flatten(0, 1).unbind(0)

    def write(self, layer: int, k: Tensor, v: Tensor, *, at: int) -> tuple[Tensor, Tensor]:
        """Put ``k, v [1, Hkv, n, D]`` at places ``at`` and behind; returns the layer's, ``[1, Hkv, room, D]``."""
        keys, values = self._buffer[layer, 0], self._buffer[layer, 1]
        end = at + k.shape[2]
        keys[:, :, at:end] = k
        values[:, :, at:end] = v
        return keys, values

    def put(self, layer: int, k: Tensor, v: Tensor, *, slots: Tensor) -> tuple[Tensor, Tensor]:
        """As :meth:`write`, at the places ``slots [n]`` of the device."""
        keys, values = self._buffer[layer, 0], self._buffer[layer, 1]
        return keys.index_copy_(2, slots, k), values.index_copy_(2, slots, v)

    def keep(self, scored: int, rows: Sequence[int]) -> None:
        """Of the last ``scored`` positions only ``rows`` (ascending) stay, side by side."""
        first = self.length - scored
        if list(rows) != list(range(len(rows))):
            index = torch.tensor(list(rows), device=self._buffer.device) + first
            self._buffer[..., first : first + len(rows), :] = self._buffer.index_select(-2, index)  # a copy
        self.length = first + len(rows)


class Pool:
    """Buffers of runs that have ended, for the next ones: memory that is mapped already (fresh pages cost a run 2 to
    4 ms on two CPU cores)."""

    def __init__(
        self, shape: Shape, context: int, *, dtype: torch.dtype, device: torch.device, graphs: Graphs | None = None
    ) -> None:
        self._new = partial(KeyValues, shape, context, dtype=dtype, device=device, graphs=graphs)
        self._free: list[KeyValues] = []

    def new(self) -> KeyValues:
        """An empty one."""
        try:  # runs of several threads may ask at once
            held = self._free.pop()
        except IndexError:
            held = self._new()
        held.length = 0
        return held

    def give_back(self, held: KeyValues, *, when_gone: object) -> None:
        """Keep ``held`` for another run, once nobody uses the object ``when_gone`` any more."""
        weakref.finalize(when_gone, self._free.append, held).atexit = False


class CausalReading:
    """What the rows of one pass read: what is cached, and those of themselves that come before them.

    Args:
        cache: they will stand behind its ``length`` positions; it makes room for them.
        new: rows n of the pass.
        parents: of a tree, for all rows behind its anchor; the rows are its last n, and the others are cached already.
    """

    def __init__(self, cache: KeyValues, new: int, parents: Sequence[int] | None, *, dtype: torch.dtype) -> None:
        device = cache.device
        self._parts = []  # first row, end, mask, and of each layer keys and values that they read
        parts = parts_of(cache.length, new)
        cache.reserve(parts[-1][2])
        self._slots = cache.views(cache.length, cache.length + new)
        for first, end, room in parts:
            rows = -(-(end - first) // ROWS) * ROWS
            mask = torch.full((rows, room), -torch.inf, dtype=dtype, device=device)
            if parents is None:
                mask.triu_(cache.length + first + 1)
            else:
                seen = visible(parents)[-new:][first:end].to(device)
                begin = cache.length + new - seen.shape[1]
                mask[:, :begin] = 0.0
                mask[: end - first, begin : begin + seen.shape[1]].masked_fill_(seen[:, : room - begin], 0.0)
                mask[end - first :, begin] = 0.0  # rows that fill up read something
            self._parts.append((first, end, mask, cache.views(0, room)))
        self._padded: Tensor | None = None  # queries of a part that has fewer rows than a mask

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        self._slots[2 * layer].copy_(k)
        self._slots[2 * layer + 1].copy_(v)
        read = []
        for first, end, mask, held in self._parts:
            rows = q if len(self._parts) == 1 else q[:, :, first:end]
            if end - first < len(mask):
                rows = self._fill_up(rows, len(mask))
            found = attend(rows, held[2 * layer], held[2 * layer + 1], mask)
            read.append(found[:, :, : end - first])
        return read[0] if len(read) == 1 else torch.cat(read, 2)

    def _fill_up(self, rows: Tensor, count: int) -> Tensor:
        """``rows [B, H, n, D]`` and zeros -> ``[B, H, count, D]``, in the same memory for all layers."""
        if self._padded is None or self._padded.shape[2] != count:
            self._padded = rows.new_zeros(*rows.shape[:2], count, rows.shape[3])
        self._padded[:, :, : rows.shape[2]] = rows
        return self._padded


class FixedReading:
    """The same at fixed addresses, for a pass that is recorded: every row looks at all of the cache, and a mask says
    what is there.

    Args:
        first: ``[]`` how many positions are cached before the rows.
        seen: ``[n, m]`` bool: which of the last m positions, the n rows' own among them, each row reads; it reads all
            before those.
    """

    def __init__(self, cache: KeyValues, first: Tensor, seen: Tensor, *, dtype: torch.dtype) -> None:
        rows, known = seen.shape
        self._cache = cache
        self._slots = first + torch.arange(rows, device=seen.device)
        self._columns = torch.arange(cache.room, device=seen.device)
        behind = self._columns - (first + rows - known)  # [room]
        inside = seen.index_select(1, behind.clamp(0, known - 1)) & (behind < known)
        self._mask = torch.full((rows, cache.room), -torch.inf, dtype=dtype, device=seen.device)
        self._mask.masked_fill_((behind < 0) | inside, 0.0)

    def __call__(self, layer: int, q: Tensor, k: Tensor, v: Tensor, window: int | None = None) -> Tensor:
        """``window``: how near a position must be to be read, where the layer sees a window only."""
        mask = self._mask
        if window is not None:
            mask = mask.masked_fill((self._slots[:, None] - self._columns).abs() >= window, -torch.inf)
        return attend(q, *self._cache.put(layer, k, v, slots=self._slots), mask)


def parts_of(held: int, new: int) -> list[tuple[int, int, int]]:
    """How ``new`` rows behind ``held`` positions are read: (first row, end, keys), in runs that read equally many.

    A row at place p of its block of :data:`BLOCK` keys reads up to the next of :data:`BORDERS`; where that is the
    first, only so far as the pass goes, rounded up.
    """
    parts, first = [], 0
    while first < new:
        begin = (held + first) // BLOCK * BLOCK
        border = begin + next(border for border in BORDERS if held + first < begin + border)
        end = min(new, border - held)
        room = border if border - begin > BORDERS[0] else -(-(held + end) // 32) * 32
        parts.append((first, end, room))
        first = end
    return parts
