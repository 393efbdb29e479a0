"""A race: its lanes are decoded one after the other into one growing trace file.

The decoding process (on ZeroGPU, the worker) appends to the file. The server sends the page only
the size of the file, and the page fetches it like a recording.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import re
import secrets
import shutil
import tempfile
import threading
import time
from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from pathlib import Path
from typing import Any, NamedTuple, Protocol, runtime_checkable

from app.content.error_cards import ErrorCard, card, new_run_id
from app.run.engines import Factory, progress_of
from app.run.gpu import on_gpu, seconds_of
from app.run.job import LOG, Job, frame, refusal
from app.run.turns import SHARES
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import SpecDiffError, Stopped, TraceError
from specdiff_core.schema.events import Committed, Event, Failed, RunStarted
from specdiff_core.schema.methods import BASELINE, DRAFTED
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import Trace, dump_trace, event_line, header_line, read_trace

SETTLE = 0.4
"""Seconds of the first lane's warm-up, in which the page redraws itself (measured: 0.15 s)."""
BETWEEN = 0.5
"""Seconds of each further lane's warm-up, in which the page draws the previous lane's text."""
FLUSH = 1.0
"""Seconds between flushes of a trace file, each of which becomes an update of the page."""
LAST_FRAME = 6.0
"""Seconds to wait for a stopped race's last frame: its current pass must end."""
KEPT = 7 * 24 * 3600.0
"""Seconds to keep a trace file, so that links to a run work."""
ROOM = 500_000_000
"""Most bytes of all trace files; the oldest are removed."""

Lanes = Mapping[str, DecodeConfig]
"""The lanes of a race: name -> settings, in order of measurement, the baseline first."""


def warm_up_of(lane: str) -> float:
    """Seconds of a lane's warm-up if a page watches."""
    return SETTLE if lane == BASELINE else BETWEEN


@contextlib.contextmanager
def storing() -> Iterator[None]:
    """Raise SpecDiffError if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in {errno.ENOSPC, errno.EDQUOT}:
            raise
        raise SpecDiffError(
            "The server's disk is full, so the run can't be kept.",
            hint="Try again later, or ask the server's operator to make room.",
        ) from error


class Traces:
    """The files of this server's runs, with unguessable names, in a temporary folder."""

    def __init__(self) -> None:
        self._lock = threading.Lock()

    @cached_property
    def _folder(self) -> Path:
        folder = Path(tempfile.mkdtemp(prefix="specdiff-"))
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        return folder

    def new(self, kind: str = "jsonl") -> Path:
        """The path of a new file; removes files beyond the limits of age and size."""
        with self._lock:
            room, now = ROOM, time.time()
            for old in sorted(self._folder.iterdir(), key=lambda path: path.stat().st_mtime, reverse=True):
                room -= old.stat().st_size
                if room < 0 or now - old.stat().st_mtime > KEPT:
                    old.unlink()
            return self._folder / f"{secrets.token_urlsafe(16)}.{kind}"

    def keep(self, content: bytes, kind: str = "jsonl") -> str:
        """Keep a file; returns its address."""
        path = self.new(kind)
        with storing():
            path.write_bytes(content)
        return address(path)

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes | None:
        """The bytes of a file from ``start`` up to ``end``, by default all; None: there is no such file."""
        if not NAME.fullmatch(name) or start < 0 or (end is not None and end < start):
            return None
        try:
            with (self._folder / name).open("rb") as file:
                file.seek(start)
                return file.read(-1 if end is None else end - start)
        except OSError:
            return None


NAME = re.compile(r"[\w-]{22}\.(jsonl|zip)")
"""File names of :meth:`Traces.new`."""
TRACES = Traces()
"""The files of this server."""


def address(trace: Path) -> str:
    """The address of a trace file, relative to the page (:func:`app.launch.trace_file`)."""
    return f"runs/{trace.name}"


class Recorded(NamedTuple):
    """Progress of a lane's recording."""

    size: int  # bytes of the trace file, up to the end of a line
    events: int
    tokens: int  # new tokens
    threads: int  # CPU threads of the decode; 0: not known yet


