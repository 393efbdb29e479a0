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
from collections.abc import Callable, Generator, Iterator
from ctypes import c_ulong
from functools import partial
from multiprocessing.connection import Connection, wait
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, TypeVarTuple

from specdiff_core.explorations.base import Exploration
from specdiff_core.explorations.run import Snapshot
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import SpecDiffError, Stopped, picklable
from specdiff_core.schema.settings import DecodeConfig

from ..temporary import own_folder, sweep
from .engines import Engines
from .job import BEAT, Tick
from .progress import UNCHANGED, Progress
from .record import Ask, Update
from .runner import LocalRunner, Runner, load_here
from .turns import Queue

A = TypeVar("A")
Ts = TypeVarTuple("Ts")
Load = Callable[[str, Progress], LocalRunner]

STOP = "stop"
"""Message that ends the current call, if any."""
STOP_CHECK = 0.2
"""Seconds between checks of the visitor's stop event."""
STOPS_WITHIN = 20.0
"""Seconds that a stopped call may take (its current pass must end); then its process is killed."""
SILENT = 60
"""Looks, one a second, that find no pulse before a process is killed: something suspended it. Its pulse needs only the
interpreter, which no pass holds. Looks are counted because a suspended or slow machine delays them as much."""
HUNG = "stopped responding and was ended."
HELD = 4
"""Paused explorations that are kept: more than run at once, because abandoned ones never end."""

if TYPE_CHECKING:
    Method = Callable[["_Served", Callable[[A], None], *Ts], None]
    """A method of :class:`_Served` that sends answers A."""
    Call = tuple[Callable[..., None], tuple[Any, ...]]
    """Such a method, and its arguments behind the function that sends."""
    Pipe = Connection[Any, Any]
    """To the process a :data:`Call` or :data:`STOP`; from it the answers of the call, then its :class:`End`."""


class End(NamedTuple):
    """The end of a call, perhaps by an exception."""

    error: Exception | None


class Remote:
    """A process with loaded pairs that serves one call at a time, started at the first load.

    Args:
        load: loads pairs there; must be importable by name.
    """

    def __init__(self, load: Load = load_here) -> None:
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

    def load(self, pair: str, progress: Progress) -> RemoteRunner:
        """Load ``pair`` in the process."""
        child = self._child
        if child is None or not child.alive():
            if self._over:
                raise _shutting_down()
            child = self._child = _Child(self._load)
            if self._over:  # meanwhile
                child.end(0)
        self.report(progress, child, _Served.load, pair)
        return RemoteRunner(self, child, pair)

    def report(self, progress: Progress, child: _Child, method: Method[str, *Ts], *args: *Ts) -> None:
        """Report a load's progress; an exception from ``progress`` ends it."""
        with contextlib.closing(self.ask(child, None, method, *args)) as messages:
            for message in messages:
                progress(UNCHANGED if isinstance(message, Tick) else message)

    def ask(
        self, child: _Child, stop: Stop | None, method: Method[A, *Ts], *args: *Ts
    ) -> Generator[A | Tick, None, None]:
        """Call a method in the process: yield its answers, and ticks while there is none. ``stop`` ends it at its next
        pass.

        Raises:
            Exception: the exception that ended the call, with its traceback as the cause.
            SpecDiffError: the process died.
            Stopped: ``stop`` was set while another call was running.
        """

        def check(position: object) -> None:
            if stop is not None and stop.is_set():
                raise Stopped

        with self._calls.turn(check):
            try:
                child.pipe.send((method, args))
                end = yield from child.answers(stop)
            except (EOFError, OSError) as error:
                child.end()
                if self._over:
                    raise _shutting_down() from None
                raise SpecDiffError(
                    f"The decoding process {child.ending}", hint="Run again to start a new one."
                ) from error
            except BaseException:  # the caller has left
                child.drain()
                raise
        if end.error is not None:
            raise end.error


