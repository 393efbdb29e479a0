"""Explorations on the page: a long job for each, which a reload finds again.

An exploration belongs to the browser that began it, by a token that only this browser knows.
"""

from __future__ import annotations

import io
import json
import threading
import time
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Protocol, cast, runtime_checkable

import msgspec

from app import own_pairs
from app.run.engines import Factory, Progress, following
from app.run.gpu import LONGEST, on_gpu
from app.run.job import Job, Jobs, follow, frame, refusal
from app.run.job import stream as job_stream
from app.run.race import TRACES, address
from app.run.turns import TURNS, Turns
from specdiff_core.explorations import EXPLORATIONS, find_exploration
from specdiff_core.explorations.base import Exploration, Exploring, Snapshot, parse
from specdiff_core.schema.decoder import Decoder, Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import NONE

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

GRACE = 20.0
"""Seconds that an exploration without its page goes on: a reload takes some."""
SLICE = 1.0
"""Seconds of an exploration after which races may go first; the decode under way ends first."""
KEPT = 4
"""Explorations whose files can still be fetched: the last ones that made any."""


def forms(tab: str) -> dict[str, dict[str, Any]]:
    """What a tab of the page needs: name -> title, question, fields of the form, and what the table's columns mean."""
    return {
        name: {
            "title": kind.title,
            "question": kind.question,
            "columns": kind.columns,
            "fields": [field for field in kind.form() if not field["hidden"]],
        }
        for name, kind in EXPLORATIONS.items()
        if kind.tab == tab
    }


@runtime_checkable
class Explores(Protocol):
    """A decoder that explores where it decodes (:class:`app.run.process.RemoteDecoder`)."""

    def explore(self, what: Exploration, stop: Stop) -> Iterator[Snapshot]:
        """An exploration, part by part."""


Explore = Callable[[Exploration, Stop], Iterator["str | Snapshot | None"]]
"""What is reported while an exploration's engine loads, None once it has, then what is known after each part."""


def exploring(factory: Factory) -> Explore:
    """How explorations are measured: on the engines of ``factory``, and on a lent GPU where the host lends one."""

    @on_gpu(lambda *_: LONGEST)
    def explore(what: Exploration, stop: Stop) -> Iterator[str | Snapshot | None]:
        engine = yield from _load(factory, what, stop)
        yield None
        yield from engine.explore(what, stop) if isinstance(engine, Explores) else _parts(engine, what, stop)

    return explore


def _load(factory: Factory, what: Exploration, stop: Stop) -> Generator[str, None, Decoder]:
    """An engine with every drafter that an exploration needs."""
    found: list[Decoder] = []
    for drafter in what.drafters or (NONE.name,):

        def load(progress: Progress, drafter: str = drafter) -> None:
            found.append(factory(what.pair, drafter, progress))

        yield from following(load, stop)
    return found[0]


def _parts(engine: Decoder, what: Exploration, stop: Stop) -> Iterator[Snapshot]:
    """An exploration part by part, in this process."""
    exploring, over = Exploring(what, cast("Engine", engine), stop.is_set), False
    while not over:
        try:
            snapshot = exploring.advance(SLICE)
        except Exception:
            if (snapshot := exploring.snapshot()).done:
                yield snapshot
            raise
        over = snapshot.over
        yield snapshot


