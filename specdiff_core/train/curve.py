"""Reads the log of a training run: its totals, its scores and its curve. Needs no torch."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdiff_core.schema.history import Curve

METRICS = "metrics.jsonl"
MOST = 40
"""Points of a curve, at most: the first, the last, and some between."""


def read_metrics(run: Path) -> Iterator[dict[str, Any]]:
    """The events in a run's log, in order; a line that was cut off in the middle is left out."""
    path = run / METRICS
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def run_commands(run: Path) -> list[str]:
    """The commands that began and resumed a run, each once, in order."""
    return list(dict.fromkeys(event["command"] for event in read_metrics(run) if event["kind"] == "begun"))


def totals(run: Path) -> tuple[int, int, float]:
    """Steps, tokens and seconds up to the last checkpoint: what came after it was lost."""
    saved: dict[str, Any] = {"step": 0, "tokens": 0, "seconds": 0.0}
    for event in read_metrics(run):
        saved = event if event["kind"] == "saved" else saved
    return saved["step"], saved["tokens"], saved["seconds"]


def last_scores(run: Path, prefix: str, kind: str = "scores") -> dict[str, Any]:
    """The last measured scores whose names begin with ``prefix``, by the rest of their names; of the
    ``kind`` "bounds": their intervals."""
    last: dict[str, Any] = {}
    for event in read_metrics(run):
        scores = event.get(kind, {})
        matching = {k.removeprefix(prefix): v for k, v in scores.items() if k.startswith(prefix)}
        last = matching or last
    return last


def read_curve(run: Path) -> Curve:
    """Steps done and mean scores at every measurement. Where a step was measured twice (a resumed
    run, or weights that were averaged at the end) the last result holds."""
    by_step: dict[int, dict[str, float]] = {}
    for event in read_metrics(run):
        means = {name: round(value, 4) for name, value in event.get("scores", {}).items() if name.endswith("mean")}
        if means:
            by_step[event["step"]] = means
    points = sorted(by_step.items())
    if len(points) > MOST:
        points = [points[round(i * (len(points) - 1) / (MOST - 1))] for i in range(MOST)]
    return tuple(points)