def record(events: Iterator[Event], trace: Path, lane: str) -> Iterator[Recorded]:
    """Append the events of a lane to a trace file. Yields after RunStarted, when the warm-up
    begins, then every :data:`FLUSH` seconds, and at the end, also if ``events`` raises."""
    count, tokens, threads, flushed, fresh = 0, 0, 0, time.monotonic(), bytearray()

    def now() -> Recorded:
        with storing(), trace.open("ab") as file:
            file.write(fresh)
            fresh.clear()
            return Recorded(file.tell(), count, tokens, threads)

    try:
        for event in events:
            fresh += event_line(event, lane)
            count += 1
            if isinstance(event, Committed):
                tokens += len(event.ids)
            if isinstance(event, RunStarted):
                threads = event.threads
                yield now()
                flushed = time.monotonic()
            elif time.monotonic() - flushed >= FLUSH:
                yield now()
                flushed = time.monotonic()
    except Exception:
        yield now()  # keep what was measured
        raise
    yield now()


@runtime_checkable
class Records(Protocol):
    """A decoder that writes trace files in its own process (``RemoteDecoder``)."""

    def record(
        self, prompt: str, config: DecodeConfig, trace: Path, lane: str, *, stop: Stop | None = None, **options: Any
    ) -> Iterator[Recorded]:
        """As :func:`record`, for the events of one decode."""


@dataclass(frozen=True, slots=True)
class Update:
    """Progress of a race."""

    phase: str = "loading"  # then ready; then for each lane loading, warming, measuring
    lane: str = ""
    size: int = 0  # bytes of the trace file, up to the end of a line
    tokens: int = 0  # new tokens of all lanes
    events: dict[str, int] = field(default_factory=dict)  # by lane
    failures: dict[str, ErrorCard] = field(default_factory=dict)  # lane -> why it failed

    def failed(self, trace: Path, lane: str, error: Exception, run: str) -> Update:
        """End a lane with a Failed event; its earlier events stay."""
        failure = card(error, run)
        event = Failed(code=failure["code"], message=failure["message"], hint=failure["hint"], run=failure["run"])
        with storing(), trace.open("r+b") as file:
            file.truncate(self.size)  # a killed process may have left half a line
            file.seek(0, 2)
            size = self.size + file.write(event_line(event, lane))
        events = {**self.events, lane: self.events.get(lane, 0) + 1}
        return replace(self, size=size, events=events, failures={**self.failures, lane: failure})


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The request for a race, as plain values, because it may go to a ZeroGPU worker.

    Attributes:
        run: id for log messages.
        watched: whether a page watches; each clock then starts after a longer warm-up, in which the page draws.
        threads: CPU threads of the decodes; 0: what a probe before the first lane finds fastest.
    """

    prompt: str
    plan: Lanes
    run: str = field(default_factory=new_run_id)
    watched: bool = False
    threads: int = 0
    trace: Path = field(default_factory=lambda: TRACES.new())


Decode = Callable[[Ask, threading.Event], Generator["Update | str", None, None]]
"""Decodes a race: yields updates, and messages while something loads."""


def decoding(factory: Factory) -> Decode:
    """A function that decodes races on the engines of ``factory``, on ZeroGPU in a worker."""
    return on_gpu(lambda ask, stop: seconds_of(ask.plan))(partial(_decode, factory))


def _decode(factory: Factory, ask: Ask, stop: threading.Event) -> Generator[Update | str, None, None]:
    """Decode all lanes, one after the other. A failing lane does not end the others.

    Raises:
        Exception: nothing can be compared: vanilla or every other lane failed to load, or the first decode failed.
    """
    with storing():
        now = Update(size=ask.trace.write_bytes(header_line(ask.plan, title="Live run")))
    failures: dict[str, Exception] = {}
    try:
        for lane, config in ask.plan.items():  # before the first clock starts
            yield (now := replace(now, lane=lane))
            try:
                yield from progress_of(partial(factory, config.pair, config.drafter), stop)
            except Stopped:
                raise
            except Exception as error:
                failures[lane] = error
        drafted = [lane for lane in ask.plan if lane != BASELINE]
        if failures and (BASELINE in failures or all(lane in failures for lane in drafted)):
            raise next(iter(failures.values()))
        for lane, reason in failures.items():
            now = now.failed(ask.trace, lane, reason, ask.run)
        yield (now := replace(now, phase="ready"))
        threads = ask.threads
        for lane, config in ask.plan.items():
            if lane in failures:
                continue
            if stop.is_set():
                raise Stopped
            before = now = replace(now, phase="loading", lane=lane)
            try:
                # Again, because the decoding process may have died.
                engine = yield from progress_of(partial(factory, config.pair, config.drafter), stop)
                warm_up = warm_up_of(lane) if ask.watched else 0.0
                options: dict[str, Any] = {"stop": stop, "grain": "step", "warm_up": warm_up, "threads": threads}
                if isinstance(engine, Records):
                    parts = engine.record(ask.prompt, config, ask.trace, lane, **options)
                else:
                    parts = record(engine.decode(ask.prompt, config, **options), ask.trace, lane)
                for part in parts:
                    now = replace(
                        now,
                        phase="warming" if now.phase == "loading" else "measuring",
                        size=part.size,
                        tokens=before.tokens + part.tokens,
                        events={**before.events, lane: part.events},
                    )
                    threads = part.threads or threads  # for the other lanes too
                    yield now
            except Stopped:
                raise
            except Exception as error:
                if not any(now.events.values()):
                    raise
                yield (now := now.failed(ask.trace, lane, error, ask.run))
    except Stopped:
        pass


class Race(Job):
    """A race, which from the first clock on uses its ``visitor``'s share (a session; "": none)."""

    def __init__(self, decode: Decode, ask: Ask, visitor: str = "") -> None:
        super().__init__(ask.run)
        self.ask, self.now = ask, Update()
        self._decode, self.visitor = decode, visitor
        LOG.info("run %s: %s", self.run, ", ".join(ask.plan), extra={"run": self.run})

    def work(self) -> Iterator[object]:
        try:
            with contextlib.ExitStack() as share, contextlib.closing(self._decode(self.ask, self.stop)) as updates:
                check: Callable[[], None] | None = None
                for update in updates:
                    if isinstance(update, Update):
                        self.now, self.phase = update, update.phase
                    if check is None and self.phase == "ready":
                        check = share.enter_context(SHARES.of(self.visitor, lambda: self.now.tokens))
                    if check:
                        check()
                    yield update
        except SpecDiffError as error:  # the visitor's share or the GPU time is used up
            if not self.now.tokens:
                raise
            self.stop.set()  # what was decoded is kept
            self.now = self.now.failed(self.ask.trace, self.now.lane, error, self.run)

    def progress(self) -> dict[str, Any]:
        """The current lane, and the size of the trace file."""
        now = self.now
        return {
            "phase": "loading" if now.phase == "ready" else now.phase,
            "lane": now.lane,
            "message": self.message,
            **({"settle": warm_up_of(now.lane)} if now.phase == "warming" else {}),
            "lanes": list(self.ask.plan),
            "trace": address(self.ask.trace),
            "size": now.size,
        }

    def result(self) -> dict[str, Any]:
        """The outcome; whatever ended the race, its measurements are kept."""
        failures = self.now.failures
        if self.error is not None or (self.stop.is_set() and not self.now.tokens and not failures):
            return {"phase": "stopped", "trace": None}  # nothing was measured
        if failures and all(lane in failures for lane in self.ask.plan if lane != BASELINE):
            return {"phase": "failed", "source": "failed", "card": next(iter(failures.values()))}
        return {"phase": "stopped" if self.stop.is_set() else "finished", "source": "run"}


