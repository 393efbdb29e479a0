"""The decode clock, which is off while events are built and consumed.

``span`` times a piece of work; ``off`` and ``report`` exclude events and their consumers, such as a
slow browser. A run's time includes the overhead of the loop."""

from __future__ import annotations

import contextlib
import glob
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import ParamSpec

import torch

from specdiff_core.schema.events import Event, Span

GRAINS = ("step", "total")
PHASES = ("prefill", "draft", "score", "verify")
SUSPENDED = 1.0
"""Seconds of a pass in which its thread did nothing: it was suspended, which no system counts as waiting."""

Facts = ParamSpec("Facts")


class Timer:
    __slots__ = ("span",)

    def __init__(self) -> None:
        self.span = Span(name="", start=0.0, seconds=0.0)


class DeviceClock:
    """Wall time of the decode in seconds. On CUDA a span synchronises at both ends.

    Args:
        device: whose queue to wait for.
        grain: ``step`` times every denoising step, every pass of the target and every verification;
            ``total`` synchronises only when the whole run ends.
        tick: seconds since any fixed moment.
    """

    def __init__(
        self, device: torch.device, grain: str = "step", tick: Callable[[], float] = time.perf_counter
    ) -> None:
        if grain not in GRAINS:
            raise ValueError(f"grain must be one of {GRAINS}, not {grain!r}")
        self.grain = grain
        self._tick = tick
        self._wait = torch.cuda.synchronize if device.type == "cuda" else None
        self._origin = 0.0
        self._off_seconds = 0.0  # seconds spent off
        self.spent = dict.fromkeys(PHASES, 0.0)
        """Seconds of all spans since ``start``, by name."""

    def _sync(self) -> None:
        if self._wait is not None and self.grain != "total":
            self._wait()

    def start(self) -> None:
        if self._wait is not None:
            self._wait()
        self._origin, self._off_seconds, self.spent = self._tick(), 0.0, dict.fromkeys(PHASES, 0.0)

    def now(self) -> float:
        """Seconds of work since ``start``."""
        return self._tick() - self._origin - self._off_seconds

    def finish(self) -> float:
        """Wait for the device, whatever the grain, and return the seconds of the whole run."""
        if self._wait is not None:
            self._wait()
        return self.now()

    @contextmanager
    def span(self, name: str) -> Iterator[Timer]:
        """Time the body; never yield an event inside it."""
        timer = Timer()
        self._sync()
        began = self.now()
        yield timer
        self._sync()
        timer.span = Span(name=name, start=began, seconds=self.now() - began)
        self.spent[name] = self.spent.get(name, 0.0) + timer.span.seconds

    def report(self, make: Callable[Facts, Event], *args: Facts.args, **kwargs: Facts.kwargs) -> Iterator[Event]:
        """Yield the event ``make(...)``; neither making it nor what its consumer does counts."""
        with self.off():
            yield make(*args, **kwargs)

    @contextmanager
    def off(self) -> Iterator[None]:
        """Exclude the body."""
        began = self._tick()
        try:
            yield
        finally:
            self._off_seconds += self._tick() - began


class Usage:
    """What a run used besides time: memory of a CUDA device, and waiting for a processor. Counted
    only while the run computes, so that runs which take turns don't count each other's.

    Attributes:
        peak_bytes: most bytes that it held at once; None on a CPU.
        waited_seconds: that threads of this process waited, in all; None where it isn't counted.
    """

    def __init__(self, device: torch.device) -> None:
        self._cuda = device.type == "cuda"
        self.peak_bytes: int | None = 0 if self._cuda else None
        self.waited_seconds: float | None = None if self._cuda or _waited() is None else 0.0
        self._held = 0  # bytes

    def during(self, events: Iterator[Event]) -> Iterator[Event]:
        """The same events, counting what each took to make."""
        while True:
            allocated, waited = 0, None if self._cuda else _waited()
            began, worked = time.perf_counter(), time.thread_time()
            if self._cuda:
                allocated = torch.cuda.memory_allocated()
                torch.cuda.reset_peak_memory_stats()
            event = next(events, None)
            if self._cuda:
                peak = self._held + torch.cuda.max_memory_allocated() - allocated
                self.peak_bytes = max(self.peak_bytes or 0, peak)
                self._held += torch.cuda.memory_allocated() - allocated
            elif waited is not None and self.waited_seconds is not None:
                idle = time.perf_counter() - began - (time.thread_time() - worked)
                self.waited_seconds += max(0.0, (_waited() or waited) - waited, idle if idle > SUSPENDED else 0.0)
            if event is None:
                return
            yield event


def _waited() -> float | None:
    """Seconds that threads of this process waited for a processor; None if they aren't counted.

    Linux: the second number of a thread's ``schedstat`` is its time on a run queue, in nanoseconds.
    """
    waits = []
    for path in glob.glob("/proc/self/task/*/schedstat"):
        with contextlib.suppress(OSError), open(path, encoding="ascii") as file:  # the thread ended
            waits.append(int(file.read().split()[1]))
    return sum(waits) / 1e9 if waits else None
