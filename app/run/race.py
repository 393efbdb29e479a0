"""A race: its lanes are decoded on one clock into one growing trace file.

The decoding process (on ZeroGPU, the worker) appends each event to the file as it happens, and the
page reads the file while it grows. The job's own messages only say what the race waits for, and that
it is over.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import json
import re
import secrets
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Generator, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import takewhile
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

from specdiff_core.measure.block import redraft, sizes
from specdiff_core.measure.race import Step, race
from specdiff_core.schema.decoder import Decoder, Stop
from specdiff_core.schema.errors import SpecDiffError, Stopped, TraceError
from specdiff_core.schema.events import Committed, Failed, Finished
from specdiff_core.schema.methods import BASELINE, DRAFTED
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import header_of
from specdiff_core.schema.trace import Trace, dump_trace, event_line, header_line, read_trace

from ..content.error_cards import ErrorCard, card, new_run_id
from ..temporary import BLOCK, own_folder
from .engines import Factory, with_progress
from .gpu import gpu_seconds, on_gpu
from .job import LOG, Job, frame, refusal
from .turns import SHARES

STREAM = 0.1
"""Seconds between a program's looks for new events."""
REPORT = 0.5
"""Seconds between reports of a race's progress. Its events don't wait for them: they are in the trace file at once."""
LOOK = 0.03
"""Seconds between looks for new events in a growing trace file."""
CHUNK = 2**18
"""Bytes of a trace file that are sent at once. Limits the memory that a slow reader takes."""
LAST_FRAME = 6.0
"""Seconds to wait for a stopped race's last frame: its current pass must end."""
KEPT = 7 * 24 * 3600.0
"""Seconds to keep a trace file, so that links to a run work."""
ROOM = 500_000_000
"""Most bytes of all trace files. The oldest of the visitor who has most are removed first."""

Lanes = Mapping[str, DecodeConfig]
"""The lanes of a race: name -> settings, the baseline first."""
SERVERS: dict[str, Decoder] = {}
"""Running servers that race beside the methods, by lane (``--attach``). None on a page that others reach."""


FULL = {errno.ENOSPC, errno.EDQUOT, errno.EFBIG}
"""Errors of a disk, a quota or a limit that is reached."""


@contextlib.contextmanager
def storing() -> Iterator[None]:
    """Raise SpecDiffError if the disk is full."""
    try:
        yield
    except OSError as error:
        if error.errno not in FULL:
            raise
        raise SpecDiffError(
            "The server's disk is full, so the run can't be kept.",
            hint="Try again later, or ask the server's operator to make room.",
        ) from error


class Traces:
    """The files of this server's runs, with unguessable names, in a temporary folder."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._growing = set[str]()  # names of files of current races
        self._owners: dict[str, str] = {}  # file name -> visitor; without one, a file is nobody's
        self._made: Path | None = None

    @contextlib.contextmanager
    def growing(self, path: Path, visitor: str = "") -> Iterator[None]:
        """Declare that a visitor's file grows, so that its readers wait for more."""
        with self._lock:
            self._growing.add(path.name)
            self._owners[path.name] = visitor
        try:
            yield
        finally:
            with self._lock:
                self._growing.discard(path.name)

    @property
    def _folder(self) -> Path:
        """The folder; another one if it was removed, as cleaners of temporary folders do."""
        with self._lock:
            if self._made is None or not self._made.is_dir():
                self._made = own_folder()
            return self._made

    def failing(self) -> str:
        """Why no run can be kept, or ""."""
        try:
            with tempfile.TemporaryFile(dir=self._folder) as file:
                file.write(b"a run")
        except OSError as error:
            return f"Runs can't be kept: {error.strerror}."
        return ""

    def new(self, kind: str = "jsonl") -> Path:
        """The path of a new file; removes files beyond the limits of age and size, but none that grows. Room is given
        to each visitor's newest files first, so one who makes many loses only their own."""
        with self._lock, storing():
            found = {path.name: path.stat() for path in self._folder.glob("*.*")}
            self._owners = {name: self._owners.get(name, "") for name in {*found, *self._growing}}
            held, room, now = Counter[str](), ROOM, time.time()
            order = list[tuple[int, str]]()
            for name, stat in sorted(found.items(), key=lambda one: one[1].st_mtime, reverse=True):
                held[self._owners[name]] += max(stat.st_size, BLOCK)
                order.append((held[self._owners[name]], name))
            for _, name in sorted(order):
                room -= max(found[name].st_size, BLOCK)
                if name not in self._growing and (room < 0 or now - found[name].st_mtime > KEPT):
                    (self._folder / name).unlink()
            return self._folder / f"{secrets.token_urlsafe(16)}.{kind}"

    def keep(self, content: bytes, kind: str = "jsonl", visitor: str = "") -> str:
        """Keep a visitor's file; returns its address."""
        path = self.new(kind)
        with storing():
            path.write_bytes(content)
        self._owners[path.name] = visitor
        return address(path)

    def find(self, name: str) -> Path | None:
        """The path of a file; None: the name is no file's."""
        return self._folder / name if NAME.fullmatch(name) else None

    def read(self, name: str, start: int = 0, end: int | None = None) -> bytes | None:
        """The bytes of a file from ``start`` up to ``end``, by default all; None: there is no such file."""
        path = self.find(name)
        if path is None or start < 0 or (end is not None and end < start):
            return None
        try:
            with path.open("rb") as file:
                file.seek(start)
                return file.read(-1 if end is None else end - start)
        except OSError:
            return None

    async def follow(self, name: str, start: int, *, wait: bool = True) -> AsyncIterator[bytes]:
        """The bytes of a file from ``start`` on; if ``wait``, as it grows, until its race is over."""
        grows = True
        while grows:
            grows = wait and name in self._growing  # before the look, so that the last bytes are read
            while part := self.read(name, start, start + CHUNK):
                start += len(part)
                yield part
            if grows:
                await asyncio.sleep(LOOK)


