"""Slow work of a thread: it reports its progress to the run that waits, and ends once that has gone."""

from __future__ import annotations

import threading
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from typing import TypeVar

from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import Stopped

from .job import Phase
from .turns import GLANCE, Queue

T = TypeVar("T")
Progress = Callable[[str], None]
"""Gets what is being loaded, and now and then :data:`UNCHANGED`; raises Stopped once the caller has gone."""
UNCHANGED = ""
"""A message that leaves the last one, and only asks whether the caller has gone."""


class OneAtATime:
    """Work that one thread does at a time. The others wait and report its progress."""

    def __init__(self) -> None:
        self._queue = Queue(1)
        self.message = ""

    @contextmanager
    def turn(self, progress: Progress) -> Iterator[Progress]:
        """Wait until no other thread does the work; yields the function that reports its progress.

        Raises:
            Stopped: ``progress`` raised it.
        """

        def report(message: str) -> None:
            if message != UNCHANGED:
                self.message = message
            progress(message)

        with self._queue.turn(lambda position: progress(self.message or "Waiting for another model to load")):
            try:
                yield report
            finally:
                self.message = ""


def with_progress(work: Callable[[Progress], T], stop: Stop) -> Generator[Phase, None, T]:
    """Yield the latest message of ``work``, which runs in its own thread, until it ends; return its
    result. Closing the generator ends the work at its next report.

    Raises:
        BaseException: whatever ended the work.
        Stopped: ``stop`` was set meanwhile.
    """
    phases, gone, done = list[Phase](), threading.Event(), Future[T]()

    def report(message: str) -> None:
        if message != UNCHANGED:
            phases[:] = [Phase("loading", message)]
        if gone.is_set() or stop.is_set():
            raise Stopped

    def run() -> None:
        try:
            done.set_result(work(report))
        except BaseException as error:  # raised again in the calling thread
            done.set_exception(error)

    threading.Thread(target=run, name="load", daemon=True).start()
    try:
        while wait([done], GLANCE).not_done:
            if stop.is_set():
                raise Stopped
            yield from phases
    finally:
        gone.set()
    result = done.result()
    if stop.is_set():
        raise Stopped
    return result
