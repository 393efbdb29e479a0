"""A job: a visitor's measurement in its own thread, with a stream of frames to the page.

The page gets a frame after each part of the work. A job that waits for its turn (run/turns.py) is
one like any other: its page shows its position in the queue, and Stop ends it. Races stop when
their page is closed; long jobs pause for races, and continue for a moment without a page, so that a
reload finds them again.
"""

from __future__ import annotations

import contextvars
import json
import logging
import math
import threading
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from enum import Enum
from typing import Any, ClassVar, Literal, NamedTuple

from specdiff_core.schema.errors import SpecDiffError, Stopped

from ..content.error_cards import card
from ..logs import new_run_id
from .gpu import stop_event
from .turns import EXPLORING, GLANCE, TURNS, LimitReached, QueuePosition, Turns, duration, limit

LOG = logging.getLogger("specdiff.runs")

BEAT = 1.5
"""Seconds between heartbeats: a generator that never yields isn't closed with its tab. Each takes
some milliseconds of a core from the decode, so it is longer than the time between two updates of a race."""
QUEUED_BEAT = 5.0
"""The same while a job waits for its turn, because thirty may wait beside one decode."""


class Phase(NamedTuple):
    """What a job does now, in a word for the page's script and in one line for the visitor."""

    name: Literal["queued", "loading", "waiting", "racing", "exploring"]
    message: str


class Tick(Enum):
    """A moment of a job's work in the same phase. (In another process, members of an Enum are still the same.)"""

    DURING_PART = "a long job checks its limits"
    BETWEEN_PARTS = "and lets races run first"


def frame(run: str, seq: int, **content: Any) -> str:
    """A message for the page. Gradio ignores equal values, so ``seq`` makes them differ."""
    return json.dumps({"run": run, "seq": seq, **content}, ensure_ascii=False, separators=(",", ":"))


def refusal(error: BaseException, run: str = "", **extra: str) -> str:
    """A single frame with an error card; the page keeps everything else."""
    run = run or new_run_id()
    return frame(run, 0, phase="failed", finished=True, card=card(error, run), **extra)


class Job(ABC):
    """Work in its own thread. Other threads may read its attributes.

    Attributes:
        run: id for its log messages.
        phase: ``queued``, ``loading``, then as ``work`` says; a long job may be ``waiting`` for races.
        position: in the ``queue``; None if it does not wait there.
        message: what it does.
        error: the exception that ended it, or None.
    """

    short: ClassVar[bool] = True
    """Whether it runs without a pause. A long job pauses for races, and a public host limits its seconds."""
    turns: ClassVar[Turns] = TURNS
    grace: ClassVar[float] = 0.0
    """Seconds that it continues without its page."""

    def __init__(self, run: str = "") -> None:
        self.run = run or new_run_id()
        self.stop, self.done, self.reported = stop_event(), threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.phase, self.message = Phase("queued", "Preparing the run")
        self.queue = self.turns.races if self.short else self.turns.explorations
        self.position: QueuePosition | None = None
        self.pages = 0  # that follow it
        self._changed = threading.Event()
        self.left_at: float | None = None  # when its page went away
        self._until = math.inf  # a long job's time limit
        self.paused = 0.0  # seconds that it gave way to races
        self._races_ended = 0  # when it last went on

    @abstractmethod
    def work(self) -> Iterator[Phase | Tick]:
        """Do the work. After each item the page may get a frame."""

    @abstractmethod
    def progress(self) -> dict[str, Any]:
        """The content of a frame."""

    @abstractmethod
    def result(self) -> dict[str, Any]:
        """Additional content of the last frame; a ``card`` if the job failed."""

    def start(self) -> None:
        """Begin; ``done`` is set at the end, whatever happens."""
        context = contextvars.copy_context()  # ZeroGPU uses the visitor's quota
        threading.Thread(target=context.run, args=(self._run,), name=type(self).__name__, daemon=True).start()

    @property
    def beat(self) -> float:
        """Seconds until the next heartbeat."""
        return QUEUED_BEAT if self.position else BEAT

    def frame(self) -> dict[str, Any]:
        """The content of a frame: the position in the queue, or the progress."""
        position = self.position
        if self.phase == "queued":
            return {"phase": "queued", "place": position and position._asdict()}
        return self.progress()

    def wait(self) -> bool:
        """Wait for an update, or until a heartbeat is due; returns whether the job continues."""
        self._changed.wait(self.beat)
        self._changed.clear()
        return not self.done.is_set()

    def _run(self) -> None:
        try:
            with self.queue.turn(self._queued):
                self._check()
                self.phase, self.position = "loading", None
                self._changed.set()
                if not self.short:
                    self._races_ended = self.turns.races.ended
                    self._give_way()
                for step in self.work():
                    if isinstance(step, Phase):
                        self.phase, self.message = step
                    self._changed.set()
                    if not self.short and self.phase != "loading":
                        if isinstance(step, Phase):  # loading isn't counted
                            self._until = time.monotonic() + limit(EXPLORING)
                        if step is Tick.DURING_PART:  # a race waits for the end of the part
                            self._stop_at_limit()
                        else:
                            self._give_way()
                if self.stop.is_set():
                    raise Stopped
        except Stopped:
            pass
        except Exception as error:  # a card in the thread that shows it
            self.error = self.error or error  # its limit is why it was stopped
        finally:
            self.done.set()
            self._changed.set()

    def _queued(self, position: QueuePosition) -> None:
        """Note the position in the queue; raise Stopped to leave it."""
        self._check()
        before, self.position = self.position, position
        if before is None or before[:2] != position[:2]:
            self._changed.set()

    def _check(self) -> None:
        """Raise Stopped if the job was stopped, or its page is gone."""
        self._stop_if_left()
        if self.stop.is_set():
            raise Stopped

    @property
    def abandoned(self) -> bool:
        """Whether its page is gone, for longer than a reload takes."""
        return self.left_at is not None and time.monotonic() - self.left_at > self.grace

    def _stop_if_left(self) -> None:
        if self.abandoned:
            self.stop.set()

    def _stop_at_limit(self) -> None:
        """Stop if the page is gone or the time limit is reached."""
        self._stop_if_left()
        if time.monotonic() > self._until and not self.stop.is_set():
            self.stop.set()
            self.error = LimitReached(
                f"An exploration on this server may take {duration(limit(EXPLORING))}, and this one took longer.",
                hint="Choose smaller settings, or run the lab yourself, without a limit.",
            )

    def _give_way(self) -> None:
        """Let races run first, but go on after each. Stop if the page is gone or the time limit is reached."""
        phase = self.phase
        while True:
            self._stop_at_limit()
            began = time.monotonic()
            goes_on = self.stop.is_set() or self.turns.races.wait_gap(self._races_ended, GLANCE)
            waited = time.monotonic() - began  # other people's races are not its own time
            self._until, self.paused = self._until + waited, self.paused + waited
            if goes_on:
                break
            self.phase = "waiting"
            self._changed.set()
        self.phase, self._races_ended = phase, self.turns.races.ended


