"""How a question declares the fields of its form."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Literal

from msgspec import Meta

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.pairs import PAIRS, find_pair

DRAFTING = [method.name for method in METHODS if method.drafter != "none"]
"""All methods but vanilla."""
_WINDOWS = ("denoise", "sequential")
WINDOW_DRAFTERS = list(
    dict.fromkeys(one.name for pair in PAIRS.values() for one in pair.drafters if one.drafting in _WINDOWS)
)
"""The drafters of all pairs that draw a window from distributions of their own."""


def ask(
    title: str,
    about: str,
    low: float | None = None,
    high: float | None = None,
    *,
    least: int | None = None,
    most: int | None = None,
    **form: Any,
) -> Meta:
    """Declare a field: its title and words; ``low`` and ``high`` of a number; ``least`` and ``most`` entries of a list
    or characters of a text; ``form``: its choices (:func:`enum`), and ``more`` and ``hidden`` of
    :meth:`Exploration.form`."""
    limits: dict[str, Any] = {"ge": low, "le": high, "min_length": least, "max_length": most}
    return Meta(title=title, description=about, extra_json_schema=form or None, **limits)


def enum(names: Sequence[str], of: Literal["", "drafters", "methods"] = "") -> dict[str, Any]:
    """The choices of a field, for its form. Unknown names, and those the pair lacks, are rejected on use."""
    return {"enum": list(names), "of": of}


ANY_PAIR = "Target and drafters. On the page, the settings of Live take one of your own."
PAIR = Annotated[str, ask("Pair", ANY_PAIR, enum=list(PAIRS), more=True)]
EMBEDDED = Annotated[Literal["embedded"], ask("Pair", "The embedded one only.", hidden=True)]
"""The field of an exploration that cannot be asked of another pair."""
METHOD = Annotated[str, Meta(extra_json_schema=enum(DRAFTING, "methods"))]
DEGREE = Annotated[float, Meta(ge=0, le=2)]
TEMPERATURE = Annotated[float, ask("Temperature", "Of the target; at 0 it takes its likeliest token.", 0, 2)]
SEED = Annotated[int, ask("Seed", "Of everything that is drawn.", 0, 2**30)]


def window_drafter(pair: str, name: str) -> str:
    """The name of a drafter, if ``pair`` has it and it draws a window from distributions of its own.

    Raises:
        ConfigError: it is not there, or drafts in another way; the hint names those that the pair has.
    """
    spec = find_pair(pair)
    fitting = [one.name for one in spec.drafters if one.drafting in _WINDOWS]
    if spec.drafter(name).name not in fitting:
        hint = f"Choose one of: {', '.join(fitting)}." if fitting else "Choose another pair: this one has none that do."
        raise ConfigError(f"The drafter {name!r} draws no window of its own.", field="drafter", hint=hint)
    return name
