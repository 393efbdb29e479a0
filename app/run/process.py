"""Decodes in a process of its own, so that serving the page and measuring never share an interpreter.

While the page is being built the other process already loads; while it decodes, nothing the server does can hold its
interpreter; and if it dies, the page lives on and the next run starts another.
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
from specdiff_core.schema.decoder import Brings, Decoder, Stop
from specdiff_core.schema.errors import Failure, SpecDiffError, Stopped
from specdiff_core.schema.events import Event
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import event_of_line

STOP = "stop"
"""Ends the call under way; where none is, nothing happens."""
GLANCE = 0.2
"""Seconds between looks at the visitor's stop event."""
PATIENCE = 20.0
"""Seconds that a stopped call may take to end (its pass of the model ends first); then its process is killed."""
SLICE = 1.0
"""Seconds of an exploration after which others may decode; the run under way ends first."""

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

    Pipe = Connection[Any, Any]


@dataclass(frozen=True, slots=True)
class Call:
    """What the server asks for: a loaded pair, another drafter of it, or (with a trace) the recording of one decode."""

    pair: str
    drafter: str = ""
    trace: Path | None = None
    lane: str = ""
    prompt: str = ""
    config: DecodeConfig = field(default_factory=DecodeConfig)
    options: dict[str, Any] = field(default_factory=dict)  # of Decoder.decode, but for the stop event


@dataclass(frozen=True, slots=True)
class Slice:
    """A part of an exploration: of a new one, or (with ``what`` None) of the one under way, if it still has that
    number. Between two parts the other process is free."""

    pair: str
    what: Exploration | None
    number: int


class Remote:
    """A process that holds loaded pairs and serves one call at a time. It starts when first asked to load.

    Args:
        load: loads pairs over there; must be importable by name.
    """

    def __init__(self, load: Loader = load_engine) -> None:
        self._load = load
        self._turn = threading.Lock()
        self._context = multiprocessing.get_context("spawn")  # a fork would inherit the server's threads and sockets
        self._process: Any = None
        self._pipe: Pipe | None = None
        self._over = False
        self.numbers = itertools.count()  # of explorations
        atexit.register(self._end)

    def _end(self) -> None:
        self._over = True
        self.close()

    def alive(self) -> bool:
        """Whether the process, and all that it loaded, is there."""
        return self._pipe is not None and self._process.is_alive()

    def close(self) -> None:
        """End the process, and a decode in it at its next pass; the next :meth:`load` starts another."""
        pipe, self._pipe = self._pipe, None
        if pipe is not None:
            pipe.close()
            self._process.join(2)
            self._process.kill()  # what does not end by itself does not read the pipe either

    def load(self, pair: str, progress: Progress) -> Decoder:
        """Load ``pair`` over there: a :class:`~app.run.engines.Loader`."""
        pipe = self._pipe if self._pipe is not None and self.alive() else self._start()
        self.follow(Call(pair), pipe, progress)
        return RemoteDecoder(self, pipe, pair)

    def follow(self, call: Call, pipe: Pipe, progress: Progress) -> None:
        """Report how far a load over there is; what ``progress`` raises ends it."""
        with contextlib.closing(self.ask(call, pipe)) as messages:
            for message in messages:
                progress(message)

    def _start(self) -> Pipe:
        self.close()
        self._pipe, theirs = self._context.Pipe()
        self._process = self._context.Process(target=_serve, args=(theirs, self._load), name="decode", daemon=True)
        self._process.start()
        theirs.close()  # so that its death ends our reading
        return self._pipe

    def ask(self, call: Call | Slice, pipe: Pipe, stop: Stop | None = None) -> Generator[Any, None, None]:
        """Send ``call`` through ``pipe`` and yield what comes back; ``stop`` ends it at its next pass.

        Raises:
            Exception: whatever ended the call over there, with its traceback as the cause.
            SpecDiffError: the process at the other end has died.
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
                    else "The process that decodes ended without a word; often the system was short of memory.",
                    hint="Reload the page when it is back." if self._over else "Run again: a new one starts.",
                ) from (None if self._over else error)  # an end that was asked for is no fault to trace
            finally:
                if not _is_last(answer):  # nobody follows any more
                    self._drain(pipe)
        if answer is not None:
            answer.throw()

    def _next(self, pipe: Pipe, stop: Stop | None) -> Any:
        """The next answer, with an eye on the visitor's stop event."""
        asked = math.inf
        while not pipe.poll(GLANCE):
            if asked == math.inf and stop is not None and stop.is_set():
                pipe.send(STOP)
                asked = time.monotonic()
            if time.monotonic() - asked > PATIENCE:
                raise EOFError("it does not stop")
        return pipe.recv()

    def _drain(self, pipe: Pipe) -> None:
        """Stop the call under way and read it to its end, so that the next one gets its own answers."""
        with contextlib.suppress(EOFError, OSError):  # dead: the next call finds out
            pipe.send(STOP)
            while pipe.poll(PATIENCE):
                if _is_last(pipe.recv()):
                    return
        self.close()


