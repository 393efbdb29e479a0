"""The table and the figures of :mod:`~specdiff_core.explorations.compare`, whose rows they draw."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Board
from specdiff_core.explorations.figures import Figure, axes
from specdiff_core.explorations.papers import BY_POSITION, overlaid
from specdiff_core.explorations.wording import Row, interval_words, percent, plural, ratio, speedup, with_interval
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.metrics import CROWDED

MEAN = "mean"
FIRST_SHOWN = 6
"""Methods shown at first; a click on a name in the legend shows the others."""
FEW = 20
"""A position with fewer tests has a hollow mark."""
HEADS: list[tuple[str, str, str]] = [
    ("τ", "Tokens per round, bonus included: the accepted ones plus the target’s own.", ""),
    ("drafter passes per round", "Drafter passes (NFE) per round.", "draft / round"),
    (
        "target passes per 100 tokens",
        "Target passes per 100 new tokens. Vanilla needs 100.",
        "target / 100 tokens",
    ),
    (
        "exactness",
        "What the rule guarantees and, at temperature 0, how many texts match vanilla’s token for token.",
        "",
    ),
]


class Look(draw.Style, frozen=True):
    """How a method is drawn here."""

    glyph: str  # the mark as a character
    hatch: str
    visible: Any = True


VANILLA = Look("@target", "line-ns", "dot", "Vanilla", draw.GLYPHS["line-ns"], "")


def looks(ranked: Mapping[float, Sequence[Row]]) -> dict[str, Look]:
    """A style for each method by its label, and which are shown at first."""
    rows = {row["label"]: row for group in ranked.values() for row in group}
    style = draw.styles(row["method"] for row in rows.values())
    known = draw.KNOWN.keys() & style.keys()
    free = iter([mark for mark in draw.GLYPHS if mark not in {VANILLA.mark, *(style[name].mark for name in known)}])
    first = {row["label"] for row in next(iter(ranked.values()))[:FIRST_SHOWN]}
    looks = {}
    for label, row in rows.items():
        method_style = style[row["method"]]
        mark = method_style.mark if row["method"] in known else next(free, "x")
        dash, hatch = draw.USES[BenchSetting.parse(row["setting"]).use]
        visible = True if label in first else "legendonly"
        looks[label] = Look(method_style.colour, mark, dash, row["short"], draw.GLYPHS.get(mark, "●"), hatch, visible)
    return looks


def _exactness(row: Row) -> list[str]:
    """How exact a row's texts are, and the reason."""
    if row["method"] == BASELINE:
        return [
            "the reference",
            "Vanilla decoding: one target pass per token. The others’ texts are compared with its.",
        ]
    if not row["lossless"]:
        return ["✕ not exact", "This rule can change the distribution of the text."]
    if not row["temperature"] and row["flavour"] != MEAN:
        return ["–", "Texts are compared over all kinds: choose Mean."]
    if row["temperature"] or not row.get("texts"):
        return ["✓ same distribution", "The rule preserves the target’s distribution, but two samples from it differ."]
    same, texts = row["same_text"], row["texts"]
    counted = f"{same} of {texts} texts"
    if same == texts:
        return [f"✓ {counted}", f"{counted} match vanilla’s token for token."]
    why = "elsewhere two tokens were probably so close that rounding decided"
    return [f"≈ {counted}", f"{counted} match vanilla’s token for token; {why}."]


def board(rows: Sequence[Row], looks: Mapping[str, Look], when: dict[str, str]) -> Board:
    busy = any(row["method"] == BASELINE and (row.get("waiting") or 0) >= CROWDED for row in rows)
    entries = []
    for row in rows:
        look, alone = looks.get(row["label"], VANILLA), "too few prompts of this kind for an interval"
        measured = alone if row.get("low") is None else interval_words(row)
        if row["flavour"] == MEAN and (race := row.get("race")):
            measured += f"; opens a race on {re.split('[/#]', race)[1]}"  # there is none of a mean
        numbers = ratio(row["tau"]), ratio(row.get("drafter_passes")), ratio(100 * row["target_passes"], 1)
        entries.append(
            {
                "mark": [look.glyph, look.colour, look.hatch],
                "label": row["label"],
                "words": row["words"] or "baseline",
                "value": row["speedup"],
                "low": row.get("low"),
                "high": row.get("high"),
                "said": "the baseline" if row["method"] == BASELINE else measured,
                "race": row.get("race"),
                "busy": busy or (row.get("waiting") or 0) >= CROWDED,
                "cells": [*([number, ""] for number in numbers), _exactness(row)],
            }
        )
    return Board(title="Leaderboard", columns=HEADS, rows=entries, when=when)


def plane(rows: Sequence[Row], looks: Mapping[str, Look], when: dict[str, str]) -> Figure:
    def words(row: Row) -> str:
        settings = row["words"] or "1 token per pass"
        return f"<b>{row['label']}</b>, {settings}<br>speed-up {speedup(row['speedup'])}"

    hint = "marks as in the table; lines: equal speed-up = τ / cost"
    return draw.plane(rows, lambda row: looks.get(row["label"], VANILLA), words, key="cost", hint=hint, when=when)


