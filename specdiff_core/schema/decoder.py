"""The interface of an engine, a protocol so that tests can script one; and the interleaved race of several lanes."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Mapping
from typing import Protocol, runtime_checkable

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Event, RunStarted
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
"""Tokens that each lane decodes before a race, off the record: first passes allocate and compile."""


def race(
    decoder: Decoder,
    prompt: str,
    lanes: Mapping[str, DecodeConfig],
    *,
    repeats: int = 1,
    detail: bool = False,
    progress: Callable[[str], None] | None = None,
    threads: int | None = 0,
    others: Mapping[str, Decoder] | None = None,
) -> dict[str, list[list[Event]]]:
    """Each lane's runs, interleaved: in their order, then in the opposite one, so that drift falls on all alike.

    Args:
        threads: CPU threads of all lanes, see :class:`Decoder`.
        others: lanes that another decoder runs.

    Raises:
        ConfigError: ``repeats`` is no number from 1.
        SpecDiffError: a lane cannot run.
    """
    if not isinstance(repeats, int) or repeats < 1:
        raise ConfigError("--repeats must be at least 1.", field="repeats", hint="Three show the spread.")
    of = {lane: (others or {}).get(lane, decoder) for lane in lanes}
    for lane, settings in lanes.items():
        short = dataclasses.replace(settings, max_new_tokens=min(WARM_UP, settings.max_new_tokens))
        for event in of[lane].decode(prompt, short, detail=False, threads=threads):
            if isinstance(event, RunStarted) and of[lane] is decoder:
                threads = event.threads  # all lanes alike
    runs: dict[str, list[list[Event]]] = {lane: [] for lane in lanes}
    for repeat in range(repeats):
        for lane in list(lanes)[:: 1 if repeat % 2 == 0 else -1]:
            if progress is not None:
                progress(f"measuring {lane}, {repeat + 1} of {repeats}")
            runs[lane].append(list(of[lane].decode(prompt, lanes[lane], detail=detail, threads=threads)))
    return runs
