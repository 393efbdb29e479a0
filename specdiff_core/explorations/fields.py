"""Declares the fields of an exploration's form."""

from __future__ import annotations

from typing import Annotated, Literal

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import METHODS
from specdiff_core.schema.pairs import NONE, PAIRS, find_pair

DRAFTING = [method.name for method in METHODS if method.drafter != NONE.name]
"""All methods but vanilla."""
_WINDOWS = ("denoise", "sequential")
WINDOW_DRAFTERS = list(
    dict.fromkeys(drafter.name for pair in PAIRS.values() for drafter in pair.drafters if drafter.drafting in _WINDOWS)
)
"""The drafters of all pairs that draw a window from their own distributions."""


ANY_PAIR = "Target and drafters. To use your own models on the page, open the settings of the Live tab."
PAIR = Annotated[str, ask("Pair", ANY_PAIR, enum=list(PAIRS), more=True)]
EMBEDDED = Annotated[Literal["embedded"], ask("Pair", "The embedded pair only.", hidden=True)]
"""The field of an exploration that works with this pair only."""
METHOD = Annotated[str, ask("", enum=DRAFTING, of="methods")]
DEGREE = Annotated[float, ask("", low=0, high=2)]
TEMPERATURE = Annotated[float, ask("Temperature", "The target’s; at 0 it takes the most probable token.", 0, 2)]
SEED = Annotated[int, ask("Seed", "Seeds every random draw.", 0, 2**30)]


def labels(pair: str, drafter: str) -> tuple[str, str]:
    """The labels of a pair and its drafter; their names if they aren't known here, as in a stored answer."""
    try:
        spec = find_pair(pair)
        return spec.short, spec.drafter(drafter).label
    except ConfigError:
        return pair, drafter


def window_drafter(pair: str, name: str) -> str:
    """``name``, if ``pair`` has that drafter and it draws a window from its own distributions.

    Raises:
        ConfigError: it lacks it, or it drafts in another way; the hint names those that fit.
    """
    spec = find_pair(pair)
    fitting = [drafter.name for drafter in spec.drafters if drafter.drafting in _WINDOWS]
    if spec.drafter(name).name not in fitting:
        hint = (
            f"Choose one of: {', '.join(fitting)}." if fitting else "Choose another pair: this one has no such drafter."
        )
        raise ConfigError(
            f"The drafter {name!r} doesn't draw a window from its own distributions.", field="drafter", hint=hint
        )
    return name
