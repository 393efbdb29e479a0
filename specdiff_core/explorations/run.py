"""Runs an exploration step by step, and gives its result so far."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from specdiff_core.explorations.base import Answer, Exploration, Report, Step
from specdiff_core.measure.store import Result
from specdiff_core.provenance import Provenance, provenance
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.fields import fields_of, flag

if TYPE_CHECKING:
    from specdiff_core.engine import Engine


class ExplorationResult(Result, kw_only=True, tag="exploration"):
    """An answer with everything needed to repeat it, as ``--json`` writes it and the page opens it."""

    provenance: Provenance
    name: str
    settings: dict[str, Any]
    machine: dict[str, Any]  # device, dtype, threads and network of the runs
    done: int
    total: int
    rows: list[dict[str, Any]]
    facts: dict[str, Any]
    runs: list[dict[str, Any]] = msgspec.field(default_factory=list)  # counts of each setting on each prompt
    report: Report = msgspec.field(default_factory=Report)
    files: dict[str, str] = msgspec.field(default_factory=dict)  # race -> its trace file, relative to the answer
    seconds: float = 0.0  # that the measurement took; 0: not recorded


def command_words(exploration: Exploration) -> list[str]:
    """The arguments of ``python -m specdiff_core`` that measure the same."""
    words = [exploration.name] if exploration.alone else ["explore", exploration.name]
    for name, value in msgspec.to_builtins(exploration).items():
        if value != fields_of(type(exploration))[name].default:
            words += [flag(name), ",".join(map(str, value)) if isinstance(value, tuple) else str(value)]
    return words


class Snapshot(NamedTuple):
    """Progress and results after some steps."""

    done: int
    total: int
    doing: str
    result: ExplorationResult | None  # None before the first step
    races: dict[str, bytes]  # this and the next: at the end only
    made: dict[str, bytes]
    over: bool


class ExplorationRun:
    """A running exploration, advanced step by step.

    Args:
        stop: see :meth:`Exploration.explore`.
        argv: the command line to record; by default :func:`command_words`.

    Raises:
        SpecDiffError: as :meth:`Exploration.explore`, here and from :meth:`advance`.
        ConfigError: as :attr:`Exploration.drafters`.
    """

    def __init__(
        self, exploration: Exploration, engine: Engine, stop: Stop | None = None, argv: Sequence[str] = ()
    ) -> None:
        from specdiff_core.models.device import device_name

        _ = exploration.drafters  # fail early if the pair lacks one
        self._exploration, self._engine, self._steps = (
            exploration,
            engine,
            exploration.explore(engine, stop or threading.Event()),
        )
        self._began, self._last = time.monotonic(), Step(0, 0, "", lambda: Answer(rows=[]))
        placement, facts = engine.pair.placement, provenance(argv or command_words(exploration))
        machine: dict[str, Any] = {"device": device_name(placement.device), "dtype": placement.dtype_name}
        machine |= {"threads": facts["threads"], "network": engine.pair.network}
        settings = msgspec.to_builtins(exploration)
        self._about = {"name": exploration.name, "settings": settings, "provenance": facts, "machine": machine}

    def advance(self, seconds: float = math.inf, progress: Callable[[Step], None] | None = None) -> Snapshot:
        """Run at least one step, and more until ``seconds`` have passed or it is over; ``progress`` gets each step."""
        from specdiff_core.models.device import cpu_threads

        until, over = time.monotonic() + seconds, True
        while True:
            with cpu_threads(self._engine.threads):  # not between steps: other runs decode then
                step = next(self._steps, None)
            if step is None:
                break
            self._last = step
            if progress is not None:
                progress(step)
            if time.monotonic() >= until:
                over = False
                break
        return self.snapshot(over)

    def snapshot(self, over: bool = True) -> Snapshot:
        """Results so far, also if the last step failed. ``over``: include races and files."""
        last = self._last
        if not last.done:
            return Snapshot(*last[:3], result=None, races={}, made={}, over=over)
        answer = last.answer()
        if threads := answer.facts.get("threads"):  # 0: nothing ran yet
            self._about["machine"]["threads"] = threads
        report, seconds = self._exploration.report(answer.rows, answer.facts), round(time.monotonic() - self._began, 1)
        fields = {**self._about, "rows": answer.rows, "facts": answer.facts, "runs": answer.runs}
        fields |= {"report": report, "seconds": seconds}
        result = ExplorationResult(**fields, done=last.done, total=last.total)
        races, made = (answer.races, last.made()) if over else ({}, {})
        return Snapshot(*last[:3], result, races, made, over)
