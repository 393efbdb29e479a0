"""Recorded runs on disk: JSON lines, versioned, readable without torch or a tokenizer.

Line 1 is the header ``{"schema": 2, "kind": "Trace", "title", "lanes"}``; then one event per line
with its ``kind`` and its ``lane``. New fields keep the schema number; any other change raises it.
"""

from __future__ import annotations

import gzip
import io
import zlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from math import isfinite
from pathlib import Path
from typing import Annotated

import msgspec

from specdiff_core.schema.errors import TraceError, TraceSchemaError
from specdiff_core.schema.events import (
    SCHEMA,
    Committed,
    DenoiseStep,
    DraftReady,
    Event,
    Finished,
    RoundStarted,
    TargetScored,
    Verified,
    pieces_of,
)
from specdiff_core.schema.settings import TEST_KINDS

MAX_BYTES = 64_000_000  # of unpacked text: a hostile file must not fill the memory
MAX_SECONDS = 1e7  # of a decode clock
MAX_EVENTS = 100_000  # a long race with 32 denoising steps has a third of them
MAX_VALUES = 3_000_000  # ten times a long race; as Python objects they need about 0.3 GB
MAX_LANES = 256
MAX_TOKENS, MAX_TEXT = 200_000, 10_000_000  # of all lanes: a piece may be long, and used again and again
_PART = 1024  # bytes unpacked at a time; at the end of a gzip member at most so many are copied

