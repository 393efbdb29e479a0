"""What shaped a model's weights: the runs told in the ``training.json`` beside them. Knows facts and one file format.

Plain data, so that the page can tell what a drafter cost without the tools that train one.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdiff_core.schema.errors import WeightsError

HISTORY = "training.json"

Curve = tuple[tuple[int, dict[str, float]], ...]
"""Evaluations of a run, in order: (optimiser steps done, score by name)."""

ROUNDS = ("tokens_per_round/mean", "tau8/mean")
"""What drafters call τ in their scores: simulated greedy tokens per round on held-out prompts, mean over flavours."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Training:
    """One run that shaped a model's weights."""

    steps: int
    tokens: int
    seconds: float  # wall clock
    hardware: str
    commit: str
    corpus: str  # fingerprint
    seed: int
    command: str
    curve: Curve = ()  # files older than it have none


def rounds_of(curve: Curve) -> list[tuple[int, float]]:
    """(step, τ) where τ was measured."""
    return [(step, scores[name]) for step, scores in curve for name in ROUNDS if name in scores]


def read_history(path: Path) -> tuple[Training, ...]:
    """The runs behind weights, from the :data:`HISTORY` beside them; none without it.

    Raises:
        WeightsError: the file cannot be read.
    """
    if not path.is_file():
        return ()
    try:
        return tuple(_training(run) for run in json.loads(path.read_text(encoding="utf-8"))["runs"])
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise WeightsError(f"{path} is damaged.", hint="Remove it: the card then counts from this run.") from error


def _training(run: dict[str, Any]) -> Training:
    told = Training(**run)
    numbers = (told.steps, told.tokens, told.seconds)
    if not all(isinstance(number, int | float) and number >= 0 for number in numbers):
        raise ValueError("steps, tokens and seconds are numbers from 0")
    curve = tuple((int(step), {str(k): float(v) for k, v in scores.items()}) for step, scores in told.curve)
    return dataclasses.replace(told, curve=curve)


def write_history(path: Path, runs: Sequence[Training]) -> None:
    """Keep ``runs`` for :func:`read_history`: a line for each fact, and one for each point of a curve."""
    path.parent.mkdir(parents=True, exist_ok=True)
    told = {"runs": [dataclasses.asdict(run) for run in runs]}
    for run in told["runs"]:
        if not run["curve"]:
            del run["curve"]
    text = json.dumps(told, indent=2)
    text = re.sub(r"\[\s+(\d+),\s+\{\s+([^{}]*?)\s+\}\s+\]", _one_line, text)
    path.write_text(text + "\n", encoding="utf-8")


def _one_line(point: re.Match[str]) -> str:
    scores = re.sub(r"\s*\n\s*", " ", point[2])
    return f"[{point[1]}, {{{scores}}}]"
