"""The interface of an engine, a protocol so that tests can script one."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Protocol, runtime_checkable

from specdiff_core.schema.events import Event
from specdiff_core.schema.settings import DecodeConfig


class Stop(Protocol):
    """An event, of a thread or of something else, that a decode looks at before each pass."""

    def is_set(self) -> bool:
        """Whether the run shall end."""


class Decoder(Protocol):
    """What ``specdiff_core.engine.Engine`` offers to the page and to benchmarks."""

    def decode(
        self,
        prompt: str,
        config: DecodeConfig,
        *,
        detail: bool = True,
        grain: str = "step",
        stop: Stop | None = None,
        warm_up: float | None = None,
        threads: int | None = None,
    ) -> Iterator[Event]:
        """Yield the events of one decode: RunStarted, the loop's, Finished.

        Args:
            detail: emit every denoising step and the candidates behind each number, or only what metrics need.
            grain: how finely the clock synchronises with a device: ``step`` or ``total``.
            stop: when set, the run ends with reason ``stopped`` before its next pass.
            warm_up: after RunStarted the first tokens are decoded off the clock, once, and again until so many seconds
                have passed; None: not at all.
            threads: CPU threads of this decode; None leaves them as they are, 0 lets a short probe choose.
        """


@runtime_checkable
class Brings(Protocol):
    """A decoder that loads drafters when they are asked for."""

    def bring(self, drafter: str, progress: Callable[[str], None]) -> None:
        """Load ``drafter`` unless it is there. What ``progress`` raises ends a download.

        Raises:
            SpecDiffError: it cannot be loaded, or there is none of that name.
        """


WARM_UP = 16
"""Tokens that each lane decodes before it is measured: first passes allocate and compile."""
