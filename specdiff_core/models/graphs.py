"""CUDA graphs: a pass is recorded once, with fixed shapes at fixed addresses, and then replayed with other inputs.

A pass launches hundreds of small kernels, and for small models launching them takes longer than running them.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor

logger = logging.getLogger("specdiff.graphs")

Work = Callable[..., tuple[Tensor, ...]]
"""A pass as a function of tensors; everything else it reads must keep its address and value."""
Recording = tuple[Callable[[], object], tuple[Tensor, ...]]
"""(replay function, output tensors)."""

TRIES = 2
"""Runs of a pass before recording: the first one chooses kernels and allocates workspaces."""
WIDTHS = (1, 2, 4, 8, 12, 16, 20, 24, 32, 48, 64, 96, 128, 192)
"""Rows of recorded passes over a target's cache; other passes are padded to these."""
_LOCK = threading.RLock()
"""A process records one pass at a time, and copies a replay's outputs before the next replay."""


def fitting(rows: int) -> int | None:
    """The next of :data:`WIDTHS`."""
    return next((width for width in WIDTHS if width >= rows), None)


class Graphs:
    """Records passes on one device, in threads with :meth:`recording` open, off every clock. Other passes run normally.

    While a pass is recorded, no thread may wait for the device: one run at a time.

    Attributes:
        failed: why a pass was not recorded; empty if all were.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.failed = ""
        self._thread = threading.local()
        self._pool: Any = None  # shared memory pool: outputs are copied before another replay

    def __str__(self) -> str:
        return "passes recorded as CUDA graphs" + (f", but for some ({self.failed})" if self.failed else "")

    @contextmanager
    def recording(self) -> Iterator[None]:
        """A context manager in which this thread records every new kind of pass."""
        self._thread.open = True
        try:
            yield
        finally:
            self._thread.open = False

    @property
    def open(self) -> bool:
        """Whether this thread records."""
        return getattr(self._thread, "open", False)

    @torch.inference_mode()
    def record(self, work: Work, inputs: tuple[Tensor, ...]) -> Recording:
        """Record ``work`` on ``inputs``, whose values are read at each replay."""
        here, aside = torch.cuda.current_stream(self.device), torch.cuda.Stream(self.device)  # type: ignore[no-untyped-call]
        aside.wait_stream(here)
        with torch.cuda.stream(aside):
            for _ in range(TRIES):
                work(*inputs)
        here.wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        self._pool = self._pool or torch.cuda.graph_pool_handle()
        with torch.cuda.graph(graph, pool=self._pool, capture_error_mode="thread_local"):
            outputs = work(*inputs)
        return graph.replay, outputs


class Passes:
    """Recorded passes over one cache, or of one network without a cache."""

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        self._known: dict[Hashable, tuple[Recording, tuple[Tensor, ...]] | None] = {}  # None: recording failed

    def __len__(self) -> int:
        return len(self._known)

    def __call__(self, kind: Hashable, work: Work, *inputs: Tensor) -> tuple[Tensor, ...]:
        """``work(*inputs)``; ``kind`` identifies everything it depends on besides the values of its inputs."""
        with _LOCK:
            if kind not in self._known and self._graphs.open:
                self._known[kind] = self._record(work, inputs)
            if (found := self._known.get(kind)) is None:
                return work(*inputs)
            (replay, outputs), held = found
            for old, new in zip(held, inputs, strict=True):
                old.copy_(new)
            replay()
            return tuple(output.clone() for output in outputs)  # the next replay overwrites them

    def _record(self, work: Work, inputs: tuple[Tensor, ...]) -> tuple[Recording, tuple[Tensor, ...]] | None:
        held = tuple(tensor.clone() for tensor in inputs)
        try:
            return self._graphs.record(work, held), held
        except RuntimeError as error:  # a CUDA error, or the pass synchronises with the host
            self._graphs.failed = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
            logger.warning("a pass was not recorded", exc_info=error)
            return None
