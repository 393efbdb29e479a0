"""Two figures on alignment (SpecDiff-2): what streak-distillation and the choice among K drafts gained here, from the
history beside the weights and from a stored benchmark. What the paper's figures show stands in tables: those are
speed-ups and ours are tokens per round, so they share no axis.
"""

from __future__ import annotations

import json
import logging
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from app.content import evidence
from app.content.html import element
from app.content.method_cards import duration
from specdiff_core.explorations.figures import axes
from specdiff_core.schema.errors import WeightsError
from specdiff_core.schema.history import HISTORY, Training, read_history, simulated_tau
from specdiff_core.schema.pairs import ASSETS, EMBEDDED

DRAFTER = "mdlm_streak"
READ_OFF = "read off its figure, ±1–2 %"
BENCHES = (ASSETS / "compare" / "selection.json",)
"""Where cells with several K may lie; the first file that has them is drawn."""

Points = Sequence[tuple[float, float]]


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve in its own unit, to be divided by its first value."""

    label: str
    points: Points
    unit: str = "×"  # of the values: a speed-up, or τ
    ours: bool = False
    note: str = ""

    @property
    def ratios(self) -> list[tuple[float, float]]:
        """The same over the first value."""
        return [(x, value / self.points[0][1]) for x, value in self.points]


PAPER_STEPS = 60_000
PAPER_STREAK = (
    Curve("paper 72B", ((0, 3.19), (5_000, 3.93), (20_000, 4.08), (40_000, 4.18), (60_000, 4.22))),
    Curve("paper 14B", ((0, 2.55), (55_000, 3.33)), note=" Only its start and its peak are told; the line joins them."),
)
"""arXiv 2511.00606: speed-up over vanilla against steps of streak-distillation."""

PAPER_SELECTION = (
    Curve("paper 14B, t 1", ((1, 3.37), (2, 3.44), (4, 3.53), (8, 3.58))),
    Curve("paper 72B, t 1", ((1, 4.23), (2, 4.40), (4, 4.45), (8, 4.45))),
    Curve("paper 14B, t 0.1", ((1, 3.35), (2, 3.30), (4, 3.35), (8, 3.35))),
)
"""arXiv 2511.00606: speed-up over vanilla against K, at drafter temperatures (t) 1 and 0.1."""


def is_streak(run: Training) -> bool:
    """Whether a run's command gave the streak loss a weight."""
    weight = re.search(r"--streak[ =](\S+)", run.command)
    try:
        return weight is not None and float(weight[1]) > 0
    except ValueError:  # a word that is no number: nothing that a figure can be drawn from
        return False


def streak_curve(runs: Iterable[Training]) -> list[tuple[int, float]]:
    """(streak steps so far, τ) over all runs with a streak loss, from before the first of them.

    Where a run did not measure its beginning, that is the last τ of the run whose weights it took.
    """
    points: list[tuple[int, float]] = []
    before: float | None = None
    done = 0
    for run in runs:
        found = simulated_tau(run.curve)
        if is_streak(run):
            if not points and before is not None and (not found or found[0][0]):
                points.append((0, before))
            points += [(done + step, tau) for step, tau in found if not points or done + step > points[-1][0]]
            done += run.steps
        before = found[-1][1] if found else None
    return points if points and points[0][0] == 0 else []


def selection_curve(cells: Iterable[Mapping[str, Any]]) -> list[tuple[int, float]]:
    """(K, τ) by self-selection, from the entries of a benchmark, for the drafter and window with the most K; one window
    is K = 1. Entries whose length a controller chooses do not count.

    Entries name ``drafter``, ``gamma``, ``steps``, ``tau``, and where it is not one window ``nodes``, ``drafts`` and
    ``selection``. Nothing comes back without K = 1 and at least two more.
    """
    found: dict[tuple[str, int, int], dict[int, float]] = defaultdict(dict)
    for cell in cells:
        drafts = int(cell.get("drafts") or cell.get("num_drafts") or 1)
        chosen = drafts == 1 or cell.get("selection") == "self"
        plain = cell["drafter"] != "none" and not cell.get("auto")
        if chosen and plain and not (cell.get("nodes") or cell.get("tree_nodes")) and cell["tau"]:
            found[cell["drafter"], cell["gamma"], cell["steps"]][drafts] = float(cell["tau"])
    curves = [(key, sorted(taus.items())) for key, taus in found.items() if 1 in taus and len(taus) > 2]
    if not curves:
        return []
    return max(curves, key=lambda item: (len(item[1]), item[0][0] == DRAFTER, item[0][1]))[1]


