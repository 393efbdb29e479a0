"""Loads model pairs when somebody runs, once per pair, and keeps them. Imports torch only inside calls.

A factory of this shape can be replaced (tests, demos): ``factory(pair, drafter, progress) -> Decoder``.
"""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable

from app.run.gpu import is_lent
from specdiff_core.models.availability import ABSENT, Here, availability
from specdiff_core.models.own_pairs import find
from specdiff_core.schema.decoder import Brings, Decoder
from specdiff_core.schema.errors import PairUnavailable, Stopped
from specdiff_core.schema.pairs import PAIRS, find_pair
from specdiff_core.schema.settings import DecodeConfig

LOG = logging.getLogger(__name__)
Progress = Callable[[str], None]


Loader = Callable[[str, Progress], Decoder]
Factory = Callable[[str, str, Progress], Decoder]
GLANCE = 0.5
"""Seconds after which those who wait for another's load are told again how far it is, and may have gone."""


class Engines:
    """The default factory. Weights are shared between runs and never change; a lock keeps loads from racing.

    Args:
        load: loads a pair, by default in this process (:class:`app.run.process.Remote` offers another).
        alive: whether what was loaded is still there; where not, the next run loads and warms up again.
    """

    def __init__(self, load: Loader | None = None, *, alive: Callable[[], bool] = lambda: True) -> None:
        self._load, self._alive = load or load_engine, alive
        self._lock = threading.Lock()
        self._loaded: dict[str, Decoder] = {}
        self._warm: set[tuple[str, str]] = set()
        self._listeners: list[Progress] = []  # all who wait hear how far it is
        self._message = ""
        self._preparing = False

    def __call__(self, pair: str, drafter: str, progress: Progress) -> Decoder:
        """The engine of ``pair``, with ``drafter`` warmed up. Once all who wait have gone, which their ``progress``
        says by raising :class:`Stopped`, loading ends.

        Raises:
            Stopped: it has.
            SpecDiffError: the pair, a weight file or the memory is missing; the message says which.
        """
        find_pair(pair).drafter(drafter)
        self._listeners.append(progress)
        try:
            if message := self._message:
                progress(message)
            while not self._lock.acquire(timeout=GLANCE):
                progress(self._message or "Waiting for what is being loaded")
            try:
                return self._ready(pair, drafter)
            finally:
                self._lock.release()
        finally:
            if progress in self._listeners:
                self._listeners.remove(progress)

    def loading(self) -> str:
        """What a run would have to wait for, in words; empty once a pair is here."""
        return "" if self._loaded and self._alive() else self._message or "No model is loaded yet"

    def prepare(self, pair: str = "embedded", drafter: str = "block") -> None:
        """Load and warm up in the background, once, so that the first run need not wait; returns at once.

        Where the GPU is lent, runs are forked from this process: they inherit what is loaded here, so loading comes
        first, and passes, which need the GPU, are left to the runs. Only once ``spaces`` is imported does torch take
        "cuda" for a place for weights.
        """
        if self._preparing:
            return
        self._preparing = True
        if is_lent():
            importlib.import_module("spaces")
            with self._lock:
                self._loaded[pair] = self._load(pair, LOG.info)
        else:
            threading.Thread(target=self._prepare, args=(pair, drafter), name="prepare", daemon=True).start()

    def _prepare(self, pair: str, drafter: str) -> None:
        try:
            self(pair, drafter, LOG.info)
        except Exception:  # whoever runs meets it again, and gets the card
            LOG.exception("preparing %s failed", pair)

    def _ready(self, pair: str, drafter: str) -> Decoder:
        try:
            if not self._alive():
                self._loaded.clear()
                self._warm.clear()
            if pair not in self._loaded:
                self._loaded[pair] = self._load(pair, self._tell)
            engine = self._loaded[pair]
            if not find_pair(pair).offline and isinstance(engine, Brings):
                engine.bring(drafter, self._tell)
            if (pair, drafter) not in self._warm:
                self._tell("Warming up: first passes are slower, so they are not measured")
                config = DecodeConfig(pair=pair, drafter=drafter, gamma=4, max_new_tokens=6)
                for _ in engine.decode("Once upon a time", config, detail=False):
                    pass
                self._warm.add((pair, drafter))
            return engine
        finally:
            self._message = ""

    def _tell(self, message: str) -> None:
        self._message = message
        for listener in tuple(self._listeners):
            try:
                listener(message)
            except Stopped:
                self._listeners.remove(listener)
                if not self._listeners:
                    raise


def load_engine(pair: str, progress: Progress) -> Decoder:
    """Load ``pair`` into this process, but for drafters of the hub; ``progress`` hears what is under way.

    Raises:
        SpecDiffError: a file, the memory or the pair itself is missing.
    """
    usable, reason = availability(find(pair))
    if not usable:  # told at once: the hub's own client tries for half a minute, while everybody waits
        away = reason.startswith(ABSENT)
        fetch = (
            f"`python -m specdiff_core pairs --fetch {pair}` fetches them where there is a network. " if away else ""
        )
        raise PairUnavailable(reason, hint=f"{fetch}Or choose another pair; the embedded one needs no network.")
    progress("Starting the numerical library")
    from specdiff_core.engine import Engine

    return Engine.load(pair, progress=progress, record=not is_lent())  # a lent GPU is lent for one run


def unavailable() -> dict[str, str]:
    """Pair name -> why it cannot be used here. May take seconds where the hub does not answer."""
    here = Here()
    answers = {name: availability(spec, here) for name, spec in PAIRS.items()}
    return {name: reason for name, (usable, reason) in answers.items() if not usable}
