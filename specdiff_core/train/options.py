"""Command-line flags from a struct of settings: the type, the limits and the help of each are its
annotation, as in ``Annotated[int, Meta(ge=1, description="optimiser steps")]``. Needs no torch: the
command line's help starts at once.
"""

from __future__ import annotations

import argparse
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar, get_args, get_origin, get_type_hints

import msgspec

from specdiff_core.schema.errors import ConfigError

S = TypeVar("S", bound=msgspec.Struct)


def flag(name: str) -> str:
    """``batch_tokens`` -> ``--batch-tokens``."""
    return f"--{name.replace('_', '-')}"


def add_options(parser: Any, defaults: msgspec.Struct) -> None:
    """One flag for each field of a struct of settings. What isn't given isn't set, so that it can
    come from elsewhere; the help names the ``defaults``."""
    for name, annotation in get_type_hints(type(defaults), include_extras=True).items():
        kind, meta = get_args(annotation)
        words: dict[str, Any] = {"dest": name, "default": argparse.SUPPRESS}
        words["help"] = _help(meta, getattr(defaults, name))
        plain, several = kind, get_origin(kind) is tuple
        while get_args(plain) and get_origin(plain) is not Literal:  # a tuple, a union, limits
            plain = get_args(plain)[0]
        if plain is bool:
            parser.add_argument(flag(name), action=argparse.BooleanOptionalAction, **words)
        elif get_origin(plain) is Literal:
            parser.add_argument(flag(name), choices=get_args(plain), **words)
        else:
            metavar = {int: "N", float: "X", Path: "PATH"}.get(plain, "NAME")
            parser.add_argument(flag(name), metavar=metavar, nargs="+" if several else None, **words)


def _help(meta: msgspec.Meta, default: Any) -> str:
    if isinstance(default, tuple):
        default = " ".join(f"{each:g}" for each in default)
    elif isinstance(default, Path) and default.is_absolute():
        default = "the embedded pair's"
    shown = "" if default in (None, "") or isinstance(default, bool) else f" [default {default}]"
    return f"{meta.description}{shown}".replace("%", "%%")


def read_options(settings: type[S], given: Mapping[str, Any], base: S | None = None) -> S:
    """``base``, or the defaults, with what was ``given``: values, or strings from flags.

    Raises:
        ConfigError: one of them is impossible.
    """
    values = {**(msgspec.structs.asdict(base) if base else {}), **given}
    try:
        return msgspec.convert(values, settings, strict=False, dec_hook=lambda kind, value: kind(value))
    except msgspec.ValidationError as error:
        what, name = re.findall(r"(.*) - at `\$\.(\w+)", str(error))[0]
        found = values[name]
        shown = " ".join(map(str, found)) if isinstance(found, list | tuple) else str(found)
        about = get_args(get_type_hints(settings, include_extras=True)[name])[1].description
        message = f"{flag(name)} {shown[:40]}: {what[0].lower()}{what[1:]}."
        raise ConfigError(message, field=name, hint=f"{about[0].upper()}{about[1:]}.") from error
