"""Reads the log of a training run: its totals, its scores, and its evaluation curve, which it draws as ``curve.svg``.

A run has one or more phases; each keeps a ``metrics.jsonl`` in a folder of its own. Needs no torch.
"""

from __future__ import annotations

import dataclasses
import io
import json
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.history import HISTORY, Curve, read_history, simulated_tau, write_history

METRICS = "metrics.jsonl"

MOST = 40
"""A curve keeps at most this many points: the first, the last, and some between."""


def read_metrics(phase: Path) -> Iterator[dict[str, Any]]:
    """The events in a phase's log, in order; a line that was cut off in the middle is left out."""
    path = phase / METRICS
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else ():
        try:
            yield json.loads(line)
        except ValueError:
            continue


def totals(phases: Sequence[Path]) -> tuple[int, int, float]:
    """Steps, tokens and seconds of all phases together.

    Only what the last checkpoint holds counts: steps after it were lost if the run was cut off.
    """
    steps = tokens = seconds = 0
    for phase in phases:
        last = saved = {"step": 0, "tokens": 0, "seconds": 0}
        for event in read_metrics(phase):
            last = event if event["kind"] == "TrainStep" else last
            saved = last if event["kind"] == "Saved" else saved
        steps, tokens, seconds = steps + saved["step"], tokens + saved["tokens"], seconds + saved["seconds"]
    return steps, tokens, seconds


def last_scores(phases: Sequence[Path], prefix: str) -> dict[str, float]:
    """The scores of a run's last evaluation whose names begin with ``prefix``, by the rest of their names."""
    found: dict[str, float] = {}
    for event in (event for phase in phases for event in read_metrics(phase)):
        scores = event.get("scores", {})
        found = {k.removeprefix(prefix): v for k, v in scores.items() if k.startswith(prefix)} or found
    return found


def curve_of(phases: Sequence[Path]) -> Curve:
    """Steps done and mean scores at every evaluation; the steps of a phase count on from the phase before.

    Where a step was evaluated twice (a resumed run, or weights that were averaged at the end) the last result holds.
    """
    found: dict[int, dict[str, float]] = {}
    before = 0
    for phase in phases:
        last = 0
        for event in read_metrics(phase):
            if event["kind"] == "TrainStep":
                last = event["step"]
            elif event["kind"] == "EvalStep":
                means = {name: round(value, 4) for name, value in event["scores"].items() if name.endswith("mean")}
                if means:
                    found[before + event["step"]] = means
        before += last
    points = sorted(found.items())
    if len(points) > MOST:
        points = [points[round(i * (len(points) - 1) / (MOST - 1))] for i in range(MOST)]
    return tuple(points)


def draw_curve(curve: Curve, name: str) -> str:
    """A curve of at least one evaluation as SVG text, always the same: τ where it was measured, else the first score.

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


def redraw(run: Path, phases: Sequence[Path], name: str) -> Path | None:
    """Replace ``curve.svg`` in a run's folder; None before the first evaluation.

    Raises:
        ImportError: matplotlib is not installed.
    """
    curve = curve_of(phases)
    if not curve:
        return None
    path = run / "curve.svg"
    partial = path.with_suffix(".partial")
    partial.write_text(draw_curve(curve, name), encoding="utf-8")
    partial.replace(path)
    return path


def attach_curve(phases: Sequence[Path], folder: Path) -> int:
    """Add the curve of a run to the history in a model's folder, which was exported without it.

    It goes to the last run in the history that has as many steps. Returns the number of points.

    Raises:
        WeightsError: no run in the history has as many steps as these logs.
    """
    runs = list(read_history(folder / HISTORY))
    curve = curve_of(phases)
    end = curve[-1][0] if curve else 0
    found = [index for index, run in enumerate(runs) if run.steps == end]
    if not found:
        known = ", ".join(str(run.steps) for run in runs) or "none"
        raise WeightsError(
            f"These logs end at step {end}; the runs in {folder / HISTORY} have other numbers of steps: {known}.",
            hint="Give every phase of one run behind these weights, in order.",
        )
    runs[found[-1]] = dataclasses.replace(runs[found[-1]], curve=curve)
    write_history(folder / HISTORY, runs)
    return len(curve)
