"""One job: what a visitor asked this server to measure, in a thread of its own, with one stream of frames to the page.

A page draws at most one frame a second while a clock runs, because drawing takes processor time from what is measured.
Races come first and stop when their page is closed; long jobs give way to them between two parts, and go on for a
moment without a page, so that a reload finds them again.
"""

from __future__ import annotations

import contextlib
import contextvars
import json
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from app.content.error_cards import card, new_run_id
from app.run.gpu import stop_event
from app.run.turns import EXPLORING, TURNS, LimitReached, Turns, duration, limit
from specdiff_core.schema.errors import Stopped

LOG = logging.getLogger("specdiff.runs")

BEAT = 0.75
"""Seconds between heartbeats: a generator that never yields isn't closed when its tab is. Each takes some milliseconds
of a core from the decode."""
PACE = 1.0
"""Seconds between frames with content, while a clock is running."""


def frame(run: str, seq: int, **content: Any) -> str:
    """One message for the page. ``seq`` makes equal contents different: an equal value would fire nothing."""
    return json.dumps({"run": run, "seq": seq, **content}, ensure_ascii=False, separators=(",", ":"))


def refusal(error: BaseException, run: str = "", **more: str) -> str:
    """A single frame with a card; whatever else the page shows stays."""
    run = run or new_run_id()
    return frame(run, 0, phase="failed", finished=True, card=card(error, run), **more)


class Job(ABC):
    """Work in a thread of its own. Other threads may read its attributes.

    Attributes:
        run: the name under which its errors are logged.
        phase: ``loading``, ``waiting`` (for races of others), then what the subclass says.
        error: what ended it, or None.
    """

    short: ClassVar[bool] = True
    """Whether long jobs wait until this one is over; otherwise it gives way, and a public host limits its seconds."""
    turns: Turns = TURNS

    def __init__(self, run: str = "") -> None:
        self.run = run or new_run_id()
        self.stop, self.done, self.reported = stop_event(), threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.phase = "loading"
        self._changed = threading.Event()
        self._left_at: float | None = None  # when its page went away
        self._began, self._until = False, math.inf  # of a long job: whether it measures, and when its time is up
        self._cut = False  # whether that ended it

    @abstractmethod
    def work(self) -> Iterator[object]:
        """Do it. After each item the page may get a frame, and others may go first."""

    @abstractmethod
    def progress(self) -> dict[str, Any]:
        """The content of a frame."""

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """What the last frame adds. It has a ``card`` if the job failed."""

    @property
    def calm(self) -> bool:
        """Whether a clock is running, so that the page should draw little."""
        return True

    @property
    def grace(self) -> float:
        """Seconds that it goes on without its page."""
        return 0.0

    @property
    def left(self) -> bool:
        """Whether its page has gone away."""
        return self._left_at is not None

    def start(self) -> None:
        """Begin; ``done`` is set at the end, whatever happens."""
        context = contextvars.copy_context()  # a lent GPU counts on the quota of the visitor who asks
        threading.Thread(target=context.run, args=(self._run,), name=type(self).__name__, daemon=True).start()

    def wait(self, seconds: float) -> bool:
        """Wait for something to show, at most so many seconds; whether the job goes on."""
        self._changed.wait(seconds)
        self._changed.clear()
        return not self.done.is_set()

    def leave(self) -> None:
        """Its page went away, or got the last frame."""
        self._left_at = time.monotonic()
        if not self.grace:
            self.stop.set()

    def rejoin(self) -> None:
        """Its page is back."""
        self._left_at = None

    def _run(self) -> None:
        try:
            with self.turns.short() if self.short else contextlib.nullcontext():
                if not self.short:
                    self._give_way()
                for _ in self.work():
                    if not self.calm:
                        self._changed.set()
                    if not self.short and self.phase != "loading":
                        self._give_way()
        except Stopped:
            pass
        except Exception as error:  # every failure becomes a card (content/error_cards.py), in the thread that shows it
            self.error = error
        finally:
            if self._cut and self.error is None:
                self.error = LimitReached(
                    f"This server gives an exploration {duration(limit(EXPLORING))}, and they are used up.",
                    hint="Ask for less, or run the lab yourself, without a limit.",
                )
            self.done.set()
            self._changed.set()

    def _give_way(self) -> None:
        """Let short jobs go first. End when nobody follows any more, or when the seconds are used up."""
        phase, waiting = self.phase, False
        if phase == "loading" or not self._began:
            self._began = phase != "loading"
            self._until = time.monotonic() + limit(EXPLORING)
        while True:
            if self._left_at is not None and time.monotonic() - self._left_at > self.grace:
                self.stop.set()
            if time.monotonic() > self._until and not self.stop.is_set():
                self._cut = True
                self.stop.set()
            if self.stop.is_set() or self.turns.wait(0 if waiting else BEAT):
                break
            self.phase, waiting = "waiting", True
            self.stop.wait(BEAT)
        self.phase = phase


