"""Schedules measurements: each waits its turn, explorations pause for races, and visitors of a public host have shares.

A share belongs to a session, not to an address, because a class may share one address. It keeps a
visitor from occupying the server all day, but a new session gets around it.
"""

from __future__ import annotations

import heapq
import math
import os
import statistics
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from specdiff_core.schema.errors import ConfigError, SpecDiffError, Stopped

from ..host import is_public

MOST_WAITING = 64
"""Jobs that wait in a queue."""
EARLIER = 10
"""Turns from which the time of the next is estimated."""
GLANCE = 0.5
"""Seconds between the looks of a thread that waits: for its turn, or for another thread's load."""
WINDOW = 600.0
"""Seconds over which a visitor's tokens and seconds are counted."""
TOKENS, SECONDS, EXPLORING = "SPECDIFF_VISITOR_TOKENS", "SPECDIFF_VISITOR_SECONDS", "SPECDIFF_EXPLORE_SECONDS"
RUN = "SPECDIFF_RUN_TOKENS"
PUBLIC = {TOKENS: 20_000.0, SECONDS: 300.0, EXPLORING: 600.0, RUN: 480.0}
"""Environment variable -> default limit on a public host."""


class LimitReached(SpecDiffError, code="limit", title="You’ve reached this server’s limit"):
    """A visitor's share is used up; the hint says when it is available again."""


class QueueFull(SpecDiffError, code="busy", title="The queue is full"):
    """Too many wait."""


def limit(name: str) -> float:
    """The limit in an environment variable; by default that of a public host, and none on a private server.

    Raises:
        ConfigError: the variable is not a number.
    """
    value = os.environ.get(name, "").strip()
    try:
        most = float(value) if value else PUBLIC[name] if is_public() else 0.0
    except ValueError:
        most = -1.0
    if not most >= 0:
        raise ConfigError(f"This server sets {name} to {value!r}.", hint="Use a number, 0 for no limit.")
    return most or math.inf


def duration(seconds: float) -> str:
    """Seconds in words, rounded up: "40 seconds", "3 minutes"."""
    count, unit = (math.ceil(seconds), "second") if seconds < 90 else (math.ceil(seconds / 60), "minute")
    return f"{count} {unit}{'s' if count != 1 else ''}"


class QueuePosition(NamedTuple):
    """A position in a queue.

    Attributes:
        number: 1 is next.
        waiting: how many wait.
        left: about how many seconds until the job is done, from earlier ones here; None without any.
    """

    number: int
    waiting: int
    left: float | None


class Queue:
    """Jobs in the order of their arrival, of which the first ``at_once`` have their turn."""

    def __init__(self, at_once: int) -> None:
        self.at_once = at_once
        self._changed = threading.Condition()
        self._jobs: dict[object, float | None] = {}  # when its turn began; None: it waits
        self._seconds: deque[float] = deque(maxlen=EARLIER)  # that earlier turns took
        self.ended = 0  # turns so far
        self.closed = False  # no turn begins any more

    @contextmanager
    def turn(self, wait: Callable[[QueuePosition], None] = lambda position: None) -> Iterator[None]:
        """Wait for a turn, and keep it. One that ends with an exception is not used to estimate waiting times.

        Args:
            wait: called with the position in the queue, every :data:`GLANCE` seconds. What it raises ends the wait.

        Raises:
            QueueFull: too many wait already.
            Stopped: the server ends.
        """
        job = object()
        with self._changed:
            if len(self._jobs) >= self.at_once + MOST_WAITING:
                raise QueueFull(f"{MOST_WAITING} runs are waiting on this server.", hint="Try again in a minute.")
            self._jobs[job] = None
        try:
            position = self._position(job, 0)
            while position is not None:
                wait(position)
                position = self._position(job, GLANCE)
            if self.closed:
                raise Stopped
            began = self._jobs[job] = time.monotonic()
            yield
            self._seconds.append(time.monotonic() - began)
        finally:
            with self._changed:
                self.ended += self._jobs.pop(job) is not None
                self._changed.notify_all()

    def _position(self, job: object, seconds: float) -> QueuePosition | None:
        """The position of a job after this time; None as soon as its turn comes."""
        with self._changed:
            if self._changed.wait_for(lambda: [*self._jobs].index(job) < self.at_once, seconds):
                return None
            number = [*self._jobs].index(job) + 1 - self.at_once
            return QueuePosition(number, len(self._jobs) - self.at_once, self._left(number))

    def _left(self, number: int) -> float | None:
        """About how many seconds until the job at this position is done."""
        if not self._seconds:
            return None
        mean, now = statistics.fmean(self._seconds), time.monotonic()
        running = [*self._jobs.values()][: self.at_once]
        ends = [mean if began is None else max(0.0, mean - (now - began)) for began in running]
        heapq.heapify(ends)
        for _ in range(number):
            last = mean + heapq.heapreplace(ends, mean + ends[0])
        return last

    def wait_gap(self, ended: int, seconds: float) -> bool:
        """Wait at most ``seconds`` until no job is left, or until more than ``ended`` turns have
        ended; returns whether it is so."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._jobs or self.ended > ended, seconds)


class Turns:
    """The queues of a server. Races would disturb each other's clocks; explorations pause for them, part by part."""

    def __init__(self) -> None:
        self.races, self.explorations = Queue(1), Queue(2)

    def close(self) -> None:
        """Let no further job begin."""
        self.races.closed = self.explorations.closed = True


class Used(NamedTuple):
    """The cost of a run, and when it ended."""

    at: float
    tokens: int
    seconds: float


class Shares:
    """Each visitor's use within the last :data:`WINDOW` seconds; the visitor "" is not limited."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.Lock()
        self._used: dict[str, list[Used]] = {}

    @contextmanager
    def of(self, visitor: str, tokens: Callable[[], int]) -> Iterator[Callable[[], None]]:
        """Count a run at its end. Yields a function to call during the run, which raises
        LimitReached once the visitor's seconds are used up.

        Args:
            tokens: returns the new tokens of the run so far.

        Raises:
            LimitReached: the share is used up before the run.
        """
        self._check(visitor)
        began = self._clock()

        def used(tokens: int) -> Used:
            return Used(self._clock(), tokens, self._clock() - began)

        try:
            yield lambda: self._check(visitor, used(0))
        finally:
            ended = used(tokens())
            with self._lock:
                if visitor:
                    self._used.setdefault(visitor, []).append(ended)
                recent = {who: [run for run in runs if run.at > ended.at - WINDOW] for who, runs in self._used.items()}
                self._used = {who: runs for who, runs in recent.items() if runs}

    def _check(self, visitor: str, *running: Used) -> None:
        """Raise LimitReached if no seconds or no tokens are left beside the ``running`` run."""
        now = self._clock()
        with self._lock:
            runs = [run for run in (*self._used.get(visitor, ()), *running) if run.at > now - WINDOW]
        for name, what, spent in (
            (TOKENS, "new tokens", [run.tokens for run in runs]),
            (SECONDS, "seconds", [run.seconds for run in runs]),
        ):
            if not visitor or sum(spent) < (most := limit(name)):
                continue
            free = next(i for i in range(1, len(spent) + 1) if sum(spent[i:]) < most)
            wait = duration(max(1, runs[free - 1].at + WINDOW - now))
            raise LimitReached(
                f"Each visitor gets {most:,.0f} {what} per {duration(WINDOW)} on this server, and you have used yours.",
                hint=f"You can run again in about {wait}. Recordings and lessons still work, and "
                "on your own machine there is no limit.",
            )


TURNS, SHARES = Turns(), Shares()
"""Those of this server."""