class ExploreJob(Job):
    """One exploration."""

    short = False

    def __init__(
        self, explore: Explore, what: Exploration, *, run: str = "", token: str = "", turns: Turns = TURNS
    ) -> None:
        super().__init__(run)
        self.what, self.turns = what, turns
        self.snapshot: Snapshot | None = None
        self.answer: Any = None  # what is known, as plain values
        self.message = "Preparing the exploration"
        self.began = 0.0  # of the second step, for the time that is left
        self._explore, self._token = explore, token

    @property
    def grace(self) -> float:
        """Seconds that it goes on without its page."""
        return GRACE

    def work(self) -> Iterator[object]:
        """Measure part by part."""
        for part in self._explore(self.what, self.stop):
            if isinstance(part, str):
                self.message = part or self.message
            elif part is None:
                self.phase, self.message = "exploring", "Measuring the first step"
            else:
                self.began, self.snapshot = self.began or time.monotonic(), part
                self.answer = None if part.explored is None else msgspec.to_builtins(part.explored)
            yield part

    @property
    def remaining(self) -> float | None:
        """Seconds that are left, an estimate."""
        snapshot = self.snapshot
        if snapshot is None or not self.began or snapshot.done < 2:
            return None
        return (time.monotonic() - self.began) / (snapshot.done - 1) * (snapshot.total - snapshot.done)

    def progress(self) -> dict[str, Any]:
        """How far it is, with the answer so far."""
        snapshot = self.snapshot
        content = {
            "explore": self.what.name, "phase": self.phase, "message": self.message, "left": self.remaining
        }  # fmt: skip
        if snapshot is None:
            return content
        return content | {
            "done": snapshot.done,
            "total": snapshot.total,
            "doing": snapshot.doing,
            "result": self.answer,
        }

    def result(self) -> dict[str, Any]:
        """Where the races behind the answer are."""
        files = dict[str, str]()
        for name, trace in (self.snapshot.races if self.snapshot else {}).items():
            file = TRACES.new()
            file.write_bytes(trace)
            files[name] = address(file)
        if made := self.snapshot.made if self.snapshot else {}:
            MADE.keep(self._token, made)
        return {"phase": "stopped" if self.stop.is_set() else "finished", "files": files, "made": bool(made)}


class Made:
    """The files that explorations made, by the token of the browser that asked for each."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._made: dict[str, dict[str, bytes]] = {}

    def keep(self, token: str, made: dict[str, bytes]) -> None:
        """Hold the files of an exploration for its browser to fetch, in place of those of the oldest."""
        with self._lock:
            self._made.pop(token, None)
            self._made[token] = made
            while len(self._made) > KEPT:
                del self._made[next(iter(self._made))]

    def archive(self, token: str) -> bytes | None:
        """The files of an exploration as a ZIP archive, or None where none are held."""
        with self._lock:
            made = self._made.get(token)
        if made is None:
            return None
        packed = io.BytesIO()
        with zipfile.ZipFile(packed, "w") as archive:  # weights do not get smaller
            for name, content in made.items():
                archive.writestr(name, content)
        return packed.getvalue()


JOBS, MADE = Jobs(), Made()
"""Those of this server."""


def token_of(asked: object) -> str:
    """The token of what the browser sent, or nothing."""
    try:
        return str(json.loads(str(asked))["token"])
    except (ValueError, LookupError, TypeError, RecursionError):
        return ""


def asked_for(asked: object) -> tuple[str, Exploration | None]:
    """The token and the exploration (None: the one under way) of what the browser sent.

    Raises:
        ConfigError: it is no such thing, a value is out of range, or the pair may not be brought here.
    """
    try:
        values: Mapping[str, Any] = json.loads(str(asked))
        token, name, choice = str(values["token"]), values.get("explore"), values.get("choice", {})
        if not 8 <= len(token) <= 64 or not isinstance(choice, dict):
            raise ValueError("no token")
    except (ValueError, LookupError, TypeError, RecursionError) as error:
        raise ConfigError("The page asked in a way this server does not know.", hint="Reload the page.") from error
    if name is None:
        return token, None
    what = parse(find_exploration(str(name)), choice)
    own_pairs.check(what.pair)
    return token, what


def stream(
    explore: Explore, asked: object, *, jobs: Jobs = JOBS, turns: Turns = TURNS, **options: Any
) -> Iterator[str]:
    """Explore, or follow what is under way, and yield its frames."""
    try:
        token, what = asked_for(asked)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        yield refusal(error)
        return
    if what is not None:

        def make(run: str) -> ExploreJob:
            return ExploreJob(explore, what, run=run, token=token, turns=turns)

        yield from job_stream(make, jobs, token, **options)
    elif (job := jobs.find(token)) is not None:
        yield from follow(job, jobs, token, **options)
    else:
        yield frame("", 0, phase="gone", finished=True)