def selection_of(path: Path) -> tuple[list[tuple[int, float]], dict[str, Any]]:
    """The curve of a stored bench and the settings that it was measured with: the warmest of its tables that has one.

    Raises:
        ValueError: the file is no bench.
    """
    stored = json.loads(path.read_text(encoding="utf-8"))
    try:
        tables = [table for table in (stored, *stored.get("tables", ())) if "cells" in table]
        curves = [(selection_curve(table["cells"]), dict(table["settings"])) for table in tables]
        full = [item for item in curves if item[0]]
        return max(full, key=lambda item: item[1]["temperature"]) if full else ([], {})
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError(f"{path.name} is no bench: {error!r}") from error


def section(source: Path | None = None, benches: Sequence[Path] = BENCHES) -> str:
    """The chapter; empty where nothing was measured.

    Args:
        source: the folder of the streak-distilled drafter; by default the shipped one.
    """
    source = source or Path(EMBEDDED.drafter(DRAFTER).source)
    try:
        runs = read_history(source / HISTORY)
    except WeightsError:
        runs = ()  # the method's card says that the file cannot be read
    figures = []
    streak = streak_curve(runs)
    if len(streak) > 1:
        figures.append(streak_figure(streak, sum(run.seconds for run in runs if is_streak(run))))
    for path in benches:
        try:
            points, settings = selection_of(path) if path.is_file() else ([], {})
        except ValueError:  # a figure less; the page and its other figures stay
            logging.getLogger(__name__).warning("No figure from %s", path, exc_info=True)
            continue
        if points:
            figures.append(selection_figure(points, settings))
            break
    if not figures:
        return ""
    lead = (
        "SpecDiff-2 brings drafter and target closer twice: in training and at every round. Both gains as measured "
        "here, divided by their own start; the paper’s are in the tables."
    )
    return element(
        "section",
        element("h2", text="Alignment", id="sd-alignment"),
        element("p", text=lead, class_="sd-lead"),
        element("div", *figures, class_="sd-figures"),
        class_="sd-chapter",
        aria_labelledby="sd-alignment",
    )


def twins_figure() -> str:
    """Acceptance by position of the drafter mdlm and of its streak-distilled twin, at temperature 0."""
    cold, warm = evidence.twins(0.0), evidence.twins(1.0)
    styles = (("mdlm", "@residual", "dash"), ("mdlm_streak", "@accent", "solid"))
    lines = [
        {
            "type": "scatter",
            "mode": "lines+markers+text",
            "name": name,
            "x": list(range(1, 1 + len(one["alpha_at"]))),
            "y": one["alpha_at"],
            "text": [*[""] * (len(one["alpha_at"]) - 1), name],
            "textposition": "top left",
            "textfont": {"color": colour},
            "line": {"width": 2.6, "color": colour, "dash": dash},
            "marker": {"size": 7},
            "hovertemplate": "%{y:.2f}<extra></extra>",
        }
        for one, (name, colour, dash) in zip(cold, styles, strict=True)
    ]
    before, after = (", ".join(f"{alpha:.2f}" for alpha in one["alpha_at"]) for one in cold)
    said = (
        f"Positions 1 to {len(cold[0]['alpha_at'])} at temperature 0: {before} for mdlm, {after} for its twin. Tokens "
        f"per round: {cold[0]['tau']:.2f} and {cold[1]['tau']:.2f}; at temperature 1: {warm[0]['tau']:.2f} and "
        f"{warm[1]['tau']:.2f}."
    )
    title = "Acceptance by position, before and after streak-distillation"
    layout = axes("position in the window", "α_j", xaxis={"dtick": 1, "showgrid": False}, yaxis={"range": [0, 1]})
    drawn = _drawing(title, said, lines, layout)
    caption = element("figcaption", element("p", text=said))
    return element("figure", drawn, caption, class_="sd-figure", id="sd-twins")


