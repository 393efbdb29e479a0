"""The evaluation curve of a run: read from its ``metrics.jsonl``, drawn as it grows, kept beside the weights.

``python -m specdiff_core.train.curve RUN… --into FOLDER`` adds it to weights that were exported without it.
Knows logs and files; needs no torch.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from specdiff_core.schema.figure import Axis, Line, draw, round_ticks
from specdiff_core.schema.errors import SpecDiffError, WeightsError
from specdiff_core.schema.history import HISTORY, Curve, read_history, rounds_of, write_history

MOST = 40
"""Points that are kept at most: the first, the last, and some between."""


def curve_of(*phases: Path) -> Curve:
    """Steps done and mean scores at each evaluation of a run's phases; a phase counts on from the one before.

    Where a step was evaluated twice (a resumed run, or weights that were averaged at the end) the last one holds.
    """
    found: dict[int, dict[str, float]] = {}
    before = 0
    for phase in phases:
        last = 0
        log = phase / "metrics.jsonl"
        for text in log.read_text(encoding="utf-8").splitlines() if log.is_file() else ():
            line = json.loads(text)
            if line["kind"] == "TrainStep":
                last = line["step"]
            elif line["kind"] == "EvalStep":
                scores = {name: round(value, 4) for name, value in line["scores"].items() if name.endswith("mean")}
                if scores:
                    found[before + line["step"]] = scores
        before += last
    points = sorted(found.items())
    if len(points) > MOST:
        points = [points[round(i * (len(points) - 1) / (MOST - 1))] for i in range(MOST)]
    return tuple(points)


def picture(curve: Curve, name: str) -> str:
    """The curve as SVG text: τ where it was measured, else the first score; empty before the first evaluation."""
    points = rounds_of(curve)
    score = "τ, tokens per round"
    if not points and curve:
        score = next(iter(curve[-1][1]))
        points = [(step, scores[score]) for step, scores in curve if score in scores]
    if not points:
        return ""
    values = [value for _, value in points]
    steps = round_ticks(0, points[-1][0])
    label = f"{values[-1]:.2f}"
    return draw(
        [Line(label=label, points=points, strong=True)],
        title=f"{name}: {score} on held-out prompts",
        about=f"From {values[0]:.2f} to {label} in {points[-1][0]:,} steps.",
        x=Axis(title="optimiser steps", ticks=steps),
        y=Axis(title=f"{name}: {score} (held-out prompts, mean)", ticks=round_ticks(min(values), max(values))),
        width=520,
        height=320,
        right=52,
        alone=True,
    )


def redraw(run: Path, phases: Sequence[Path], name: str) -> Path | None:
    """Replace ``curve.svg`` in a run's folder; None before its first evaluation."""
    text = picture(curve_of(*phases), name)
    if not text:
        return None
    path = run / "curve.svg"
    partial = path.with_suffix(".partial")
    partial.write_text(text, encoding="utf-8")
    partial.replace(path)
    return path


def attach(phases: Sequence[Path], folder: Path) -> int:
    """Give a run told in a model's folder its curve: the last one of as many steps; returns the number of points.

    Raises:
        WeightsError: no run told there has as many steps as these logs.
    """
    runs = list(read_history(folder / HISTORY))
    curve = curve_of(*phases)
    end = curve[-1][0] if curve else 0
    found = [index for index, run in enumerate(runs) if run.steps == end]
    if not found:
        told = ", ".join(str(run.steps) for run in runs) or "none"
        raise WeightsError(
            f"These logs end at step {end}; the runs told in {folder / HISTORY} have other numbers of steps: {told}.",
            hint="Give every phase of one run behind these weights, in order.",
        )
    runs[found[-1]] = dataclasses.replace(runs[found[-1]], curve=curve)
    write_history(folder / HISTORY, runs)
    return len(curve)


def main(words: Sequence[str] | None = None) -> int:
    """The command of the module's docstring; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m specdiff_core.train.curve", description=main.__doc__)
    parser.add_argument("phases", nargs="+", type=Path, metavar="RUN", help="folders that hold a metrics.jsonl")
    parser.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="the exported weights")
    args = parser.parse_args(words)
    try:
        points = attach(args.phases, args.into)
    except SpecDiffError as error:
        sys.stderr.write(f"{error} {error.hint}\n")
        return 2
    sys.stdout.write(f"{args.into / HISTORY}: a curve of {points} points\n")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
