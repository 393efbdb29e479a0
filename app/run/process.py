"""Decodes in a separate process, so that serving the page and measuring never share an interpreter. The process loads
while the page is built; if it dies, the page continues and the next run starts another.
"""

from __future__ import annotations

import atexit
import contextlib
import itertools
import math
import multiprocessing
import signal
import tempfile
import threading
import time
from collections.abc import Generator, Iterator
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, cast

from app.run.engines import Engines, Loader, Progress, load_engine
from app.run.race import Recorded, record
from specdiff_core.explorations.base import Exploration, Exploring, Snapshot
from specdiff_core.schema.decoder import Decoder, LoadsDrafters, Stop
from specdiff_core.schema.errors import Failure, SpecDiffError, Stopped
from specdiff_core.schema.events import Event
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import event_of_line

STOP = "stop"
"""Message that ends the current call, if any."""
GLANCE = 0.2
"""Seconds between checks of the visitor's stop event."""
PATIENCE = 20.0
"""Seconds that a stopped call may take (its current pass must end); then its process is killed."""
SLICE = 1.0
"""Seconds of an exploration after which other runs may decode, once its current run ends."""

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

    Pipe = Connection[Any, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """A request: load a pair, load another drafter of it, or (with a trace) record one decode."""

    pair: str
    drafter: str = ""
    trace: Path | None = None
    lane: str = ""
    prompt: str = ""
    config: DecodeConfig = field(default_factory=DecodeConfig)
    options: dict[str, Any] = field(default_factory=dict)  # of Decoder.decode, without the stop event


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an exploration: a new one, or (with ``what`` None) the current one, if it has that
    number. Between two parts the process can serve other calls."""

    pair: str
    what: Exploration | None
    number: int


class Remote:
    """A process with loaded pairs that serves one call at a time, started at the first load.

    Args:
        load: loads pairs there; must be importable by name.
    """

    def __init__(self, load: Loader = load_engine) -> None:
        self._load = load
        self._turn = threading.Lock()
        self._context = multiprocessing.get_context("spawn")  # a fork would inherit threads and sockets
        self._process: Any = None
        self._pipe: Pipe | None = None
        self._over = False
        self.numbers = itertools.count()  # of explorations
        atexit.register(self._end)

    def _end(self) -> None:
        self._over = True
        self.close()

    def alive(self) -> bool:
        """Whether the process is running."""
        return self._pipe is not None and self._process.is_alive()

    def close(self) -> None:
        """End the process, also during a decode; the next :meth:`load` starts another."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
            self._process.join(2)
            self._process.kill()

    def load(self, pair: str, progress: Progress) -> Decoder:
        """Load ``pair`` in the process: a :class:`~app.run.engines.Loader`."""
        pipe = self._pipe if self._pipe is not None and self.alive() else self._start()
        self.follow(Call(pair), pipe, progress)
        return RemoteDecoder(self, pipe, pair)

    def follow(self, call: Call, pipe: Pipe, progress: Progress) -> None:
        """Report a load's progress; an exception from ``progress`` ends it."""
        with contextlib.closing(self.ask(call, pipe)) as messages:
            for message in messages:
                progress(message)

    def _start(self) -> Pipe:
        self.close()
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs, self._load), name="decode", daemon=True)
        self._process.start()
        theirs.close()  # otherwise its death would not end our reading
        return self._pipe

    def ask(self, call: Call | Slice, pipe: Pipe, stop: Stop | None = None) -> Generator[Any, None, None]:
        """Send ``call`` through ``pipe`` and yield the answers; ``stop`` ends it at its next pass.

        Raises:
            Exception: the exception that ended the call, with its traceback as the cause.
            SpecDiffError: the process died.
        """
        with self._turn:
            answer: Any = None
            try:
                pipe.send(call)
                answer = ()
                while not _is_last(answer := self._next(pipe, stop)):
                    yield answer
            except (EOFError, OSError) as error:
                answer = None
                if pipe is self._pipe:
                    self.close()
                raise SpecDiffError(
                    "The server is shutting down."
                    if self._over
                    else "The decoding process ended unexpectedly, often for lack of memory.",
                    hint="Reload the page when it is back." if self._over else "Run again to start a new one.",
                ) from (None if self._over else error)
            finally:
                if not _is_last(answer):  # the caller left early
                    self._drain(pipe)
        if answer is not None:
            answer.throw()

    def _next(self, pipe: Pipe, stop: Stop | None) -> Any:
        """The next answer; checks the visitor's stop event meanwhile."""
        asked = math.inf
        while not pipe.poll(GLANCE):
            if asked == math.inf and stop is not None and stop.is_set():
                pipe.send(STOP)
                asked = time.monotonic()
            if time.monotonic() - asked > PATIENCE:
                raise EOFError("it does not stop")
        return pipe.recv()

    def _drain(self, pipe: Pipe) -> None:
        """Stop the current call and read its remaining answers."""
        with contextlib.suppress(EOFError, OSError):  # the process died; the next call reports it
            pipe.send(STOP)
            while pipe.poll(PATIENCE):
                if _is_last(pipe.recv()):
                    return
        self.close()


