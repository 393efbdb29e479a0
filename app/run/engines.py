"""Loads each model pair once, at its first run, and keeps it."""

from __future__ import annotations

import importlib
import logging
import threading
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import TYPE_CHECKING

from specdiff_core.checkpoints import fetch, hub
from specdiff_core.checkpoints.availability import loaded_at_once
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig

from .. import host
from ..content.examples import OPENING
from .availability import check_download, missing_file
from .gpu import is_zero_gpu
from .progress import UNCHANGED, OneAtATime, Progress
from .turns import GLANCE

if TYPE_CHECKING:
    from .runner import Runner

LOG = logging.getLogger(__name__)
Factory = Callable[[str, str, Progress], "Runner"]
"""Loads a pair and one of its drafters if they aren't loaded, as :meth:`Engines.runner` does."""


@lru_cache(maxsize=1)  # a message that repeats is logged once
def _log(message: str) -> None:
    if message != UNCHANGED:
        LOG.info(message)


class Engines:
    """The loaded pairs. Runs share weights, which never change; loads and downloads are serialised.

    Args:
        load: loads a pair, in this process or in another (:class:`app.run.process.Remote`).
        alive: whether the loaded pairs still exist; if not, the next run loads and warms up again.
    """

    def __init__(self, load: Callable[[str, Progress], Runner], *, alive: Callable[[], bool] = lambda: True) -> None:
        self._load, self._alive = load, alive
        self._loads, self._downloads = OneAtATime(), OneAtATime()
        self._loaded: dict[str, Runner] = {}
        self._warm: set[tuple[str, str]] = set()
        self._background: threading.Thread | None = None

    def runner(self, pair: str, drafter: str, progress: Progress) -> Runner:
        """The runner of ``pair``, with ``drafter`` warmed up.

        Raises:
            Stopped: ``progress`` raised it.
            SpecDiffError: the pair, a weight file or the memory is missing; the message says which.
        """
        spec = find_pair(pair)
        check_download(spec, drafter)
        self.download(pair, progress)
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

    def download(self, pair: str, progress: Progress) -> None:
        """Download the single file of a pair if it is missing, in this process, while other runs decode.

        Raises:
            Stopped: ``progress`` raised it.
            PairUnavailable: it cannot be downloaded; the message says why.
        """
        if (file := missing_file(pair)) is None:
            return
        with self._downloads.turn(progress) as report, hub.reporting(report):
            fetch.fetch(file)

    def warm_up(self, pair: str, progress: Progress) -> None:
        """Download a pair, load it and warm up its drafters (on ZeroGPU, runs do)."""
        self.download(pair, progress)
        if not is_zero_gpu():
            drafters = loaded_at_once(find_pair(pair))
            for drafter in sorted(drafters, key=lambda name: name != OPENING.drafter):  # what the page opens with first
                self.runner(pair, drafter, progress)

    def _warm_up_all(self, pairs: list[str]) -> None:
        for pair in pairs:
            try:
                self.warm_up(pair, _log)
            except Exception as error:  # a run tries again, and shows the card
                LOG.error("preparing %s failed: %s", pair, error, exc_info=not isinstance(error, SpecDiffError))

    def start_in_background(self, pair: str = OPENING.pair) -> None:
        """Load and warm up in the background, once, so that the first run does not wait; returns at
        once. If the file of ``pair`` is missing, this is the embedded pair; a public host then also
        downloads the file.

        On ZeroGPU, runs are forked from this process and inherit its loaded weights, so loading
        happens here, and passes, which need the GPU, in the runs. torch accepts "cuda" there only
        after ``spaces`` was imported.
        """
        if self._background is not None and (self._background.is_alive() or self._alive()):
            return
        first = "embedded" if missing_file(pair) else pair
        pairs = [first, *([pair] if first != pair and host.is_public() else [])]
        if is_zero_gpu():
            importlib.import_module("spaces")
            for name in dict.fromkeys((pairs.pop(0), "embedded")):
                self._loaded[name] = self._load(name, _log)
        self._background = threading.Thread(target=self._warm_up_all, args=(pairs,), name="prepare", daemon=True)
        self._background.start()

    def loading(self) -> str:
        """What a run would wait for; empty once a pair is loaded. If the process that had it or loaded it died, another
        does: a host that sends no visitors before would wait for ever."""
        if (self._loaded or self._background) and not self._alive():
            self.start_in_background()
        return "" if self._loaded and self._alive() else self._loads.message or "No model is loaded yet"

    def doing(self) -> Iterator[str]:
        """Messages of background downloads and loads, until it ends."""
        while self._background is not None and self._background.is_alive():
            yield self._loads.message or self._downloads.message or "Loading the model"
            self._background.join(GLANCE)
