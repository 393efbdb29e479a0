"""Explorations on the page: long jobs that a reload finds again. Each belongs to the browser that
started it, by a secret token.
"""

from __future__ import annotations

import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from functools import partial
from typing import Any

import msgspec

from specdiff_core.checkpoints.own_pairs import parse as own_pair
from specdiff_core.explorations import EXPLORATIONS, find_exploration
from specdiff_core.explorations.base import Exploration
from specdiff_core.explorations.run import Snapshot
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import parse
from specdiff_core.schema.pairs import NONE

from .. import own_pairs
from .engines import Factory
from .gpu import MOST_SECONDS, on_gpu
from .job import Job, Jobs, Phase, Tick, follow, frame
from .job import stream as job_stream
from .kept import KEPT_RUNS
from .progress import with_progress


def forms(tab: str) -> dict[str, dict[str, Any]]:
    """The explorations of a tab: name -> title, question, form, and meaning of the columns."""
    return {
        name: {
            "title": kind.title,
            "question": kind.question,
            "columns": kind.columns,
            "takes": kind.takes,
            "scales": kind.scales,
            "pairless": kind.pairless,
            "fields": [field for field in kind.form() if not field["hidden"]],
        }
        for name, kind in EXPLORATIONS.items()
        if kind.tab == tab
    }


Explore = Callable[[Exploration, Stop], Iterator[Phase | Snapshot | Tick]]
"""Explores: yields its phases, a snapshot after each part, and ticks during a part, so that limits can be checked."""


def exploring(factory: Factory) -> Explore:
    """A function that runs explorations on the runners of ``factory``, on ZeroGPU in a worker."""

    @on_gpu(lambda *_: MOST_SECONDS)
    def explore(exploration: Exploration, stop: Stop) -> Generator[Phase | Snapshot | Tick, None, None]:
        for drafter in exploration.drafters or (NONE.name,):
            runner = yield from with_progress(partial(factory, exploration.pair, drafter), stop)
        yield Phase("exploring", "Measuring the first step")
        yield from runner.explore(exploration, stop)

    return explore


class ExploreJob(Job):
    """One exploration."""

    short = False
    grace = 20.0  # for a reload

    def __init__(self, explore: Explore, exploration: Exploration, run: str = "", visitor: str = "") -> None:
        super().__init__(run)
        self.exploration, self.visitor = exploration, visitor
        self.snapshot: Snapshot | None = None
        self.answer: dict[str, Any] | None = None  # so far, as plain values
        self.message = "Preparing the exploration"
        self.began: float | None = None  # when the first part was there, by that clock, to estimate the remaining time
        self._explore = explore

    def work(self) -> Iterator[Phase | Tick]:
        """Measure part by part."""
        for step in self._explore(self.exploration, self.stop):
            if isinstance(step, Snapshot):
                self.began, self.snapshot = self.began or self.worked, step
                self.answer = None if step.result is None else msgspec.to_builtins(step.result)
                step = Tick.BETWEEN_PARTS
            yield step

    @property
    def worked(self) -> float:
        """The clock of its own work."""
        return time.monotonic() - self.paused

    @property
    def remaining(self) -> float | None:
        """Estimated seconds left."""
        snapshot = self.snapshot
        if snapshot is None or self.began is None or snapshot.done < 2:
            return None
        return (self.worked - self.began) / (snapshot.done - 1) * (snapshot.total - snapshot.done)

    def progress(self) -> dict[str, Any]:
        """Progress, with the answer so far."""
        snapshot, name = self.snapshot, self.exploration.name
        content = {"explore": name, "phase": self.phase, "message": self.message, "left": self.remaining}
        if snapshot is None:
            return content
        return content | {
            "done": snapshot.done,
            "total": snapshot.total,
            "doing": snapshot.doing,
            "result": self.answer,
        }

    def result(self) -> dict[str, Any]:
        """The addresses of the races of the answer, and of an archive of the files that it made."""
        races, made = (self.snapshot.races, self.snapshot.made) if self.snapshot else ({}, {})
        return {
            "phase": "stopped" if self.stop.is_set() else "finished",
            "files": {name: KEPT_RUNS.keep(trace, visitor=self.visitor) for name, trace in races.items()},
            "made": KEPT_RUNS.keep(packed(made), "zip", self.visitor) if made else "",
        }


def packed(files: Mapping[str, bytes]) -> bytes:
    """Files as a ZIP archive."""
    raw = io.BytesIO()
    with zipfile.ZipFile(raw, "w") as archive:  # weights don't compress
        for name, content in files.items():
            archive.writestr(name, content)
    return raw.getvalue()


JOBS = Jobs()
"""The explorations of this server."""


def read_request(message: object) -> Mapping[str, Any]:
    """A browser's request: its secret ``token``, and an exploration (none: the current one) with
    its settings. Empty if it is invalid."""
    try:
        request: dict[str, Any] = json.loads(str(message))
        valid = re.fullmatch(r"[\w-]{8,64}", request["token"]) and isinstance(request.get("settings", {}), dict)
        return request if valid else {}
    except (ValueError, LookupError, TypeError, RecursionError):
        return {}


def chosen(request: Mapping[str, Any]) -> Exploration:
    """The exploration in a request.

    Raises:
        ConfigError: the request is invalid, a value is out of range, or the pair may not be loaded here.
    """
    if not request:
        raise ConfigError("The page's request is invalid.", hint="Reload the page.")
    exploration = parse(find_exploration(str(request["explore"])), request.get("settings", {}))
    own_pairs.check(exploration.pair)
    for target in exploration.targets:
        own_pairs.check(own_pair({"target": target}).name)
    return exploration


def stream(explore: Explore, message: object, jobs: Jobs = JOBS) -> Iterator[str]:
    """Start an exploration, or follow the current one, and yield its frames."""
    request = read_request(message)
    token = request.get("token", "")
    if not request or request.get("explore") is not None:
        yield from job_stream(lambda run: ExploreJob(explore, chosen(request), run, token), jobs, token)
    elif (job := jobs.find(token)) is not None:
        yield from follow(job, jobs, token)
    else:
        yield frame("", 0, phase="gone", finished=True)
