"""Who may measure: races and comparisons at once, long explorations between them."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Counts the short runs under way."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._running = 0

    @contextmanager
    def short(self) -> Iterator[None]:
        """A short run: an exploration waits until its end."""
        with self._changed:
            self._running += 1
        try:
            yield
        finally:
            with self._changed:
                self._running -= 1
                self._changed.notify_all()

    def wait(self, seconds: float) -> bool:
        """Wait until no short run is under way, but no longer than ``seconds``; whether none is."""
        with self._changed:
            return self._changed.wait_for(lambda: not self._running, seconds)


TURNS = Turns()
"""Those of this server."""
