"""A small sweep for a visitor: a thread measures with the bench's own loop, and a generator tells the page.

As in ``session.py``, the page hears at most one frame a second while a clock runs. Stop ends the decode under way at
its next pass; that run does not count, and what was finished before it is shown.
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import os
import platform
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Annotated, Any

import msgspec

from app.content.error_cards import card, new_run_id
from app.controls import check_settings
from app.run.engines import Factory
from app.run.session import BEAT, PACE, frame, refusal
from app.run.turns import SHARES, TURNS
from app.run.worker import tokens_of
from specdiff_core.bench.comparison import comparison, races, table_of
from specdiff_core.bench.grid import BASELINE, BenchSetting
from specdiff_core.bench.prompts import Prompt, own_prompts
from specdiff_core.bench.report import sweep_result, whole_turns
from specdiff_core.bench.store import Row, RowLog
from specdiff_core.bench.sweep import sweep
from specdiff_core.provenance import Provenance, git_state
from specdiff_core.schema.decoder import Decoder, Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Event
from specdiff_core.schema.methods import METHODS, Method, find_method, methods_of
from specdiff_core.schema.settings import DecodeConfig

PAIR = "embedded"
TOKENS = 96
"""New tokens of each run, as in the bench; the end of a text is ignored, so that all runs are equally long."""
TEMPERATURES = (0.0, 0.7, 1.0)
MOST_PROMPTS, MOST_REPEATS = 5, 3
PROBE = 4
"""Tokens of the decode that shows whether a method can be used here."""
DEFAULT_METHODS = ("autoregressive", "prompt_lookup", "specdiff", "dflash", "ddtree")


class Stopped(Exception):
    """The visitor pressed Stop: the run under way was cut short and must not count."""


def choices() -> list[Method]:
    """What can be measured besides vanilla."""
    return [method for method in methods_of(PAIR) if method.drafter != "none"]


class Choice(msgspec.Struct, frozen=True):
    """What a visitor chose."""

    methods: tuple[str, ...]
    prompts: Annotated[int, msgspec.Meta(ge=1, le=MOST_PROMPTS)]  # of each flavour
    repeats: Annotated[int, msgspec.Meta(ge=1, le=MOST_REPEATS)]
    temperature: Any

    @property
    def base(self) -> DecodeConfig:
        """The settings of all runs; a ConfigError where the temperature is out of range."""
        shared = {"pair": PAIR, "max_new_tokens": TOKENS, "ignore_eos": True}
        return check_settings({**shared, "temperature": self.temperature})

    @property
    def labels(self) -> dict[BenchSetting, str]:
        """What the bench measures beside vanilla -> the method that it is."""
        methods = map(find_method, self.methods)
        return {BenchSetting.of_config(method.config(self.base)): method.label for method in methods}


def check_choice(values: Mapping[str, Any]) -> Choice:
    """A choice from untrusted values.

    Raises:
        ConfigError: nothing is chosen, or a value is unknown or out of range.
    """
    try:
        choice = msgspec.convert(values, Choice)
    except msgspec.ValidationError as error:
        hint = f"Choose methods, 1 to {MOST_PROMPTS} prompts and 1 to {MOST_REPEATS} repeats."
        raise ConfigError(f"This cannot be measured: {error}.", hint=hint) from error
    if not choice.labels or BASELINE in choice.labels:
        hint = "Choose at least one from the list."
        raise ConfigError("No method is chosen besides vanilla.", field="methods", hint=hint)
    return choice


class Watched:
    """A decoder that says what it decodes, keeps the events of the last run, and can be stopped. ``hear`` gets every
    event."""

    def __init__(self, inner: Decoder, stop: Stop, hear: Callable[[Event], None]) -> None:
        self._inner, self._stop, self._hear = inner, stop, hear
        self.config: DecodeConfig | None = None
        self.events: list[Event] = []

    def decode(self, prompt: str, config: DecodeConfig, *, stop: Stop | None = None, **options: Any) -> Iterator[Event]:
        """Yield the events of one decode.

        Raises:
            Stopped: the visitor pressed Stop meanwhile.
        """
        if self._stop.is_set():
            raise Stopped
        self.config, self.events = config, []
        for event in self._inner.decode(prompt, config, stop=stop or self._stop, **options):
            self.events.append(event)
            self._hear(event)
            yield event
        if self._stop.is_set():
            raise Stopped


class Measurement:
    """A sweep in a thread of its own. Other threads may read its attributes while it runs.

    Args:
        run: the name under which errors are logged.
        visitor: whose share of the server it takes; nobody's where there is none.
        stop: ends it; one of its own where nobody else has one.
    """

    def __init__(
        self,
        factory: Factory,
        choice: Choice,
        *,
        run: str = "",
        visitor: str = "",
        stop: threading.Event | None = None,
    ) -> None:
        self.stop, self.done = stop or threading.Event(), threading.Event()
        self.gone = threading.Event()  # nobody listens any more
        self.error: Exception | None = None
        self.message, self.phase = "Preparing the measurement", "loading"  # then warming, measuring
        self.count, self.total = 0, 0  # runs that count
        self.left: float | None = None  # seconds, an estimate
        self.result: dict[str, Any] | None = None
        self.left_out: list[str] = []  # methods that cannot be used here, each with the reason
        self._factory, self._run_name, self._visitor = factory, run, visitor
        self._tokens = 0  # of all decodes
        self._choice, self._base = choice, choice.base
        self._watched: Watched | None = None
        self._traces: dict[tuple[str, int, str], list[Event]] = {}

    def start(self) -> None:
        """Begin; ``done`` is set at the end, whatever happens."""
        threading.Thread(target=self._run, name="compare", daemon=True).start()

    @property
    def doing(self) -> str:
        """The method under way."""
        config = self._watched.config if self._watched else None
        return {BASELINE: METHODS[0].label, **self._choice.labels}[BenchSetting.of_config(config)] if config else ""

    def _run(self) -> None:
        with TURNS.short():
            self._measure()

    def _measure(self) -> None:
        try:
            prompts = own_prompts(self._choice.prompts)
            repeats = self._choice.repeats
            log: RowLog[Row] | None = None
            try:
                with SHARES.of(self._visitor, self.stop, lambda: self._tokens):
                    settings = (BASELINE, *self._usable(prompts[0].prompt))
                    for count, total, log in sweep(self._engine(), prompts, settings, self._base, repeats=repeats):
                        self._row(count, total, log)
            except Stopped:
                pass  # what was finished is folded below
            except Exception as error:  # a card tells it; what was finished before is not lost
                self.error = error
            if log is not None and self.count and not self.gone.is_set():
                self.phase = "folding"
                self.result = self._fold(log, prompts)
        except Exception as error:  # every failure becomes a card (content/error_cards.py), in the thread that shows it
            self.error = error
        finally:
            self.done.set()

    def _engine(self) -> Watched:
        """The engine of the pair, with no drafter made ready; asked for again, because the one before may be gone."""
        self._watched = Watched(self._factory(PAIR, METHODS[0].drafter, self._hear), self.stop, self._count)
        return self._watched

    def _count(self, event: Event) -> None:
        self._tokens += tokens_of([[event]])

    def _usable(self, prompt: str) -> list[BenchSetting]:
        """The settings that decode here; the others are told in ``left_out``, so that one does not cost all.

        Raises:
            Exception: what the last of them said, if none can be used.
        """
        short = dataclasses.replace(self._base, max_new_tokens=PROBE)
        usable: list[BenchSetting] = []
        failed: Exception | None = None
        for setting, label in self._choice.labels.items():
            engine = self._engine()
            self._hear("Trying each method, a few tokens long")
            try:
                for _ in engine.decode(prompt, setting.config(short), detail=False):
                    pass
            except Stopped:
                raise
            except Exception as error:  # told beside the result, logged by content/error_cards.py
                told, failed = card(error, self._run_name), error
                reason = told["hint"] if told["code"] == "unexpected" else told["message"]
                self.left_out.append(f"{label}: {reason}")
            else:
                usable.append(setting)
        if failed is not None and not usable:
            raise failed
        return usable

    def _hear(self, message: str) -> None:
        self.message = message

    def _row(self, count: int, total: int, log: RowLog[Row]) -> None:
        """A run is over (or the sweep begins)."""
        now = time.monotonic()
        if self.total == 0:
            self.phase, self.message = "warming", "Warming up: every method once, off the record"
        elif count == 1:
            self._began = now
        self.count, self.total = count, total
        if count and self._watched is not None:
            self.phase = "measuring"
            row = log.rows[-1]
            self._traces[row.prompt, row.repeat, row.setting] = self._watched.events
        if count > 1:
            self.left = (now - self._began) / (count - 1) * (total - count)

    def _fold(self, log: RowLog[Row], prompts: Sequence[Prompt]) -> dict[str, Any] | None:
        """What was measured as a comparison with its races; None if not one turn of all methods is whole."""
        rows = whole_turns(log.rows)
        if {row.setting for row in rows} != set(log.header["cells"]):
            return None
        table = table_of(sweep_result(log, _origin(log.header)))
        table["asked"] = {"runs": self.total, "finished": self.count, "used": len(rows), "prompts": len(prompts)}
        table["asked"]["flavours"] = len({prompt.flavour for prompt in prompts})
        table["left_out"] = self.left_out
        table["races"] = {
            flavour: {**told, "data": base64.b64encode(packed).decode("ascii")}
            for flavour, told, packed in races(table, rows, lambda *run: self._traces[run])
        }
        return comparison([table])


def _origin(header: Mapping[str, Any]) -> Provenance:
    """What the bench writes as provenance, as far as the page's process knows it: the engine told the rest."""
    kind, _, name = header["device"].partition(": ")
    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "command": "",
        "commit": header["commit"],
        "dirty": git_state()["dirty"],
        "cpu": name or kind,
        "cores": os.cpu_count() or 0,
        "gpu": name if kind.startswith("cuda") else "",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": header["versions"],
    }


