"""What tests let another process load. It imports this module and no test, which would import Gradio."""

from __future__ import annotations

import os
import signal
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from typing import Annotated, Any

from app_fakes import FakeDecoder
from msgspec import Meta

from app.run import process, runner
from app.run.record import Ask, Update
from specdiff_core.explorations.base import Answer, Exploration, Step
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError, OutOfMemory, SpecDiffError
from specdiff_core.schema.events import Committed, Event
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import header_line, read_trace

CONFIG = DecodeConfig(gamma=4, steps=2, max_new_tokens=24)
LONG = DecodeConfig(gamma=4, max_new_tokens=400)


class Odd(Exception):
    """Cannot be built again from its arguments, as some libraries' errors cannot."""

    def __init__(self, one: int, two: int) -> None:
        super().__init__("odd")


def load(pair: str, progress: Callable[[str], None]) -> Any:
    """What the other process loads: the name of the pair says how its decoder behaves."""
    runner.SLICE = process.STOP_CHECK / 10
    progress(f"Loading {pair}")
    if pair == "absent":
        raise ConfigError("No such pair.", field="pair", hint="Choose another.")
    if pair == "who":
        progress(tempfile.gettempdir())
        progress(str(os.getpid()))
    if pair == "half":

        def half(connection: Any, message: Any) -> None:
            os.write(connection.fileno(), message[: len(message) // 2])
            os.kill(os.getpid(), signal.SIGSTOP)

        Connection._send = half  # type: ignore[attr-defined]
        progress("half of this")
    if pair == "silent":
        time.sleep(0.5)
    while pair == "endless":
        progress("Downloading")
        time.sleep(0.005)
    if pair in (errors := {"broken": RuntimeError("a bug"), "odd": Odd(1, 2), "io": OSError("disk")}):
        raise errors[pair]
    return There(pace=0.02 if pair == "slow" else 0.0)


class Decode:
    """A race of one lane; its ``updates`` make it go on."""

    def __init__(
        self, far: runner.Runner, prompt: str = "Once", config: DecodeConfig = CONFIG, stop: Any = None
    ) -> None:
        self.trace = (ask := Ask(prompt=prompt, plan={"drafted": config})).trace
        now = Update(size=ask.trace.write_bytes(header_line(ask.plan)))
        self.updates: Any = far.race(ask, now, stop or threading.Event())

    def events(self) -> list[Event]:
        """All events, at its end."""
        for _ in self.updates:
            pass
        return [*read_trace(self.trace).lanes["drafted"]]


class There(FakeDecoder):
    """Loads drafters on request; kills its process in the middle of a decode if asked to, after so many rounds."""

    def load_drafter(self, drafter: str, progress: Callable[[str], None]) -> None:
        if drafter == "absent":
            raise SpecDiffError("No such drafter.")
        progress(f"Loading {drafter}")

    def decode(self, prompt: str, config: DecodeConfig, **options: Any) -> Iterator[Event]:
        rounds = 0
        for event in super().decode(prompt, config, **options):
            yield event
            rounds += isinstance(event, Committed)
            if prompt == f"die {rounds}":
                os._exit(9)


class Counting(Exploration, frozen=True, kw_only=True):
    """Counts, and takes its time."""

    name = "counting"
    title, question = "Counting", "How far?"

    to: Annotated[int, Meta(title="To")] = 5
    pause: Annotated[float, Meta(title="Pause")] = 0.0
    fails_at: Annotated[int, Meta(title="Fails at")] = 0
    words: Annotated[str, Meta(title="Words")] = ""

    def explore(self, engine: Any, stop: Stop) -> Iterator[Step]:
        for number in range(1, self.to + 1):
            if self.fails_at == number:
                raise OutOfMemory("The device ran out of memory.", hint="Count less far.")
            if stop.is_set():
                return
            time.sleep(self.pause)
            rows = [{"number": done} for done in range(1, number + 1)]
            answer = Answer(rows=rows, races={"1": b"race"})
            made = {"count.txt": str(number).encode()} if number >= 5 else {}
            yield Step(number, self.to, f"number {number}", lambda answer=answer: answer, lambda made=made: made)
