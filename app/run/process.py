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
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, cast

from specdiff_core.explorations.base import Exploration
from specdiff_core.explorations.run import Snapshot
from specdiff_core.schema.decoder import Decoder, LoadsDrafters, Stop
from specdiff_core.schema.errors import SpecDiffError, Stopped, picklable
from specdiff_core.schema.events import Event
from specdiff_core.schema.settings import DecodeConfig

from ..temporary import own_folder, sweep
from .engines import Engines, Loader, Progress, load_engine
from .exploration import parts
from .job import BEAT
from .record import Ask, Update, record
from .turns import Queue

STOP = "stop"
"""Message that ends the current call, if any."""
STOP_CHECK = 0.2
"""Seconds between checks of the visitor's stop event."""
STOPS_WITHIN = 20.0
"""Seconds that a stopped call may take (its current pass must end); then its process is killed."""
SILENT = 60
"""Looks, one a second, that find no pulse before a process is killed: something suspended it. Its pulse needs only the
interpreter, which no pass holds. Looks are counted because a suspended or slow machine delays them as much."""
HELD = 4
"""Paused explorations that are kept: more than run at once, because abandoned ones never end."""

if TYPE_CHECKING:
    Pipe = Connection[Any, Any]


class Remote:
    """A process with loaded pairs that serves one call at a time, started at the first load.

    Args:
        load: loads pairs there; must be importable by name.
    """

    def __init__(self, load: Loader = load_engine) -> None:
        self._load = load
        self._calls = Queue(1)
        self._child: _Child | None = None
        self._over = False
        self.numbers = itertools.count()  # of explorations
        atexit.register(self.end)

    def end(self) -> None:
        """End the process when the server ends: at once, because a container's grace is short."""
        self._over = True
        self.close(patience=0)

    def alive(self) -> bool:
        return self._child is not None and self._child.alive()

    def close(self, patience: float = 2) -> None:
        """End the process, also during a decode, and kill it after ``patience`` seconds; the next :meth:`load` starts
        another."""
        if self._child is not None:
            self._child.end(patience)

    def load(self, pair: str, progress: Progress) -> Decoder:
        """Load ``pair`` in the process: a :class:`~app.run.engines.Loader`."""
        child = self._child
        if child is None or not child.alive():
            if self._over:
                raise _shutting_down()
            child = self._child = _Child(self._load)
            if self._over:  # meanwhile
                child.end(0)
        self.report(progress, child, "load", pair)
        return RemoteDecoder(self, child, pair)

    def report(self, progress: Progress, child: _Child, *call: Any) -> None:
        """Report a load's progress; an exception from ``progress`` ends it."""
        with contextlib.closing(self.ask(child, *call)) as messages:
            for message in messages:
                progress(message)

    def ask(self, child: _Child, *call: Any, stop: Stop | None = None) -> Generator[Any, None, None]:
        """Call a method of :class:`_Served`: send its name and its arguments, and yield the answers; "" now and then
        while there is none. ``stop`` ends it at its next pass.

        Raises:
            Exception: the exception that ended the call, with its traceback as the cause.
            SpecDiffError: the process died.
            Stopped: ``stop`` was set while another call was running.
        """

        def check(position: object) -> None:
            if stop is not None and stop.is_set():
                raise Stopped

        answer: Any = None
        with self._calls.turn(check):
            try:
                child.pipe.send(call)
                answer = ()
                for answer in child.answers(stop):
                    if _is_last(answer):
                        break
                    yield answer
            except (EOFError, OSError) as error:
                answer = None
                child.end()
                if self._over:
                    raise _shutting_down() from None
                how = (
                    "stopped responding and was ended."
                    if child.hangs
                    else "ended unexpectedly. It may have run out of memory."
                )
                raise SpecDiffError(f"The decoding process {how}", hint="Run again to start a new one.") from error
            finally:
                if not _is_last(answer):  # the caller left early
                    child.drain()
        if answer is not None:
            raise answer