class RemoteDecoder:
    """A pair in the other process; a :class:`~specdiff_core.schema.decoder.Decoder`."""

    def __init__(self, remote: Remote, pipe: Pipe, pair: str) -> None:
        self._remote, self._pipe, self._pair = remote, pipe, pair

    def record(
        self, prompt: str, config: DecodeConfig, trace: Path, lane: str, *, stop: Stop | None = None, **options: Any
    ) -> Generator[Recorded, None, None]:
        """Append one decode to a trace file over there: a :class:`~app.run.race.Records`."""
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

    def bring(self, drafter: str, progress: Progress) -> None:
        """Load a drafter over there: a :class:`~specdiff_core.schema.decoder.Brings`."""
        self._remote.follow(Call(self._pair, drafter=drafter), self._pipe, progress)

    def explore(self, what: Exploration, stop: Stop) -> Iterator[Snapshot]:
        """An exploration, part by part; while nobody asks for the next one, others may decode."""
        part: Exploration | None = what
        number, over = next(self._remote.numbers), False
        while not over:
            told, failed = list[Snapshot](), None
            try:
                told += self._remote.ask(Slice(self._pair, part, number), self._pipe, stop)
            except Exception as error:  # raised after what was found before it
                failed = error
            yield from told
            if failed is not None:
                raise failed
            part, over = None, told[-1].over


def engines_elsewhere(load: Loader = load_engine) -> Engines:
    """The default factory with its pairs in another process; if that dies, the next run loads and warms up again."""
    remote = Remote(load)
    return Engines(remote.load, alive=remote.alive)


def _is_last(answer: Any) -> bool:
    return answer is None or isinstance(answer, Failure)


def _serve(connection: Pipe, load: Loader) -> None:
    """The other process: answer calls until the server is gone. Each ends with None or a :class:`Failure`."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C ends the server, and its end ends this
    calls: SimpleQueue[Any] = SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(connection, calls, stop), name="listen", daemon=True).start()
    served = _Served(connection, stop, load)
    with contextlib.suppress(OSError):  # nobody reads any more
        while (call := calls.get()) is not None:
            last: Failure | None = None
            try:
                served.answer(call)
            except Exception as error:  # raised again over there
                last = Failure.of(error)
            connection.send(last)


def _listen(connection: Pipe, calls: SimpleQueue[Any], stop: threading.Event) -> None:
    """Receive calls, and :data:`STOP` while one is answered; the order in the pipe says which call it means."""
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
    """What the other process holds, and how it answers."""

    def __init__(self, connection: Pipe, stop: threading.Event, load: Loader) -> None:
        self._connection, self._stop, self._load = connection, stop, load
        self._loaded: dict[str, Decoder] = {}
        self._exploring: Exploring | None = None
        self._number = 0  # of that one

    def answer(self, call: Call | Slice) -> None:
        """Messages while a pair loads, what a part of an exploration found, or how far the recording of a decode is."""
        if isinstance(call, Slice):
            self._explore(call)
        elif call.drafter:
            cast(Brings, self._loaded[call.pair]).bring(call.drafter, self._report)
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
