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
from typing import TYPE_CHECKING, Any

from app.content.error_cards import card, new_run_id
from app.controls import check_settings
from app.run.engines import Factory
from app.run.session import BEAT, PACE, Stops, frame, refusal
from specdiff_core.schema.decoder import Decoder, Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Event
from specdiff_core.schema.methods import METHODS, Method, find_method, methods_of
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.bench.grid import BenchSetting
    from specdiff_core.bench.prompts import Prompt
    from specdiff_core.bench.store import Row, RowLog
    from specdiff_core.provenance import Provenance

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


def check_choice(values: Mapping[str, Any]) -> tuple[tuple[Method, ...], int, int, DecodeConfig]:
    """(methods, prompts of each flavour, repeats, settings of all runs), from untrusted values.

    Raises:
        ConfigError: nothing is chosen, or a value is unknown or out of range.
    """
    names = values.get("methods")
    if not isinstance(names, Sequence) or isinstance(names, str) or not names:
        raise ConfigError("No method is chosen.", field="methods", hint="Choose at least one to hold against vanilla.")
    methods = tuple(find_method(name) for name in dict.fromkeys(map(str, names)))
    if strange := [method.label for method in methods if method not in choices()]:
        raise ConfigError(f"{strange[0]} cannot be chosen here.", field="methods", hint="Choose others from the list.")
    counts = []
    for name, most in (("prompts", MOST_PROMPTS), ("repeats", MOST_REPEATS)):
        value = values.get(name)
        if isinstance(value, bool) or not isinstance(value, int | float) or value not in range(1, most + 1):
            raise ConfigError(
                f"{name.capitalize()} = {str(value)[:20]!r} does not work.",
                field=name,
                hint=f"Choose a whole number from 1 to {most}.",
            )
        counts.append(int(value))
    shared = {"pair": PAIR, "max_new_tokens": TOKENS, "ignore_eos": True}
    base = check_settings({**shared, "temperature": values.get("temperature")})
    return methods, counts[0], counts[1], base


def cell_of(method: Method, base: DecodeConfig) -> BenchSetting:
    """The setting of the bench that measures a method."""
    from specdiff_core.bench.grid import BenchSetting

    return BenchSetting.of_config(method.config(base))


def use_of(config: DecodeConfig) -> tuple[object, ...]:
    """What tells one method from another in the settings of a run."""
    shape = (config.tree_nodes, config.num_drafts, config.selection, config.auto)
    return (config.drafter, config.gamma, config.steps, *shape)


class Watched:
    """A decoder that says what it decodes, keeps the events of the last run, and can be stopped."""

    def __init__(self, inner: Decoder, stop: Stop) -> None:
        self._inner, self._stop = inner, stop
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
            yield event
        if self._stop.is_set():
            raise Stopped