class _Child:
    """The process, and the server's end of its pipe."""

    def __init__(self, load: Loader) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and sockets
        self.pipe, theirs = context.Pipe()
        self._pulse = context.Value("L", lock=False)  # counts its seconds
        self.hangs = False  # it was killed because it did not respond
        whole = (theirs, load, self._pulse)
        self.process = context.Process(target=_serve, args=whole, name="decode", daemon=True)
        self.process.start()
        theirs.close()  # otherwise its death would not end our reading
        threading.Thread(target=self._watch, name="watch", daemon=True).start()

    def alive(self) -> bool:
        return not self.pipe.closed and self.process.is_alive()

    def end(self, patience: float = 2) -> None:
        """End it, and kill it after ``patience`` seconds; what it left in its temporary folder is removed."""
        self.pipe.close()
        self.process.join(patience)
        self.process.kill()
        self.process.join(2)
        sweep()

    def _watch(self) -> None:
        """Kill it once its pulse has stopped, whoever waits for it."""
        silent, pulse = 0, 0
        while not wait([self.process.sentinel], 1):
            silent, pulse = silent + 1 if pulse == self._pulse.value else 0, self._pulse.value
            if silent > SILENT:
                self.hangs = True
                self.process.kill()

    def answers(self, stop: Stop | None) -> Iterator[Any]:
        """The answers of the current call as they come, and "" every :data:`BEAT` seconds without one, so that its
        caller can end it. Forwards the visitor's stop to the process.

        Raises:
            EOFError: the process has died, or doesn't stop.
        """
        stopped_at, yielded = math.inf, time.monotonic()
        while True:
            if stopped_at == math.inf and stop is not None and stop.is_set():
                self.pipe.send(STOP)
                stopped_at = time.monotonic()
            answered, now = self.pipe.poll(STOP_CHECK), time.monotonic()
            if not answered and now - stopped_at > STOPS_WITHIN:
                self.hangs = True
                raise EOFError("it does not stop")
            if answered or now - yielded > BEAT:
                yield self.pipe.recv() if answered else ""
                yielded = time.monotonic()

    def drain(self) -> None:
        """Stop the current call and read its remaining answers."""
        with contextlib.suppress(EOFError, OSError):  # it died; the next call reports it
            self.pipe.send(STOP)
            while self.pipe.poll(STOPS_WITHIN):
                if _is_last(self.pipe.recv()):
                    return
        self.end()


class RemoteDecoder:
    """A pair in the decoding process; a :class:`~specdiff_core.schema.decoder.Decoder`."""

    def __init__(self, remote: Remote, child: _Child, pair: str) -> None:
        self._remote, self._child, self._pair = remote, child, pair

    def warm_up(self, config: DecodeConfig, progress: Progress = lambda message: None, threads: int = 0) -> None:
        """Warm up there."""
        self._remote.report(progress, self._child, "warm_up", self._pair, config, threads)

    def race(self, ask: Ask, now: Update, *, stop: Stop) -> Generator[Update, None, None]:
        """Race there, into a trace file: a :class:`~app.run.record.Races`."""
        yield from self._remote.ask(self._child, "race", self._pair, ask, now, stop=stop)

    def decode(self, prompt: str, config: DecodeConfig, *, stop: Stop | None = None, **options: Any) -> Iterator[Event]:
        """Yield the events of one decode."""
        answers = self._remote.ask(self._child, "decode", self._pair, prompt, config, options, stop=stop)
        yield from filter(None, answers)

    def load_drafter(self, drafter: str, progress: Progress) -> None:
        """Load a drafter there: a :class:`~specdiff_core.schema.decoder.LoadsDrafters`."""
        self._remote.report(progress, self._child, "load_drafter", self._pair, drafter)

    def explore(self, exploration: Exploration, stop: Stop) -> Iterator[Snapshot | str]:
        """An exploration, part by part, and "" now and then during a part; other runs may decode between two parts."""
        new: Exploration | None = exploration
        number, over = next(self._remote.numbers), False
        while not over:
            for answer in self._remote.ask(self._child, "explore", self._pair, new, number, stop=stop):
                if answer == "":
                    yield ""
            yield answer  # the part, once the call has ended
            new, over = None, answer.over