def streak_figure(points: Points, seconds: float) -> str:
    """τ against steps of streak-distillation, over its start.

    Args:
        seconds: how long ours took.
    """
    ours = Curve("here", points, unit="", ours=True)
    (_, first), (steps, last) = points[0], points[-1]
    dip_at, dip = min(points, key=lambda point: point[1])
    fell = f" On the way it fell to {dip:.2f} (step {int(dip_at):,})."
    said = (
        f"Here τ went from {first:.2f} to {last:.2f} tokens per round ({last / first:.2f}×) in {int(steps):,} steps."
        + (fell if dip < 0.98 * first else "")
    )
    honest = (
        "Our value is τ in simulated greedy rounds (γ = 8, T = 1) on held-out prompts, of a drafter of toy size after "
        f"{duration(seconds)} of this training. The paper’s is another quantity, the measured speed-up of a 7B drafter "
        f"over {PAPER_STEPS:,} steps ({READ_OFF}): it is in the tables, not on this axis."
    )
    x = {"title": "share of the training’s steps", "ticksuffix": " %", "dtick": 25}
    place = _line(
        "Streak-distillation: the gain over its training", said, ours, x, [100 * k / steps for k, _ in points]
    )
    return _figure(place, said, honest, (ours, *PAPER_STREAK), "steps")


def selection_figure(points: Points, settings: Mapping[str, Any]) -> str:
    """τ against K under self-selection, over that of K = 1."""
    ours = Curve("here", points, unit="", ours=True)
    (_, first), (most, last) = points[0], points[-1]
    temperature, own = settings["temperature"], settings.get("draft_temperature")
    said = (
        f"Here τ went from {first:.2f} with one draft to {last:.2f} with K = {int(most)} ({last / first:.2f}×), at "
        f"temperature {temperature:g}."
    )
    if temperature == 0 and own is None:
        said += " One draft is the most probable window here, while several are drawn at temperature 1."
    honest = (
        "Ours are tokens per round of models of toy size, which leave out what K drafts cost to score. The paper’s are "
        f"another quantity, measured speed-ups on large GPUs, which include it ({READ_OFF}; t is its drafter’s "
        "temperature): they are in the tables, not on this axis."
    )
    x = {"title": "K, drafts in a round", "type": "category"}
    place = _line("Self-selection: the gain of K drafts over one", said, ours, x, [str(int(k)) for k, _ in points])
    return _figure(place, said, honest, (ours, *PAPER_SELECTION), "K")


def _line(title: str, said: str, curve: Curve, x: dict[str, Any], at: Sequence[float | str]) -> str:
    """A curve over its start, under its title: the page draws it (static/figures.js)."""
    values = [ratio for _, ratio in curve.ratios]
    line = {
        "type": "scatter",
        "mode": "lines+markers+text",
        "x": at,
        "y": values,
        "text": [*[""] * (len(values) - 1), f"{values[-1]:.2f}×"],
        "textposition": "top left",
        "textfont": {"color": "@accent"},
        "line": {"width": 2.6, "color": "@accent"},
        "marker": {"size": 7},
        "hovertemplate": "%{y:.2f}×<extra></extra>",
    }
    layout = axes("", "τ over its own start", xaxis={"showgrid": False, **x}, yaxis={"ticksuffix": "×"})
    return _drawing(title, said, [line], layout)


def _drawing(title: str, said: str, lines: Sequence[dict[str, Any]], layout: dict[str, Any]) -> str:
    """A title, and where the page draws lines."""
    place = element(
        "div",
        class_="sd-drawing",
        data_figure=json.dumps({"data": lines, "layout": layout}),
        role="img",
        aria_label=f"{title}. {said}",
    )
    return element("h3", text=title) + place


def _figure(drawn: str, said: str, honest: str, curves: Sequence[Curve], along: str) -> str:
    """A drawing with its title, its words, and its numbers as tables."""
    return element(
        "figure",
        drawn,
        element("figcaption", element("p", text=said), element("p", text=honest)),
        element("details", element("summary", text="The numbers"), *(_table(curve, along) for curve in curves)),
        class_="sd-lesson sd-figure",
    )


def _table(curve: Curve, along: str) -> str:
    what = "τ, tokens per round" if curve.ours else "speed-up over vanilla"
    caption = f"{curve.label}: {what}" + ("" if curve.ours else f" (arXiv 2511.00606, {READ_OFF}).{curve.note}")
    head = element("tr", *(element("th", text=name, scope="col") for name in (along, what, "over its start")))
    rows = [
        element(
            "tr",
            element("th", text=f"{int(at):,}", scope="row"),
            element("td", text=f"{value:.2f}{curve.unit}"),
            element("td", text=f"{ratio:.2f}×"),
        )
        for (at, value), (_, ratio) in zip(curve.points, curve.ratios, strict=True)
    ]
    return element(
        "table", element("caption", text=caption), element("thead", head), element("tbody", *rows), class_="sd-table"
    )
