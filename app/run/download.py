"""The job that downloads a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from .job import Job, Phase, Tick
from .progress import Progress, with_progress
from .turns import Queue


class Download(Job):
    """Downloads a model beside all other jobs, by a function that returns its pair's name."""

    def __init__(self, load: Callable[[Progress], str], run: str = "") -> None:
        super().__init__(run)
        self._load, self.queue, self.message, self.pair = load, Queue(1), "", ""

    def work(self) -> Iterator[Phase | Tick]:
        self.pair = yield from with_progress(self._load, self.stop)

    def progress(self) -> dict[str, Any]:
        return {"message": self.message}

    def result(self) -> dict[str, Any]:
        message = "Stopped. The next download continues from here." if self.stop.is_set() else ""
        return {"message": message, "pair": self.pair}
