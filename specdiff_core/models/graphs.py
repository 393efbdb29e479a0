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
"""A pass as a function of tensors alone: what else it reads must lie where it lies, and be what it is, every time."""

TRIES = 3
"""Runs of a pass before it is recorded: kernels are chosen, and their workspaces allocated, in the first."""


class Graphs:
    """Records passes on one device, while somebody says so: off every clock. What was not met there runs as it is.

    Attributes:
        failed: why nothing is recorded any more; empty while it works.
    """

    def __init__(self, device: torch.device) -> None:
        self.device = device
        self.failed = ""
        self.lock = threading.Lock()  # from a replay until its outputs are copied
        self._recorders = 0
        self._pool: Any = None  # of memory, for all recordings: what one leaves behind is copied before another replays

    @contextmanager
    def recording(self) -> Iterator[None]:
        """Record every pass of a kind that was not met before, until this closes."""
        self._recorders += 1
        try:
            yield
        finally:
            self._recorders -= 1

    def __str__(self) -> str:
        return f"no CUDA graphs ({self.failed})" if self.failed else "passes recorded as CUDA graphs"

    @property
    def open(self) -> bool:
        """Whether a new kind of pass is recorded."""
        return self._recorders > 0 and not self.failed

    @torch.inference_mode()
    def record(self, work: Work, inputs: tuple[Tensor, ...]) -> tuple[Callable[[], object], tuple[Tensor, ...]]:
        """What replays ``work`` on whatever ``inputs`` then hold, and where it leaves its outputs."""
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
    """The recorded passes over one cache, whose addresses are in them."""

    def __init__(self, graphs: Graphs) -> None:
        self._graphs = graphs
        self._known: dict[Hashable, tuple[Callable[[], object], tuple[Tensor, ...], tuple[Tensor, ...]]] = {}

    def __call__(self, kind: Hashable, work: Work, *inputs: Tensor) -> tuple[Tensor, ...]:
        """``work(*inputs)``.

        Args:
            kind: everything that ``work`` depends on besides its inputs, their shapes included.
        """
        with self._graphs.lock:
            if kind not in self._known and self._graphs.open:
                held = tuple(tensor.clone() for tensor in inputs)
                try:
                    self._known[kind] = (*self._graphs.record(work, held), held)
                except RuntimeError as error:  # of CUDA, or of a model that asks the host something in its pass
                    self._graphs.failed = f"{type(error).__name__}: {str(error).splitlines()[0][:120]}"
                    logger.warning("a pass was not recorded, and none will be", exc_info=error)
            if kind not in self._known:
                return work(*inputs)
            replay, outputs, held = self._known[kind]
            for old, new in zip(held, inputs, strict=True):
                old.copy_(new)
            replay()
            return tuple(output.clone() for output in outputs)  # the next replay overwrites them
