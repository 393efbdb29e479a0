"""What ships with the page's comparison: one JSON of stored sweeps, and one recorded race for each flavour and
temperature, from the traces of those very runs. Knows files and a tokenizer; measures nothing, knows no page.
"""

from __future__ import annotations

import gzip
import json
import math
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Protocol, cast

import msgspec

from specdiff_core.bench.comparison import NAMED, comparison, group_of, median_run, table_of
from specdiff_core.bench.reading import read_result
from specdiff_core.bench.rows import Row
from specdiff_core.bench.traces import Traces, lane_of
from specdiff_core.decoding.pieces import Pieces, with_pieces
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Committed, Event, PiecesSeen
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.summary import header_of
from specdiff_core.schema.trace import dump_trace

RESULTS = "results.json"
RACES = "races"
DIGITS = 7  # of seconds
MOST_BYTES = 2_000_000  # of the whole folder
MOST_BYTES_OF_A_FILE = 1_000_000


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
            self._tokenizer = Tokenizer.from_file(str(path))
        except Exception as error:  # the library raises nothing more special
            raise ConfigError(f"{path.name} cannot be read: {error}.", field="pair", hint="Fetch it again.") from error
        added = self._tokenizer.get_added_tokens_decoder()
        self.all_special_ids = [token for token, entry in added.items() if entry.special]

    def convert_ids_to_tokens(self, ids: int) -> str | None:
        """The entry of an id, None where there is none."""
        found = self._tokenizer.id_to_token(ids)
        return None if found is None else str(found)


class Recorded(Protocol):
    """Traces that a sweep kept (``specdiff_core/bench/traces.py``)."""

    def events(self, prompt_id: str, repeat: int, cell_key: str) -> Sequence[Event]:
        """The events of one run."""


def read_rows(path: Path) -> list[Row]:
    """The rows of a stored sweep: beside ``name.json`` lies ``name.rows.jsonl``.

    Raises:
        ConfigError: it is missing or damaged.
    """
    rows = path.with_suffix(".rows.jsonl")
    try:
        text = rows.read_text(encoding="utf-8")
        whole = text[: text.rfind("\n") + 1]  # a last line that was cut off does not count, as in RowLog
        return [json.loads(line) for line in whole.splitlines()[1:]]
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{rows.name} cannot be read ({error}).", field="from", hint="It belongs beside its result."
        ) from error


Stored = tuple[dict[str, Any], list[Row], Recorded]
"""A sweep: result, rows, traces."""


def open_stored(path: Path) -> Stored:
    """A sweep that was measured with ``--json path`` and ``--traces``.

    Raises:
        ConfigError: it is no such sweep, or its rows cannot be read.
    """
    result = read_result(path)
    kept = result.get("traces")
    if result["kind"] != "sweep" or not isinstance(kept, str):
        raise ConfigError(
            f"{path.name} is no sweep with traces.", field="from", hint="Measure it with --json and --traces."
        )
    return result, read_rows(path), Traces(path.parent / kept)