class _Child:
    """The process, and the server's end of its pipe."""

    def __init__(self, load: Load) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would inherit threads and sockets
        self.pipe, theirs = context.Pipe()
        self._pulse: c_ulong = context.Value("L", lock=False)  # counts its seconds
        self.ending = "ended unexpectedly. It may have run out of memory."
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
                self.ending = HUNG
                self.process.kill()

    def answers(self, stop: Stop | None) -> Generator[Any, None, End]:
        """Yield the answers of the current call as they come, and a tick every :data:`BEAT` seconds without one, so
        that its caller can leave; return its end. Forwards the visitor's stop to the process.

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
                self.ending = HUNG
                raise EOFError("it does not stop")
            if answered or now - yielded > BEAT:
                answer = self.pipe.recv() if answered else Tick.DURING_PART
                if isinstance(answer, End):
                    return answer
                yield answer
                yielded = time.monotonic()

    def drain(self) -> None:
        """Stop the current call and read its remaining answers."""
        with contextlib.suppress(EOFError, OSError):  # it died; the next call reports it
            self.pipe.send(STOP)
            while self.pipe.poll(STOPS_WITHIN):
                if isinstance(self.pipe.recv(), End):
                    return
        self.end()


class RemoteRunner(Runner):
    """A pair in the decoding process."""

    def __init__(self, remote: Remote, child: _Child, pair: str) -> None:
        self._remote, self._child, self._pair = remote, child, pair

    def prepare(self, config: DecodeConfig, progress: Progress, threads: int) -> None:
        self._remote.report(progress, self._child, _Served.prepare, self._pair, config, threads)

    def race(self, ask: Ask, now: Update, stop: Stop) -> Iterator[Update | Tick]:
        return self._remote.ask(self._child, stop, _Served.race, self._pair, ask, now)

    def explore(self, exploration: Exploration, stop: Stop) -> Iterator[Snapshot | Tick]:
        """Between two parts other runs may decode."""
        new: Exploration | None = exploration
        number, over = next(self._remote.numbers), False
        while not over:
            for answer in self._remote.ask(self._child, stop, _Served.explore, self._pair, new, number):
                if isinstance(answer, Tick):
                    yield answer
            assert isinstance(answer, Snapshot), "each call measures a part"
            yield answer  # once the call has ended
            new, over = None, answer.over


def engines_elsewhere(load: Load = load_here) -> Engines:
    """Engines whose pairs are in a decoding process."""
    remote = Remote(load)
    return Engines(remote.load, alive=remote.alive)


def _shutting_down() -> SpecDiffError:
    return SpecDiffError("The server is shutting down.", hint="Reload the page once it is running again.")


def _serve(connection: Pipe, load: Load, pulse: c_ulong) -> None:
    """Main function of the process: answer calls until the server is gone."""
    for number in (signal.SIGINT, signal.SIGTERM):  # sent to the whole group: the server's end ends this process
        signal.signal(number, signal.SIG_IGN)
    tempfile.tempdir = str(own_folder())  # if this process is killed, the server removes it
    calls: SimpleQueue[Call | None] = SimpleQueue()
    stop = threading.Event()
    threading.Thread(target=_listen, args=(connection, calls, stop), name="listen", daemon=True).start()
    threading.Thread(target=_beat, args=(pulse,), name="beat", daemon=True).start()
    served = _Served(stop, load)
    with contextlib.suppress(OSError):  # the server is gone
        while (call := calls.get()) is not None:
            method, args = call
            end = End(None)
            try:
                method(served, connection.send, *args)
            except Exception as error:  # raised again in the server
                end = End(picklable(error))
            connection.send(end)


def _beat(pulse: c_ulong) -> None:
    """Show that the process runs, whatever its call does."""
    never = threading.Event()
    while not never.wait(1):
        pulse.value += 1


def _listen(connection: Pipe, calls: SimpleQueue[Call | None], stop: threading.Event) -> None:
    """Receive calls, and :data:`STOP` for the call before it; None once the server is gone."""
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
    """The loaded pairs and current explorations. Each method gets a function that sends an answer to the server."""

    def __init__(self, stop: threading.Event, load: Load) -> None:
        self._stop, self._load = stop, load
        self._loaded: dict[str, LocalRunner] = {}
        self._parts: dict[int, Iterator[Snapshot]] = {}  # by number, last used last

    def load(self, send: Progress, pair: str) -> None:
        """Load a pair."""
        self._loaded[pair] = self._load(pair, partial(self._report, send))

    def prepare(self, send: Progress, pair: str, config: DecodeConfig, threads: int) -> None:
        """Load a drafter of a loaded pair, and warm it up."""
        self._loaded[pair].prepare(config, partial(self._report, send), threads)

    def race(self, send: Callable[[Update], None], pair: str, ask: Ask, now: Update) -> None:
        """Race with a loaded pair."""
        for update in self._loaded[pair].race(ask, now, self._stop):
            send(update)

    def explore(self, send: Callable[[Snapshot], None], pair: str, new: Exploration | None, number: int) -> None:
        """Measure the next part of an exploration, a ``new`` one or the one of that number. Between
        two parts the process can answer other calls."""
        parts = self._parts.pop(number, None) if new is None else self._loaded[pair].explore(new, self._stop)
        if parts is None:
            raise SpecDiffError("This exploration has ended.", hint="Run it again.")
        while len(self._parts) >= HELD:
            del self._parts[next(iter(self._parts))]
        snapshot = next(parts)
        if not snapshot.over:
            self._parts[number] = parts
        send(snapshot)

    def _report(self, send: Progress, message: str) -> None:
        if self._stop.is_set():
            raise Stopped
        send(message)