_encoder = msgspec.json.Encoder()
_event: msgspec.json.Decoder[Event] = msgspec.json.Decoder(Event)


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One recording: the events of each lane, in order."""

    lanes: dict[str, tuple[Event, ...]]
    title: str = ""
    schema: int = SCHEMA


class _Header(msgspec.Struct):
    kind: str
    schema: int
    lanes: Annotated[list[str], msgspec.Meta(max_length=MAX_LANES)]
    title: str = ""


class _Lane(msgspec.Struct):
    lane: str


def header_line(lanes: Iterable[str], *, title: str = "") -> bytes:
    """The first line of a recording."""
    return _encoder.encode({"schema": SCHEMA, "kind": "Trace", "title": title, "lanes": list(lanes)}) + b"\n"


def event_line(event: Event, lane: str) -> bytes:
    """One event of a lane as a line of a recording."""
    return _encoder.encode(event)[:-1] + b',"lane":' + _encoder.encode(lane) + b"}\n"


def write_trace(path: Path | str, lanes: Mapping[str, Sequence[Event]], *, title: str = "") -> None:
    """Write a recording; if its name ends in ``.gz``, compressed and reproducible."""
    path = Path(path)
    raw = dump_trace(lanes, title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw, 9, mtime=0) if path.suffix == ".gz" else raw)


def dump_trace(lanes: Mapping[str, Sequence[Event]], *, title: str = "") -> bytes:
    """The bytes of an uncompressed recording."""
    lines = [event_line(event, lane) for lane, run in lanes.items() for event in run]
    return b"".join([header_line(lanes, title=title), *lines])


def read_trace(source: Path | str | bytes) -> Trace:
    """Read a recording from a path or from bytes, compressed or not.

    Raises:
        TraceError: it is not a trace, cut off, damaged, or too large (see ``MAX_…``).
        TraceSchemaError: its schema is not known to this version.
    """
    try:
        raw = source if isinstance(source, bytes) else _head(source)
    except OSError as error:
        raise TraceError(f"The trace cannot be read: {error.strerror}.", hint="Check the file name.") from error
    if raw[:2] == b"\x1f\x8b":
        raw = _unzip(raw)
    if len(raw) > MAX_BYTES:
        raise TraceError("The trace is too large.", hint=f"At most {MAX_BYTES // 1_000_000} MB, unpacked.")
    if raw.count(b"\n") > MAX_EVENTS or raw.count(b",") > MAX_VALUES:
        raise TraceError("The trace is too long.", hint=f"At most {MAX_EVENTS:,} events and {MAX_VALUES:,} values.")
    try:
        return _read(line for line in io.BytesIO(raw) if line.strip())
    except msgspec.ValidationError as error:
        raise TraceError(f"The trace holds a wrong event: {str(error)[:160]}.") from error
    except (ValueError, RecursionError) as error:
        raise TraceError("This file is not a trace, or it was cut off.") from error


def _read(lines: Iterator[bytes]) -> Trace:
    first = next(lines, b"{}")
    declared = msgspec.json.decode(first)
    if not isinstance(declared, dict) or declared.get("kind") != "Trace":
        raise TraceError("This file is not a trace: its first line isn't a trace header.")
    schema = declared.get("schema")
    if schema != SCHEMA:
        what = f"The trace has schema {str(schema)[:20]}; this version reads schema {SCHEMA}."
        raise TraceSchemaError(what, hint="Open it with the version that wrote it.")
    header = msgspec.convert(declared, _Header)
    lanes: dict[str, list[Event]] = {name: [] for name in header.lanes}
    for line in lines:  # one at a time: a foreign file stops at its first wrong line
        if (lane := msgspec.json.decode(line, type=_Lane).lane) not in lanes:
            raise TraceError("The trace has an event whose lane isn't in its header.")
        lanes[lane].append(_event.decode(line))
    for run in lanes.values():
        check_run(run)
    sizes = [size for run in lanes.values() for size in _sizes(run)]
    if len(sizes) > MAX_TOKENS or sum(sizes) > MAX_TEXT:
        raise TraceError("The text of the trace is too long.", hint=f"At most {MAX_TOKENS:,} tokens.")
    return Trace(lanes={name: tuple(run) for name, run in lanes.items()}, title=header.title)


def _sizes(events: Sequence[Event]) -> list[int]:
    """Characters of each new token."""
    pieces = pieces_of(events)
    return [len(pieces.get(token, "")) for event in events if isinstance(event, Committed) for token in event.ids]


def check_run(events: Sequence[Event]) -> None:
    """Whether the events of a lane fit together, so that everything that folds or draws them can rely on it.

    Raises:
        TraceError: they do not; the message says where.
    """
    size: int | None = None  # of the window or draft of the round
    tree = several = False

    def need(holds: bool, what: str) -> None:
        if not holds:
            raise TraceError(f"The events of this trace don't fit together: {what}.")

    for event in events:
        match event:
            case RoundStarted():
                size, tree, several = None, False, False
            case DenoiseStep():
                need(size is None or size == len(event.ids), "a window changes its size")
                need(
                    all(0 <= position < len(event.ids) for position in event.revealed),
                    "a step reveals no position of the window",
                )
                size = len(event.ids)
            case DraftReady():
                size, tree, several = len(event.ids), bool(event.parents), bool(event.branches)
                nodes = [node for branch in event.branches for node in branch]
                need(all(0 <= node < size for node in nodes), "a draft has nodes outside its tree")
            case TargetScored():
                need(len(event.p) == (size or 0), "the scores don't match the draft")
            case Verified():
                reached = len({test.position for test in event.tests})
                need(several or reached == len(event.tests), "a token is tested twice")
                need(reached <= (size or 0) and event.accepted <= reached, "the tests don't match the draft")
                last = reached == event.accepted and (tree or event.accepted == (size or 0))
                need(last or reached == event.accepted + 1, "the last test isn't a rejection")
                need(all(0 <= node < (size or 0) for node in event.path), "a path leaves its tree")
                drawn = [
                    test.draw
                    for test in event.tests
                    if (kind := TEST_KINDS[test.kind]).draws
                    and not (kind.passed and test.position < event.accepted - 1)  # a longer beginning passed
                ]
                need(all(draw is not None and isfinite(draw) for draw in drawn), "a test has no draw")
            case Finished():
                need(0 <= event.seconds < MAX_SECONDS, "the decode time is out of range")


def _head(path: Path | str) -> bytes:
    """A file, of which no more is read than shows that it is too large."""
    with open(path, "rb") as file:
        return file.read(MAX_BYTES + 1)


def _unzip(raw: bytes) -> bytes:
    """Unpack all gzip members, no further than needed to see that they are too large."""
    out, done, unpacker = bytearray(), 0, zlib.decompressobj(wbits=31)
    while done < len(raw) and len(out) <= MAX_BYTES:
        if unpacker.eof:
            unpacker = zlib.decompressobj(wbits=31)
        part = raw[done : done + _PART]
        try:
            out += unpacker.decompress(part, MAX_BYTES + 1 - len(out))
        except zlib.error as error:
            raise TraceError("The compressed trace is damaged.") from error
        done += len(part) - len(unpacker.unused_data)
    if not unpacker.eof and len(out) <= MAX_BYTES:
        raise TraceError("The compressed trace was cut off.")
    return bytes(out)
