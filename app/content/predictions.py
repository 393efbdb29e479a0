"""What a window may gain before it is run: predictions of recorded γ × T maps, for the controls of the Live tab."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.schema.wording import denoises

LOG = logging.getLogger(__name__)


class _Cell(msgspec.Struct):
    gamma: int
    steps: int
    predicted: float | None = None
    predicted_tau: float | None = None


class _Map(msgspec.Struct):
    name: Literal["window-map"]
    choice: dict[str, Any]
    machine: dict[str, Any]
    rows: list[_Cell]


def predictions(folder: Path) -> dict[str, dict[str, Any]]:
    """Pair -> drafter -> ``device``, and ``cells``: temperature, T, γ, speed-up and tokens per round of each recorded
    cell, as the map predicts them from its measured α_j and its bare passes (docs/theory.md, Cost)."""
    found: dict[str, dict[str, Any]] = {}
    for one in _maps(folder):
        choice: Any = msgspec.convert(one.choice, EXPLORATIONS[one.name])
        pair, drafter, temperature = choice.pair, choice.drafter, choice.temperature
        device = one.machine["device"].removeprefix("cpu: ")
        entry = found.setdefault(pair, {}).setdefault(drafter, {"device": device, "cells": []})
        for cell in one.rows:
            if cell.predicted and cell.predicted_tau:
                steps = cell.steps if denoises(drafter) else 1
                values = round(cell.predicted, 4), round(cell.predicted_tau, 4)
                entry["cells"].append([temperature, steps, cell.gamma, *values])
    return found


def _maps(folder: Path) -> Iterator[_Map]:
    for path in sorted(folder.glob("window-map*.json")):
        try:
            yield msgspec.json.decode(path.read_bytes(), type=_Map)
        except (OSError, ValueError) as error:  # one bad file is no reason to serve nothing
            LOG.warning("%s predicts nothing: %s", path, error)
