"""What the page's Compare tab reads: sweeps as tables with one row for each method, and the recorded race behind every
bar, from the traces of those very runs.

Everything is copied from a stored sweep, or is a quotient of two of its numbers. The names of the JSON are a contract
with ``app/static``; they stay.
"""

from __future__ import annotations

import gzip
import json
import math
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, cast

import msgspec

from specdiff_core.bench import store
from specdiff_core.bench.grid import BASELINE, NAMED, BenchSetting
from specdiff_core.bench.report import whole_turns
from specdiff_core.bench.store import LEVEL, Row, SettingResult, Sweep, lane_of, slug
from specdiff_core.decoding.pieces import with_pieces
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Committed, Event, PiecesSeen
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import SETTINGS
from specdiff_core.schema.summary import header_of
from specdiff_core.schema.trace import dump_trace

CHOICE = (
    "One row for each method: of a drafter used the same way (one window, a draft tree, K drafts) the settings with "
    "the highest mean speed-up."
)
MEDIAN = (
    "One recorded race for each flavour and temperature: the run in which the fastest method had its median speed-up "
    "(of an even number, the lower one of the two in the middle)."
)
RESULTS = "results.json"
RACES = "races"
DIGITS = 7  # of seconds
MOST_BYTES = 2_000_000  # of the whole folder
MOST_BYTES_OF_A_FILE = 1_000_000


def best_of_each(
    entries: Sequence[SettingResult], extras: int | None = None
) -> tuple[list[SettingResult], list[SettingResult]]:
    """The baseline, then the best setting of each method (:data:`CHOICE`), fastest first; and those that are left out.

    Args:
        extras: how many uses that no paper names may be among them, the fastest; None: all.

    Raises:
        ConfigError: the baseline is missing.
    """
    best: dict[str, SettingResult] = {}
    for entry in sorted(entries, key=lambda entry: -entry.speedup.value):
        best.setdefault(entry.group, entry)
    baseline = best.pop(BASELINE.group, None)
    if baseline is None:
        raise ConfigError("The sweep has no baseline.", field="results", hint="Measure it with the drafter none.")
    unnamed = [entry for group, entry in best.items() if group not in NAMED]
    left_out = [] if extras is None else unnamed[extras:]
    return [baseline, *(entry for entry in best.values() if entry not in left_out)], left_out


def table_of(result: Sweep, extras: int | None = None) -> dict[str, Any]:
    """One sweep as one table, in plain JSON values; ``extras`` as :func:`best_of_each` takes it.

    Raises:
        ConfigError: the baseline is missing.
    """
    settings, origin = result.settings, result.provenance
    chosen, left_out = best_of_each(result.entries, extras)
    facts = ("cpu", "cores", "gpu", "system", "versions", "date", "commit", "dirty", "command")
    return {
        "temperature": settings["temperature"],
        "rule": settings["rule"],
        "lossless": SETTINGS["rule"].read(settings["rule"]).lossless,
        "settings": settings,
        "prompts": result.prompts,
        "repeats": result.repeats,
        "measured": len(result.entries) - 1,  # besides the baseline
        "left_out": [f"{entry.method[1]} ({entry.speedup.value:.2f}×)" for entry in left_out],
        "waiting": max(result.waits, default=None),
        "target": result.target,
        "weights": result.weights,
        "origin": {
            "device": result.device,
            "dtype": result.dtype,
            "threads": result.threads,
            "sittings": result.sessions,
            **{name: value for name, value in origin.items() if name in facts},
        },
        "flavours": list(result.prompts),
        "cells": [_cell(entry, chosen[0], result) for entry in chosen],
    }


COPIED = {
    *(field.encode_name for field in msgspec.structs.fields(BenchSetting)),
    *("tau", "alpha", "alpha_at", "tested_at", "tokens_per_second"),
    *("peak_bytes", "waiting", "runs", "new_tokens", "rounds"),
}
"""Numbers of a setting that its row shows as they are."""


