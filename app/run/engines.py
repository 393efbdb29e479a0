"""Loads model pairs when somebody runs, once per pair, and keeps them. Imports torch only inside calls.

A factory of this shape can be replaced (tests, demos): ``factory(pair, drafter, progress) -> Decoder``.
"""

from __future__ import annotations

import importlib
import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache

from app import own_pairs
from app.content.examples import OPENING
from app.run.gpu import is_lent
from specdiff_core.models import fetch, hub
from specdiff_core.models.availability import ABSENT, Here, availability
from specdiff_core.models.folders import is_cached, is_local
from specdiff_core.models.own_pairs import find
from specdiff_core.schema.decoder import Brings, Decoder, Stop
from specdiff_core.schema.errors import PairUnavailable, SpecDiffError, Stopped
from specdiff_core.schema.pairs import NONE, PAIRS, PairSpec, find_pair, known_pair
from specdiff_core.schema.published import FILES, File
from specdiff_core.schema.settings import DecodeConfig

LOG = logging.getLogger(__name__)
Progress = Callable[[str], None]


Loader = Callable[[str, Progress], Decoder]
Factory = Callable[[str, str, Progress], Decoder]
GLANCE = 0.5
"""Seconds between progress reports to threads that wait for another's load."""
AGE = 20.0
"""Seconds for which it is known which pairs can be used here."""


class _Shared:
    """Work that one thread does while all others that need it wait. Each gets its progress. It ends once all have left,
    which their ``progress`` reports by raising :class:`Stopped`."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: list[Progress] = []
        self.message = ""

    @contextmanager
    def turn(self, progress: Progress) -> Iterator[None]:
        """Wait until no other thread does it.

        Raises:
            Stopped: this thread's ``progress`` raised it.
        """
        self._listeners.append(progress)
        try:
            if message := self.message:
                progress(message)
            while not self._lock.acquire(timeout=GLANCE):
                progress(self.message or "Waiting for what is being loaded")
            try:
                yield
            finally:
                self.message = ""
                self._lock.release()
        finally:
            if progress in self._listeners:
                self._listeners.remove(progress)

    def report(self, message: str) -> None:
        """Report progress to all threads that wait.

        Raises:
            Stopped: none is left.
        """
        self.message = message
        for listener in tuple(self._listeners):
            try:
                listener(message)
            except Stopped:
                self._listeners.remove(listener)
                if not self._listeners:
                    raise


class Engines:
    """The default factory. Weights are shared between runs and never change; a lock keeps loads from racing.

    Args:
        load: loads a pair, by default in this process (:class:`app.run.process.Remote` offers another).
        alive: whether what was loaded is still there; where not, the next run loads and warms up again.
    """

    def __init__(self, load: Loader | None = None, *, alive: Callable[[], bool] = lambda: True) -> None:
        self._load, self._alive = load or load_engine, alive
        self._loads, self._fetches = _Shared(), _Shared()
        self._loaded: dict[str, Decoder] = {}
        self._warm: set[tuple[str, str]] = set()
        self._preparing: threading.Thread | None = None

    def __call__(self, pair: str, drafter: str, progress: Progress) -> Decoder:
        """The engine of ``pair``, with ``drafter`` warmed up. Loading ends once all that wait have left, which
        their ``progress`` reports by raising :class:`Stopped`.

        Raises:
            Stopped: it has.
            SpecDiffError: the pair, a weight file or the memory is missing; the message says which.
        """
        spec = find_pair(pair)
        _check_download(spec, drafter)
        self.fetch(pair, progress)
        with self._loads.turn(progress):
            return self._ready(pair, drafter)

    def fetch(self, pair: str, progress: Progress) -> None:
        """Download the one file that a pair is read from, if it is not here. That is done in this process: meanwhile
        others decode.

        Raises:
            Stopped: nothing waits for it any more.
            PairUnavailable: it cannot be downloaded; the message says why.
        """
        if (file := file_of(pair)) is None or is_fetched(pair):
            return
        with self._fetches.turn(progress), hub.reporting(self._fetches.report):
            fetch.fetch(file)

    def get(self, pair: str, progress: Progress) -> None:
        """Fetch a pair and load it; where the GPU is lent, runs load it."""
        self.fetch(pair, progress)
        if not is_lent():
            self(pair, _first(pair), progress)

    def loading(self) -> str:
        """What a run would have to wait for, in words; empty once a pair is here."""
        return "" if self._loaded and self._alive() else self._loads.message or "No model is loaded yet"

    def doing(self) -> Iterator[str]:
        """What is being fetched or loaded in the background, until that ends."""
        while self._preparing is not None and self._preparing.is_alive():
            yield self._loads.message or self._fetches.message or "Loading the model"
            self._preparing.join(GLANCE)

    def prepare(self, pair: str = OPENING.pair) -> None:
        """Load and warm up in the background, once, so that the first run need not wait; returns at once. Without the
        file of ``pair`` that is the embedded one; a public host, whose visitors all need it, then fetches the file.

        Where the GPU is lent, runs are forked from this process: they inherit what is loaded here, so loading comes
        first, and passes, which need the GPU, are left to the runs. Only once ``spaces`` is imported does torch take
        "cuda" for a place for weights.
        """
        if self._preparing is not None:
            return
        first = pair if is_fetched(pair) else "embedded"
        pairs = [first, *([pair] if first != pair and own_pairs.is_public() else [])]
        if is_lent():
            importlib.import_module("spaces")
            for name in dict.fromkeys((pairs.pop(0), "embedded")):
                self._loaded[name] = self._load(name, LOG.info)
        self._preparing = threading.Thread(target=self._prepare, args=(pairs,), name="prepare", daemon=True)
        self._preparing.start()

    def _prepare(self, pairs: list[str]) -> None:
        for pair in pairs:
            try:
                self.get(pair, LOG.info)
            except Exception:  # whoever runs meets it again, and gets the card
                LOG.exception("preparing %s failed", pair)

    def _ready(self, pair: str, drafter: str) -> Decoder:
        report = self._loads.report
        if not self._alive():
            self._loaded.clear()
            self._warm.clear()
        if pair not in self._loaded:
            self._loaded[pair] = self._load(pair, report)
        engine = self._loaded[pair]
        if not find_pair(pair).offline and isinstance(engine, Brings):
            engine.bring(drafter, report)
        if (pair, drafter) not in self._warm:
            report("Warming up: first passes are slower, so they are not measured")
            config = DecodeConfig(pair=pair, drafter=drafter, gamma=4, max_new_tokens=6)
            for _ in engine.decode("Once upon a time", config, detail=False):
                pass
            self._warm.add((pair, drafter))
        return engine


def _first(pair: str) -> str:
    return find_pair(pair).drafters[0].name


def file_of(pair: str) -> File | None:
    """The one file that a pair's target is read from and that can be fetched; None for all other pairs."""
    spec = known_pair(pair)
    return FILES.get(spec.target) if spec else None


