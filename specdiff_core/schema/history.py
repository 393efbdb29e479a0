"""The training history of a model: the ``training.json`` beside its weights, with one record for
each run. Plain data without torch."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Annotated

import msgspec

from specdiff_core.schema.errors import WeightsError

HISTORY = "training.json"

Curve = tuple[tuple[int, dict[str, float]], ...]
"""Evaluations of a run, in order: (optimiser steps done, score by name)."""

NotNegative = msgspec.Meta(ge=0)


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One training run of a model."""

    steps: Annotated[int, NotNegative]
    tokens: Annotated[int, NotNegative]
    seconds: Annotated[float, NotNegative]  # wall clock
    hardware: str
    commit: str
    corpus: str  # fingerprint
    seed: int
    command: str  # and those that resumed it, each on a line
    curve: Curve = ()  # older files have none


@dataclass(frozen=True, slots=True)
class _File:
    runs: tuple[Training, ...]


def read_history(path: Path) -> tuple[Training, ...]:
    """The runs in the file ``path``; none if it does not exist.

    Raises:
        WeightsError: the file cannot be read.
    """
    if not path.is_file():
        return ()
    try:
        return msgspec.json.decode(path.read_bytes(), type=_File).runs
    except ValueError as error:
        raise WeightsError(f"{path} is damaged.", hint="Remove it: the card then counts from this run.") from error


def write_history(path: Path, runs: Sequence[Training]) -> None:
    """Write ``runs`` for :func:`read_history`: a line for each fact and point of a curve."""
    path.parent.mkdir(parents=True, exist_ok=True)
    records = [{name: value for name, value in asdict(run).items() if value != ()} for run in runs]
    text = json.dumps({"runs": records}, indent=2)
    text = re.sub(r"\[\s+\d+,\s+\{[^{}]*\}\s+\]", lambda point: json.dumps(json.loads(point[0])), text)
    path.write_text(text + "\n", encoding="utf-8")
