"""What benchmarks leave on disk: rows as they are measured, results, and the events of every run of a sweep.

In files a setting is called ``cell``, as in the first version of this bench.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar, Generic, Literal, TypeVar

import msgspec

from specdiff_core.bench.grid import BASELINE, BenchSetting
from specdiff_core.decoding.pieces import Pieces, with_pieces
from specdiff_core.provenance import Provenance
from specdiff_core.schema.errors import ConfigError, TraceError
from specdiff_core.schema.events import Event
from specdiff_core.schema.metrics import Metrics, fold
from specdiff_core.schema.settings import SETTINGS
from specdiff_core.schema.summary import final
from specdiff_core.schema.trace import read_trace, write_trace


class Measured(msgspec.Struct, kw_only=True):
    """One line of measurements; no two of a file share the fields that ``KEY`` names."""

    KEY: ClassVar[tuple[str, ...]]
    prompt: str  # its id
    flavour: str
    session: int = 0  # an interrupted benchmark that goes on begins the next

    @property
    def key(self) -> tuple[Any, ...]:
        """The values of those fields."""
        return tuple(getattr(self, name) for name in self.KEY)


W = TypeVar("W", bound="Row")


class Row(Measured, kw_only=True):
    """One run of a sweep."""

    KEY = ("prompt", "repeat", "setting")
    repeat: int  # −1: a warm-up, which does not count
    setting: str = msgspec.field(name="cell")  # its key
    metrics: Metrics
    reason: str
    text: str  # equal for equal texts

    @classmethod
    def of_run(cls: type[W], events: Sequence[Event], **where: Any) -> W:
        """The row of a finished run; ``where``: its prompt, flavour, repeat and setting."""
        last = final(events)
        assert last is not None, "a decode ends with Finished or raises"
        text = hashlib.sha256(",".join(map(str, last.ids)).encode()).hexdigest()[:16]
        return cls(metrics=fold(events), reason=last.reason, text=text, **where)


R = TypeVar("R", bound=Measured)
S = TypeVar("S", bound="Result")


class RowLog(Generic[R]):
    """Rows of one benchmark, in memory and (with a path) on disk, so that an interrupted one goes on where it stopped.

    Args:
        path: the file, or None to keep rows in memory only. Its first line is the header.
        header: everything that must be equal for rows to belong together, as plain JSON values.
        kind: of the rows.

    Raises:
        ConfigError: the file holds another benchmark, or is damaged.
    """

    def __init__(self, path: Path | None, header: Mapping[str, Any], kind: type[R]) -> None:
        self.path = path
        self.header: dict[str, Any] = json.loads(json.dumps(header))  # as it will be read back: tuples are lists
        self.rows: list[R] = []
        if path is not None and path.exists():
            found, self.rows, size = _read_log(path, kind)
            check_same(found, self.header, path.name)
            os.truncate(path, size)
        elif path is not None:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(self.header) + "\n", encoding="utf-8")
        self.session = 1 + max((row.session for row in self.rows), default=-1)

    def fill(
        self, todo: Mapping[Any, tuple[Any, ...]], measure: Callable[..., R], warm_up: Callable[[], Iterable[R]] = tuple
    ) -> Iterator[tuple[int, int, RowLog[R]]]:
        """Measure the rows that are missing, in their order, after a warm-up. A row is on disk before the next begins.

        Args:
            todo: key of a row -> the arguments with which ``measure`` measures it.

        Yields:
            (rows done, rows in all, self) after each row, once at the start as well.
        """
        done = {row.key for row in self.rows}
        missing = [what for key, what in todo.items() if key not in done]
        earlier = len(todo) - len(missing)
        yield earlier, len(todo), self
        for row in warm_up() if missing else ():
            self._append(row)
        for count, what in enumerate(missing, start=1):
            self._append(measure(*what))
            yield earlier + count, len(todo), self

    def _append(self, row: R) -> None:
        row.session = self.session
        self.rows.append(row)
        if self.path is not None:
            with self.path.open("ab") as file:
                file.write(msgspec.json.encode(row) + b"\n")

    def result(self, kind: type[S], **numbers: Any) -> S:
        """What these rows say together: the header, how many sittings they took, and ``numbers``."""
        sessions = 1 + max((row.session for row in self.rows), default=0)
        return msgspec.convert({**self.header, "sessions": sessions, **numbers}, kind)


def check_same(held: Mapping[str, Any], asked: Mapping[str, Any], name: str) -> None:
    """Refuse to mix two benchmarks.

    Raises:
        ConfigError: two descriptions differ; the message says in what.
    """
    if other := sorted(key for key in {*held, *asked} if held.get(key) != asked.get(key)):
        message = f"{name} holds another benchmark: {', '.join(other)} differ."
        raise ConfigError(message, field="json", hint="Choose another name, or delete it.")


def _read_log(path: Path, kind: type[R]) -> tuple[dict[str, Any], list[R], int]:
    """The header and the rows of a file, and the bytes that they take: a last line that was cut off does not count."""
    try:
        raw = path.read_bytes()
        size = raw.rfind(b"\n") + 1
        header, *lines = raw[:size].splitlines()
        decoder = msgspec.json.Decoder(kind)
        return msgspec.json.decode(header, type=dict[str, Any]), [decoder.decode(line) for line in lines], size
    except (OSError, ValueError, RecursionError, msgspec.MsgspecError) as error:
        hint = "It belongs to a result or to traces. Delete both to measure everything again."
        raise ConfigError(f"{path.name} is damaged or missing ({error}).", field="json", hint=hint) from error


def rows_path(result: Path) -> Path:
    """Where the rows of a result lie: beside ``name.json`` in ``name.rows.jsonl``."""
    return result.with_suffix(".rows.jsonl")


def read_rows(result: Path) -> list[Row]:
    """The rows of a stored sweep; a ConfigError where they are missing or damaged."""
    return _read_log(rows_path(result), Row)[1]


# Results: what one benchmark said, with the facts that make it repeatable. ``kind`` says which.


class Result(msgspec.Struct, kw_only=True, tag_field="kind"):
    """What all results say."""

    schema: Literal[1] = 1
    provenance: Provenance
    device: str
    dtype: str
    threads: int
    target: str
    settings: dict[str, Any]  # DecodeConfig.to_dict(); of a sweep without what it varied
    sessions: int = 1


LEVEL = 0.95


class Interval(msgspec.Struct, frozen=True):
    """A ratio or a mean, and its bounds at :data:`LEVEL`."""

    value: float
    low: float
    high: float


class SettingResult(BenchSetting, frozen=True, kw_only=True):
    """The numbers of one setting of a sweep."""

    speedup: Interval  # over vanilla, mean of the flavours
    speedup_by_flavour: dict[str, Interval]
    tokens_per_second: float
    tau: float
    tau_by_flavour: dict[str, float]
    alpha: float | None
    alpha_by_flavour: dict[str, float | None]
    alpha_at: tuple[float | None, ...]
    tested_at: tuple[int, ...] = ()  # how often each position of a window was tested
    seconds: float
    seconds_by: dict[str, float]  # draft, verify (the target's pass and the tests), prefill, other
    rounds: int
    new_tokens: int
    draft_nfe: int
    target_calls: int
    peak_bytes: int
    waiting: float | None = None  # threads without a processor, on average
    prompts: int
    runs: int
    same_text_as_vanilla: int  # prompts


class Ratio(msgspec.Struct, frozen=True):
    """Two settings of one sweep against each other."""

    what: str
    ours: str  # names of settings
    theirs: str
    speed: Interval
    tau: Interval


class Sweep(Result, kw_only=True, tag="sweep"):
    """Settings against vanilla, one table."""

    weights: str
    versions: dict[str, str]
    prompts: dict[str, int]  # flavour -> how many
    repeats: int
    entries: list[SettingResult] = msgspec.field(name="cells")  # the baseline first
    ratios: list[Ratio] = []  # none in files of older versions
    traces: str = ""  # the folder of the events, seen from the result
    commit: str = ""
    reaggregated: str = ""  # the commit that did, where the numbers were aggregated again from the traces

    @property
    def has_intervals(self) -> bool:
        """Whether there were prompts to resample in every flavour."""
        return all(count > 1 for count in self.prompts.values())

    @property
    def same_texts(self) -> bool:
        """Whether every exact setting gives vanilla's text; otherwise two texts are samples of one distribution."""
        return bool(self.settings["temperature"] == 0 or SETTINGS["rule"].read(self.settings["rule"]).same_text)

    @property
    def waits(self) -> list[float]:
        """Threads without a processor, setting by setting, where that was measured."""
        return [entry.waiting for entry in self.entries if entry.waiting is not None]


