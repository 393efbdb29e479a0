"""Stores measurements: rows as they are measured, and results."""

from __future__ import annotations

import hashlib
import itertools
import json
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any, ClassVar, Generic, Literal, TypeVar, Union, cast

import msgspec

from specdiff_core.measure.statistics import Costs, Interval, costs, interval, ratios
from specdiff_core.provenance import Provenance
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Committed, Event
from specdiff_core.schema.metrics import Metrics, fold
from specdiff_core.schema.summary import final, loops

DIGITS = 7
"""Decimal places of seconds in a shipped recording."""


class Measured(msgspec.Struct, kw_only=True):
    """One row; the fields of ``KEY`` are unique in a file."""

    KEY: ClassVar[tuple[str, ...]]
    prompt: str  # its id
    flavour: str
    session: int = 0  # resuming a benchmark begins the next one

    @property
    def key(self) -> tuple[Any, ...]:
        return tuple(getattr(self, name) for name in self.KEY)


class RunRow(Measured, kw_only=True):
    """One run of a setting."""

    KEY = ("prompt", "repeat", "setting")
    repeat: int
    setting: str  # its key
    metrics: Metrics
    reason: str
    text: str  # a hash: equal for equal texts
    loops: bool = False  # whether the text ends repeating itself

    @classmethod
    def of_run(cls, events: Sequence[Event], **where: Any) -> RunRow:
        """The row of a finished run; ``where``: its prompt, flavour, repeat and setting."""
        last = final(events)
        assert last is not None, "a decode ends with Finished or raises"
        text = hashlib.sha256(",".join(map(str, last.ids)).encode()).hexdigest()[:16]
        return cls(metrics=fold(events), reason=last.reason, text=text, loops=loops(last.ids), **where)


class Rows:
    """Rows of runs by their setting, in the order in which they were added; ``baseline``: the key of vanilla's."""

    def __init__(self, baseline: str, rows: Iterable[RunRow] = ()) -> None:
        self.baseline = baseline
        self.by_setting: dict[str, list[RunRow]] = {baseline: []}
        for row in rows:
            self.add(row)

    def add(self, row: RunRow) -> None:
        self.by_setting.setdefault(row.setting, []).append(row)

    def of(self, key: str, flavour: str = "") -> list[RunRow]:
        """The rows of a setting, optionally of one kind of text."""
        return [row for row in self.by_setting.get(key, ()) if flavour in ("", row.flavour)]

    def total(self, key: str, flavour: str = "") -> Metrics:
        return sum((row.metrics for row in self.of(key, flavour)), Metrics())

    def groups(self, key: str) -> dict[str, list[str]]:
        """Kind of text -> the prompts that a setting decoded, each once."""
        groups: dict[str, dict[str, None]] = {}
        for row in self.of(key):
            groups.setdefault(row.flavour, {})[row.prompt] = None
        return {flavour: list(prompts) for flavour, prompts in groups.items()}

    def speedups(self, key: str, groups: Mapping[str, Sequence[str]], over: str = "") -> dict[str, Interval]:
        """The speed-up of a setting over another one, by default the baseline, on the same prompts: by group of
        prompts, and their ``mean``."""
        return interval(self._costs(over or self.baseline), self._costs(key), groups)

    def taus(self, key: str, groups: Mapping[str, Sequence[str]], over: str) -> dict[str, Interval]:
        """τ of a setting over that of another one, as :meth:`speedups`."""
        return interval(self._costs(over, "rounds"), self._costs(key, "rounds"), groups)

    def _costs(self, key: str, spent: str = "seconds") -> Costs:
        return costs((row.prompt, getattr(row.metrics, spent), row.metrics.committed) for row in self.of(key))

    def spread(self, key: str) -> tuple[float, float, float]:
        """The median, lowest and highest speed-up over the baseline of a single prompt."""
        slow, fast = self._costs(self.baseline), self._costs(key)
        ratios = [slow[one][0] * tokens / (slow[one][1] * seconds) for one, (seconds, tokens) in fast.items()]
        return median(ratios), min(ratios), max(ratios)

    def rates(self, key: str, groups: Mapping[str, Sequence[str]]) -> dict[str, dict[str, Interval]]:
        """``tau`` and ``alpha`` of a setting by group of prompts, and their ``mean``. Prompts without tests don't count
        for α; it is missing in a group without others."""
        rates: dict[str, dict[str, Interval]] = {}
        for name, below, above in (("tau", "rounds", "committed"), ("alpha", "tested", "accepted")):
            sums = costs((row.prompt, getattr(row.metrics, below), getattr(row.metrics, above)) for row in self.of(key))
            counted = {kind: [prompt for prompt in prompts if sums[prompt][0]] for kind, prompts in groups.items()}
            rates[name] = ratios(sums, {kind: prompts for kind, prompts in counted.items() if prompts})
        return rates

    def by_prompt(self, key: str, names: Mapping[str, Any]) -> list[dict[str, Any]]:
        """The counts behind a setting's numbers, a row for each run; ``names``: columns that name the setting."""
        counts = ("seconds", "committed", "rounds", "drafted", "tested", "accepted", "nfe", "target_calls", "waiting")
        return [
            {**names, "prompt": row.prompt, "flavour": row.flavour, "repeat": row.repeat, **row.metrics.named(*counts)}
            for row in self.of(key)
        ]

    def same_texts(self, key: str) -> dict[str, bool]:
        """Prompt -> whether the setting wrote vanilla's text in every repeat."""
        vanilla = {(row.prompt, row.repeat): row.text for row in self.of(self.baseline)}
        matches: dict[str, bool] = {}
        for row in self.of(key):
            same = row.text == vanilla[row.prompt, row.repeat]
            matches[row.prompt] = matches.get(row.prompt, True) and same
        return matches


