"""A target split over machines: transformers' tensor parallelism, one process per device, under ``torchrun``. Rank 0
drafts, tests and broadcasts; the others repeat its passes on their part of the weights.
"""

from __future__ import annotations

import itertools
import os
import weakref
from collections.abc import Sequence
from typing import Any, ClassVar

from torch import Tensor

from specdiff_core.models.stock import StockRun

END = "end"


def ranks() -> int:
    """The number of processes of ``torchrun``; 1 without it."""
    return int(os.environ.get("WORLD_SIZE", "1"))


def rank() -> int:
    """The rank of this process."""
    return int(os.environ.get("RANK", "0")) if ranks() > 1 else 0


def is_split(model: Any) -> bool:
    """Whether ``model`` is split over several processes."""
    return getattr(getattr(model, "config", None), "distributed_config", None) is not None


class LeadingRun(StockRun):
    """A run of rank 0, which broadcasts each call before executing it."""

    _number = itertools.count()
    _ended: ClassVar[list[int]] = []  # unused runs, sent with the next message

    def __init__(self, model: Any, layers: Sequence[int] = ()) -> None:
        super().__init__(model, layers)
        self._name = next(self._number)
        weakref.finalize(self, self._ended.append, self._name).atexit = False

    def forward(self, *values: Any) -> tuple[Tensor, list[Tensor]]:
        """As :meth:`StockRun.forward`, on all ranks."""
        _send((self._name, "forward", values))
        return super().forward(*values)

    def keep(self, *values: Any) -> None:
        """As :meth:`StockRun.keep`, on all ranks."""
        _send((self._name, "keep", values))
        super().keep(*values)


def _send(message: Any) -> None:
    import torch.distributed as dist

    ended, LeadingRun._ended[:] = list(LeadingRun._ended), []
    dist.broadcast_object_list([(ended, message)], src=0)


def follow(model: Any) -> None:
    """The loop of all other ranks: execute the passes that rank 0 broadcasts, until it ends."""
    import torch.distributed as dist

    runs: dict[int, StockRun] = {}
    while True:
        received: list[Any] = [None]
        dist.broadcast_object_list(received, src=0)
        ended, message = received[0]
        for name in ended:
            runs.pop(name, None)
        if message == END:
            return
        name, what, values = message
        if name not in runs:
            runs[name] = StockRun(model)
        getattr(runs[name], what)(*values)


def end() -> None:
    """End the other ranks and leave the process group, if there is one."""
    import torch.distributed as dist

    if dist.is_available() and dist.is_initialized():
        if rank() == 0:
            _send(END)
        dist.destroy_process_group()