def stream(
    factory: Factory,
    values: Mapping[str, Any],
    *,
    stop: threading.Event | None = None,
    visitor: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Measure, and yield frames of progress, at last the comparison or a card. An equal frame is a heartbeat.

    Args:
        stop: ends it; see :meth:`app.run.session.Stops.of`.
        visitor: whose share of the server it takes.
    """
    run, seq = new_run_id(), 0
    try:
        choice = check_choice(values)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        yield refusal(error, run)
        return
    work = Measurement(factory, choice, run=run, visitor=visitor, stop=stop)
    last, reported_at = "", float("-inf")
    try:
        work.start()
        while not work.done.wait(BEAT if last else 0):
            if clock() - reported_at >= PACE:
                seq, reported_at = seq + 1, clock()
                progress = ("phase", "message", "doing", "count", "total", "left")
                last = frame(run, seq, **{what: getattr(work, what) for what in progress})
            yield last
        if work.error is not None:
            ended: dict[str, Any] = {"phase": "failed", "card": card(work.error, run)}
        else:
            phase = "stopped" if work.stop.is_set() else "finished"
            ended = {"phase": phase, "count": work.count, "total": work.total}
        yield frame(run, seq + 1, finished=True, comparison=work.result, **ended)
    finally:
        work.gone.set()  # first: who stops must know
        work.stop.set()