def is_fetched(pair: str) -> bool:
    """Whether the file of such a pair is here."""
    return (file := file_of(pair)) is not None and fetch.cached(file) is not None


def _check_download(spec: PairSpec, drafter: str) -> None:
    """Raise a PairUnavailable where a public host would have to download what its owner has not allowed."""
    chosen = spec.drafter(drafter)
    for source, revision in ((spec.target, spec.revision), (chosen.source, chosen.revision)):
        if source and not own_pairs.may_fetch(source) and not is_local(source) and not is_cached(source, revision):
            raise PairUnavailable(
                f"{source} isn't on this server, which downloads no models for its visitors.",
                hint="Choose another model, or run the lab yourself.",
            )


def following(work: Callable[[Progress], object], stop: Stop | None = None) -> Iterator[str]:
    """What ``work`` reports while it goes on in a thread of its own, again and again. Closing this ends the work at its
    next report.

    Raises:
        BaseException: whatever ended the work.
        Stopped: ``stop`` was set meanwhile.
    """
    message, failed, over, gone = [""], list[BaseException](), threading.Event(), threading.Event()

    def report(words: str) -> None:
        message[0] = words
        if gone.is_set() or (stop is not None and stop.is_set()):
            raise Stopped

    def run() -> None:
        try:
            work(report)
        except BaseException as error:  # raised again in the thread that follows
            failed.append(error)
        finally:
            over.set()

    threading.Thread(target=run, name="load", daemon=True).start()
    try:
        while not over.wait(GLANCE):
            if stop is not None and stop.is_set():
                raise Stopped
            yield message[0]
    finally:
        gone.set()
    if failed:
        raise failed[0]
    if stop is not None and stop.is_set():
        raise Stopped


def load_engine(pair: str, progress: Progress) -> Decoder:
    """Load ``pair`` into this process, but for drafters of the hub; ``progress`` gets what is under way.

    Raises:
        SpecDiffError: a file, the memory or the pair itself is missing.
    """
    usable, reason = availability(find(pair))
    if not usable:  # fail early: the hub's client tries for half a minute, while everybody waits
        away = reason.startswith(ABSENT)
        fetch = (
            f"`python -m specdiff_core pairs --fetch {pair}` fetches them where there is a network. " if away else ""
        )
        raise PairUnavailable(reason, hint=f"{fetch}Or choose another pair; the embedded one needs no network.")
    progress("Starting the numerical library")
    from specdiff_core.engine import Engine

    return Engine.load(pair, progress=progress, record=not is_lent())  # a lent GPU is lent for one run


def unavailable() -> dict[str, str]:
    """Pair name -> why it cannot be used here. May take seconds where the hub does not answer; then it is known for a
    while."""
    return dict(_unavailable(int(time.monotonic() / AGE)))


@lru_cache(maxsize=1)
def _unavailable(_: int) -> dict[str, str]:
    here, reasons = Here(), dict[str, str]()
    for name, spec in PAIRS.items():
        try:
            _check_download(spec, NONE.name)
            usable, reasons[name] = availability(spec, here)
        except SpecDiffError as error:
            usable, reasons[name] = False, error.message
        if usable:
            del reasons[name]
    return reasons
