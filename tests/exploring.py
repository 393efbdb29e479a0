"""What the tests of explorations share: small settings, and a run of them."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import msgspec
import pytest

from specdiff_core.explorations.base import Exploration
from specdiff_core.explorations.run import ExplorationRun
from specdiff_core.schema.fields import parse

SMALL: dict[str, Any] = {"flavours": "stories,code", "per_flavour": 1, "tokens": 8}
HEATED: dict[str, Any] = {"drafter": "masked", "tokens": 8, "temperatures": "0,1", "draft_temperatures": "0.7,1"}
MAP: dict[str, Any] = {**SMALL, "gammas": "2,4", "steps": "1,2,4", "drafter": "masked_streak", "controller": "false"}
TWO: dict[str, Any] = {"a": "specdiff", "b": "dflash", "tokens": 16}


class StopWhen(NamedTuple):
    """A stop event that is set once a condition holds."""

    is_set: Callable[[], bool]


def slow(*values: Any) -> Any:
    return pytest.param(*values, marks=pytest.mark.slow)


def explore(kind: type[Exploration], engine: Any, **values: Any) -> Any:
    return ExplorationRun(parse(kind, values), engine).advance()


def changed(ours: Any, theirs: Any) -> list[str]:
    """Where two values differ by more than the six digits of a file explain."""
    return [*differences(*(msgspec.json.decode(msgspec.json.encode(one)) for one in (ours, theirs)), close=1e-3)]


def differences(ours: Any, theirs: Any, where: str = "", close: float = 1e-9) -> Iterator[str]:
    """Every place where two values differ, floats by more than ``close`` of their size."""
    if isinstance(ours, dict) and isinstance(theirs, dict) and ours.keys() == theirs.keys():
        for name, value in ours.items():
            yield from differences(value, theirs[name], f"{where}/{name}", close)
    elif isinstance(ours, list) and isinstance(theirs, list) and len(ours) == len(theirs):
        for index, (one, other) in enumerate(zip(ours, theirs, strict=True)):
            yield from differences(one, other, f"{where}/{index}", close)
    elif isinstance(ours, float) and isinstance(theirs, (int, float)):
        if not math.isclose(ours, theirs, rel_tol=close, abs_tol=close / 1000):
            yield f"{where}: Python {ours!r}, JavaScript {theirs!r}"
    elif type(ours) is not type(theirs) or ours != theirs:
        yield f"{where}: Python {ours!r}, JavaScript {theirs!r}"