NAME = re.compile(r"[\w-]{22}\.(jsonl|zip)")
"""File names of :meth:`Traces.new`."""
TRACES = Traces()
"""The files of this server."""


def address(trace: Path) -> str:
    """The address of a trace file, relative to the page (:func:`app.launch.trace_file`)."""
    return f"runs/{trace.name}"


@dataclass(frozen=True, slots=True)
class Update:
    """Progress of a race."""

    phase: str = "loading"  # then racing
    size: int = 0  # bytes of the trace file, up to the end of a line
    tokens: int = 0  # new tokens of all lanes
    events: dict[str, int] = field(default_factory=dict)  # by lane
    failures: dict[str, ErrorCard] = field(default_factory=dict)  # lane -> why it failed


class Recorder:
    """Appends events to a trace file, from ``now`` on."""

    def __init__(self, trace: Path, now: Update, run: str) -> None:
        self._trace, self.now, self._run = trace, now, run

    def write(self, steps: Iterable[Step]) -> Iterator[Update]:
        """Append each event at once; a lane that failed gets a Failed event. Yields every
        :data:`REPORT` seconds, and at the end; ``now`` is right also if ``steps`` raises."""
        reported, failures = time.monotonic(), self.now.failures
        events, tokens, size = Counter(self.now.events), self.now.tokens, self.now.size
        with storing(), self._trace.open("r+b", buffering=0) as file:
            file.truncate(size)  # a killed process may have left half a line
            file.seek(size)
            try:
                for lane, event in steps:
                    if isinstance(event, Exception):
                        failures = {**failures, lane: (failure := card(event, self._run))}
                        event = Failed(**{name: failure[name] for name in ("code", "message", "hint", "run")})
                    if file.write(line := event_line(event, lane)) < len(line):
                        file.truncate(size)  # half a line is none
                        raise OSError(errno.ENOSPC, "the disk is full")
                    size += len(line)
                    events[lane] += 1
                    tokens += len(event.ids) if isinstance(event, Committed) else 0
                    self.now = Update("racing", size, tokens, dict(events), failures)
                    if time.monotonic() - reported >= REPORT:
                        yield self.now
                        reported = time.monotonic()
            finally:
                self.now = Update("racing", size, tokens, dict(events), failures)
        yield self.now


@runtime_checkable
class Races(Protocol):
    """A decoder that races in its own process, and writes the trace there (``RemoteDecoder``)."""

    def race(self, ask: Ask, now: Update, *, stop: Stop) -> Iterator[Update]:
        """As :func:`record`."""


def record(decoder: Decoder, ask: Ask, now: Update, stop: Stop) -> Iterator[Update]:
    """Race the lanes of ``ask`` that have not failed, or draft its block again, and append the events to its trace."""
    recorder = Recorder(ask.trace, now, ask.run)
    if ask.block is not None:
        drafted = read_trace(ask.block).lanes[DRAFTED]
        again = redraft(decoder, drafted, stop=stop, threads=ask.threads)
        return recorder.write(takewhile(lambda _: not stop.is_set(), again))
    lanes = {lane: config for lane, config in ask.plan.items() if lane not in now.failures}

    def check(message: str) -> None:
        if stop.is_set():
            raise Stopped

    served: dict[str, Any] = {}
    if ask.servers:
        engine: Any = decoder
        served = {"others": ask.servers, "rendered": engine.rendered(ask.prompt, next(iter(ask.plan.values())))}
    steps = race(decoder, ask.prompt, lanes, stop=stop, threads=ask.threads, progress=check, **served)
    return recorder.write(steps)


