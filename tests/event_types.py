"""TypeScript declarations of the events, and of the lessons and reports that the page gets, made from the Python
classes: its scripts are checked against them.

The tests make them for each check. ``python -m tests.event_types`` writes them for an editor, to
``app/static/state/events.d.ts``, which git ignores.
"""

from __future__ import annotations

import types
import typing
from pathlib import Path
from typing import Any

import msgspec

from app.content.formulas import Formula
from app.content.workshop import CheckAnswer, Lesson, Watch
from specdiff_core.explorations.base import Board, Report, Switch
from specdiff_core.explorations.figures import Figure, Slider
from specdiff_core.schema import events

FILE = Path(__file__).resolve().parent.parent / "app" / "static" / "state" / "events.d.ts"
PLAIN = {int: "number", float: "number", str: "string", bool: "boolean", type(None): "null", Any: "any"}


def _type(hint: Any) -> str:
    """A Python annotation as TypeScript."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_type, arguments)))
    if origin is tuple and arguments[-1] is not Ellipsis:
        return f"[{', '.join(map(_type, arguments))}]"
    if origin in (tuple, list):
        inner = _type(arguments[0])
        return f"({inner})[]" if "|" in inner else f"{inner}[]"
    if origin is dict:
        return f"Record<{_type(arguments[0])}, {_type(arguments[1])}>"
    return PLAIN.get(hint) or str(hint.__name__)


def declarations() -> str:
    """The text of ``events.d.ts``."""
    members = typing.get_args(events.Event)
    others = [events.Span, events.Candidate, events.Test, events.Quoted]
    others += [Formula, Watch, CheckAnswer, Lesson, Slider, Figure, Board, Switch, Report]
    lines = []
    for struct in (*others, *members):
        lines.append(f"export interface {struct.__name__} {{")
        if struct in members:
            lines.append(f"  kind: '{struct.__name__}';")
        hints = typing.get_type_hints(struct, include_extras=True)
        omits = getattr(getattr(struct, "__struct_config__", None), "omit_defaults", False)
        for item in msgspec.inspect.type_info(struct).fields:
            lines.append(f"  {item.name}{'' if item.required or not omits else '?'}: {_type(hints[item.name])};")
        lines.append("}")
    lines.append(f"export type Event = {' | '.join(member.__name__ for member in members)};")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    FILE.write_text(declarations(), encoding="utf-8")
