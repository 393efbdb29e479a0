"""Two figures on alignment (SpecDiff-2), from the recorded comparison: acceptance by position before and after
streak-distillation, and what K drafts gain and cost.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from app.content import evidence
from app.content.html import element
from specdiff_core.explorations.figures import axes, trace


def figures() -> str:
    """Both, side by side where there is room."""
    return element("div", twins(), drafts(), class_="sd-figures", id="sd-aligned")


def twins() -> str:
    """Acceptance by position of the drafter mdlm and of its streak-distilled twin, at temperature 0."""
    cold, warm = evidence.twins(0.0), evidence.twins(1.0)
    styles = (("mdlm", "@residual", "dash"), ("mdlm_streak", "@accent", "solid"))
    lines = []
    for one, (name, colour, dash) in zip(cold, styles, strict=True):
        alphas = one["alpha_at"]
        labels = [*[""] * (len(alphas) - 1), name]
        lines.append(_line(list(range(1, 1 + len(alphas))), alphas, labels, colour, dash, "%{y:.2f}"))
    before, after = (", ".join(f"{alpha:.2f}" for alpha in one["alpha_at"]) for one in cold)
    said = (
        f"Positions 1 to {len(cold[0]['alpha_at'])} at temperature 0: {before} for mdlm, {after} for its twin. Tokens "
        f"per round: {cold[0]['tau']:.2f} and {cold[1]['tau']:.2f}; at temperature 1: {warm[0]['tau']:.2f} and "
        f"{warm[1]['tau']:.2f}."
    )
    layout = axes("position in the window", "α_j", xaxis={"dtick": 1, "showgrid": False}, yaxis={"range": [0, 1]})
    return _figure("Acceptance by position, before and after streak-distillation", said, lines, layout)


def drafts() -> str:
    """Speed-up by K under self-selection, with the tokens per round at each point."""
    cells = evidence.selection()
    ks, taus, speeds = zip(*cells, strict=True)
    said = (
        f"From K = {ks[0]} to {ks[-1]} the tokens per round rise from {taus[0]:.2f} to {taus[-1]:.2f}, but the "
        f"speed-up falls from {speeds[0]:.2f}× to {speeds[-1]:.2f}×: here a draft costs more to score than it brings."
    )
    labels = [f"τ {tau:.2f}" for tau in taus]
    line = _line([str(k) for k in ks], speeds, labels, "@accent", "solid", "%{y:.2f}×")
    layout = axes(
        "K, drafts in a round",
        "speed-up over vanilla",
        xaxis={"showgrid": False, "type": "category"},
        yaxis={"range": [0, 1.2 * max(speeds)], "ticksuffix": "×"},
    )
    return _figure("Self-selection among K drafts", said, [line], layout)


def _line(
    x: Sequence[Any], y: Sequence[float], text: Sequence[str], colour: str, dash: str, hover: str
) -> dict[str, Any]:
    return trace(
        "",
        x,
        y,
        colour,
        dash=dash,
        mark="circle",
        hover=hover,
        width=2.6,
        mode="lines+markers+text",
        text=text,
        textposition="top center" if text[0] else "top left",
        textfont={"color": colour},
        cliponaxis=False,
    )


def _figure(title: str, said: str, lines: Sequence[dict[str, Any]], layout: dict[str, Any]) -> str:
    """A drawing that the page makes (static/figures.js), with its title and its words."""
    place = element(
        "div",
        class_="sd-drawing",
        data_figure=json.dumps({"data": lines, "layout": layout}),
        role="img",
        aria_label=f"{title}. {said}",
    )
    caption = element("figcaption", element("p", text=said))
    return element("figure", element("h3", text=title), place, caption, class_="sd-figure")