class RemoteDecoder:
    """A pair in the decoding process; a :class:`~specdiff_core.schema.decoder.Decoder`."""

    def __init__(self, remote: Remote, pipe: Pipe, pair: str) -> None:
        self._remote, self._pipe, self._pair = remote, pipe, pair

    def record(
        self, prompt: str, config: DecodeConfig, trace: Path, lane: str, *, stop: Stop | None = None, **options: Any
    ) -> Generator[Recorded, None, None]:
        """Append one decode to a trace file there: a :class:`~app.run.race.Records`."""
        call = Call(self._pair, trace=trace, lane=lane, prompt=prompt, config=config, options=options)
        yield from self._remote.ask(call, self._pipe, stop)

    def decode(self, prompt: str, config: DecodeConfig, *, stop: Stop | None = None, **options: Any) -> Iterator[Event]:
        """Yield the events of one decode, as its recording grows."""
        with tempfile.TemporaryDirectory(prefix="specdiff-") as folder:
            trace = Path(folder) / "trace.jsonl"
            trace.touch()
            parts = self.record(prompt, config, trace, "", stop=stop, **options)
            with contextlib.closing(parts), trace.open("rb") as file:
                for recorded in parts:
                    while file.tell() < recorded.size:
                        yield event_of_line(file.readline())

    def load_drafter(self, drafter: str, progress: Progress) -> None:
        """Load a drafter there: a :class:`~specdiff_core.schema.decoder.LoadsDrafters`."""
        self._remote.follow(Call(self._pair, drafter=drafter), self._pipe, progress)

    def explore(self, what: Exploration, stop: Stop) -> Iterator[Snapshot]:
        """An exploration, part by part; other runs may decode between two parts."""
        part: Exploration | None = what
        number, over = next(self._remote.numbers), False
        while not over:
            snapshots, failed = list[Snapshot](), None
            try:
                snapshots += self._remote.ask(Slice(self._pair, part, number), self._pipe, stop)
            except Exception as error:  # raised after the results before it
                failed = error
            yield from snapshots
            if failed is not None:
                raise failed
            part, over = None, snapshots[-1].over


def engines_elsewhere(load: Loader = load_engine) -> Engines:
    """The default factory with its pairs in a decoding process."""
    remote = Remote(load)
    return Engines(remote.load, alive=remote.alive)


def _is_last(answer: Any) -> bool:
    return answer is None or isinstance(answer, Failure)


def _serve(connection: Pipe, load: Loader) -> None:
    """Main function of the process: answer calls until the server is gone. Each ends with None or a
    :class:`Failure`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the server's end ends this process
    calls: SimpleQueue[Any] = SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(connection, calls, stop), name="listen", daemon=True).start()
    served = _Served(connection, stop, load)
    with contextlib.suppress(OSError):  # the server is gone
        while (call := calls.get()) is not None:
            last: Failure | None = None
            try:
                served.answer(call)
            except Exception as error:  # raised again in the server
                last = Failure.of(error)
            connection.send(last)


def _listen(connection: Pipe, calls: SimpleQueue[Any], stop: threading.Event) -> None:
    """Receive calls, and :data:`STOP` for the call before it."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            received = connection.recv()
            if received == STOP:
                stop.set()
            else:
                stop.clear()
                calls.put(received)
    stop.set()
    calls.put(None)


class _Served:
    """The state of the process, and its answers."""

    def __init__(self, connection: Pipe, stop: threading.Event, load: Loader) -> None:
        self._connection, self._stop, self._load = connection, stop, load
        self._loaded: dict[str, Decoder] = {}
        self._exploring: Exploring | None = None
        self._number = 0  # of that one

    def answer(self, call: Call | Slice) -> None:
        """Send messages while a pair loads, an exploration's snapshot, or the progress of a recording."""
        if isinstance(call, Slice):
            self._explore(call)
        elif call.drafter:
            cast(LoadsDrafters, self._loaded[call.pair]).load_drafter(call.drafter, self._report)
        elif call.trace is None:
            self._loaded[call.pair] = self._load(call.pair, self._report)
        else:
            events = self._loaded[call.pair].decode(call.prompt, call.config, stop=self._stop, **call.options)
            for recorded in record(events, call.trace, call.lane):
                self._connection.send(recorded)

    def _report(self, message: str) -> None:
        if self._stop.is_set():
            raise Stopped
        self._connection.send(message)

    def _explore(self, part: Slice) -> None:
        if part.what is not None:
            self._exploring = Exploring(part.what, cast("Engine", self._loaded[part.pair]), self._stop.is_set)
            self._number = part.number
        if self._exploring is None or part.number != self._number:
            raise SpecDiffError("This exploration has ended.", hint="Run it again.")
        try:
            snapshot = self._exploring.advance(SLICE)
        except Exception:
            exploring, self._exploring = self._exploring, None
            if (snapshot := exploring.snapshot()).done:
                self._connection.send(snapshot)
            raise
        if snapshot.over:
            self._exploring = None
        self._connection.send(snapshot)
