"""What people give to ``bench``: lists of values, prompts, stored results. Knows their forms, no measurement."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from specdiff_core.schema.errors import ConfigError

if TYPE_CHECKING:
    from specdiff_core.bench.prompts import Prompt

T = TypeVar("T")
SCHEMAS = {"page": 4}
"""Kind of result -> version of its form, where it is not 1."""


def numbers(text: str, kind: Callable[[str], T], name: str) -> list[T]:
    """``"4,8,16"`` -> ``[4, 8, 16]``.

    Raises:
        ConfigError: one of them is not a ``kind``.
    """
    try:
        values = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values:
        raise ConfigError(f"--{name} {text[:40]!r} is not a list.", field=name, hint="Separate values by commas.")
    return values


def first_of_each(prompts: Sequence[Prompt], count: int | None) -> tuple[Prompt, ...]:
    """The first ``count`` prompts of every flavour."""
    seen: dict[str, int] = {}
    kept = []
    for prompt in prompts:
        seen[prompt.flavour] = seen.get(prompt.flavour, 0) + 1
        if count is None or seen[prompt.flavour] <= count:
            kept.append(prompt)
    if not kept:
        raise ConfigError("--first leaves no prompt.", field="first", hint="Give at least 1.")
    return tuple(kept)


def count_flavours(prompts: Sequence[Prompt]) -> dict[str, int]:
    """How many prompts there are of each flavour."""
    flavours = [prompt.flavour for prompt in prompts]
    return {flavour: flavours.count(flavour) for flavour in dict.fromkeys(flavours)}


def read_result(path: Path) -> dict[str, Any]:
    """A JSON result that ``bench`` wrote.

    Raises:
        ConfigError: it is not one.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not readable JSON ({error}).", field="from", hint="Name a result.") from error
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ConfigError(f"{path} is no result of bench.", field="from", hint="Name a file written by --json.")
    if value.get("schema") != SCHEMAS.get(value["kind"], 1):
        raise ConfigError(f"{path} is a result of another version.", field="from", hint="Measure it again.")
    return value
