"""What a loaded pair does for the page's jobs, and how this process does it. Imports torch only inside calls."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import takewhile
from typing import TYPE_CHECKING, Protocol

from specdiff_core.checkpoints.availability import ABSENT, availability
from specdiff_core.checkpoints.hub import PROGRAM
from specdiff_core.checkpoints.own_pairs import find
from specdiff_core.explorations.base import Exploration
from specdiff_core.explorations.run import ExplorationRun, Snapshot
from specdiff_core.measure.race import race
from specdiff_core.measure.redraft import redraft
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import PairUnavailable
from specdiff_core.schema.methods import DRAFTED
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace

from .job import Tick
from .progress import Progress
from .record import Ask, Update, append

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

SLICE = 1.0
"""Seconds of an exploration after which races may run, once its current decode ends."""


class Runner(Protocol):
    """A loaded pair."""

    def prepare(self, config: DecodeConfig, progress: Progress, threads: int) -> None:
        """Load the drafter of ``config`` if it isn't loaded, and warm it up.

        Raises:
            Stopped: ``progress`` raised it.
            SpecDiffError: the drafter cannot be loaded, or there is none of that name.
        """

    def race(self, ask: Ask, now: Update, stop: Stop) -> Iterator[Update | Tick]:
        """Race the lanes of ``ask`` that have not failed, or draft its block again, and append the events to its trace,
        from ``now`` on."""

    def explore(self, exploration: Exploration, stop: Stop) -> Iterator[Snapshot | Tick]:
        """Run an exploration part by part. Before raising an error, yield what was measured."""


class LocalRunner(Runner):
    """With an engine of this process. (:class:`app.run.process.RemoteRunner` calls one elsewhere.)"""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine

    def prepare(self, config: DecodeConfig, progress: Progress, threads: int) -> None:
        self.engine.load_drafter(config.drafter, progress)
        self.engine.warm_up(config, progress, threads)

    def race(self, ask: Ask, now: Update, stop: Stop) -> Iterator[Update]:
        if ask.block is not None:
            drafted = read_trace(ask.block).lanes[DRAFTED]
            again = redraft(self.engine, drafted, stop=stop, threads=ask.threads)
            return append(ask.trace, now, ask.run, takewhile(lambda _: not stop.is_set(), again))
        lanes = {lane: config for lane, config in ask.plan.items() if lane not in now.failures}
        rendered = self.engine.rendered(ask.prompt, next(iter(ask.plan.values()))) if ask.servers else ""
        steps = race(
            self.engine, ask.prompt, lanes, stop=stop, threads=ask.threads, others=ask.servers, rendered=rendered
        )
        return append(ask.trace, now, ask.run, steps)

    def explore(self, exploration: Exploration, stop: Stop) -> Iterator[Snapshot]:
        run, over = ExplorationRun(exploration, self.engine, stop), False
        while not over:
            try:
                snapshot = run.advance(SLICE)
            except Exception:
                if (snapshot := run.snapshot()).done:
                    yield snapshot._replace(over=False)
                raise
            over = snapshot.over
            yield snapshot


def load_here(pair: str, progress: Progress) -> LocalRunner:
    """Load ``pair`` into this process, without hub drafters.

    Raises:
        SpecDiffError: a file, the memory or the pair itself is missing.
    """
    usable, reason = availability(find(pair))
    if not usable:  # fail early: the hub's client would try for half a minute
        away = reason.startswith(ABSENT)
        advice = f"With a network, `{PROGRAM} pairs --fetch {pair}` downloads them. " if away else ""
        raise PairUnavailable(reason, hint=f"{advice}Or choose another pair; the embedded one needs no network.")
    progress("Starting the numerical library")
    from specdiff_core.engine import Engine

    return LocalRunner(Engine.load(pair, progress=progress))
