"""Reads the log of a training run: its totals, its scores, its curve, and a picture of that. Needs no torch."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from specdiff_core.schema.history import Curve, simulated_tau

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


def totals(run: Path) -> tuple[int, int, float]:
    """Steps, tokens and seconds up to the last checkpoint: what came after it was lost."""
    saved: dict[str, Any] = {"step": 0, "tokens": 0, "seconds": 0.0}
    for event in read_metrics(run):
        saved = event if event["kind"] == "saved" else saved
    return saved["step"], saved["tokens"], saved["seconds"]


def last_scores(run: Path, prefix: str) -> dict[str, float]:
    """The scores of the last measurement whose names begin with ``prefix``, by the rest of their names."""
    found: dict[str, float] = {}
    for event in read_metrics(run):
        scores = event.get("scores", {})
        found = {k.removeprefix(prefix): v for k, v in scores.items() if k.startswith(prefix)} or found
    return found


def curve_of(run: Path) -> Curve:
    """Steps done and mean scores at every measurement. Where a step was measured twice (a resumed run, or weights that
    were averaged at the end) the last result holds."""
    found: dict[int, dict[str, float]] = {}
    for event in read_metrics(run):
        means = {name: round(value, 4) for name, value in event.get("scores", {}).items() if name.endswith("mean")}
        if means:
            found[event["step"]] = means
    points = sorted(found.items())
    if len(points) > MOST:
        points = [points[round(i * (len(points) - 1) / (MOST - 1))] for i in range(MOST)]
    return tuple(points)


def draw_curve(curve: Curve, name: str) -> str:
    """A curve of at least one measurement as SVG text, always the same: τ where it was measured, else the first score.

    Raises:
        ImportError: matplotlib is not installed.
    """
    from matplotlib import rc_context
    from matplotlib.figure import Figure
    from matplotlib.ticker import MaxNLocator

    points, score = simulated_tau(curve), "τ, tokens per round"
    if not points:
        score = next(iter(curve[-1][1]))
        points = [(step, scores[score]) for step, scores in curve if score in scores]
    steps, values = zip(*points, strict=True)
    with rc_context({"svg.hashsalt": "specdiff", "svg.fonttype": "none"}):
        figure = Figure(figsize=(6.0, 3.6), layout="constrained")
        axes = figure.subplots()
        axes.plot(steps, values, marker="o", markersize=4)
        axes.annotate(f"{values[-1]:.2f}", points[-1], xytext=(6, 0), textcoords="offset points", va="center")
        axes.set_title(f"{name}: {score} (mean over held-out prompts)", fontsize="medium")
        axes.set_xlabel("optimiser steps")
        axes.xaxis.set_major_locator(MaxNLocator(integer=True))
        axes.margins(x=0.08)
        axes.grid(alpha=0.3)
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Creator": None})
    return text.getvalue()


def redraw(run: Path, name: str) -> Path | None:
    """Replace ``curve.svg`` in a run's folder; None before the first measurement, and without matplotlib."""
    curve, path = curve_of(run), run / "curve.svg"
    if not curve:
        return None
    try:
        text = draw_curve(curve, name)
    except ImportError:
        return None
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path