def _cell(entry: SettingResult, baseline: SettingResult, result: Sweep) -> dict[str, Any]:
    name, label, short = entry.method
    pooled = entry.tokens_per_second / baseline.tokens_per_second
    drafted = entry.drafter != BASELINE.drafter

    def bounds(low: float, high: float, resampled: bool) -> dict[str, float | None]:
        return {"low": low, "high": high} if drafted and resampled else {"low": None, "high": None}

    return {
        "key": entry.key,
        "group": entry.group,
        "shape": entry.shape,
        "method": name,
        "label": label,
        "short": short,
        "words": entry.words,
        **{name: value for name, value in msgspec.to_builtins(entry).items() if name in COPIED},
        "speedup": {
            "value": entry.speedup.value,
            **bounds(entry.speedup.low, entry.speedup.high, result.has_intervals),
            "level": LEVEL,
        },
        "pooled_speedup": pooled,
        "cost": entry.tau / pooled,  # of a round, in rounds of vanilla, which are one token; prefill shared out
        "by_flavour": {
            flavour: {
                "value": speed.value,
                **bounds(speed.low, speed.high, result.prompts[flavour] > 1),
                "tau": entry.tau_by_flavour[flavour],
                "alpha": entry.alpha_by_flavour[flavour],
                "cost": entry.tau_by_flavour[flavour] / speed.value,
            }
            for flavour, speed in entry.speedup_by_flavour.items()
        },
        "seconds_per_round": {part: value / entry.rounds for part, value in entry.seconds_by.items()},
        "target_passes_per_token": entry.target_calls / entry.new_tokens,
        "drafter_passes_per_token": entry.draft_nfe / entry.new_tokens,
        "drafter_passes_per_round": entry.draft_nfe / entry.rounds,
        "texts": entry.prompts,
        "same_text_as_vanilla": entry.same_text_as_vanilla if result.same_texts else None,
    }


