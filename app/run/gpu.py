"""Borrows a GPU for the length of one run where the host lends them (Spaces ZeroGPU). A no-op everywhere else.

What is decorated runs in a worker there, forked from the server and kept for further runs: it takes and yields plain
values, starts its own threads, and sees Stop in memory that it shares with the server.
"""

from __future__ import annotations

import contextlib
import importlib
import importlib.util
import itertools
import math
import mmap
import os
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeVar, cast

from specdiff_core.models.memory import Machine, needed
from specdiff_core.schema.errors import Failure, SpecDiffError
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig

F = TypeVar("F", bound=Callable[..., Any])

LONGEST = 120
"""Seconds of the longest loan that a run asks for."""
BEGIN = 12
"""Seconds until the first token: weights move to the GPU, and each lane warms up."""
PASS = 0.02
"""Seconds of a small model's pass, mostly Python's."""
BANDWIDTH = 1e12
"""Bytes of weights that a lent GPU reads in a second."""
FLAGS = mmap.mmap(-1, 4096)
"""A byte for each of the last stop events. It is there before any fork, so all workers share it."""

_numbers = itertools.count()


def is_lent() -> bool:
    """Whether this host lends its GPU run by run (``spaces`` reads the same variable)."""
    lent = os.environ.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}
    return lent and importlib.util.find_spec("spaces") is not None


class SharedEvent(threading.Event):
    """A stop event that a worker sees too: it is sent there as the place of its byte in :data:`FLAGS`. ``wait`` wakes
    early only in the process that sets it."""

    def __init__(self, place: int) -> None:
        super().__init__()
        self._place = place

    def __reduce__(self) -> tuple[type[SharedEvent], tuple[int]]:
        return SharedEvent, (self._place,)

    def is_set(self) -> bool:
        """Whether it was set, in any process."""
        return bool(FLAGS[self._place])

    def set(self) -> None:
        """Set it, in all processes."""
        FLAGS[self._place] = 1
        super().set()


def stop_event() -> threading.Event:
    """The stop event of a run: where the GPU is lent, one that reaches its worker."""
    if not is_lent():
        return threading.Event()
    place = next(_numbers) % len(FLAGS)
    FLAGS[place] = 0
    return SharedEvent(place)


def seconds_of(plan: Mapping[str, DecodeConfig]) -> int:
    """How long a race may hold a lent GPU: a shorter loan comes sooner. An estimate from the new tokens and the size of
    the pair, as if every lane decoded like vanilla."""
    pair = find_pair(next(iter(plan.values())).pair)
    weights = needed(pair, Machine(device="cuda", dtype="bf16", free=0)).weights
    tokens = sum(config.max_new_tokens for config in plan.values())
    return min(LONGEST, math.ceil(BEGIN + tokens * (PASS + weights / BANDWIDTH)))


def on_gpu(seconds: Callable[..., int]) -> Callable[[F], F]:
    """Decorate a synchronous generator that decodes. What it raises in a worker is raised here.

    Args:
        seconds: of the loan, from the generator's own arguments.

    Raises:
        SpecDiffError: from the generator: no GPU is free, or the loan is over.
    """

    def decorate(function: F) -> F:
        if not is_lent():
            return function

        def work(*args: Any) -> Iterator[Any]:
            try:
                yield from function(*args)
            except Exception as error:  # the package would pass on no more than the name of its class
                yield Failure.of(error)

        import gradio as gr  # here only: the process that decodes needs none of it

        borrowed = importlib.import_module("spaces").GPU(duration=seconds)(work)

        def run(*args: Any) -> Iterator[Any]:
            try:
                with contextlib.closing(borrowed(*args)) as values:
                    for value in values:
                        if isinstance(value, Failure):
                            value.throw()
                        yield value
            except gr.Error as error:  # the host's own words
                hint = f"A GPU is lent for at most {LONGEST} seconds; ask for less, or run the lab yourself."
                raise SpecDiffError(f"{error.message}.".replace("..", "."), hint=hint) from None

        return cast(F, run)

    return decorate