class Within(msgspec.Struct, frozen=True):
    """What majorities are worth after so many seconds for each problem."""

    seconds: float
    accuracy: Interval
    attempts: float  # finished by then, on average
    used_up: float  # share of problems that have no attempt left


class BudgetEntry(BenchSetting, frozen=True, kw_only=True):
    """How often one setting is right, and how soon."""

    single: Interval  # accuracy of one attempt
    voted: Interval  # of the majority of all
    difference: float  # of one attempt's accuracy from vanilla's
    noise: float | None  # of that difference, 99 %; None where it is not known
    no_answer: float  # share of attempts
    seconds: float  # of an attempt, on average
    speedup: Interval  # over vanilla, by token
    within: list[Within]
    reached: float | None  # seconds to the result's goal
    waiting: float | None
    attempts: int


class Budget(Result, kw_only=True, tag="budget"):
    """Accuracy within seconds."""

    prompts: dict[str, int]  # flavour -> how many
    repeats: int  # attempts at each
    goal: float | None  # an accuracy that vanilla reaches
    entries: list[BudgetEntry] = msgspec.field(name="cells")  # the baseline first

    @property
    def has_intervals(self) -> bool:
        """Whether there were problems to resample."""
        return sum(self.prompts.values()) > 1


class HfBaseline(Result, kw_only=True, tag="hf_baseline"):
    """Our lanes against transformers' own loops."""

    prompts: dict[str, int]
    repeats: int
    left_out: list[str]  # why, lane by lane
    result: dict[str, Any]  # of specdiff_core.bench.hf_baseline.aggregate


