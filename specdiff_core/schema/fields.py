"""Fields of settings, explorations, training and pairs of your own. Each is declared once, in a struct
or a dataclass, as ``name: Annotated[type, ask(…)] = default``; sliders, forms, flags, API documents
and validation are made from that."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import Enum
from functools import cache
from pathlib import Path
from typing import Any, TypeVar, get_type_hints

import msgspec
from msgspec import Meta, inspect

from specdiff_core.schema.errors import ConfigError, no_such

K = TypeVar("K")
KINDS = {"IntType": int, "FloatType": float, "BoolType": bool, "StrType": str, "LiteralType": str}
LIMITS = {"low": "ge", "high": "le", "above": "gt", "longest": "max_length"}
FORMS = {int: "integer", float: "number", bool: "switch"}
"""Kind of a value -> how a form calls it; others are text."""


def ask(title: str, about: str = "", low: float | None = None, high: float | None = None, **form: Any) -> Meta:
    """Declare a field.

    Args:
        title: its label; without one, errors name its flag.
        low, high: limits of a number.
        form: ``above``, a limit that a number must exceed; ``least`` and ``most`` entries of a list
            or characters of a text; ``enum``, names to choose from (others are rejected on use);
            and fields of :class:`Field`.
    """
    named = {"above": "gt", "least": "min_length", "most": "max_length"}
    limits: dict[str, Any] = {key: form.pop(name) for name, key in named.items() if name in form}
    return Meta(title=title, description=about, ge=low, le=high, extra_json_schema=form or None, **limits)


def option(about: str = "", low: float | None = None, high: float | None = None, **form: Any) -> Meta:
    """Declare a field that is only a flag, by which errors name it. Arguments as of :func:`ask`."""
    return ask("", about, low, high, **form)


@dataclass(frozen=True, slots=True, kw_only=True)
class Field:
    """A field, for sliders, forms, flags and validation."""

    name: str
    type: Any  # as annotated, limits included
    kind: type  # of its value, or of each entry of a list
    several: bool  # a list
    most: int | None  # of its entries
    optional: bool  # an empty value means None
    required: bool
    default: Any  # as plain JSON
    label: str
    help: str
    choices: list[Any]  # the names of a text, or the options of a setting
    low: float | None
    high: float | None
    above: float | None
    longest: int | None  # characters of a text, which may be empty; None: it is a name
    step: float = 1
    symbol: str = ""
    unit: str = ""
    of: str = ""  # drafters or methods: the choices are those of the pair
    more: bool = False  # an advanced field
    hidden: bool = False
    replaces: tuple[str, ...] = ()  # fields that have no effect while this one is filled in
    lines: bool = False  # a text whose lines may also be given one by one, with \\n for a line break in one

    @classmethod
    def read_from(cls, declared: inspect.Field, annotation: Any) -> Field:
        """Read ``Annotated[type, ask(…)]``, a tuple of such, or either with ``| None``."""
        leaf: Any = declared.type
        form, several, optional, most = dict[str, Any](), False, False, None
        while not (kind := KINDS.get(type(leaf).__name__) or getattr(leaf, "cls", None)):
            if isinstance(leaf, inspect.Metadata):
                leaf, form = leaf.type, {**(leaf.extra_json_schema or {}), **form}
            elif isinstance(leaf, inspect.UnionType):
                leaf, optional = next(member for member in leaf.types if not isinstance(member, inspect.NoneType)), True
            elif isinstance(leaf, inspect.VarTupleType):
                leaf, several, most = leaf.item_type, True, leaf.max_length
        default = None if declared.required else declared.default
        options: list[Any] = [*kind] if issubclass(kind, Enum) else []  # type: ignore[misc]  # kind is a class here
        form |= {name: getattr(leaf, limit, None) for name, limit in LIMITS.items()}
        return cls(
            name=declared.name,
            type=annotation,
            kind=kind,
            several=several,
            most=most,
            optional=optional,
            required=declared.required,
            default=default if isinstance(default, Path) else msgspec.to_builtins(default),
            label=form.pop("title", ""),
            help=form.pop("description", ""),
            choices=form.pop("enum", None) or list(getattr(leaf, "values", options)),
            **form,
        )

    @property
    def title(self) -> str:
        """``γ  Draft window``, as on the page."""
        return f"{self.symbol}  {self.label}" if self.symbol else self.label

    @property
    def named(self) -> str:
        """``Draft window (γ)``, or the flag of a field without a label."""
        return f"{self.label} ({self.symbol})" if self.symbol else self.label or flag(self.name)

    @property
    def range(self) -> str:
        """Describes a value: ``1 to 32``, ``true or false``, or the names to choose from."""
        if self.low is not None and self.high is not None:
            return f"{self.low:.10g} to {self.high:.10g}"
        if self.kind is bool:
            return "true or false"
        limits = (("at least", self.low), ("more than", self.above), ("at most", self.high))
        words = [f"{words} {limit:.10g}" for words, limit in limits if limit is not None]
        words = words or [getattr(choice, "value", choice) for choice in self.choices]
        return ", ".join(words) or (f"text of at most {self.longest:,} characters" if self.longest else "a name")

    @property
    def labels(self) -> dict[str, str]:
        """The names to choose from -> their labels; empty if the names say it, or the pair does."""
        return {option.value: option.label for option in self.choices if hasattr(option, "label")}

    @property
    def control(self) -> str:
        """What asks for a value: a ``switch``, a ``choice``, an ``integer``, a ``number``, or ``text``, which can be
        empty."""
        return "choice" if self.choices else "text" if self.optional else FORMS.get(self.kind, "text")

    @property
    def is_long(self) -> bool:
        """Whether it is a text of several lines."""
        return not self.choices and (self.longest or 0) > 200

    def form(self, *, more: bool = False) -> dict[str, Any]:
        """The field as plain JSON values; ``more``: show it among the advanced ones."""
        words = {"title": self.title, "about": self.help, "kind": self.control, "list": self.several}
        same = ("name", "default", "choices", "labels", "of", "low", "high", "hidden", "replaces")
        return {
            **{name: getattr(self, name) for name in same},
            **words,
            "long": self.is_long,
            "file": self.is_long and (self.longest or 0) >= 20_000,
            "more": more or self.more,
        }

    def read(self, value: Any) -> Any:
        """Convert a value from a flag, a link or a form to this field's type. Commas may separate a list's entries.

        Raises:
            ConfigError: it has another type, is out of range, or is not text; ``field`` names the field.
        """
        if self.optional and value in (None, ""):
            return None
        plain = self._plain(value)
        entries = plain if isinstance(plain, list) else [plain]
        try:
            "".join(map(str, entries)).encode()  # fails for half a surrogate pair
            return msgspec.convert(plain, self.type, strict=False, dec_hook=lambda kind, value: kind(value))
        except (msgspec.ValidationError, UnicodeEncodeError):
            text = "" if value is None else ",".join(map(str, entries))
            what = f"{self.named} cannot be {text[:40]!r}." if text else f"{self.named} is empty."
            hint = f"Choose one of: {self.range}." if self.choices else f"Give {self.range}."
            if self.kind in (int, float):
                start = "from " if self.low is not None and self.high is not None else ""
                hint = f"Give a {'whole ' if self.kind is int else ''}number {start}{self.range}."
            hint += f" At most {self.most} of them, separated by commas." if self.most else ""
            raise ConfigError(what, field=self.name, hint=hint) from None

    def _plain(self, value: Any) -> Any:
        if self.several and isinstance(value, str | list | tuple):
            words = [value] if isinstance(value, str) else value
            parts = (map(str.strip, word.split(",")) if isinstance(word, str) else [word] for word in words)
            return [word for part in parts for word in part if word != ""]
        if self.lines and isinstance(value, list | tuple):
            return "\n".join(str(line).replace("\n", "\\n") for line in value)
        value = value.value if isinstance(value, Enum) else value
        return value.lower() if self.kind is bool and isinstance(value, str) else value


def flag(name: str) -> str:
    """``batch_tokens`` -> ``--batch-tokens``."""
    return f"--{name.replace('_', '-')}"


@cache
def fields_of(kind: type) -> dict[str, Field]:
    """Name -> field of a struct or a dataclass, in the order of declaration."""
    declared: Any = inspect.type_info(kind)
    hints = get_type_hints(kind, include_extras=True)
    return {field.name: Field.read_from(field, hints[field.name]) for field in declared.fields}


def parse(kind: Callable[..., K], values: Mapping[str, Any], base: K | None = None) -> K:
    """A record of ``kind`` from untrusted values: strings of flags or a link, JSON of a form or an API.

    Args:
        base: has the values that are not given, instead of the defaults.

    Raises:
        ConfigError: a name is unknown, or a value is missing, out of range, or not text; the message says which.
    """
    fields: dict[str, Field] = fields_of(kind)
    for name in values:
        if name not in fields:
            raise no_such("setting", name, sorted(fields), str(name)[:40])
    given = {name: field.read(values.get(name)) for name, field in fields.items() if name in values or field.required}
    return kind(**given) if base is None else msgspec.structs.replace(base, **given)  # type: ignore[type-var]  # base is a struct