@dataclass(frozen=True, slots=True, kw_only=True)
class Ask:
    """The request for a race, as plain values, because it may go to a ZeroGPU worker.

    Attributes:
        run: id for log messages.
        threads: CPU threads of all lanes, as of a decode.
        block: the trace of a run whose staged round is drafted again instead, in all sizes.
        servers: running servers that decode lanes of the plan, by lane.
    """

    prompt: str
    plan: Lanes
    run: str = field(default_factory=new_run_id)
    threads: int = 0
    trace: Path = field(default_factory=lambda: TRACES.new())
    block: Path | None = None
    servers: Mapping[str, Decoder] = field(default_factory=dict)

    @classmethod
    def again(cls, name: str, run: str, threads: int) -> Ask:
        """The request for the block of a kept run.

        Raises:
            SpecDiffError: the server doesn't keep it, or it drafted no window.
        """
        path = TRACES.find(name)
        if path is None or not path.is_file():
            raise SpecDiffError("The server no longer keeps this run.", hint="Run it again.")
        header = header_of(read_trace(path).lanes.get(DRAFTED, ()))
        if header is None:
            raise SpecDiffError("This run drafted no window.", hint="Run it with a drafter that fills blanks.")
        plan = sizes(DecodeConfig.parse(header.config))
        return cls(prompt=header.prompt, plan=plan, run=run, threads=threads, block=path)


Decode = Callable[[Ask, threading.Event], Generator["Update | str", None, None]]
"""Decodes a race: yields updates, and messages while something loads."""


def decoding(factory: Factory) -> Decode:
    """A function that decodes races on the engines of ``factory``, on ZeroGPU in a worker."""
    return on_gpu(lambda ask, stop: gpu_seconds(ask.plan))(partial(_decode, factory))


def _decode(factory: Factory, ask: Ask, stop: threading.Event) -> Generator[Update | str, None, None]:
    """Load what the lanes need, then decode them. A failing lane does not end the others.

    Raises:
        Exception: nothing can be compared: vanilla or every other lane failed to load, or nothing was decoded.
    """
    with storing():
        now = Update(size=ask.trace.write_bytes(header_line(ask.plan, title="Live run")))
    failures: dict[str, Exception] = {}
    engine: Decoder | None = None
    yield now
    try:
        for lane, config in ask.plan.items():
            try:
                engine = yield from with_progress(partial(factory, config.pair, config.drafter), stop)
            except Stopped:
                raise
            except Exception as error:
                if lane == BASELINE:  # the others need not be loaded
                    raise
                failures[lane] = error
        if failures and all(lane in failures for lane in ask.plan if lane != BASELINE):
            raise next(iter(failures.values()))
        assert engine is not None, "vanilla was loaded"
        recorder = Recorder(ask.trace, now, ask.run)
        for _ in recorder.write(failures.items()):
            pass
        yield (now := replace(recorder.now, phase="racing"))
        try:
            racing = engine.race(ask, now, stop=stop) if isinstance(engine, Races) else record(engine, ask, now, stop)
            for update in racing:
                now = update or now  # "" is none, and lets the limits be checked
                yield now
        except Stopped:
            raise
        except Exception as error:  # it ended all lanes: the decoding process died, or the disk is full
            if not ask.trace.exists():  # its folder was removed
                raise
            now, unended = _written(ask, now)
            if not now.tokens:
                raise
            try:
                yield from Recorder(ask.trace, now, ask.run).write((lane, error) for lane in unended)
            except SpecDiffError:  # the disk is full: what was measured stays
                yield replace(now, failures=now.failures | {lane: card(error, ask.run) for lane in unended})
    except Stopped:
        pass


def _written(ask: Ask, now: Update) -> tuple[Update, list[str]]:
    """What a race that broke off has written, which is more than it reported, and the lanes without an end."""
    whole = ask.trace.read_bytes().rpartition(b"\n")
    lanes = read_trace(raw := whole[0] + whole[1]).lanes
    events = {lane: len(found) for lane, found in lanes.items()}
    tokens = sum(len(one.ids) for found in lanes.values() for one in found if isinstance(one, Committed))
    unended = [lane for lane, found in lanes.items() if not (found and isinstance(found[-1], Finished | Failed))]
    return replace(now, size=len(raw), tokens=tokens, events=events), unended


