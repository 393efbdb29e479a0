"""Recorded runs on disk: JSON lines, versioned, readable without torch or a tokenizer. Knows events and files only.

Line 1 is the header ``{"schema": 1, "kind": "Trace", "title", "lanes"}``; then one event per line with its ``kind``
and its ``lane``. New fields keep the schema number; anything else raises it and adds one entry to ``MIGRATIONS``.
"""

from __future__ import annotations

import dataclasses
import functools
import gzip
import json
import re
import sys
import types
import typing
import zlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdiff_core import events as events_module
from specdiff_core.errors import TraceError, TraceSchemaError
from specdiff_core.events import SCHEMA, DraftReady, Event, Verified

KINDS: dict[str, type] = {kind.__name__: kind for kind in typing.get_args(Event)}
MIGRATIONS: dict[int, Callable[[dict[str, Any]], dict[str, Any]]] = {}
"""Schema n -> a function that turns one line of schema n into schema n + 1."""

PARALLEL = {
    "Committed": ("ids", "sources"),
    "DraftReady": ("ids", "q", "reveal_steps", "soft"),
    "DenoiseStep": ("ids", "confidence", "candidates"),
}
"""Kind of event -> its fields with one entry for each token."""

MAX_BYTES = 64_000_000  # of unpacked text: a hostile file must not fill the memory
MAX_EVENTS = 100_000  # a race of 480 tokens with 32 denoising steps in every round has a third of them


@dataclass(frozen=True, slots=True, kw_only=True)
class Trace:
    """One recording: the events of each lane, in order."""

    lanes: dict[str, tuple[Event, ...]]
    title: str = ""
    schema: int = SCHEMA


def event_to_dict(event: Event) -> dict[str, Any]:
    """Plain JSON values, with ``kind``."""
    return {"kind": type(event).__name__, **dataclasses.asdict(event)}


def event_from_dict(line: dict[str, Any]) -> Event:
    """The event of one line; unknown fields of a newer writer are ignored.

    Raises:
        TraceError: the kind is unknown, a field is missing or has the wrong type, or lists do not fit together.
    """
    kind = line.get("kind")
    if not isinstance(kind, str) or kind not in KINDS:
        raise TraceError(f"The trace holds an unknown event {str(kind)[:40]!r}.", hint=_HINT)
    event: Event = _build(KINDS[kind], line)
    if isinstance(event, Verified) and not 0 <= event.accepted <= len(event.tests):
        raise TraceError("The trace holds a Verified that accepts more than it tests.", hint=_HINT)
    if isinstance(event, DraftReady) and event.parents and not is_tree(event.parents, len(event.ids)):
        raise TraceError("The trace holds a DraftReady whose parents are no tree.", hint=_HINT)
    if len({len(getattr(event, name)) for name in PARALLEL.get(kind, ())}) > 1:
        raise TraceError(f"The trace holds a {kind} whose lists differ in length.", hint=_HINT)
    return event


def is_tree(parents: Sequence[int], size: int) -> bool:
    """Whether each of ``size`` nodes stands behind its parent, or behind the anchor (−1)."""
    return len(parents) == size and all(-1 <= parent < node for node, parent in enumerate(parents))


def write_trace(path: Path | str, lanes: dict[str, Sequence[Event]], *, title: str = "") -> None:
    """Write a recording; a name that ends in ``.gz`` is compressed, with the same bytes for the same events."""
    path = Path(path)
    raw = dump_trace(lanes, title=title)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(raw, 9, mtime=0) if path.suffix == ".gz" else raw)


def dump_trace(lanes: dict[str, Sequence[Event]], *, title: str = "") -> bytes:
    """The bytes of an uncompressed recording."""
    lines: list[dict[str, Any]] = [{"schema": SCHEMA, "kind": "Trace", "title": title, "lanes": list(lanes)}]
    lines += [{**event_to_dict(event), "lane": lane} for lane, run in lanes.items() for event in run]
    return "".join(json.dumps(line, ensure_ascii=False, separators=(",", ":")) + "\n" for line in lines).encode()


