"""A race as a job, for the page and for a program."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from typing import Any

from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.trace import read_trace

from ..content.error_cards import ErrorCard, card
from .job import LOG, Job, Phase, Tick
from .kept import KEPT_RUNS, address
from .record import Ask, Decode, Update
from .turns import SHARES

STREAM = 0.1
"""Seconds between a program's looks for new events."""
LAST_FRAME = 6.0
"""Seconds to wait for a stopped race's last frame: its current pass must end."""


class Race(Job):
    """A race, which from the start of its clock on uses its ``visitor``'s share (a session; "": none)."""

    def __init__(self, decode: Decode, ask: Ask, visitor: str = "") -> None:
        super().__init__(ask.run)
        self.ask, self.now = ask, Update()
        self._decode, self.visitor = decode, visitor
        self.reason: ErrorCard | None = None  # why the server stopped it
        LOG.info("run %s: %s", self.run, ", ".join(ask.plan), extra={"run": self.run})

    def work(self) -> Iterator[Phase | Tick]:
        try:
            steps = self._decode(self.ask, self.stop)
            growing = KEPT_RUNS.growing(self.ask.trace, self.visitor)
            with growing, ExitStack() as stack, closing(steps):
                check: Callable[[], None] | None = None
                for step in steps:
                    if isinstance(step, Update):
                        self.now = step
                    elif isinstance(step, Phase) and step.name == "racing":
                        check = stack.enter_context(SHARES.of(self.visitor, lambda: self.now.tokens))
                    if check and not self.stop.is_set():
                        try:
                            check()
                        except SpecDiffError as error:
                            self._end(error)
                    yield step if isinstance(step, Phase) else Tick.DURING_PART
        except SpecDiffError as error:  # the GPU time is used up, or the visitor's share was
            self._end(error)

    def _end(self, error: SpecDiffError) -> None:
        """Stop, and keep what was decoded; raise ``error`` if that is nothing."""
        if not self.now.tokens:
            raise error
        self.stop.set()
        self.reason = card(error, self.run)

    def progress(self) -> dict[str, Any]:
        """What it waits for, and the trace file; of a block also how many of its sizes it has begun."""
        return {
            "phase": self.phase,
            "message": self.message,
            "trace": address(self.ask.trace) if self.now.size else None,  # once there is a file
            **({"parts": [len(self.now.events), len(self.ask.plan)]} if self.ask.block else {}),
        }

    def result(self) -> dict[str, Any]:
        """The outcome; whatever ended the race, its measurements are kept."""
        size, failures = self.now.size, self.now.failures
        if self.error is not None or (self.stop.is_set() and not self.now.tokens and not failures):
            return {"phase": "stopped", "trace": None}  # nothing was measured
        if failures and all(lane in failures for lane in self.ask.plan if lane != BASELINE):
            return {"phase": "failed", "source": "failed", "card": next(iter(failures.values())), "size": size}
        reason = {"card": self.reason} if self.reason else {}
        return {"phase": "stopped" if self.stop.is_set() else "finished", "source": "run", "size": size, **reason}


def results(job: Race, *, with_events: bool = False) -> Iterator[dict[str, Any]]:
    """Run a race for a program: yields progress objects, then the lanes under ``lanes``.

    Args:
        with_events: each progress object has the new events of all lanes, in the order in which they happened.

    Raises:
        Exception: the exception that ended the run; the caller translates it.
    """
    job.start()
    read, sent = 0, time.monotonic()
    try:
        while not job.done.wait(STREAM if with_events else job.beat):
            answer: dict[str, Any] = {"finished": False, "events_so_far": dict(job.now.events)}
            if with_events:
                part = (KEPT_RUNS.read(job.ask.trace.name, read) or b"").rpartition(b"\n")[0]
                lines = [json.loads(line) for line in part.splitlines()]
                read += len(part) + bool(part)
                answer["events"] = [line for line in lines if line["kind"] != "Trace"]
            if answer.get("events") != [] or time.monotonic() - sent >= job.beat:  # else nobody sees a caller leave
                sent = time.monotonic()
                yield answer
    finally:
        job.stop.set()
    if job.error is not None:
        raise job.error
    if not job.now.size:
        raise SpecDiffError("The run was stopped before it began.", hint="Run it again.")
    reason = {"stopped_because": job.reason["message"]} if job.reason else {}
    yield {"finished": True, "lanes": read_trace(job.ask.trace).lanes, **reason}
