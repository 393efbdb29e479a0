"""A race in a thread of its own: its lanes are decoded one after the other, and other threads may watch."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from app.content.error_cards import Card, card
from app.run.engines import Factory
from app.run.turns import SHARES, TURNS, LimitReached
from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.errors import Stopped
from specdiff_core.schema.events import Committed, Event, Failed, Finished, PiecesSeen, RunStarted
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.settings import DecodeConfig

SETTLE = 0.4
"""Seconds of the first lane's warm-up, in which a page redraws itself for the race (measured: 0.15 s of a core). Each
lane has its own warm-up, so that neither pays for the other."""
BETWEEN = 0.5
"""Seconds of the next lane's warm-up, in which a page draws the text of the one that is done."""
NEWS = (RunStarted, PiecesSeen, Committed, Finished, Failed)
"""What the page hears while a lane is measured; everything else waits for the whole trace."""

Lanes = Mapping[str, DecodeConfig]
"""What a race decodes: name -> settings, in the order of measurement, the baseline first."""
Planner = Callable[[Mapping[str, Any]], Lanes]
"""Untrusted values to lanes; raises ConfigError."""


def warm_up_of(lane: str) -> float:
    """Seconds of a lane's warm-up while a page watches."""
    return SETTLE if lane == BASELINE else BETWEEN


def tokens_of(runs: Iterable[Iterable[Event]]) -> int:
    """New tokens in the events of runs."""
    return sum(len(event.ids) for run in runs for event in tuple(run) if isinstance(event, Committed))


class RaceJob:
    """One race. Other threads may read ``lanes``, ``phase``, ``lane`` and ``news`` while it runs.

    Args:
        run: the name under which errors are logged.
        watched: whether a page draws what happens: it gets the time of a longer warm-up before each clock starts.
        threads: CPU threads of the decodes; 0: what a probe before the first lane finds quickest.
        visitor: whose share of the server it takes; nobody's where there is none.
        stop: ends it; one of its own where nobody else has one.
    """

    def __init__(
        self,
        factory: Factory,
        prompt: str,
        plan: Lanes,
        *,
        run: str = "",
        watched: bool = False,
        threads: int = 0,
        visitor: str = "",
        stop: threading.Event | None = None,
    ) -> None:
        self.plan = plan
        self.lanes: dict[str, list[Event]] = {}
        self.news: deque[tuple[str, str | Event]] = deque()  # ("", progress message) or (lane, event)
        self.stop, self.done = stop or threading.Event(), threading.Event()
        self.error: Exception | None = None
        self.failures: dict[str, Card] = {}  # lane -> why it could not run, or not to its end
        self.phase, self.lane = "loading", ""  # then for each lane: "warming", "measuring"
        self._factory, self._prompt, self._run_name = factory, prompt, run
        self._watched, self._threads, self._visitor = watched, threads, visitor
        self._fresh = threading.Event()  # another lane has begun, or the race is over

    def start(self) -> None:
        """Begin; ``done`` is set at the end, whatever happens."""
        threading.Thread(target=self._run, name="decode", daemon=True).start()

    def _run(self) -> None:
        with TURNS.short():
            self._race()

    def _race(self) -> None:
        try:
            lanes = self._ready()
            with SHARES.of(self._visitor, self.stop, lambda: tokens_of(self.lanes.values())):
                self._decode_all(lanes)
        except LimitReached as error:
            if self.lanes:  # in the middle: what was decoded is shown
                self._fail(self.lane, error)
            else:
                self.error = error
        except Exception as error:  # every failure becomes a card (content/error_cards.py), in the thread that shows it
            self.error = error
        finally:
            self.done.set()
            self._fresh.set()

    def _decode_all(self, lanes: Iterable[str]) -> None:
        for lane in lanes:  # one after the other: two lanes at once would disturb each other
            if self.stop.is_set():
                break
            try:
                self._decode(lane, self.plan[lane])
            except Stopped:
                break
            except Exception as error:
                if not any(self.lanes.values()):  # the pair or the prompt is to blame
                    raise
                self._fail(lane, error)

    def _ready(self) -> list[str]:
        """The lanes that can run. Every drafter is made ready before the first clock starts, so a lane that cannot run
        says so at once and costs itself only; where no drafted lane is left, the race fails as a whole."""
        failures: dict[str, Exception] = {}
        for lane, settings in self.plan.items():
            if self.stop.is_set():
                return []
            self.lane = lane
            try:
                self._engine(settings)
            except Stopped:
                return []
            except Exception as error:
                failures[lane] = error
        drafted = [lane for lane in self.plan if lane != BASELINE]
        if failures and (BASELINE in failures or all(lane in failures for lane in drafted)):
            raise next(iter(failures.values()))
        for lane, error in failures.items():
            self._fail(lane, error)
        return [lane for lane in self.plan if lane not in failures]

    def _engine(self, settings: DecodeConfig) -> Decoder:
        return self._factory(settings.pair, settings.drafter, self._hear)

    def _hear(self, message: str) -> None:
        if self.stop.is_set():
            raise Stopped
        self.news.append(("", message))

    def _decode(self, lane: str, settings: DecodeConfig) -> None:
        """Decode one lane, with its own warm-up off the clock."""
        self.phase, self.lane = "loading", lane
        engine = self._engine(settings)  # asked again, because the one before may be gone
        self.phase = "warming"
        warm_up = warm_up_of(lane) if self._watched else 0.0
        events = engine.decode(
            self._prompt, settings, grain="step", stop=self.stop, warm_up=warm_up, threads=self._threads
        )
        self._listen(lane, events)

    def _fail(self, lane: str, error: Exception) -> None:
        """A lane ends with the reason, as its own last event; what it decoded until then stays."""
        shown = self.failures[lane] = card(error, self._run_name)
        failed = Failed(code=shown["code"], message=shown["message"], hint=shown["hint"], run=shown["run"])
        self.lanes.setdefault(lane, []).append(failed)
        self.news.append((lane, failed))

    def _listen(self, lane: str, events: Iterator[Event]) -> None:
        heard = self.lanes.setdefault(lane, [])
        for event in events:
            if heard and isinstance(heard[-1], RunStarted):
                self.phase = "measuring"
            heard.append(event)
            if isinstance(event, NEWS):
                self.news.append((lane, event))
            if isinstance(event, RunStarted):  # its warm-up begins: the page hears now, and not while it is measured
                self._threads = event.threads  # the other lanes run on as many
                self._fresh.set()

    def wait(self, seconds: float) -> bool:
        """Wait until another lane begins, the race ends or the time is over; whether the race goes on."""
        self._fresh.wait(seconds)
        self._fresh.clear()
        return not self.done.is_set()

    def drain(self) -> list[tuple[str, str | Event]]:
        """What happened since the last call."""
        return [self.news.popleft() for _ in range(len(self.news))]
