"""Protocols of what decodes."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

from specdiff_core.schema.events import Event
from specdiff_core.schema.settings import DecodeConfig

WARM_PROMPT, WARM_TOKENS = "Once upon a time", 16
"""What a warm-up decodes."""


class Stop(Protocol):
    """A stop event that a decode checks before each pass."""

    def is_set(self) -> bool:
        """Whether the run should end."""


class Decoder(Protocol):
    """The interface of :class:`~specdiff_core.engine.Engine` for the page and benchmarks."""

    def warm_up(self, config: DecodeConfig, progress: Callable[[str], None] = ..., threads: int = ...) -> None:
        """Pay once what the first passes with such settings cost. An exception from ``progress`` ends it."""

    def decode(
        self,
        prompt: str,
        config: DecodeConfig,
        *,
        detail: bool = True,
        grain: str = "step",
        stop: Stop | None = None,
        threads: int | None = None,
        after: Sequence[int] = (),
    ) -> Iterator[Event]:
        """Yield the events of one decode: RunStarted, the loop's, Finished.

        Args:
            detail: emit every denoising step and the candidates, or only what metrics need.
            grain: how finely the clock synchronises with a device: ``step`` or ``total``.
            stop: when set, the run ends with reason ``stopped`` before its next pass.
            threads: CPU threads of this decode; None or 0: as many as were quickest when last tried; −1:
                one fewer, which leaves a core to a browser on this machine.
            after: ids behind the prompt, from which the run continues.
        """