def read_trace(source: Path | str | bytes) -> Trace:
    """Read a recording from a path or from bytes, compressed or not.

    Raises:
        TraceError: it is no trace, cut off, or damaged.
        TraceSchemaError: its schema is not known to this version.
    """
    try:
        raw = source if isinstance(source, bytes) else Path(source).read_bytes()
    except OSError as error:
        raise TraceError(f"The trace cannot be read: {error.strerror}.", hint="Check the file name.") from error
    if raw[:2] == b"\x1f\x8b":
        raw = _unzip(raw)
    if len(raw) > MAX_BYTES:
        raise TraceError("The trace is too large.", hint=f"At most {MAX_BYTES // 1_000_000} MB, unpacked.")
    if raw.count(b"\n") > MAX_EVENTS:
        raise TraceError("The trace is too long.", hint=f"At most {MAX_EVENTS:,} events.")
    lines = _lines(raw)
    header = next(lines, {})
    if header.get("kind") != "Trace":
        raise TraceError("This file is not a trace: its first line is no trace header.", hint=_HINT)
    schema = header.get("schema")
    if type(schema) is not int or (schema != SCHEMA and schema not in MIGRATIONS):
        raise TraceSchemaError(
            f"The trace has schema {str(schema)[:20]}; this version reads up to {SCHEMA}.",
            hint="Open it with the version that wrote it, or a newer one.",
        )
    header = _migrate(header, schema)
    names = header.get("lanes")
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise TraceError("The trace header names no lanes.", hint=_HINT)
    lanes: dict[str, list[Event]] = {name: [] for name in names}
    for line in (_migrate(line, schema) for line in lines):  # one at a time: a foreign file stops at its first line
        if not isinstance(line.get("lane"), str) or line["lane"] not in lanes:
            raise TraceError("The trace holds an event of a lane its header does not name.", hint=_HINT)
        lanes[line["lane"]].append(event_from_dict(line))
    return Trace(
        lanes={name: tuple(run) for name, run in lanes.items()}, title=str(header.get("title", "")), schema=SCHEMA
    )


def _lines(raw: bytes) -> Iterator[dict[str, Any]]:
    """The objects of a JSON lines file, one by one."""
    try:
        for text in raw.decode("utf-8").split("\n"):
            if text.strip():
                line = json.loads(text)
                if not isinstance(line, dict):
                    raise TraceError("This file is not a trace: a line is no object.", hint=_HINT)
                if "\\ud" in text.lower() and _SURROGATE.search(json.dumps(line, ensure_ascii=False)):
                    raise TraceError("This file is not a trace: it holds characters that are no text.", hint=_HINT)
                yield line
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise TraceError("This file is not a trace, or it was cut off.", hint=_HINT) from error


def _migrate(line: dict[str, Any], schema: int) -> dict[str, Any]:
    for number in range(schema, SCHEMA):
        line = MIGRATIONS[number](line)
    return line


_SURROGATE = re.compile("[\ud800-\udfff]")  # half of a UTF-16 pair, which no file can be written with
_HINT = "Choose a .jsonl or .jsonl.gz file that was downloaded from this page or written with --trace."


def _unzip(raw: bytes) -> bytes:
    unpacker = zlib.decompressobj(wbits=31)
    try:
        out = unpacker.decompress(raw, MAX_BYTES + 1)
    except zlib.error as error:
        raise TraceError("The compressed trace is damaged.", hint=_HINT) from error
    if not unpacker.eof and len(out) <= MAX_BYTES:
        raise TraceError("The compressed trace was cut off.", hint=_HINT)
    return out


@functools.cache
def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, vars(events_module))


def _build(kind: type, line: dict[str, Any]) -> Any:
    values = {}
    hints = _hints(kind)
    for item in dataclasses.fields(kind):
        if item.name in line:
            values[item.name] = _read(hints[item.name], line[item.name], f"{kind.__name__}.{item.name}")
        elif item.default is dataclasses.MISSING and item.default_factory is dataclasses.MISSING:
            raise TraceError(f"The trace lacks {kind.__name__}.{item.name}.", hint=_HINT)
    return kind(**values)


def _read(hint: Any, value: Any, where: str) -> Any:
    """One JSON value as the type that the event declares."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None:
            return None
        return _read(next(a for a in arguments if a is not type(None)), value, where)
    if origin is tuple and isinstance(value, list):
        return tuple(_read(arguments[0], item, where) for item in value)
    if origin is dict and isinstance(value, dict):
        try:
            return {arguments[0](k): _read(arguments[1], v, where) for k, v in value.items()}
        except ValueError:
            value = object
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, dict):
        return _build(hint, value)
    if hint is Any:  # a setting in the header: one plain value
        hint = type(value) if isinstance(value, (bool, int, float, str)) else Any
        if value is None:
            return value
    if hint is float and type(value) in (int, float) and abs(value) <= sys.float_info.max:  # false for NaN
        return value
    if hint in (int, bool, str) and type(value) is hint and (hint is not int or abs(value) < 2**63):
        return value
    raise TraceError(f"The trace holds a wrong value for {where}.", hint=_HINT)
