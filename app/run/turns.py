"""Schedules measurements: races run at once, long explorations between them; on a public host each visitor has a share.

A share belongs to a session, not to an address, because a class may share one address. It keeps a
visitor from occupying the server all day, but a new session gets around it.
"""

from __future__ import annotations

import math
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from app.own_pairs import is_public
from specdiff_core.schema.errors import ConfigError, SpecDiffError

WINDOW = 600.0
"""Seconds over which a visitor's tokens and seconds are counted."""
TOKENS, SECONDS, EXPLORING = "SPECDIFF_VISITOR_TOKENS", "SPECDIFF_VISITOR_SECONDS", "SPECDIFF_EXPLORE_SECONDS"
PUBLIC = {TOKENS: 20_000.0, SECONDS: 300.0, EXPLORING: 600.0}
"""Environment variable -> default limit on a public host."""


class LimitReached(SpecDiffError, code="limit", title="You’ve reached this server’s limit"):
    """A visitor's share is used up; the hint says when it is available again."""


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
    whole, unit = (math.ceil(seconds), "second") if seconds < 90 else (math.ceil(seconds / 60), "minute")
    return f"{whole} {unit}{'s' if whole != 1 else ''}"


class Turns:
    """Counts running short jobs."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0

    @contextmanager
    def short(self) -> Iterator[None]:
        """Mark a short run; explorations wait until it ends."""
        with self._changed:
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait at most ``seconds`` until no short run is left; returns whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)


class Used(NamedTuple):
    """The cost of a run, and when it ended."""

    at: float
    tokens: int
    seconds: float


class Shares:
    """Each visitor's use within the last :data:`WINDOW` seconds; of "" nothing is counted."""

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
                recent = {one: [run for run in runs if run.at > ended.at - WINDOW] for one, runs in self._used.items()}
                self._used = {one: runs for one, runs in recent.items() if runs}

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
