"""Which pairs can run here, and which of their files are missing."""

from __future__ import annotations

import threading
import time
from functools import lru_cache

from specdiff_core.checkpoints import fetch
from specdiff_core.checkpoints.availability import Environment, availability
from specdiff_core.checkpoints.sources import is_cached, is_local
from specdiff_core.schema.errors import PairUnavailable, SpecDiffError
from specdiff_core.schema.pairs import NONE, PAIRS, PairSpec, known_pair
from specdiff_core.schema.published import FILES, File

from .. import own_pairs

AGE = 20.0
"""Seconds for which the list of available pairs is cached."""
_looking = threading.Lock()


def missing_file(pair: str) -> File | None:
    """The single file of a pair's target, if it has one that isn't cached."""
    spec = known_pair(pair)
    file = FILES.get(spec.target) if spec else None
    return file if file is not None and fetch.cached(file) is None else None


def check_download(spec: PairSpec, drafter: str) -> None:
    """Raise PairUnavailable if a public host had to download a model that isn't allowed."""
    chosen = spec.drafter(drafter)
    for source, revision in ((spec.target, spec.revision), (chosen.source, chosen.revision)):
        if source and not own_pairs.may_fetch(source) and not is_local(source) and not is_cached(source, revision):
            raise PairUnavailable(
                f"{source} isn't on this server, and visitors can't download models to it.",
                hint="Choose another model, or run the lab yourself.",
            )


@lru_cache(maxsize=1)
def _unavailable(_: int) -> dict[str, str]:
    machine, reasons = Environment(), dict[str, str]()
    for name, spec in PAIRS.items():
        try:
            check_download(spec, NONE.name)
            usable, reasons[name] = availability(spec, machine)
        except SpecDiffError as error:
            usable, reasons[name] = False, error.message
        if usable:
            del reasons[name]
    return reasons


def unavailable() -> dict[str, str]:
    """Pair name -> why it is not available here; cached, as it takes seconds without the hub."""
    with _looking:  # a whole class may open the page at the same time
        return dict(_unavailable(int(time.monotonic() / AGE)))