class Jobs:
    """The jobs under way, by the name of the page that began each: one visitor can never stop another's."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, name: str, job: Job) -> None:
        """Start a job. An older one of the same name is stopped, and so are those whose pages went away. Without a name
        it is not remembered."""
        with self._lock:
            for held, other in list(self._jobs.items()):
                if held == name or other.left:
                    other.stop.set()
                    if other.done.is_set():
                        del self._jobs[held]
            if name:
                self._jobs[name] = job
        job.start()

    def find(self, name: str) -> Job | None:
        """The job of a name, if it is still there; its page is back then."""
        with self._lock:
            job = self._jobs.get(name)
        if job is not None:
            job.rejoin()
        return job

    def leave(self, name: str, job: Job) -> None:
        """The page of a job went away, or got its last frame."""
        job.leave()
        with self._lock:
            if self._jobs.get(name) is job and (job.done.is_set() or not job.grace):
                del self._jobs[name]

    def stop(self, name: str, patience: float) -> None:
        """Ask a job to end, and wait for its last frame to leave."""
        with self._lock:
            job = self._jobs.get(name)
        if job is not None:
            job.stop.set()
            job.reported.wait(patience)


def stream(
    make: Callable[[str], Job], jobs: Jobs, name: str = "", *, clock: Callable[[], float] = time.monotonic
) -> Iterator[str]:
    """Start a job and yield its frames, or one with a card.

    Args:
        make: makes the job of a run id, or raises what the card says.
        name: of the page, under which the job is found and stopped.
    """
    run = new_run_id()
    try:
        job = make(run)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        yield refusal(error, run)
        return
    jobs.start(name, job)
    yield from follow(job, jobs, name, clock=clock)


def follow(job: Job, jobs: Jobs, name: str = "", *, clock: Callable[[], float] = time.monotonic) -> Iterator[str]:
    """Yield the frames of a job that was started: progress, at last its result. An equal frame is a heartbeat."""
    began = clock()
    shown: Mapping[str, Any] = job.progress()
    seq, sent, last = 0, -math.inf, frame(job.run, 0, **shown)
    try:
        yield last
        while job.wait(BEAT):
            content = job.progress()
            if content != shown and (not job.calm or clock() - sent >= PACE):
                seq, sent, shown = seq + 1, clock(), content
                last = frame(job.run, seq, **content)
            yield last
        result = job.result()
        if job.error is not None:
            result |= {"phase": "failed", "card": card(job.error, job.run)}
        yield frame(job.run, seq + 1, **(job.progress() | result), finished=True)
    finally:
        how = "stopped" if job.stop.is_set() else "ended" if job.done.is_set() else "left"
        LOG.info(
            "run %s %s after %.1f s", job.run, "failed" if job.error else how, clock() - began, extra={"run": job.run}
        )
        job.reported.set()
        jobs.leave(name, job)