class Measurement:
    """A sweep in a thread of its own. Other threads may read its attributes while it runs.

    Args:
        choice: what :func:`check_choice` returned.
        run: the name under which errors are logged.
    """

    def __init__(
        self, factory: Factory, choice: tuple[tuple[Method, ...], int, int, DecodeConfig], *, run: str = ""
    ) -> None:
        self.stop, self.done, self.told = threading.Event(), threading.Event(), threading.Event()
        self.gone = threading.Event()  # nobody listens any more
        self.error: Exception | None = None
        self.message, self.phase = "Preparing the measurement", "loading"  # then warming, measuring
        self.count, self.total = 0, 0  # runs that count
        self.left: float | None = None  # seconds, an estimate
        self.result: dict[str, Any] | None = None
        self.left_out: list[str] = []  # methods that cannot be used here, each with the reason
        self._factory, self._run_name = factory, run
        self._methods, self._per_flavour, self._repeats, self._base = choice
        self._watched: Watched | None = None
        self._labels: dict[tuple[object, ...], str] = {}
        self._traces: dict[tuple[str, int, str], tuple[Event, ...]] = {}

    def start(self) -> None:
        """Begin; ``done`` is set at the end, whatever happens."""
        threading.Thread(target=self._run, name="compare", daemon=True).start()

    @property
    def doing(self) -> str:
        """The method under way."""
        config = self._watched.config if self._watched else None
        return self._labels.get(use_of(config), "") if config else ""

    def events(self, prompt_id: str, repeat: int, cell_key: str) -> Sequence[Event]:
        """The events of one finished run."""
        return self._traces[prompt_id, repeat, cell_key]

    def _run(self) -> None:
        try:
            from specdiff_core.bench.grid import BASELINE
            from specdiff_core.bench.prompts import own_prompts
            from specdiff_core.bench.sweep import sweep

            prompts = own_prompts(self._per_flavour)
            labels = {cell_of(method, self._base): method.label for method in self._methods}
            named = {BASELINE: METHODS[0].label, **labels}
            self._labels = {use_of(cell.config(self._base)): label for cell, label in named.items()}
            log: RowLog[Row] | None = None
            try:
                cells = (BASELINE, *self._usable(prompts[0].prompt, labels))
                for count, total, log in sweep(self._engine(), prompts, cells, self._base, repeats=self._repeats):
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
        self._watched = Watched(self._factory(PAIR, METHODS[0].drafter, self._hear), self.stop)
        return self._watched

    def _usable(self, prompt: str, labels: Mapping[BenchSetting, str]) -> list[BenchSetting]:
        """The cells that decode here; the others are told in ``left_out``, so that one does not cost all.

        Raises:
            Exception: what the last of them said, if none can be used.
        """
        short = dataclasses.replace(self._base, max_new_tokens=PROBE)
        usable: list[BenchSetting] = []
        failed: Exception | None = None
        for cell, label in labels.items():
            engine = self._engine()
            self._hear("Trying each method, a few tokens long")
            try:
                for _ in engine.decode(prompt, cell.config(short), detail=False):
                    pass
            except Stopped:
                raise
            except Exception as error:  # told beside the result, logged by content/error_cards.py
                told, failed = card(error, self._run_name), error
                reason = told["hint"] if told["code"] == "unexpected" else told["message"]
                self.left_out.append(f"{label}: {reason}")
            else:
                usable.append(cell)
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
            self._traces[row.prompt, row.repeat, row.setting] = tuple(self._watched.events)
        if count > 1:
            self.left = (now - self._began) / (count - 1) * (total - count)

    def _fold(self, log: RowLog[Row], prompts: Sequence[Prompt]) -> dict[str, Any] | None:
        """What was measured as a comparison with its races; None if not one turn of all methods is whole."""
        from specdiff_core.bench.comparison import Vocabulary, comparison, make_race, table_of
        from specdiff_core.bench.report import sweep_result, whole_turns

        rows = whole_turns(log.rows)
        if {row.setting for row in rows} != set(log.header["cells"]):
            return None
        table = table_of(sweep_result(log, _origin(log.header)))
        table["asked"] = {"runs": self.total, "finished": self.count, "used": len(rows), "prompts": len(prompts)}
        table["asked"]["flavours"] = len({prompt.flavour for prompt in prompts})
        table["left_out"] = self.left_out
        vocabulary = Vocabulary(find_pair(PAIR).tokenizer)
        table["races"] = {}
        for flavour in table["flavours"]:
            told, packed = make_race(table, rows, self, flavour, vocabulary)
            table["races"][flavour] = {**told, "data": base64.b64encode(packed).decode("ascii")}
        return comparison([table])


def _origin(header: Mapping[str, Any]) -> Provenance:
    """What the bench writes as provenance, as far as the page's process knows it: the engine told the rest."""
    from specdiff_core.provenance import git_state

    return {
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="minutes"),
        "command": "",
        "commit": header["commit"],
        "dirty": git_state()["dirty"],
        "cpu": header["device"].partition(": ")[2] or header["device"],
        "cores": os.cpu_count() or 0,
        "gpu": header["device"].partition(": ")[2] if header["device"].startswith("cuda") else "",
        "system": f"{platform.system()} {platform.machine()}",
        "versions": header["versions"],
    }


def stream(
    factory: Factory,
    values: Mapping[str, Any],
    *,
    stops: Stops,
    name: str = "",
    clock: Callable[[], float] = time.monotonic,
) -> Iterator[str]:
    """Measure, and yield frames of progress, at last the comparison or a card. An equal frame is a heartbeat.

    Args:
        name: of the visitor, for :class:`~app.run.session.Stops`.
    """
    run, seq = new_run_id(), 0
    try:
        choice = check_choice(values)
    except Exception as error:  # shown as a card, logged by content/error_cards.py
        yield refusal(error, run)
        return
    work = Measurement(factory, choice, run=run)
    stops.add(name, work)
    last, told = "", float("-inf")
    try:
        work.start()
        while not work.done.wait(BEAT if last else 0):
            if clock() - told >= PACE:
                seq, told = seq + 1, clock()
                last = frame(
                    run,
                    seq,
                    phase=work.phase,
                    message=work.message,
                    doing=work.doing,
                    count=work.count,
                    total=work.total,
                    left=work.left,
                )
            yield last
        yield _last_frame(run, seq + 1, work)
    finally:
        work.gone.set()  # first: who stops must know
        work.stop.set()
        work.told.set()
        stops.remove(name, work)


def _last_frame(run: str, seq: int, work: Measurement) -> str:
    if work.error is not None:
        return frame(run, seq, phase="failed", finished=True, card=card(work.error, run), comparison=work.result)
    phase = "stopped" if work.stop.is_set() else "finished"
    return frame(run, seq, phase=phase, finished=True, count=work.count, total=work.total, comparison=work.result)