T = TypeVar("T")
R = TypeVar("R", bound=Measured)
S = TypeVar("S", bound="Result")
B = TypeVar("B", bound="Bench")


class RowLog(Generic[R]):
    """Rows of one benchmark, in memory and (with a path) on disk, so that it can be resumed.

    Args:
        path: the file, or None to keep rows in memory only. Its first line is the header.
        header: what must be equal for rows to belong together, as plain JSON values.
        kind: type of the rows.

    Raises:
        ConfigError: the file belongs to another benchmark, or is damaged.
    """

    def __init__(self, path: Path | None, header: Mapping[str, Any], kind: type[R]) -> None:
        self.path = path
        self.header: dict[str, Any] = json.loads(json.dumps(header))  # tuples become lists
        self.rows: list[R] = []
        if path is not None and path.exists():
            stored, self.rows, size = _read_log(path, kind)
            if changed := sorted(k for k in {*stored, *self.header} if stored.get(k) != self.header.get(k)):
                message = f"{path.name} belongs to another benchmark: {', '.join(changed)} differ."
                raise ConfigError(message, field="json", hint="Choose another name, or delete it.")
            os.truncate(path, size)
        elif path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.header) + "\n", encoding="utf-8")
        self.session = 1 + max((row.session for row in self.rows), default=-1)

    def fill(self, todo: Mapping[Any, T], measure: Callable[[T], R]) -> Iterator[tuple[int, int, RowLog[R]]]:
        """Measure the missing rows one by one; see :meth:`fill_turns`."""
        yield from self.fill_turns(todo, lambda run: None, lambda runs: map(measure, runs))

    def fill_turns(
        self, todo: Mapping[Any, T], turn: Callable[[T], Any], measure: Callable[[Sequence[T]], Iterable[R]]
    ) -> Iterator[tuple[int, int, RowLog[R]]]:
        """Measure the missing rows, turn by turn. Each row is on disk as soon as ``measure`` returns it.
        Rows of nothing in ``todo``, such as the warm-ups of earlier versions, are left out.

        Args:
            todo: key of a row -> what it measures, in order.
            turn: what is measured -> its turn.
            measure: what a turn still has to measure -> the rows.

        Yields:
            (rows done, rows in all, self) once at the start, then after each row.
        """
        self.rows = [row for row in self.rows if row.key in todo]
        done = {row.key for row in self.rows}
        missing = [run for key, run in todo.items() if key not in done]
        yield len(self.rows), len(todo), self
        for _, runs in itertools.groupby(missing, turn):
            for row in measure(list(runs)):
                self._append(row)
                yield len(self.rows), len(todo), self

    def _append(self, row: R) -> None:
        row.session = self.session
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")

    def result(self, kind: type[B], **numbers: Any) -> B:
        """The result of these rows: the header, the number of sessions, and ``numbers``."""
        sessions = 1 + max((row.session for row in self.rows), default=0)
        return msgspec.convert({**self.header, "sessions": sessions, **numbers}, kind)