class Race(Job):
    """A race, which from the start of its clock on uses its ``visitor``'s share (a session; "": none)."""

    def __init__(self, decode: Decode, ask: Ask, visitor: str = "") -> None:
        super().__init__(ask.run)
        self.ask, self.now = ask, Update()
        self._decode, self.visitor = decode, visitor
        self.reason: ErrorCard | None = None  # why the server stopped it
        LOG.info("run %s: %s", self.run, ", ".join(ask.plan), extra={"run": self.run})

    def work(self) -> Iterator[object]:
        try:
            updates = self._decode(self.ask, self.stop)
            with contextlib.ExitStack() as stack, contextlib.closing(updates):
                stack.enter_context(TRACES.growing(self.ask.trace, self.visitor))
                check: Callable[[], None] | None = None
                for update in updates:
                    if isinstance(update, Update):
                        self.now, self.phase = update, update.phase
                    if check is None and self.phase == "racing":
                        check = stack.enter_context(SHARES.of(self.visitor, lambda: self.now.tokens))
                    if check and not self.stop.is_set():
                        try:
                            check()
                        except SpecDiffError as error:
                            self._end(error)
                    yield update
        except SpecDiffError as error:  # the GPU time is used up, or the visitor's share was
            self._end(error)

    def _end(self, error: SpecDiffError) -> None:
        """Stop, and keep what was decoded; raise ``error`` if that is nothing."""
        if not self.now.tokens:
            raise error
        self.stop.set()
        self.reason = card(error, self.run)

    def progress(self) -> dict[str, Any]:
        """What it waits for, and the trace file; of a block also how many of its sizes it has begun."""
        return {
            "phase": self.now.phase,
            "message": self.message,
            "trace": address(self.ask.trace) if self.now.size else None,  # once there is a file
            **({"parts": [len(self.now.events), len(self.ask.plan)]} if self.ask.block else {}),
        }

    def result(self) -> dict[str, Any]:
        """The outcome; whatever ended the race, its measurements are kept."""
        size, failures = self.now.size, self.now.failures
        if self.error is not None or (self.stop.is_set() and not self.now.tokens and not failures):
            return {"phase": "stopped", "trace": None}  # nothing was measured
        if failures and all(lane in failures for lane in self.ask.plan if lane != BASELINE):
            return {"phase": "failed", "source": "failed", "card": next(iter(failures.values())), "size": size}
        reason = {"card": self.reason} if self.reason else {}
        return {"phase": "stopped" if self.stop.is_set() else "finished", "source": "run", "size": size, **reason}


def results(job: Race, *, with_events: bool = False) -> Iterator[dict[str, Any]]:
    """Run a race for a program: yields progress objects, then the lanes under ``lanes``.

    Args:
        with_events: each progress object has the new events of all lanes, in the order in which they happened.

    Raises:
        Exception: the exception that ended the run; the caller translates it.
    """
    job.start()
    read, sent = 0, time.monotonic()
    try:
        while not job.done.wait(STREAM if with_events else job.beat):
            answer: dict[str, Any] = {"finished": False, "events_so_far": dict(job.now.events)}
            if with_events:
                part = (TRACES.read(job.ask.trace.name, read) or b"").rpartition(b"\n")[0]
                lines = [json.loads(line) for line in part.splitlines()]
                read += len(part) + bool(part)
                answer["events"] = [line for line in lines if line["kind"] != "Trace"]
            if answer.get("events") != [] or time.monotonic() - sent >= job.beat:  # else nobody sees a caller leave
                sent = time.monotonic()
                yield answer
    finally:
        job.stop.set()
    if job.error is not None:
        raise job.error
    if not job.now.size:
        raise SpecDiffError("The run was stopped before it began.", hint="Run it again.")
    reason = {"stopped_because": job.reason["message"]} if job.reason else {}
    yield {"finished": True, "lanes": read_trace(job.ask.trace).lanes, **reason}


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


def open_trace(path: str | None, visitor: str = "") -> tuple[str, str]:
    """Open a visitor's file: its frame, and its tab ("live" or "race"); an error card has none."""
    run = new_run_id()
    try:
        if path is None:
            raise TraceError("The file wasn’t uploaded.", hint="Choose a .jsonl or .jsonl.gz file.")
        trace, tab = read_race(path)
        raw = dump_trace(trace.lanes, title=trace.title)
        kept = TRACES.keep(raw, visitor=visitor)
        return frame(run, 1, phase="finished", finished=True, source="file", trace=kept, size=len(raw)), tab
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        return refusal(error, run, source="file"), ""
