"""Curves of papers, to lay over our own: hidden until their name in the legend is clicked. Their models are larger and
their hardware is faster, so only compare shapes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.wording import Row, with_interval


class Curve(NamedTuple):
    """A curve as its paper prints it."""

    name: str
    x: Sequence[float]
    y: Sequence[float]
    source: str


POSITIONS = (1, 8, 16, 32)
_SPECDIFF2 = "arXiv 2511.00606, read off its figure"
_SPECDIFF = "arXiv 2408.05636, read off its figure: tokens per second at the best γ over vanilla’s 4.5"
_DFLASH = "arXiv 2602.06036, mean of seven tasks on an H200"

BY_POSITION = (
    Curve("SpecDiff-2, not aligned", POSITIONS, (0.55, 0.06, 0.03, 0.025), _SPECDIFF2),
    Curve("SpecDiff-2, AR-distilled", POSITIONS, (0.62, 0.145, 0.065, 0.06), _SPECDIFF2),
    Curve("SpecDiff-2, streak-distilled", POSITIONS, (0.62, 0.26, 0.17, 0.155), _SPECDIFF2),
)
"""α_j by position j."""
BY_STEPS = (
    Curve("SpecDiff", (3, 4, 6, 8, 10), tuple(rate / 4.5 for rate in (30.1, 29.5, 27.7, 25.7, 23.5)), _SPECDIFF),
)
"""Speed-up by T."""
BY_TEMPERATURE = (
    Curve("DFlash, Qwen3-4B", (0, 1), (4.91, 4.24), _DFLASH),
    Curve("DFlash, Qwen3-8B", (0, 1), (4.86, 4.03), _DFLASH),
    Curve("EAGLE-3, Qwen3-4B", (0, 1), (2.08, 1.93), f"{_DFLASH}, trees of 60 nodes"),
    Curve("EAGLE-3, Qwen3-8B", (0, 1), (2.02, 1.88), f"{_DFLASH}, trees of 60 nodes"),
)
"""Speed-up by the target's temperature."""


def beside(curves: Sequence[Curve], rows: Sequence[Row], x: str, words: Callable[[Row], str]) -> dict[str, Any]:
    """Fields of a figure: the speed-ups of measured rows by their field ``x``, and the published ones."""
    hovers = [[row["race"], f"{words(row)}: {with_interval(row)}"] for row in rows]
    points = [row[x] for row in rows], [row["speedup"] for row in rows]
    look: dict[str, Any] = {"dash": "solid", "mark": "circle", "error_y": draw.whisker(rows, "speedup", "@draft")}
    own = draw.trace("measured", *points, "@draft", words=hovers, **look)
    return {"data": [own, *overlaid(curves)], "opens": "a point opens its race"}


def overlaid(curves: Sequence[Curve]) -> list[dict[str, Any]]:
    """Their lines, hidden at first."""
    lines = []
    for curve, dash, mark in zip(curves, draw.DASHES[1:], draw.MARKS, strict=False):
        look: dict[str, Any] = {"dash": dash, "mark": f"{mark}-open", "visible": "legendonly"}
        hover = f"{curve.name}: %{{y:.3~g}} at %{{x}}<br>{curve.source}"
        lines.append(draw.trace(f"published: {curve.name}", curve.x, curve.y, "@muted", hover=hover, **look))
    return lines