def engines_elsewhere(load: Loader = load_engine) -> Engines:
    """The default factory with its pairs in a decoding process."""
    remote = Remote(load)
    return Engines(remote.load, alive=remote.alive)


def _shutting_down() -> SpecDiffError:
    return SpecDiffError("The server is shutting down.", hint="Reload the page once it is running again.")


def _is_last(answer: Any) -> bool:
    return answer is None or isinstance(answer, Exception)


def _serve(connection: Pipe, load: Loader, pulse: Any) -> None:
    """Main function of the process: answer calls until the server is gone. Each ends with None or
    the exception that it raised."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group: the server's end ends this process
        signal.signal(number, signal.SIG_IGN)
    tempfile.tempdir = str(own_folder())  # if this process is killed, the server removes it
    calls: SimpleQueue[Any] = SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(connection, calls, stop), name="listen", daemon=True).start()
    threading.Thread(target=_beat, args=(pulse,), name="beat", daemon=True).start()
    served = _Served(connection, stop, load)
    with contextlib.suppress(OSError):  # the server is gone
        while (call := calls.get()) is not None:
            last: Any = None
            try:
                for value in getattr(served, call[0])(*call[1:]) or ():
                    connection.send(value)
            except Exception as error:  # raised again in the server
                last = picklable(error)
            connection.send(last)


def _beat(pulse: Any) -> None:
    """Show that the process runs, whatever its call does."""
    never = threading.Event()
    while not never.wait(1):
        pulse.value += 1


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
    """The loaded pairs and current explorations. Methods may return answers for the server."""

    def __init__(self, connection: Pipe, stop: threading.Event, load: Loader) -> None:
        self._connection, self._stop, self._load = connection, stop, load
        self._loaded: dict[str, Decoder] = {}
        self._parts: dict[int, Iterator[Snapshot]] = {}  # by number, last used last

    def load(self, pair: str) -> None:
        """Load a pair, sending its progress."""
        self._loaded[pair] = self._load(pair, self._report)

    def load_drafter(self, pair: str, drafter: str) -> None:
        """Load a drafter of a loaded pair, sending its progress."""
        cast(LoadsDrafters, self._loaded[pair]).load_drafter(drafter, self._report)

    def warm_up(self, pair: str, config: DecodeConfig, threads: int) -> None:
        """Warm up a loaded pair, sending its progress."""
        self._loaded[pair].warm_up(config, self._report, threads)

    def race(self, pair: str, ask: Ask, now: Update) -> Iterator[Update]:
        """Record a race."""
        return record(self._loaded[pair], ask, now, self._stop)

    def decode(self, pair: str, prompt: str, config: DecodeConfig, options: dict[str, Any]) -> Iterator[Event]:
        """The events of one decode; ``options`` go to the decoder, besides the stop event."""
        return self._loaded[pair].decode(prompt, config, stop=self._stop, **options)

    def explore(self, pair: str, new: Exploration | None, number: int) -> Iterator[Snapshot]:
        """Yield the next part of an exploration, a ``new`` one or the one of that number. Between
        two parts the process can answer other calls."""
        running = self._parts.pop(number, None) if new is None else parts(self._loaded[pair], new, self._stop)
        if running is None:
            raise SpecDiffError("This exploration has ended.", hint="Run it again.")
        while len(self._parts) >= HELD:
            del self._parts[next(iter(self._parts))]
        snapshot = next(running)
        if not snapshot.over:
            self._parts[number] = running
        yield snapshot

    def _report(self, message: str) -> None:
        if self._stop.is_set():
            raise Stopped
        self._connection.send(message)