def comparison(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tables of several temperatures as one object, coolest first.

    Raises:
        ConfigError: there is none, or two have one temperature.
    """
    ordered = sorted(tables, key=lambda table: float(table["temperature"]))
    temperatures = [table["temperature"] for table in ordered]
    if not temperatures or len(set(temperatures)) < len(temperatures):
        hint = f"These were given: {', '.join(f'{value:g}' for value in temperatures) or 'none'}."
        raise ConfigError("A comparison needs one sweep for each temperature.", field="results", hint=hint)
    return {"schema": 1, "kind": "comparison", "choice": CHOICE, "median": MEDIAN, "tables": ordered}


# The races.


class Vocabulary:
    """The entries of a tokenizer file, for texts that were decoded elsewhere: needs neither torch nor transformers.

    Args:
        folder: holds ``tokenizer.json``.

    Raises:
        ConfigError: it does not, or the file is damaged.
    """

    def __init__(self, folder: Path | str) -> None:
        from tokenizers import Tokenizer

        path = Path(folder) / "tokenizer.json"
        try:
            tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing more special
            raise ConfigError(f"{path.name} cannot be read: {error}.", field="pair", hint="Fetch it again.") from error
        added = tokenizer.get_added_tokens_decoder()
        self.all_special_ids = [token for token, entry in added.items() if entry.special]
        self.convert_ids_to_tokens: Any = tokenizer.id_to_token


Recorded = Callable[[str, int, str], Sequence[Event]]
"""Prompt id, repeat and setting of a run -> its events, as :meth:`~specdiff_core.bench.store.Traces.events`."""


def median_run(rows: Sequence[Row], flavour: str, key: str) -> tuple[str, int, float]:
    """(prompt id, repeat, speed-up) of the run of ``flavour`` in which setting ``key`` has its median speed-up
    (:data:`MEDIAN`).

    Raises:
        ConfigError: no run of that flavour was finished.
    """
    paces: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in whole_turns(rows):
        if row.flavour == flavour:
            paces[row.prompt, row.repeat][row.setting] = row.metrics.seconds / row.metrics.committed
    speeds = sorted((pace[BASELINE.key] / pace[key], run) for run, pace in paces.items())
    if not speeds:
        raise ConfigError(f"No run of {flavour!r} was finished.", field="results", hint="Let the sweep go on.")
    value, (prompt, repeat) = speeds[(len(speeds) - 1) // 2]
    return prompt, repeat, value


def races(table: Mapping[str, Any], rows: Sequence[Row], recorded: Recorded) -> Iterator[tuple[str, Any, bytes]]:
    """Of every flavour its recorded race: the flavour, what is said about the race, and its trace, compressed.

    All settings of ``table`` are lanes, as they were measured. The texts of the tokens are added where the trace has
    none: a measured run says nothing that no metric needs.

    Raises:
        ConfigError: a trace is missing, or belongs to another run than the row.
    """
    keys = [cell["key"] for cell in table["cells"]]
    fastest = keys[min(1, len(keys) - 1)]
    pieces = Vocabulary(find_pair(table["settings"]["pair"]).tokenizer)
    for flavour in table["flavours"]:
        prompt, repeat, speedup = median_run(rows, flavour, fastest)
        measured = {row.setting: row.metrics.seconds for row in rows if (row.prompt, row.repeat) == (prompt, repeat)}
        lanes: dict[str, list[Event]] = {}
        for key in keys:
            events = recorded(prompt, repeat, key)
            if not math.isclose(fold(events).seconds, measured[key], rel_tol=1e-9):
                message = f"The trace of {key} for {prompt}, repeat {repeat}, is of another run than its row."
                raise ConfigError(message, field="traces", hint="Measure again, rows and traces together.")
            if not any(isinstance(event, PiecesSeen) for event in events):
                events = list(with_pieces(events, pieces))
            lanes[lane_of(key)] = [short_times(event) for event in events]
        header = header_of(lanes[lane_of(keys[0])])
        beginning = " ".join(header.prompt.split())[:60] if header else ""
        title = f"{flavour}, temperature {table['temperature']:g}: {beginning}"
        about = {"prompt": prompt, "repeat": repeat, "speedup": speedup, "of": fastest}
        about |= {"lanes": list(lanes), "title": title}
        yield flavour, about, gzip.compress(dump_trace(dict(lanes), title=title), 9, mtime=0)


def short_times(event: Event) -> Event:
    """Times within a run to 0.1 µs, which no clock here resolves: their random last digits would be most of the file.
    The run's own seconds stay as they are."""
    if isinstance(event, Committed):
        return msgspec.structs.replace(event, at=round(event.at, DIGITS))
    span = getattr(event, "span", None)
    if span is None:
        return event
    cut = msgspec.structs.replace(span, start=round(span.start, DIGITS), seconds=round(span.seconds, DIGITS))
    return cast(Event, msgspec.structs.replace(cast(Any, event), span=cut))


# What ships.

StoredSweep = tuple[Sweep, list[Row], Recorded]


def open_stored(path: Path) -> StoredSweep:
    """A sweep that was measured with ``--json path`` and ``--traces``.

    Raises:
        ConfigError: it is no such sweep, or its rows cannot be read.
    """
    result = store.read_result(path, Sweep)
    if not result.traces:
        hint = "Measure it with --json and --traces."
        raise ConfigError(f"{path.name} is no sweep with traces.", field="results", hint=hint)
    return result, store.read_rows(path), store.Traces(path.parent / result.traces).events


def build_showcase(stored: Sequence[StoredSweep]) -> dict[str, bytes]:
    """Path inside the folder -> its bytes: all methods of the literature, and as many other uses of their drafters, the
    fastest first, as fit.

    Args:
        stored: the sweeps, one for each temperature.

    Raises:
        ConfigError: something is missing, does not belong together, or is too large to ship.
    """
    uses = max((len({entry.group for entry in result.entries} - NAMED.keys()) for result, *_ in stored), default=0)
    for extras in range(uses, -1, -1):
        files = _files(stored, extras)
        total, largest = sum(map(len, files.values())), max(map(len, files.values()))
        if total < MOST_BYTES and largest < MOST_BYTES_OF_A_FILE:
            return files
    message = f"The showcase is too large to ship: {total:,} bytes, the largest file {largest:,}."
    hint = f"At most {MOST_BYTES:,} and {MOST_BYTES_OF_A_FILE:,} bytes: sweep fewer methods or fewer tokens."
    raise ConfigError(message, field="out", hint=hint)


def _files(stored: Sequence[StoredSweep], extras: int) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    tables = []
    for result, rows, recorded in stored:
        table = table_of(result, extras)
        table["races"] = {}
        for flavour, about, packed in races(table, rows, recorded):
            name = f"{RACES}/{table['temperature']:g}-{slug(flavour)}.jsonl.gz"
            files[name] = packed
            table["races"][flavour] = {"file": name, **about}
        tables.append(table)
    text = json.dumps(comparison(tables), ensure_ascii=False, separators=(",", ":")) + "\n"
    return {**files, RESULTS: text.encode("utf-8")}


def write_showcase(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files; races of an earlier showcase in the same folder go."""
    (folder / RACES).mkdir(parents=True, exist_ok=True)
    for old in (folder / RACES).glob("*.jsonl.gz"):
        if f"{RACES}/{old.name}" not in files:
            old.unlink()
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
