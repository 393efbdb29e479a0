"""What the page's scripts share with Python: constants and records (``app/static/state/declared.js``), and TypeScript
declarations of events, lessons and reports, against which they are checked.

``python -m tests.event_types`` writes both. The tests compare the first, and make the second,
``app/static/state/events.d.ts``, which git ignores, for each check.
"""

from __future__ import annotations

import json
import types
import typing
from pathlib import Path
from typing import Any

import msgspec

from app import links, routes, unfurl
from app.content import measured
from app.content.formulas import Formula
from app.content.workshop import CheckAnswer, Lesson, Watch
from app.run import kept
from specdiff_core.explorations.base import Board, Report, Switch
from specdiff_core.explorations.figures import Figure, Slider
from specdiff_core.explorations.run import ExplorationResult
from specdiff_core.schema import events, methods, settings, summary, trace
from specdiff_core.schema.pairs import PAIRS

STATE = Path(__file__).resolve().parent.parent / "app" / "static" / "state"
FILE, SHARED = STATE / "events.d.ts", STATE / "declared.js"
PLAIN = {int: "number", float: "number", str: "string", bool: "boolean", type(None): "null", Any: "any"}


def _type(hint: Any) -> str:
    """A Python annotation as TypeScript."""
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return _type(arguments[0])
    if origin in (typing.Union, types.UnionType):
        return " | ".join(dict.fromkeys(map(_type, arguments)))
    if origin is typing.Literal:
        return " | ".join(map(repr, arguments))
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
    others = [settings.TestKind, events.Span, events.Candidate, events.Test, events.Quoted]
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
    lines.append("export type TestKinds = Record<Test['kind'], TestKind>;")
    lines.append(f"export type TabName = {' | '.join(map(repr, links.TABS))};")
    return "\n".join(lines) + "\n"


def _literal(value: Any, indent: str = "") -> str:
    """A value as JavaScript; what is too long for a line takes several."""
    text = json.dumps(value, ensure_ascii=False)
    if (len(indent + text) < 100 and (indent or not isinstance(value, dict))) or isinstance(value, str):
        return text
    inner = f"{indent} "
    if not isinstance(value, dict):
        return "[\n" + "".join(f"{inner}{_literal(item, inner)},\n" for item in value) + f"{indent}]"
    return "{\n" + "".join(f"{inner}{key}: {_literal(item, inner)},\n" for key, item in value.items()) + f"{indent}}}"


def shared() -> str:
    """The text of ``declared.js``."""
    defaults = {
        event.__name__: left_out
        for event in typing.get_args(events.Event)
        if (
            left_out := {
                field.name: field.default if field.default_factory is msgspec.NODEFAULT else field.default_factory()
                for field in msgspec.structs.fields(event)
                if not field.required
            }
        )
    }
    constants = {
        "BASELINE": ("string", methods.BASELINE),
        "DRAFTED": ("string", methods.DRAFTED),
        "SCHEMA": ("number", events.SCHEMA),
        "ANSWER_SCHEMA": (
            "number",
            {field.name: field.default for field in msgspec.structs.fields(ExplorationResult)}["schema"],
        ),
        "MAX_BYTES": ("number", trace.MAX_BYTES),
        "ENOUGH": ("number", summary.ENOUGH),
        "END": ("string", events.END),
        "CONTROL": ("string", events.CONTROL),
        "DEFAULTS": ("Record<string, object>", defaults),
        "TEST_KINDS": ("import('./events.d.ts').TestKinds", settings.TEST_KINDS),
        "SAMPLING": ("Record<string, unknown>", measured.SAMPLING),
        "EARLY": ("number", summary.EARLY),
        "LEAD": ("string", unfurl.LEAD),
        "LONGEST_LINK": ("number", routes.LONGEST_LINK),
        "RUN_NAME": ("string", kept.RUN_NAME),
        "OPENS": ("Record<string, string | null>", links.OPENS),
        "LIVE_LANES": ("string[]", links.LIVE_LANES),
        "OWN_TARGETS": ("Record<string, string>", {one.name: one.short for one in PAIRS.values() if one.offline}),
        "SAME_TEXT": ("unknown[]", [rule for rule in settings.Rule if rule.same_text]),
    }
    lines = ["// deno-fmt-ignore-file", "// Made by `python -m tests.event_types`.", ""]
    for name, (hint, value) in constants.items():
        lines.append(f"export const {name} = /** @type {{{hint}}} */ ({_literal(msgspec.to_builtins(value))});")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    SHARED.write_text(shared(), encoding="utf-8")
    FILE.write_text(declarations(), encoding="utf-8")
