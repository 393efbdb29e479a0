"""Loads each model pair once, at its first run, and keeps it."""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, wait
from contextlib import contextmanager
from functools import lru_cache
from typing import TYPE_CHECKING, Any, TypeVar

from specdiff_core.checkpoints import fetch, hub
from specdiff_core.checkpoints.availability import Environment, availability, loaded_at_once
from specdiff_core.checkpoints.sources import is_cached, is_local
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import PairUnavailable, SpecDiffError, Stopped
from specdiff_core.schema.pairs import NONE, PAIRS, PairSpec, find_pair, known_pair
from specdiff_core.schema.published import FILES, File
from specdiff_core.schema.settings import DecodeConfig

from .. import host, own_pairs
from ..content.examples import OPENING
from .gpu import is_zero_gpu
from .job import Job, Phase, Tick
from .turns import GLANCE, Queue

if TYPE_CHECKING:
    from .runner import Runner

LOG = logging.getLogger(__name__)
T = TypeVar("T")
Progress = Callable[[str], None]
"""Gets what is being loaded, and now and then :data:`UNCHANGED`; raises Stopped once the caller has gone."""
UNCHANGED = ""
"""A message that leaves the last one, and only asks whether the caller has gone."""
Factory = Callable[[str, str, Progress], "Runner"]
"""Loads a pair and one of its drafters if they aren't loaded, as :class:`Engines` does."""
AGE = 20.0
"""Seconds for which the list of available pairs is cached."""


class _OneAtATime:
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


class Engines:
    """A :data:`Factory` that keeps what it has loaded. Runs share weights, which never change; loads are serialised.

    Args:
        load: loads a pair, in this process or in another (:class:`app.run.process.Remote`).
        alive: whether the loaded pairs still exist; if not, the next run loads and warms up again.
    """

    def __init__(self, load: Callable[[str, Progress], Runner], *, alive: Callable[[], bool] = lambda: True) -> None:
        self._load, self._alive = load, alive
        self._loads, self._fetches = _OneAtATime(), _OneAtATime()
        self._loaded: dict[str, Runner] = {}
        self._warm: set[tuple[str, str]] = set()
        self._preparing: threading.Thread | None = None

    def __call__(self, pair: str, drafter: str, progress: Progress) -> Runner:
        """The runner of ``pair``, with ``drafter`` warmed up.

        Raises:
            Stopped: ``progress`` raised it.
            SpecDiffError: the pair, a weight file or the memory is missing; the message says which.
        """
        spec = find_pair(pair)
        _check_download(spec, drafter)
        self.fetch(pair, progress)
        with self._loads.turn(progress) as report:
            if not self._alive():
                self._loaded.clear()
                self._warm.clear()
            if pair not in self._loaded:
                self._loaded[pair] = self._load(pair, report)
            runner = self._loaded[pair]
            if (pair, drafter) not in self._warm:
                runner.prepare(DecodeConfig(pair=pair, drafter=drafter), report, host.threads())
                self._warm.add((pair, drafter))
            return runner

    def fetch(self, pair: str, progress: Progress) -> None:
        """Download the single file of a pair if it is missing, in this process, while other runs decode.

        Raises:
            Stopped: ``progress`` raised it.
            PairUnavailable: it cannot be downloaded; the message says why.
        """
        if (file := missing_file(pair)) is None:
            return
        with self._fetches.turn(progress) as report, hub.reporting(report):
            fetch.fetch(file)

    def get(self, pair: str, progress: Progress) -> None:
        """Fetch a pair, load it and warm it up (on ZeroGPU, runs do)."""
        self.fetch(pair, progress)
        if not is_zero_gpu():
            drafters = loaded_at_once(find_pair(pair))
            for drafter in sorted(drafters, key=lambda name: name != OPENING.drafter):  # what the page opens with first
                self(pair, drafter, progress)

    def loading(self) -> str:
        """What a run would wait for; empty once a pair is loaded. If the process that had it or loaded it died, another
        does: a host that sends no visitors before would wait for ever."""
        if (self._loaded or self._preparing) and not self._alive():
            self.prepare()
        return "" if self._loaded and self._alive() else self._loads.message or "No model is loaded yet"

    def doing(self) -> Iterator[str]:
        """Messages of background fetching and loading, until it ends."""
        while self._preparing is not None and self._preparing.is_alive():
            yield self._loads.message or self._fetches.message or "Loading the model"
            self._preparing.join(GLANCE)

    def prepare(self, pair: str = OPENING.pair) -> None:
        """Load and warm up in the background, once, so that the first run does not wait; returns at
        once. If the file of ``pair`` is missing, this is the embedded pair; a public host then also
        fetches the file.

        On ZeroGPU, runs are forked from this process and inherit its loaded weights, so loading
        happens here, and passes, which need the GPU, in the runs. torch accepts "cuda" there only
        after ``spaces`` was imported.
        """
        if self._preparing is not None and (self._preparing.is_alive() or self._alive()):
            return
        first = "embedded" if missing_file(pair) else pair
        pairs = [first, *([pair] if first != pair and host.is_public() else [])]
        if is_zero_gpu():
            importlib.import_module("spaces")
            for name in dict.fromkeys((pairs.pop(0), "embedded")):
                self._loaded[name] = self._load(name, _log)
        self._preparing = threading.Thread(target=self._prepare, args=(pairs,), name="prepare", daemon=True)
        self._preparing.start()

    def _prepare(self, pairs: list[str]) -> None:
        for pair in pairs:
            try:
                self.get(pair, _log)
            except Exception as error:  # a run gets it again, and shows the card
                LOG.error("preparing %s failed: %s", pair, error, exc_info=not isinstance(error, SpecDiffError))


@lru_cache(maxsize=1)  # a message that repeats is logged once
def _log(message: str) -> None:
    if message != UNCHANGED:
        LOG.info(message)


def missing_file(pair: str) -> File | None:
    """The single file of a pair's target, if it has one that isn't cached."""
    spec = known_pair(pair)
    file = FILES.get(spec.target) if spec else None
    return file if file is not None and fetch.cached(file) is None else None


def _check_download(spec: PairSpec, drafter: str) -> None:
    """Raise PairUnavailable if a public host had to download a model that isn't allowed."""
    chosen = spec.drafter(drafter)
    for source, revision in ((spec.target, spec.revision), (chosen.source, chosen.revision)):
        if source and not own_pairs.may_fetch(source) and not is_local(source) and not is_cached(source, revision):
            raise PairUnavailable(
                f"{source} isn't on this server, and visitors can't download models to it.",
                hint="Choose another model, or run the lab yourself.",
            )


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


class Fetch(Job):
    """Fetches a model beside all other jobs, by a function that returns its pair's name."""

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


def unavailable() -> dict[str, str]:
    """Pair name -> why it is not available here; cached, as it takes seconds without the hub."""
    with _looking:  # a whole class may open the page at the same time
        return dict(_unavailable(int(time.monotonic() / AGE)))


_looking = threading.Lock()


@lru_cache(maxsize=1)
def _unavailable(_: int) -> dict[str, str]:
    machine, reasons = Environment(), dict[str, str]()
    for name, spec in PAIRS.items():
        try:
            _check_download(spec, NONE.name)
            usable, reasons[name] = availability(spec, machine)
        except SpecDiffError as error:
            usable, reasons[name] = False, error.message
        if usable:
            del reasons[name]
    return reasons