def _line(
    row: Row, look: Look, y: Sequence[float], words: Sequence[str], *, first: int, **options: Any
) -> dict[str, Any]:
    """A method's numbers from position ``first`` on, and the texts of their marks."""
    hovers = [[None, f"<b>{row['label']}</b><br>{text}"] for text in words]
    options |= {"dash": look.dash, "size": 8, "words": hovers}
    return draw.trace(row["short"], range(first, first + len(y)), y, look.colour, **options)


def positions(rows: Sequence[Row], looks: Mapping[str, Look], when: dict[str, str]) -> Figure:
    """Acceptance rate by position in the window."""
    data = []
    for row in rows:
        look, tested, alphas = looks[row["label"]], row["tested_at"], row["alpha_at"]
        if look.visible is not True:
            continue
        words = [
            f"α at position {position} = {ratio(alpha, 3)}: {plural(count, 'test')}"
            for position, (alpha, count) in enumerate(zip(alphas, tested, strict=True), start=1)
        ]
        marks = [look.mark + ("-open" if count < FEW else "") for count in tested]
        data.append(_line(row, look, alphas, words, first=1, mark=marks, connectgaps=False))
    return Figure(
        key="alpha",
        title="Conditional acceptance by position",
        hint=f"of the rounds that reached it; hollow: fewer than {FEW} tests; click a published curve to lay it over",
        when=when,
        data=[*data, *overlaid(BY_POSITION)] if data else [],
        layout=axes(
            "position in the window (of a tree: depth)",
            "α, accepted of tested",
            xaxis={"showgrid": False},
            yaxis={"range": [0, 1.04], "dtick": 0.25},
            showlegend=True,
        ),
    )


def accepted_lengths(row: Row) -> list[float]:
    """Shares of the drafts of which exactly m = 0, 1, … tokens were accepted, from ``alpha_at`` and ``tested_at`` (of a
    tree: by depth). Their sums from m on are the joint rates by position, which vLLM reports."""
    drafts = row["tested_at"][0]
    accepted = [(alpha or 0.0) * tested for alpha, tested in zip(row["alpha_at"], row["tested_at"], strict=True)]
    counts = zip([drafts, *accepted], [*accepted, 0], strict=True)
    return [round((more - fewer) / drafts, 7) + 0.0 for more, fewer in counts]  # α has six digits in a file: no −0 %


def lengths(rows: Sequence[Row], looks: Mapping[str, Look], when: dict[str, str]) -> Figure:
    """Histogram of accepted lengths."""
    data = []
    for row in rows:
        look, shares = looks[row["label"]], accepted_lengths(row) if row.get("tested_at") else []
        if look.visible is not True or not shares:
            continue
        words = [
            f"{m} accepted: {percent(share)} of the drafts"
            + (f"<br>{m} or more (joint rate): {percent(sum(shares[m:]))}" if m else "")
            for m, share in enumerate(shares)
        ]
        data.append(_line(row, look, shares, words, first=0, mark=look.mark))
    return Figure(
        key="lengths",
        title="Accepted tokens of a draft",
        hint="a round adds one more, the target’s own (bonus), which τ includes",
        when=when,
        data=data,
        layout=axes(
            "accepted tokens (of a tree: depth)",
            "share of the drafts",
            xaxis={"showgrid": False},
            yaxis=draw.FROM_ZERO,
            showlegend=True,
        ),
    )


def by_kind(rows: Sequence[Row], looks: Mapping[str, Look], flavours: Sequence[str]) -> Figure:
    """Speed-up by temperature and kind of text, a bar for each method."""
    data = []
    for label, look in looks.items():
        timed = [row for row in rows if row["label"] == label and row["flavour"] in flavours and row.get("speedup")]
        hovers = [f"<b>{label}</b>, {row['words']}<br>{row['flavour']}: {with_interval(row)}" for row in timed]
        bar = draw.bars(
            [],
            [row["speedup"] for row in timed],
            f"{look.glyph} {timed[0]['short']}" if timed else label,
            look.colour,
            look.hatch,
            customdata=[[row.get("race"), words] for row, words in zip(timed, hovers, strict=True)],
            error_y=draw.whisker(timed, "speedup"),
            visible=look.visible,
        )
        bar["x"] = [[f"temperature {row['temperature']:g}" for row in timed], [row["flavour"] for row in timed]]
        bar["marker"] |= {} if look.hatch else {"opacity": 0.6}
        data.append(bar)
    return Figure(
        key="bars",
        title="Speed-up by temperature and kind of text",
        opens="a bar opens its race",
        wide=True,
        data=data,
        hint="dotted: vanilla; whiskers: 95 % interval; click a name to show or hide it",
        layout=draw.speeds(
            xaxis={"type": "multicategory", "showgrid": False, "tickangle": 0},
            barmode="group",
            bargap=0.22,
            bargroupgap=0.06,
            showlegend=True,
        ),
    )
