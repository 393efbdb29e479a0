"""Borrows a GPU for the length of one run where the host lends them (Spaces ZeroGPU). A no-op everywhere else.

What is decorated runs in a worker there, forked from the server and kept for further runs: it takes and yields plain
values, starts its own threads, and hears of Stop through memory that it shares with the server.
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
from specdiff_core.schema.errors import ConfigError, Failure
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import SETTINGS

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


def seconds_of(values: Mapping[str, Any], lanes: int = 2) -> int:
    """How long a race of ``lanes`` may hold a lent GPU: a loan that is shorter comes sooner. An estimate from the new
    tokens and the size of the pair, as if every lane decoded like vanilla.

    Args:
        values: untrusted settings; what is no possible value counts as the usual one, because the run will refuse it.
    """
    try:
        tokens = SETTINGS["max_new_tokens"].read(values.get("max_new_tokens", SETTINGS["max_new_tokens"].default))
        pair = find_pair(str(values.get("pair", SETTINGS["pair"].default)))
        weights = needed(pair, Machine(device="cuda", dtype="bf16", free=0)).weights
    except ConfigError:
        tokens, weights = SETTINGS["max_new_tokens"].default, 0
    return min(LONGEST, math.ceil(BEGIN + lanes * tokens * (PASS + weights / BANDWIDTH)))


def on_gpu(seconds: Callable[..., int]) -> Callable[[F], F]:
    """Decorate a synchronous generator that decodes. What it raises in a worker is raised here.

    Args:
        seconds: of the loan, from the generator's own arguments.
    """

    def decorate(function: F) -> F:
        if not is_lent():
            return function

        def work(*args: Any) -> Iterator[Any]:
            try:
                yield from function(*args)
            except Exception as error:  # the package would pass on no more than the name of its class
                yield Failure.of(error)

        borrowed = importlib.import_module("spaces").GPU(duration=seconds)(work)

        def run(*args: Any) -> Iterator[Any]:
            with contextlib.closing(borrowed(*args)) as values:
                for value in values:
                    if isinstance(value, Failure):
                        value.throw()
                    yield value

        return cast(F, run)

    return decorate