class Equality(Result, kw_only=True, tag="equality"):
    """Texts against vanilla's, token for token."""

    result: dict[str, Any]  # of specdiff_core.bench.equality.aggregate


class Passes(BenchSetting, frozen=True, kw_only=True):
    """Seconds of bare passes behind ``context`` tokens."""

    context: int
    target_one: float
    target_verify: float
    draft: float
    draft_network: float
    efficiency: dict[str, float] | None = None


class Forwards(Result, kw_only=True, tag="forwards"):
    """Bare passes of several settings."""

    entries: list[Passes] = msgspec.field(name="cells")


class RoundParts(BenchSetting, frozen=True, kw_only=True):
    """Mean seconds of the parts of a round."""

    rounds: int
    seconds: dict[str, float]  # part -> less what the parts inside it took


class Split(Result, kw_only=True, tag="split"):
    """Where the time of a round goes."""

    entries: list[RoundParts] = msgspec.field(name="cells")


class Page(Result, kw_only=True, tag="page"):
    """How soon the page is usable and what it costs the clock; ``app/measure.py`` writes it."""

    schema: Literal[4]  # type: ignore[assignment]  # its form has a number of its own
    starts: int
    turns: int
    usable_seconds: dict[str, float]  # median, low, high
    first_event_seconds: dict[str, dict[str, float]]  # first and later
    attached: dict[str, dict[str, Any]]  # lane -> its clock with the page over its clock without, and an interval
    waiting: dict[str, dict[str, float | None]]  # lane -> attached and alone


