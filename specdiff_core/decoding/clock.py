"""The one clock. It runs while the algorithm works and stands still while events are handed out.

``span`` times a piece of work, ``off`` takes narration (building events, yielding them, a slow browser) out of the
account. A run's time is everything between the first tick and the last that was not ``off``: loop overhead included.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import torch

from specdiff_core.schema.events import Span

GRAINS = ("step", "total")


class Timer:
    """Filled when its span ends."""

    __slots__ = ("span",)

    def __init__(self) -> None:
        self.span = Span(name="", start=0.0, seconds=0.0)


class DeviceClock:
    """Wall time of the decode. On CUDA a span synchronises at both ends, as finely as ``grain`` says.

    Args:
        device: whose queue to wait for.
        grain: ``step`` times every denoising step, every pass of the target and every verification; ``total``
            synchronises only when the whole run ends.
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
        self._away = 0.0  # seconds spent off

    def _sync(self) -> None:
        if self._wait is not None and self.grain != "total":
            self._wait()

    def start(self) -> None:
        """Begin the account at zero."""
        if self._wait is not None:
            self._wait()
        self._origin, self._away = self._tick(), 0.0

    def now(self) -> float:
        """Seconds of work since ``start``."""
        return self._tick() - self._origin - self._away

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

    @contextmanager
    def off(self) -> Iterator[None]:
        """Do not count the body."""
        began = self._tick()
        try:
            yield
        finally:
            self._away += self._tick() - began


def merge(spans: list[Span], name: str) -> Span:
    """One span from the first start to the summed length of several, at least one: the drafting of a round."""
    return Span(name=name, start=spans[0].start, seconds=sum(span.seconds for span in spans))