def make_race(
    table: Mapping[str, Any], rows: Sequence[Row], recorded: Recorded, flavour: str, pieces: Pieces
) -> tuple[dict[str, Any], bytes]:
    """The recorded race of one flavour: what is said about it, and its trace, compressed.

    All cells of ``table`` are lanes, as they were measured: the run is chosen by
    :func:`~specdiff_core.bench.comparison.median_run`. The texts of the tokens are added from ``pieces`` where the
    trace has none: a measured run tells nothing that no metric needs.

    Raises:
        ConfigError: a trace is missing, or belongs to another run than the row.
    """
    keys = [cell["key"] for cell in table["cells"]]
    fastest = keys[min(1, len(keys) - 1)]
    prompt, repeat, speedup = median_run(rows, flavour, fastest)
    measured = {row["cell"]: row for row in rows if (row["prompt"], row["repeat"]) == (prompt, repeat)}
    lanes: dict[str, tuple[Event, ...]] = {}
    for key in keys:
        events = tuple(recorded.events(prompt, repeat, key))
        if not math.isclose(fold(events).seconds, measured[key]["metrics"]["seconds"], rel_tol=1e-9):
            raise ConfigError(
                f"The trace of {key} for {prompt}, repeat {repeat}, is of another run than its row.",
                field="traces",
                hint="Measure again, rows and traces together.",
            )
        told = events if any(isinstance(event, PiecesSeen) for event in events) else with_pieces(events, pieces)
        lanes[lane_of(key)] = tuple(_short(event) for event in told)
    header = header_of(lanes[lane_of(keys[0])])
    beginning = " ".join(header.prompt.split())[:60] if header else ""
    title = f"{flavour}, temperature {table['temperature']:g}: {beginning}"
    about = {"prompt": prompt, "repeat": repeat, "speedup": speedup, "of": fastest}
    about |= {"lanes": list(lanes), "title": title}
    return about, gzip.compress(dump_trace(dict(lanes), title=title), 9, mtime=0)


def _short(event: Event) -> Event:
    """Times within a run to 0.1 µs, which no clock here resolves: their random last digits would be most of the file.
    The run's own seconds stay as they are."""
    if isinstance(event, Committed):
        return msgspec.structs.replace(event, at=round(event.at, DIGITS))
    span = getattr(event, "span", None)
    if span is None:
        return event
    cut = msgspec.structs.replace(span, start=round(span.start, DIGITS), seconds=round(span.seconds, DIGITS))
    return cast(Event, msgspec.structs.replace(cast(Any, event), span=cut))


def build_showcase(stored: Sequence[Stored]) -> dict[str, bytes]:
    """Path inside the folder -> its bytes: all methods of the literature, and as many other uses of their drafters, the
    fastest first, as fit.

    Args:
        stored: the sweeps, one for each temperature.

    Raises:
        ConfigError: something is missing, does not belong together, or is too large to ship.
    """
    uses = max((len({group_of(entry) for entry in result["cells"]} - NAMED) for result, *_ in stored), default=0)
    for extras in range(uses, -1, -1):
        files = _files(stored, extras)
        total, largest = sum(map(len, files.values())), max(map(len, files.values()))
        if total < MOST_BYTES and largest < MOST_BYTES_OF_A_FILE:
            return files
    raise ConfigError(
        f"The showcase is too large to ship: {total:,} bytes, the largest file {largest:,}.",
        field="showcase",
        hint=f"At most {MOST_BYTES:,} and {MOST_BYTES_OF_A_FILE:,} bytes: sweep fewer methods or fewer tokens.",
    )


def _files(stored: Sequence[Stored], extras: int) -> dict[str, bytes]:
    files: dict[str, bytes] = {}
    tables = []
    for result, rows, recorded in stored:
        table = table_of(result, rows, extras)
        pieces = Vocabulary(find_pair(result["settings"]["pair"]).tokenizer)
        table["races"] = {}
        for flavour in table["flavours"]:
            told, packed = make_race(table, rows, recorded, flavour, pieces)
            name = f"{RACES}/{table['temperature']:g}-{re.sub('[^a-z0-9_-]', '_', flavour.lower())}.jsonl.gz"
            files[name] = packed
            table["races"][flavour] = {"file": name, **told}
        tables.append(table)
    text = json.dumps(comparison(tables), ensure_ascii=False, separators=(",", ":")) + "\n"
    files[RESULTS] = text.encode("utf-8")
    return files


def write_showcase(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files; races of an earlier showcase in the same folder go."""
    (folder / RACES).mkdir(parents=True, exist_ok=True)
    for old in (folder / RACES).glob("*.jsonl.gz"):
        if f"{RACES}/{old.name}" not in files:
            old.unlink()
    for name, raw in files.items():
        (folder / name).write_bytes(raw)