class Jobs:
    """The running jobs, by the name of the page that started each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._jobs: dict[str, Job] = {}

    def start(self, name: str, job: Job) -> None:
        """Start a job. Stops an older one of the same name, and abandoned ones. Without a name it is
        not stored."""
        with self._lock:
            for key, older in list(self._jobs.items()):
                if key == name or older.abandoned:
                    older.stop.set()
                    if older.done.is_set():
                        del self._jobs[key]
            if name:
                self._jobs[name] = job
        job.start()

    def find(self, name: str) -> Job | None:
        """The job of a name, if it still exists."""
        with self._lock:
            return self._jobs.get(name)

    def join(self, job: Job) -> None:
        """Called when a page begins to follow a job."""
        with self._lock:
            job.pages += 1
            job.left_at = None

    def leave(self, name: str, job: Job) -> None:
        """Called when a page of a job was closed or got its last frame. After a reload, the old page
        leaves some seconds after the new one joined."""
        with self._lock:
            job.pages -= 1
            if job.pages:
                return
            job.left_at = time.monotonic()
            if not job.grace:
                job.stop.set()
            if self._jobs.get(name) is job and (job.done.is_set() or not job.grace):
                del self._jobs[name]

    def stop(self, name: str, patience: float) -> None:
        """Stop a job, and wait until its last frame was sent."""
        with self._lock:
            job = self._jobs.get(name)
        if job is not None:
            job.stop.set()
            job.reported.wait(patience)


def stream(make: Callable[[str], Job], jobs: Jobs, name: str = "") -> Iterator[str]:
    """Start a job and yield its frames, or one with an error card.

    Args:
        make: creates the job from a run id, or raises.
        name: of the page; identifies the job.
    """
    run = new_run_id()
    try:
        job = make(run)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        yield refusal(error, run)
        return
    jobs.start(name, job)
    yield from follow(job, jobs, name)


def follow(job: Job, jobs: Jobs, name: str = "") -> Iterator[str]:
    """Yield the frames of a started job: progress, then the result. Repeats are heartbeats."""
    began = time.monotonic()
    jobs.join(job)
    sent: Mapping[str, Any] = job.frame()
    seq, last = 0, frame(job.run, 0, **sent)
    try:
        yield last
        while job.wait():
            content = job.frame()
            if content != sent:
                seq, sent = seq + 1, content
                last = frame(job.run, seq, **content)
            yield last
        try:
            result = job.result()
        except SpecDiffError as error:  # there is no room for its files
            job.error, result = error, {}
        if job.error is not None:
            result |= {"phase": "failed", "card": card(job.error, job.run)}
        yield frame(job.run, seq + 1, **(job.progress() | result), finished=True)
    finally:
        how = "stopped" if job.stop.is_set() else "ended" if job.done.is_set() else "left"
        how, seconds = "failed" if job.error else how, time.monotonic() - began
        LOG.info("run %s %s after %.1f s", job.run, how, seconds, extra={"run": job.run})
        job.reported.set()
        jobs.leave(name, job)
