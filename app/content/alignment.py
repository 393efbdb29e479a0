"""Two figures on alignment (SpecDiff-2), from the recorded comparison: acceptance by position
before and after streak-distillation, and what K drafts gain and cost.
"""

from __future__ import annotations

import json
from typing import Any

from app.content import evidence
from app.content.html import element
from specdiff_core.explorations import figures as draw

STYLES = {"mdlm": ("@residual", "dash", "bottom center"), "mdlm_streak": ("@accent", "solid", "top center")}
"""Drafter -> colour and dash of its line, and where its name is beside the second-to-last mark."""


def figures() -> str:
    """Both, side by side where there is room."""
    return element("div", twins(), drafts(), class_="sd-figures", id="sd-aligned")


def twins() -> str:
    """Acceptance by position of mdlm and of its streak-distilled twin, at temperature 0."""
    cold, warm = evidence.twins(0.0), evidence.twins(1.0)
    size = len(cold[0]["alpha_at"])
    lines = [
        _line(range(1, size + 1), row["alpha_at"], [*[""] * (size - 2), name, ""], *style)
        for row, (name, style) in zip(cold, STYLES.items(), strict=True)
    ]
    before, after = (", ".join(f"{alpha:.2f}" for alpha in row["alpha_at"]) for row in cold)
    said = (
        f"γ {size}, temperature 0, {cold[0]['prompts']} prompts: {before} for mdlm, {after} for "
        f"its twin. Tokens per round: {cold[0]['tau']:.2f} and {cold[1]['tau']:.2f}; at "
        f"temperature 1: {warm[0]['tau']:.2f} and {warm[1]['tau']:.2f}."
    )
    axes = draw.axes("position in the window", "α_j", xaxis={"dtick": 1, "showgrid": False}, yaxis={"range": [0, 1]})
    return _figure("Acceptance by position, before and after streak-distillation", said, lines, axes)


def drafts() -> str:
    """Speed-up and tokens per round by K under self-selection, beside one greedy window."""
    temperature, points = evidence.selection()
    ks, taus, speeds = zip(*points, strict=True)
    sweep = evidence.answer("compare/selection")
    prompts, gamma = sum(sweep.prompts.values()), sweep.entries[-1].gamma
    tau, speed = evidence.GREEDY
    enough = next(k for k, k_tau, _ in points if k_tau > tau)
    said = (
        f"γ {gamma}, greedy target, drafter at temperature {temperature:g}, {prompts} prompts: "
        f"from K = {ks[0]} to {ks[-1]}, the tokens per round rise from {taus[0]:.2f} to "
        f"{taus[-1]:.2f}, but the speed-up falls from {draw.times(speeds[0])} to "
        f"{draw.times(speeds[-1])}: scoring a draft costs more than it gains. One window of the "
        f"same drafter at temperature 0 gives τ {tau:.2f} and {draw.times(speed)} (another sweep, "
        f"{evidence.SWEPT} prompts): faster than any K; only K = {enough} or more gives more tokens."
    )
    where = [*["top right"] * (len(ks) - 1), "bottom left"]
    names = [str(k) for k in ks]
    line = _line(names, speeds, [f"τ {tau:.2f}" for tau in taus], "@accent", "solid", where)
    label = [*[""] * (len(ks) - 1), f"one window, drafter greedy: τ {tau:.2f}"]
    greedy = _line(names, [speed] * len(ks), label, "@residual", "dash", "top left") | {"mode": "lines+text"}
    axes = draw.speeds("K, drafts in a round", xaxis=draw.CATEGORY)
    return _figure("Self-selection among K drafts", said, [line, greedy], axes)


def _line(x: Any, y: Any, text: Any, colour: str, dash: str, where: Any) -> dict[str, Any]:
    """A line with a text at each mark."""
    look = {"mode": "lines+markers+text", "text": text, "textposition": where, "textfont": {"color": colour}}
    return draw.trace("", x, y, colour, dash=dash, mark="circle", hover="%{y:.2f}", **look, cliponaxis=False)


def _figure(title: str, said: str, lines: list[Any], layout: dict[str, Any]) -> str:
    """A drawing that the page makes (static/learn.js), with its title and its words."""
    described = json.dumps({"data": lines, "layout": layout})
    drawing = element("div", class_="sd-drawing", data_figure=described, role="img", aria_label=f"{title}. {said}")
    return element("figure", element("h3", text=title), drawing, element("figcaption", text=said), class_="sd-figure")