def read_result(path: Path, kind: type[S]) -> S:
    """A JSON result of ``bench`` or ``app.measure``.

    Args:
        kind: what is asked for; :class:`Result`: any.

    Raises:
        ConfigError: it is not one, or of another version or kind.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
        for cell in value["cells"] if value["kind"] == "sweep" else ():
            if "mean" in cell["speedup"]:  # as older sweeps call it; assets/compare/selection.json is one
                cell["speedup"]["value"] = cell["speedup"]["mean"]
        if value["kind"] == "referee":  # the comparison with transformers, as older versions call it
            numbers = value["result"]
            ratios = {pair["theirs"]: {**pair, "theirs": True} for pair in numbers["pairs"]}
            lanes = [{"theirs": False, **lane, **ratios.get(lane["lane"], {})} for lane in numbers["lanes"]]
            value |= {"kind": "hf_baseline", "result": {**numbers, "lanes": lanes}}
        found = msgspec.convert(value, Sweep | Budget | HfBaseline | Equality | Forwards | Split | Page)
    except (OSError, ValueError, LookupError, TypeError, RecursionError, msgspec.ValidationError) as error:
        hint = "Name a file written by --json, or measure it again."
        raise ConfigError(f"{path} is no result of this version ({error}).", field="results", hint=hint) from error
    if not isinstance(found, kind):
        name = kind.__name__.lower()
        raise ConfigError(f"{path} is no {name}.", field="results", hint=f"Name a file of bench {name}.")
    return found


def write_result(path: Path, result: Result) -> None:
    """Write a file that :func:`read_result` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(result), indent=1) + b"\n")


class Traces:
    """The events of every measured run of one sweep, found by prompt, repeat and setting: ``sweep.json``, a log without
    rows, says which sweep; ``<prompt id>.<repeat>/<setting>.jsonl.gz`` are traces of one lane.

    Args:
        folder: made when the first run is written.
        tokenizer: adds the text of ids to a run that was measured without it; a replay needs no tokenizer then.
    """

    ABOUT = "sweep.json"
    HINT = "Measure the sweep again, or report it without --reaggregate."

    def __init__(self, folder: Path, tokenizer: Pieces | None = None) -> None:
        self.folder, self._tokenizer = Path(folder), tokenizer

    def claim(self, header: Mapping[str, Any], flavours: Mapping[str, str]) -> None:
        """Say which sweep this folder is for: the header of its rows, and prompt id -> flavour in their order.

        Raises:
            ConfigError: it holds another one.
        """
        RowLog(self.folder / self.ABOUT, {**header, "flavours": flavours}, Row)

    def about(self) -> dict[str, Any]:
        """What :meth:`claim` wrote; a ConfigError where there is none, or it is damaged."""
        return _read_log(self.folder / self.ABOUT, Row)[0]

    def path(self, prompt_id: str, repeat: int, setting: str) -> Path:
        """The file of a run: always below the folder, whatever the names hold; another one for every other run."""
        return self.folder / f"{slug(prompt_id)}.{int(repeat)}" / f"{slug(setting)}.jsonl.gz"

    def write(self, prompt_id: str, repeat: int, setting: str, events: Sequence[Event]) -> None:
        """Write a finished run; an earlier file of the same run is replaced."""
        events = events if self._tokenizer is None else tuple(with_pieces(events, self._tokenizer))
        write_trace(self.path(prompt_id, repeat, setting), {lane_of(setting): events}, title=prompt_id)

    def events(self, prompt_id: str, repeat: int, setting: str) -> tuple[Event, ...]:
        """A run as it was measured.

        Raises:
            TraceError: it is missing, damaged, or another run's; the message names it.
        """
        name = f"The run {prompt_id}, repeat {repeat}, {setting} of {self.folder.name}"
        try:
            trace = read_trace(self.path(prompt_id, repeat, setting))
        except TraceError as error:
            raise type(error)(f"{name}: {error.message}", hint=self.HINT) from error
        lane = lane_of(setting)
        if list(trace.lanes) != [lane] or trace.title != prompt_id:
            raise TraceError(f"{name} is in truth another one.", hint=self.HINT)
        if final(trace.lanes[lane]) is None:
            raise TraceError(f"{name} has no end.", hint=self.HINT)
        return trace.lanes[lane]


def lane_of(setting: str) -> str:
    """What the lane of a setting is called in a trace."""
    return "vanilla" if setting == BASELINE.key else setting


def slug(text: str) -> str:
    """A file name for any text. Plain words stay readable, with ``/`` as a dot; of all else a part stays and a hash is
    added behind a ``~``, which no plain name holds: no name leaves its folder, and no two texts share one."""
    if len(text) <= 80 and re.fullmatch(r"[a-z0-9_-]+(/[a-z0-9_-]+)*", text):
        return text.replace("/", ".")
    rest = re.sub(r"[^a-z0-9_-]+", "-", text.lower())[:40].strip("-")
    return f"{rest}~{hashlib.sha256(text.encode()).hexdigest()[:16]}"