def results(job: Race) -> Iterator[dict[str, Any]]:
    """Run a race for a program: yields progress objects, then the lanes under ``lanes``.

    Raises:
        Exception: the exception that ended the run; the caller translates it.
    """
    job.start()
    try:
        while not job.done.wait(job.beat):
            yield {"finished": False, "events_so_far": dict(job.now.events)}
    finally:
        job.stop.set()
    if job.error is not None:
        raise job.error
    yield {"finished": True, "lanes": read_trace(job.ask.trace).lanes}


def read_race(path: Path | str) -> tuple[Trace, str]:
    """A trace file, and the tab that plays it: Live for vanilla and one more lane, otherwise Race.

    Raises:
        TraceError: it is not a trace, or has no events.
    """
    trace = read_trace(path)
    named = {lane for lane, events in trace.lanes.items() if events}
    if not named:
        raise TraceError("This trace has no events.", hint="Choose a trace of a run that decoded something.")
    return trace, "live" if named <= {BASELINE, DRAFTED} else "race"


def open_trace(path: str | None) -> tuple[str, str]:
    """Open a visitor's file: its frame, and its tab ("live" or "race"); an error card has none."""
    run = new_run_id()
    try:
        if path is None:
            raise TraceError("The file wasn’t uploaded.", hint="Choose a .jsonl or .jsonl.gz file.")
        trace, tab = read_race(path)
        raw = dump_trace(trace.lanes, title=trace.title)
        kept = TRACES.keep(raw)
        return frame(run, 1, phase="finished", finished=True, source="file", trace=kept, size=len(raw)), tab
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        return refusal(error, run, source="file"), ""
