"""Requests a GPU for one run on Spaces ZeroGPU; does nothing elsewhere.

A decorated function runs in a worker forked from the server, which is reused: it takes and yields
plain values, starts its own threads, and gets Stop through shared memory.
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
from collections.abc import Callable, Generator, Mapping
from typing import ParamSpec, TypeVar

from specdiff_core.checkpoints.memory import Machine, needed
from specdiff_core.schema.errors import SpecDiffError, picklable
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig

P = ParamSpec("P")
T = TypeVar("T")
Decoding = Callable[P, Generator[T, None, None]]

MOST_SECONDS = 120
"""Most seconds that a run requests."""
BEGIN = 12
"""Seconds until the first token: weights move to the GPU, and each lane warms up."""
PASS = 0.02
"""Seconds of a small model's pass, mostly in Python."""
BANDWIDTH = 1e12
"""Bytes of weights that the GPU reads per second."""
FLAGS = mmap.mmap(-1, 4096)
"""A byte for each of the last stop events, created before any fork so that all workers share it."""

_numbers = itertools.count()


def is_zero_gpu() -> bool:
    """Whether this is a ZeroGPU Space (``spaces`` reads the same variable)."""
    enabled = os.environ.get("SPACES_ZERO_GPU", "").lower() in {"1", "t", "true"}
    return enabled and importlib.util.find_spec("spaces") is not None


class SharedEvent(threading.Event):
    """A stop event that workers see too: it is sent as the index of its byte in :data:`FLAGS`.
    ``wait`` wakes early only in the process that sets it."""

    def __init__(self, slot: int) -> None:
        super().__init__()
        self._slot = slot

    def __reduce__(self) -> tuple[type[SharedEvent], tuple[int]]:
        return SharedEvent, (self._slot,)

    def is_set(self) -> bool:
        """Whether it was set, in any process."""
        return bool(FLAGS[self._slot])

    def set(self) -> None:
        """Set it, in all processes."""
        FLAGS[self._slot] = 1
        super().set()


def stop_event() -> threading.Event:
    """The stop event of a run; on ZeroGPU, one that reaches its worker."""
    if not is_zero_gpu():
        return threading.Event()
    slot = next(_numbers) % len(FLAGS)
    FLAGS[slot] = 0
    return SharedEvent(slot)


def gpu_seconds(plan: Mapping[str, DecodeConfig]) -> int:
    """Seconds of GPU to request for a race (shorter requests are served sooner), estimated from the
    new tokens and the pair's size as if every lane were vanilla."""
    pair = find_pair(next(iter(plan.values())).pair)
    weights = needed(pair, Machine(device="cuda", dtype="bf16", free=0)).weights
    tokens = sum(config.max_new_tokens for config in plan.values())
    return min(MOST_SECONDS, math.ceil(BEGIN + tokens * (PASS + weights / BANDWIDTH)))


def on_gpu(seconds: Callable[..., int]) -> Callable[[Decoding[P, T]], Decoding[P, T]]:
    """Decorate a generator that decodes. Its exceptions in a worker are raised here.

    Args:
        seconds: seconds to request, from the generator's arguments.

    Raises:
        SpecDiffError: from the generator: no GPU is free, or the time is over.
    """

    def decorate(function: Decoding[P, T]) -> Decoding[P, T]:
        if not is_zero_gpu():
            return function

        def work(*args: P.args, **named: P.kwargs) -> Generator[T | Exception, None, None]:
            try:
                yield from function(*args, **named)
            except Exception as error:  # ``spaces`` would pass on only the name of its class
                yield picklable(error)

        import gradio as gr  # not needed in the decoding process

        in_worker = importlib.import_module("spaces").GPU(duration=seconds)(work)

        def run(*args: P.args, **named: P.kwargs) -> Generator[T, None, None]:
            try:
                with contextlib.closing(in_worker(*args, **named)) as values:
                    for value in values:
                        if isinstance(value, Exception):
                            raise value
                        yield value
            except gr.Error as error:  # the host's own words
                hint = (
                    f"A run gets at most {MOST_SECONDS} seconds of GPU time; use fewer tokens, or run the lab yourself."
                )
                raise SpecDiffError(f"{error.message}.".replace("..", "."), hint=hint) from None

        return run

    return decorate