def _read_log(path: Path, kind: type[R]) -> tuple[dict[str, Any], list[R], int]:
    """Header, rows and size in bytes of a file, without an incomplete last line."""
    try:
        raw = path.read_bytes()
        size = raw.rfind(b"\n") + 1
        header, *lines = raw[:size].splitlines()
        decoder = msgspec.json.Decoder(kind)
        return msgspec.json.decode(header, type=dict[str, Any]), [decoder.decode(line) for line in lines], size
    except (OSError, ValueError, RecursionError) as error:
        hint = "It belongs to a result. Delete both to measure everything again."
        raise ConfigError(f"{path.name} is damaged or missing ({error}).", field="json", hint=hint) from error


def rows_path(result: Path) -> Path:
    """The file of a result's rows: ``name.rows.jsonl`` beside ``name.json``."""
    return result.with_suffix(".rows.jsonl")


class Result(msgspec.Struct, kw_only=True, tag_field="kind"):
    """What every result has, a benchmark's and an exploration's; its tag ``kind`` names what was measured."""

    schema: Literal[1] = 1
    provenance: Provenance


class Bench(Result, kw_only=True):
    """The fields of every benchmark."""

    device: str
    dtype: str
    threads: int
    target: str
    settings: dict[str, Any]  # DecodeConfig.to_dict(), without the fields that a sweep varied
    sessions: int = 1


def read_result(path: Path, *kinds: type[S]) -> S:
    """Read the JSON result of one of ``kinds``; ConfigError if it is not."""
    try:
        kind: Any = Union[kinds]  # noqa: UP007 - of a tuple
        return cast(S, msgspec.json.decode(path.read_bytes(), type=kind))
    except (OSError, ValueError, RecursionError) as error:
        names = " or ".join(str(kind.__struct_config__.tag) for kind in kinds)
        hint = f"Give a file that --json wrote ({names}), or measure it again."
        raise ConfigError(f"{path} is not a result of this version ({error}).", field="results", hint=hint) from error


def write_result(path: Path, result: Result) -> None:
    """Write a file that :func:`read_result` reads, its numbers :func:`rounded`."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.encode(rounded(msgspec.to_builtins(result))) + b"\n")


def rounded(value: Any) -> Any:
    """Plain values, their numbers with six significant digits."""
    if isinstance(value, dict):
        return {key: rounded(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [*map(rounded, value)]
    return float(f"{value:.6g}") if isinstance(value, float) else value


def short_times(event: Event) -> Event:
    """Round an event's times to 0.1 µs, to keep recordings small, but not the run's total."""
    if isinstance(event, Committed):
        return msgspec.structs.replace(event, at=round(event.at, DIGITS))
    span = getattr(event, "span", None)
    if span is None:
        return event
    cut = msgspec.structs.replace(span, start=round(span.start, DIGITS), seconds=round(span.seconds, DIGITS))
    return cast(Event, msgspec.structs.replace(cast(Any, event), span=cut))
