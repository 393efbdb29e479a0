"""Draws lines into one SVG picture: axes, marks, a name at the end of each line. Knows geometry, not what it draws.

Made element by element, so that no text can become markup. Colours are the reader's: ``currentColor`` and two custom
properties (``--figure-strong``, ``--figure-quiet``) with the system's own colours behind them; a dash and a mark also
tell the lines apart. It stands in a page, or alone as a file.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from xml.etree import ElementTree as ET

Points = Sequence[tuple[float, float]]
Place = Callable[[tuple[float, float]], tuple[float, float]]
LEFT, TOP, BOTTOM = 46.0, 22.0, 40.0
SIZE = 12  # of letters, in the picture's own units
GAP = 14.0  # between the names of two lines that end close together
DASHES = ("", "6 4", "2 4", "10 3 2 3")


@dataclass(frozen=True, slots=True, kw_only=True)
class Line:
    """One curve. ``strong`` lines are the subject, the others are there to compare with."""

    label: str
    points: Points
    strong: bool = False
    dash: int = 0  # index into :data:`DASHES`


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """A linear axis: its title, with unit, and its marks as (value, words)."""

    title: str
    ticks: Sequence[tuple[float, str]]

    @property
    def ends(self) -> tuple[float, float]:
        """First and last value shown."""
        return self.ticks[0][0], self.ticks[-1][0]


def round_ticks(low: float, high: float, count: int = 5, unit: str = "") -> list[tuple[float, str]]:
    """About ``count`` round values from at most ``low`` to at least ``high``, with their words."""
    span = max(high - low, 1e-9)
    rough = span / max(1, count - 1)
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * factor for factor in (1, 2, 2.5, 5, 10) if power * factor >= rough * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9)) + (1 if step / power == 2.5 else 0)
    return [(i * step, f"{i * step:,.{digits}f}{unit}") for i in range(first, max(last, first + 1) + 1)]


def draw(
    lines: Sequence[Line],
    *,
    title: str,
    about: str,
    x: Axis,
    y: Axis,
    width: float = 360,
    height: float = 250,
    right: float = 96,
    alone: bool = False,
) -> str:
    """The picture as SVG text.

    Args:
        title: its name, read out by screen readers; ``about``: the same in a sentence or two.
        right: room for the names behind the lines.
        alone: it will be a file of its own, with a ground and letters of its own.

    Raises:
        ValueError: there is no point to draw.
    """
    if not any(line.points for line in lines):
        raise ValueError("There is no point to draw.")
    style = "color:var(--figure-ink, CanvasText)"
    if alone:
        style += ";background:Canvas;color-scheme:light dark;font-family:system-ui,sans-serif"
    box = f"0 0 {width:g} {height:g}"
    svg = ET.Element("svg", xmlns="http://www.w3.org/2000/svg", viewBox=box, role="img", style=style)
    svg.set("aria-label", f"{title}. {about}")
    svg.set("font-size", str(SIZE))
    ET.SubElement(svg, "title").text = title
    ET.SubElement(svg, "desc").text = about

    def at(point: tuple[float, float]) -> tuple[float, float]:
        (x0, x1), (y0, y1) = x.ends, y.ends
        return (
            LEFT + (point[0] - x0) / (x1 - x0) * (width - LEFT - right),
            height - BOTTOM - (point[1] - y0) / (y1 - y0) * (height - TOP - BOTTOM),
        )

    _axes(svg, at, x, y, width - right, height)
    names = _apart([at(line.points[-1])[1] for line in lines if line.points])
    for line, name_at in zip([line for line in lines if line.points], names, strict=True):
        _line(svg, line, [at(point) for point in line.points], (width - right + 8, name_at))
    return ET.tostring(svg, encoding="unicode")


def _axes(svg: ET.Element, at: Place, x: Axis, y: Axis, end: float, height: float) -> None:
    quiet = ET.SubElement(svg, "g", style="color:var(--figure-muted, GrayText)", fill="currentColor")
    for value, words in y.ticks:
        _, down = at((x.ends[0], value))
        _stroke(quiet, [(LEFT, down), (end, down)], width=0.6, opacity=0.45)
        _text(quiet, words, LEFT - 6, down + 4, "end")
    for value, words in x.ticks:
        across, _ = at((value, y.ends[0]))
        _stroke(quiet, [(across, height - BOTTOM), (across, height - BOTTOM + 4)], width=0.8, opacity=0.8)
        _text(quiet, words, across, height - BOTTOM + 17, "middle")
    _text(quiet, y.title, 2, 11, "start")
    _text(quiet, x.title, (LEFT + end) / 2, height - 5, "middle")


def _line(svg: ET.Element, line: Line, points: Points, name_at: tuple[float, float]) -> None:
    colour = "var(--figure-strong, LinkText)" if line.strong else "var(--figure-quiet, CanvasText)"
    group = ET.SubElement(svg, "g", style=f"color:{colour}")
    _stroke(group, points, width=2.4 if line.strong else 1.6, dash=DASHES[line.dash % len(DASHES)])
    for across, down in points:
        if line.strong:
            ET.SubElement(group, "circle", cx=f"{across:.1f}", cy=f"{down:.1f}", r="2.6", fill="currentColor")
        else:
            spot = {"x": f"{across - 2.3:.1f}", "y": f"{down - 2.3:.1f}", "width": "4.6", "height": "4.6"}
            ET.SubElement(group, "rect", {**spot, "fill": "currentColor"})
    name = _text(group, line.label, name_at[0], name_at[1] + 4, "start")
    name.set("fill", "currentColor")
    if line.strong:
        name.set("font-weight", "650")


def _apart(downs: Sequence[float]) -> list[float]:
    """The heights, moved so that no two are nearer than :data:`GAP`: the lowest stays, those above give way."""
    placed = list(downs)
    floor = math.inf
    for index in sorted(range(len(placed)), key=lambda i: -downs[i]):
        placed[index] = floor = min(placed[index], floor - GAP)
    return placed


def _stroke(group: ET.Element, points: Points, *, width: float, dash: str = "", opacity: float = 1.0) -> None:
    words = " ".join(f"{across:.1f},{down:.1f}" for across, down in points)
    line = ET.SubElement(group, "polyline", points=words, fill="none", stroke="currentColor")
    line.set("stroke-width", f"{width:g}")
    if dash:
        line.set("stroke-dasharray", dash)
    if opacity < 1:
        line.set("stroke-opacity", f"{opacity:g}")


def _text(group: ET.Element, words: str, across: float, down: float, anchor: str) -> ET.Element:
    text = ET.SubElement(group, "text", {"x": f"{across:.1f}", "y": f"{down:.1f}", "text-anchor": anchor})
    text.text = words
    return text
