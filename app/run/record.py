"""Decode a race on one clock, into one growing trace file.

A :class:`~app.run.runner.Runner` appends each event to the file as it happens, and the page reads the file while it
grows. What this yields only says what the race waits for, and how far it is.
"""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from specdiff_core.measure.race import Step
from specdiff_core.measure.redraft import staged_round, window_settings
from specdiff_core.schema.decoder import Decoder, Stop
from specdiff_core.schema.errors import SpecDiffError, Stopped
from specdiff_core.schema.events import Committed, Failed, Finished
from specdiff_core.schema.methods import BASELINE, DRAFTED
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import event_line, header_line, read_trace

from ..content.error_cards import ErrorCard, card
from ..logs import new_run_id
from .engines import Factory
from .gpu import gpu_seconds, on_gpu
from .job import Phase, Tick
from .kept import KEPT_RUNS, storing
from .progress import with_progress

if TYPE_CHECKING:
    from .runner import Runner

REPORT = 0.5
"""Seconds between reports of a race's progress. Its events don't wait for them: they are in the trace file at once."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The request for a race, as plain values, because it may go to a ZeroGPU worker.

    Attributes:
        plan: the lanes, by name, the baseline first.
        run: id for log messages.
        threads: CPU threads of all lanes, as of a decode.
        block: the trace of a run whose staged round is drafted again instead, in all sizes.
        servers: running servers that decode lanes of the plan, by lane.
    """

    prompt: str
    plan: Mapping[str, DecodeConfig]
    run: str = field(default_factory=new_run_id)
    threads: int = 0
    trace: Path = field(default_factory=lambda: KEPT_RUNS.new())
    block: Path | None = None
    servers: Mapping[str, Decoder] = field(default_factory=dict)

    @classmethod
    def again(cls, name: str, run: str, threads: int) -> Ask:
        """The request for the block of a kept run.

        Raises:
            SpecDiffError: the server doesn't keep it, or it drafted no window.
        """
        path = KEPT_RUNS.find(name)
        if path is None or not path.is_file():
            raise SpecDiffError("The server no longer keeps this run.", hint="Run it again.")
        header, _ = staged_round(read_trace(path).lanes.get(DRAFTED, ()))
        plan = window_settings(DecodeConfig.parse(header.config))
        return cls(prompt=header.prompt, plan=plan, run=run, threads=threads, block=path)


@dataclass(frozen=True, slots=True)
class Update:
    """Progress of a race."""

    size: int = 0  # bytes of the trace file, up to the end of a line
    tokens: int = 0  # new tokens of all lanes
    events: dict[str, int] = field(default_factory=dict)  # by lane
    failures: dict[str, ErrorCard] = field(default_factory=dict)  # lane -> why it failed


def append(trace: Path, now: Update, run: str, steps: Iterable[Step]) -> Iterator[Update]:
    """Append each event to a trace file at once, from ``now`` on; a lane that failed gets a Failed event. Yields every
    :data:`REPORT` seconds, and at the end."""
    reported = time.monotonic()
    with storing(), trace.open("r+b", buffering=0) as file:
        file.truncate(now.size)  # a killed process may have left half a line
        file.seek(now.size)
        for lane, event in steps:
            failures = now.failures
            if isinstance(event, Exception):
                failures = {**failures, lane: (failure := card(event, run))}
                event = Failed(**{name: failure[name] for name in ("code", "message", "hint", "run")})
            if file.write(line := event_line(event, lane)) < len(line):
                file.truncate(now.size)  # half a line is none
                raise OSError(errno.ENOSPC, "the disk is full")
            tokens = now.tokens + (len(event.ids) if isinstance(event, Committed) else 0)
            events = {**now.events, lane: now.events.get(lane, 0) + 1}
            now = Update(now.size + len(line), tokens, events, failures)
            if time.monotonic() - reported >= REPORT:
                yield now
                reported = time.monotonic()
    yield now


Decode = Callable[[Ask, Stop], Generator[Phase | Update | Tick, None, None]]
"""Decodes a race: yields its phases, updates, and ticks between two updates, so that limits can be checked."""


def decoding(factory: Factory) -> Decode:
    """A function that decodes races on the runners of ``factory``, on ZeroGPU in a worker."""
    return on_gpu(lambda ask, stop: gpu_seconds(ask.plan))(partial(_decode, factory))


def _decode(factory: Factory, ask: Ask, stop: Stop) -> Generator[Phase | Update | Tick, None, None]:
    """Load what the lanes need, then decode them. A failing lane does not end the others.

    Raises:
        Exception: nothing can be compared: vanilla or every other lane failed to load, or nothing was decoded.
    """
    with storing():
        now = Update(size=ask.trace.write_bytes(header_line(ask.plan, title="Live run")))
    yield now
    with suppress(Stopped):
        runner, failures = yield from _load(factory, ask, stop)
        *_, now = append(ask.trace, now, ask.run, failures.items())
        yield now
        yield Phase("racing", "Decoding")
        try:
            for step in runner.race(ask, now, stop):
                if isinstance(step, Update):
                    now = step
                yield step
        except Exception as error:  # it ended all lanes: the decoding process died, or the disk is full
            if isinstance(error, Stopped) or not ask.trace.exists():  # its folder was removed
                raise
            yield from _broken_off(ask, now, error)


def _load(factory: Factory, ask: Ask, stop: Stop) -> Generator[Phase | Tick, None, tuple[Runner, dict[str, Exception]]]:
    """Load what each lane needs; returns the pair, and by lane why a drafter did not load.

    Raises:
        Exception: vanilla failed, or all others did.
    """
    failures: dict[str, Exception] = {}
    for lane, config in ask.plan.items():
        try:
            runner = yield from with_progress(partial(factory, config.pair, config.drafter), stop)
        except Exception as error:
            if lane == BASELINE or isinstance(error, Stopped):  # the others need not be loaded
                raise
            failures[lane] = error
    if failures and all(lane in failures for lane in ask.plan if lane != BASELINE):
        raise next(iter(failures.values()))
    return runner, failures


def _broken_off(ask: Ask, now: Update, error: Exception) -> Iterator[Update]:
    """Keep what a race had written when ``error`` ended it, each unended lane with that error; raise it if that is
    nothing."""
    now, unended = _written(ask, now)
    if not now.tokens:
        raise error
    try:
        yield from append(ask.trace, now, ask.run, ((lane, error) for lane in unended))
    except SpecDiffError:  # the disk is full: what was measured stays
        yield replace(now, failures=now.failures | {lane: card(error, ask.run) for lane in unended})


def _written(ask: Ask, now: Update) -> tuple[Update, list[str]]:
    """What a race that broke off has written, which is more than it reported, and the lanes without an end."""
    whole = ask.trace.read_bytes().rpartition(b"\n")
    lanes = read_trace(raw := whole[0] + whole[1]).lanes
    events = {lane: len(found) for lane, found in lanes.items()}
    tokens = sum(len(one.ids) for found in lanes.values() for one in found if isinstance(one, Committed))
    unended = [lane for lane, found in lanes.items() if not (found and isinstance(found[-1], Finished | Failed))]
    return replace(now, size=len(raw), tokens=tokens, events=events), unended
