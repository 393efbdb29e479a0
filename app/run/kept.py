"""The runs that this server keeps, of races and of files that visitors opened, so that their links work."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import re
import secrets
import tempfile
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

from specdiff_core.schema.errors import SpecDiffError, TraceError
from specdiff_core.schema.trace import Trace, dump_trace, read_trace

from ..links import LIVE, LIVE_LANES, RACE
from ..logs import new_run_id
from ..temporary import BLOCK, own_folder
from .job import frame, refusal

LOOK = 0.03
"""Seconds between looks for new bytes of a growing file."""
CHUNK = 2**18
"""Bytes of a file that are sent at once. Limits the memory that a slow reader takes."""
KEEP_SECONDS = 7 * 24 * 3600.0
"""Seconds to keep a file."""
ROOM = 500_000_000
"""Most bytes of all files. The oldest of the visitor who has most are removed first."""
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


class KeptRuns:
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
                if name not in self._growing and (room < 0 or now - found[name].st_mtime > KEEP_SECONDS):
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


RUN_NAME = r"[\w-]{22}"
"""Pattern of the file names of :meth:`KeptRuns.new`, without their ending."""
NAME = re.compile(rf"{RUN_NAME}\.(jsonl|zip)")
KEPT_RUNS = KeptRuns()


def address(trace: Path) -> str:
    """The address of a trace file, relative to the page (:func:`app.routes.trace_file`)."""
    return f"runs/{trace.name}"


def read_race(path: Path | str) -> tuple[Trace, str]:
    """A trace file, and the tab that plays it.

    Raises:
        TraceError: it is not a trace, or has no events.
    """
    trace = read_trace(path)
    named = {lane for lane, events in trace.lanes.items() if events}
    if not named:
        raise TraceError("This trace has no events.", hint="Choose a trace of a run that decoded something.")
    return trace, LIVE if named <= {*LIVE_LANES} else RACE


def open_trace(path: str | None, visitor: str = "") -> tuple[str, str]:
    """Open a visitor's file: its frame, and its tab ("live" or "race"); an error card has none."""
    run = new_run_id()
    try:
        if path is None:
            raise TraceError("The file wasn’t uploaded.", hint="Choose a .jsonl or .jsonl.gz file.")
        trace, tab = read_race(path)
        raw = dump_trace(trace.lanes, title=trace.title)
        kept = KEPT_RUNS.keep(raw, visitor=visitor)
        return frame(run, 1, phase="finished", finished=True, source="file", trace=kept, size=len(raw)), tab
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        return refusal(error, run, source="file"), ""
