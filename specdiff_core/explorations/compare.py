"""Which method is fastest? Methods against vanilla on prompts of several kinds, at several temperatures: the page's
Compare tab. The order of the methods can turn with the temperature, which is why one number is never enough.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import (
    DRAFTING,
    Answer,
    Board,
    OnPrompts,
    Report,
    Step,
    Stopped,
    Switch,
    drafters_of,
    enum,
)
from specdiff_core.explorations.figures import FROM_ZERO, ONE, Figure, Row, axes, plural, ratio, times
from specdiff_core.explorations.runs import BASELINE_KEY, RUN_COLUMNS, Runs
from specdiff_core.explorations.side_by_side import text_of
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.measure.statistics import costs, interval
from specdiff_core.schema.methods import BASELINE, find_method, played
from specdiff_core.schema.metrics import CROWDED, Metrics
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

Degree = Annotated[float, Meta(ge=0, le=2)]
MEAN = "mean"
FIRST_SHOWN = 6
"""Methods that the figures begin with; a click on a name in the legend shows the others."""
FEW = 20
"""Tests of a position below which its mark is hollow."""
GLYPHS = {
    "line-ns": "┆",
    "circle": "●",
    "square": "■",
    "triangle-up": "▲",
    "diamond": "◆",
    "triangle-down": "▼",
    "star": "★",
    "cross": "✚",
    "hexagon2": "⬢",
    "pentagon": "⬟",
    "star-diamond": "✦",
    "triangle-right": "▶",
    "triangle-left": "◀",
    "x": "✖",
    "hexagram": "✶",
}
"""A symbol of Plotly's -> the character that looks like it."""
SHAPES = {"tree": ("dash", "/"), "drafts": ("dot", "."), "auto": ("dashdot", "-"), "window": ("solid", "")}
"""How a drafter is used -> dash of a line, hatch of a bar."""
HEADS: list[tuple[str, str, str]] = [
    ("τ", "Tokens per round: accepted drafts, and one of the target.", ""),
    ("drafter passes per round", "Passes of the drafter (NFE) per round.", "draft / round"),
    (
        "target passes per 100 tokens",
        "Passes of the target for 100 new tokens. Vanilla needs 100.",
        "target / 100 tokens",
    ),
    (
        "exactness",
        "What the rule claims, and, where texts can be compared, how many are vanilla’s, token for token.",
        "",
    ),
]


class Compare(OnPrompts, frozen=True, kw_only=True):
    """Speed-up of methods by temperature and kind of text, with intervals, and which one is fastest."""

    name: ClassVar = "compare"
    title: ClassVar = "Which method is fastest?"
    question: ClassVar = "Which method is fastest here, and does the order hold when the target samples?"
    tab: ClassVar = "compare"
    columns: ClassVar = RUN_COLUMNS | {
        "temperature": "of the target",
        "flavour": "kind of text, or the mean of all kinds",
        "method": "name of the method",
        "label": "what it is called",
        "short": "the same, short",
        "words": "its settings",
        "auto": "whether a controller chooses the length",
        "lossless": "what the rule claims",
        "cost": "τ over the speed-up: what a round costs, in tokens of vanilla",
        "tested_at": "how often each position was tested",
        "drafter_passes": "drafter passes per round",
        "target_passes": "target passes per new token",
        "same_text": "prompts with vanilla’s text, token for token",
        "texts": "prompts that were compared",
    }

    methods: Annotated[
        tuple[Annotated[str, Meta(extra_json_schema=enum(DRAFTING, "methods"))], ...],
        Meta(min_length=1, max_length=12, title="Methods", description="Each beside vanilla, on the same prompts."),
    ] = ("prompt_lookup", "dflash", "ddtree")
    temperatures: Annotated[
        tuple[Degree, ...],
        Meta(
            min_length=1,
            max_length=4,
            title="Temperatures",
            description="Of the target: 0 is greedy, 1 samples plainly.",
        ),
    ] = (0.0, 1.0)
    tokens: Annotated[
        int, Meta(ge=8, le=256, title="New tokens", description="Of each run; the end of a text is ignored.")
    ] = 96
    per_flavour: Annotated[
        int, Meta(ge=1, le=5, title="Prompts of each kind", description="Two or more give intervals.")
    ] = 1

    @property
    def drafters(self) -> tuple[str, ...]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        return drafters_of(self.pair, self.methods)

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        prompts, skipped = self.prompts(engine)
        methods = {one.name: one for one in played(self.pair, self.methods) if one.name != BASELINE}
        groups: dict[float, Runs] = {}
        texts: dict[float, dict[str, list[bool]]] = {}
        degrees = sorted(set(self.temperatures))
        flavours = list(dict.fromkeys(prompt.flavour for prompt in prompts))

        def answer() -> Answer:
            rows = [
                row
                for degree, runs in groups.items()
                for name in (BASELINE, *methods)
                for row in _rows(self.base, degree, name, runs, flavours, texts[degree].get(name, []))
            ]
            failed = dict.fromkeys(
                f"{methods[name].label}: {why}" for runs in groups.values() for name, why in runs.failed.items()
            )
            races = {f"{degree:g}/{name}": race for degree, runs in groups.items() for name, race in runs.races.items()}
            facts = next(iter(groups.values())).facts() if groups else {}
            return Answer(rows=rows, facts=facts | {"skipped": [*skipped, *failed]}, races=races)

        threads, each = 0, len(methods) * len(prompts)
        for turn, degree in enumerate(degrees):
            base = dataclasses.replace(self.base, temperature=degree)
            configs = {name: method.config(base) for name, method in methods.items()}
            runs = groups[degree] = Runs(
                engine,
                base,
                configs,
                prompts,
                stopped,
                threads=threads,
                race_of=lambda name, prompt: f"{prompt.flavour}/{name}",
            )
            same, threads = texts.setdefault(degree, {}), runs.threads
            vanilla: tuple[int, ...] = ()
            for done, _, name in runs.fill():
                if fresh := runs.fresh_vanilla():
                    vanilla = text_of(fresh)
                if name not in runs.failed:
                    same.setdefault(name, []).append(text_of(runs.events) == vanilla)
                yield Step(
                    turn * each + done, len(degrees) * each, f"{methods[name].label}, temperature {degree:g}", answer
                )
            if stopped():
                return

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        means = [row for row in rows if row["flavour"] == MEAN and row.get("speedup")]
        drafted = [row for row in means if row["method"] != BASELINE]
        degrees = list(dict.fromkeys(row["temperature"] for row in drafted))
        flavours = list(dict.fromkeys(row["flavour"] for row in rows if row["flavour"] != MEAN))
        if not drafted:
            return Report()
        ranked = {
            degree: sorted((row for row in drafted if row["temperature"] == degree), key=lambda row: -row["speedup"])
            for degree in degrees
        }
        looks = _looks(ranked)
        answer, notes = conclusion(ranked)
        shown = [MEAN, *flavours] if len(flavours) > 1 else [MEAN]
        switches = [
            Switch(
                name="temperature",
                title="Temperature",
                options=[
                    (
                        f"{one:g}",
                        f"{one:g}",
                        "The target samples" if one else "The target takes its most probable token",
                    )
                    for one in degrees
                ],
            ),
            Switch(
                name="flavour",
                title="Text",
                options=[(MEAN, "Mean", "Mean of the kinds of text"), *((one, one, "") for one in shown[1:])],
            ),
        ]
        figures, boards = [], []
        for degree in degrees:
            for flavour in shown:
                when = {"temperature": f"{degree:g}", "flavour": flavour}
                own = sorted(
                    (
                        row
                        for row in rows
                        if (row["temperature"], row["flavour"]) == (degree, flavour) and row.get("speedup")
                    ),
                    key=lambda row: -row["speedup"],
                )
                boards.append(_board(own, looks, when))
                figures.append(_plane(own, looks, when))
            figures.append(_positions(ranked[degree], looks, {"temperature": f"{degree:g}"}))
        figures.append(_by_kind(rows, looks, shown[1:] or shown))
        return Report(
            answer=answer,
            notes=notes,
            figures=figures,
            boards=boards,
            switches=[one for one in switches if len(one.options) > 1],
            titles={
                row["race"]: f"{row['label']}, {row['flavour']}, temperature {row['temperature']:g}"
                for row in rows
                if row.get("race")
            },
        )


def _rows(
    base: DecodeConfig, degree: float, name: str, runs: Runs, flavours: Sequence[str], same: Sequence[bool]
) -> Iterator[dict[str, Any]]:
    """A method at one temperature: the mean of the kinds of text, whose intervals resample prompts within each, then
    each kind."""
    key, method = (BASELINE_KEY if name == BASELINE else name), find_method(name)
    setting = BenchSetting.of_config(method.config(base))
    known = {
        "temperature": degree,
        "method": name,
        "label": method.label,
        "short": method.short,
        "words": setting.words,
    }
    measured = runs.metrics.get(key, [])
    total = sum((metrics for _, metrics in measured), Metrics())
    groups = {kind: [prompt for prompt, _ in measured if runs.flavours[prompt] == kind] for kind in flavours}
    groups = {kind: own for kind, own in groups.items() if own}
    if not groups:
        yield known | {"flavour": MEAN, "failed": runs.failed.get(key, "not measured yet")}
        return
    slow, fast = (
        costs((prompt, metrics.seconds, metrics.committed) for prompt, metrics in each)
        for each in (runs.metrics[BASELINE_KEY], measured)
    )
    speeds = interval(slow, fast, groups)
    for kind in (MEAN, *groups):
        own = total if kind == MEAN else sum((one for prompt, one in measured if prompt in groups[kind]), Metrics())
        speed, number = speeds[kind], min(map(len, groups.values())) if kind == MEAN else len(groups[kind])
        many = number > 1 and name != BASELINE
        race = None if name == BASELINE else f"{degree:g}/{next(iter(groups)) if kind == MEAN else kind}/{name}"
        row = known | {
            "flavour": kind,
            "speedup": speed.value,
            "low": speed.low if many else None,
            "high": speed.high if many else None,
            "prompts": sum(map(len, groups.values())) if kind == MEAN else number,
            "tau": own.tau,
            "alpha": own.alpha,
            "cost": (own.tau or 0.0) / speed.value,
            "drafter_passes": own.nfe / own.rounds,
            "target_passes": own.target_calls / own.committed,
            "waiting": own.waiting,
            "race": race,
            "lossless": base.rule.lossless,
        }
        exact = {"alpha_at": own.alpha_at, "tested_at": own.tested_at, "texts": len(same), "same_text": sum(same)}
        yield row | (exact if kind == MEAN else {})


def conclusion(ranked: Mapping[float, Sequence[Row]]) -> tuple[str, list[str]]:
    """Which method is fastest at each temperature, whether the order turns between the coolest and the warmest, and
    which methods lose, in words; from the rows of each temperature, fastest first."""
    degrees = sorted(degree for degree, own in ranked.items() if own)
    cold, warm = degrees[0], degrees[-1]
    first, last = ranked[cold][0], ranked[warm][0]

    def best(degree: float, row: Row) -> str:
        if row["speedup"] <= 1:
            reached = f"the best is {row['short']} with {times(row['speedup'])}"
            return f"At temperature {degree:g} no method beats vanilla; {reached}"
        rival = next(
            (one for one in ranked[degree][1:] if (one.get("high") or 0) > (row.get("low") or one["speedup"])), None
        )
        close = f" (intervals overlap with {rival['short']}’s)" if rival and row.get("low") is not None else ""
        return f"At temperature {degree:g} {row['short']} is fastest, {times(row['speedup'])}{close}"

    answer = best(cold, first) + "."
    if warm == cold:
        return answer, ["Only one temperature was measured: at another the order may be different."]
    answer += f" {best(warm, last)}."
    notes = []
    after = {row["method"] or row["label"]: row for row in ranked[warm]}
    moved = after.get(first["method"] or first["label"])
    if moved and moved is not last:
        place = 1 + [id(row) for row in ranked[warm]].index(id(moved))
        notes.append(
            f"The order turns with the temperature: {first['short']} goes from first to place {place} of "
            f"{len(ranked[warm])}, "
            f"{times(first['speedup'])} to {times(moved['speedup'])}."
        )
    else:
        notes.append("The same method leads at both temperatures.")
    names = {row["method"] for row in ranked[cold]}
    for tree, window in (("ddtree", "dflash"), ("markov_tree", "markov"), ("eagle2", "eagle")):
        if {tree, window} <= names:
            pairs = [
                [next((row for row in ranked[degree] if row["method"] == one), None) for one in (tree, window)]
                for degree in (cold, warm)
            ]
            (a, b), (c, d) = pairs
            if a and b and c and d and a["tau"] > b["tau"] and c["tau"] < d["tau"]:
                notes.append(
                    f"At temperature {cold:g} the tree of {a['short']} accepts more than the window of {b['short']} (τ "
                    f"{ratio(a['tau'])} against {ratio(b['tau'])}); at {warm:g} it accepts less ({ratio(c['tau'])} "
                    "against "
                    f"{ratio(d['tau'])}): a tree must hold the very token that the target draws, while a window is "
                    "tested "
                    "with p/q."
                )
    losing = [row["short"] for row in ranked[warm] if row["speedup"] < 1]
    if losing:
        notes.append(f"Slower than vanilla at temperature {warm:g}: {draw.listed(losing)}.")
    return answer, notes


# What is drawn.


def _looks(ranked: Mapping[float, Sequence[Row]]) -> dict[str, dict[str, Any]]:
    """A mark for each method, or use of a drafter that no paper names, by its label; and which are shown at first."""
    rows = {row["label"]: row for own in ranked.values() for row in own}
    style = draw.styles(row["method"] or row["label"] for row in rows.values())
    taken = {VANILLA["mark"], *(style[row["method"]].mark for row in rows.values() if row["method"])}
    free = iter([mark for mark in GLYPHS if mark not in taken])
    first = {row["label"] for row in next(iter(ranked.values()))[:FIRST_SHOWN]}
    looks = {}
    for label, row in rows.items():
        own = style[row["method"] or label]
        shape = next((word for word, sign in (("drafts", "K"), ("tree", "B")) if sign in row["words"]), "window")
        dash, hatch = SHAPES["auto" if row.get("auto") else shape]
        mark = own.mark if row["method"] else next(free, "x")
        looks[label] = {
            "mark": mark,
            "glyph": GLYPHS.get(mark, "●"),
            "colour": own.colour,
            "dash": dash,
            "hatch": hatch,
            "visible": True if label in first else "legendonly",
        }
    return looks


VANILLA = {
    "mark": "line-ns",
    "glyph": GLYPHS["line-ns"],
    "colour": "@target",
    "dash": "dot",
    "hatch": "",
    "visible": True,
}


def _exactness(row: Row) -> list[str]:
    """How exact a row's texts are, and why."""
    if row["method"] == BASELINE:
        return ["the target itself", "Vanilla decoding: one pass of the target for each token."]
    if not row.get("lossless", True):
        return ["✕ not exact", "This rule can change the distribution of the text."]
    if row["temperature"] or not row.get("texts"):
        return ["✓ same distribution", "The rule keeps the target’s distribution; two samples of it differ."]
    all_same = row["same_text"] == row["texts"]
    why = (
        ""
        if all_same
        else "; where not, two tokens were probably so close that rounding decides (`diverge` examines it)"
    )
    return [
        f"{'✓' if all_same else '≈'} {row['same_text']} of {row['texts']} texts",
        f"{row['same_text']} of {row['texts']} prompts gave vanilla’s text, token for token{why}.",
    ]


def _board(rows: Sequence[Row], looks: Mapping[str, Any], when: dict[str, str]) -> Board:
    busy = any(row["method"] == BASELINE and (row.get("waiting") or 0) >= CROWDED for row in rows)
    cells = []
    for row in rows:
        look = looks.get(row["label"], VANILLA)
        bounds = row.get("low") is not None
        cells.append(
            {
                "mark": [look["glyph"], look["colour"], look["hatch"]],
                "label": row["label"],
                "words": row["words"] or "baseline",
                "value": row["speedup"],
                "low": row.get("low"),
                "high": row.get("high"),
                "said": f"95 % interval {ratio(row['low'])} to {ratio(row['high'])}"
                if bounds
                else "the baseline"
                if row["method"] == BASELINE
                else "one prompt of a kind: no interval",
                "race": row.get("race"),
                "busy": busy or (row.get("waiting") or 0) >= CROWDED,
                "cells": [
                    [ratio(row["tau"]), ""],
                    [ratio(row.get("drafter_passes")), ""],
                    [ratio(100 * row["target_passes"], 1), ""],
                    _exactness(row),
                ],
            }
        )
    return Board(title="Leaderboard", columns=HEADS, rows=cells, when=when)


def _plane(rows: Sequence[Row], looks: Mapping[str, Any], when: dict[str, str]) -> Figure:
    """τ against the cost of a round, with lines of equal speed-up."""
    right, top = 1.12 * max([1.5, *(row["cost"] for row in rows)]), 1.15 * max([2.0, *(row["tau"] for row in rows)])
    data: list[dict[str, Any]] = []
    notes = []
    for speed in range(1, int(top) + 2):
        end = min(right, top / speed)
        if speed > 1 and end < 0.2 * right:
            break
        line = {"color": "@edge", "width": 1.6 if speed == 1 else 1, "dash": "solid" if speed == 1 else "dot"}
        data.append(
            {
                "type": "scatter",
                "mode": "lines",
                "x": [0, end],
                "y": [0, speed * end],
                "hoverinfo": "skip",
                "showlegend": False,
                "line": line,
            }
        )
        notes.append(
            {
                "x": end,
                "y": speed * end,
                "text": f"{speed}×",
                "showarrow": False,
                "xanchor": "right",
                "yanchor": "bottom" if speed * end < 0.93 * top else "top",
                "font": {"size": 10.5, "color": "@muted"},
            }
        )
    for row in rows:
        look = looks.get(row["label"], VANILLA)
        words = f"<b>{row['label']}</b>, {row['words'] or '1 token per pass'}<br>speed-up {times(row['speedup'])}"
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": row["short"],
                "x": [row["cost"]],
                "y": [row["tau"]],
                "customdata": [[row.get("race"), words]],
                "marker": {
                    "size": 11,
                    "symbol": look["mark"],
                    "color": look["colour"],
                    "line": {"color": look["colour"], "width": 2.5 if look is VANILLA else 1},
                },
                "hovertemplate": "%{customdata[1]}<br>τ = %{y:.3f}, cost %{x:.3f} vanilla passes<extra></extra>",
            }
        )
    return Figure(
        key="cost",
        title="What a round yields and what it costs",
        hint="marks as in the table; lines: equal speed-up = τ / cost",
        opens="a mark opens its race",
        when=when,
        data=data,
        layout=axes(
            "cost of a round, in vanilla passes",
            "τ, tokens per round",
            xaxis={"range": [0, right]},
            yaxis={"range": [0, top]},
            annotations=notes,
        ),
    )


def _positions(rows: Sequence[Row], looks: Mapping[str, Any], when: dict[str, str]) -> Figure:
    """Share accepted at each position of the window."""
    data = []
    for row in (row for row in rows if looks[row["label"]]["visible"] is True):
        look, tested = looks[row["label"]], row.get("tested_at") or ()
        alphas = row.get("alpha_at") or ()
        counts = [tested[i] if i < len(tested) else None for i in range(len(alphas))]
        few = [count is not None and count < FEW for count in counts]
        data.append(
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": row["short"],
                "x": list(range(1, len(alphas) + 1)),
                "y": list(alphas),
                "connectgaps": False,
                "customdata": [
                    [None, plural(count, "test") if count is not None else "tests not counted"] for count in counts
                ],
                "line": {"color": look["colour"], "width": 1.8, "dash": look["dash"]},
                "marker": {
                    "size": 8,
                    "symbol": [look["mark"] + ("-open" if one else "") for one in few],
                    "color": look["colour"],
                },
                "hovertemplate": f"<b>{row['label']}</b><br>α at position %{{x}} = %{{y:.3f}}: "
                "%{{customdata[1]}}<extra></extra>",
            }
        )
    return Figure(
        key="alpha",
        title="Acceptance by position",
        hint=f"where it was reached; hollow: fewer than {FEW} tests",
        when=when,
        data=data,
        layout=axes(
            "position in the window (of a tree: depth)",
            "α, accepted of tested",
            xaxis={"showgrid": False},
            yaxis={"range": [0, 1.04], "dtick": 0.25},
            showlegend=True,
        ),
    )


def _by_kind(rows: Sequence[Row], looks: Mapping[str, Any], flavours: Sequence[str]) -> Figure:
    """Speed-up by temperature and kind of text, a bar for each method."""
    data = []
    for label, look in looks.items():
        own = [row for row in rows if row["label"] == label and row["flavour"] in flavours and row.get("speedup")]
        said = [
            f"<b>{label}</b>, {row['words']}<br>{row['flavour']}: {times(row['speedup'])}"
            + ("" if row.get("low") is None else f"<br>95 % interval {ratio(row['low'])} to {ratio(row['high'])}")
            for row in own
        ]
        bar = draw.bars(
            [],
            [row["speedup"] for row in own],
            f"{look['glyph']} {own[0]['short']}" if own else label,
            look["colour"],
            look["hatch"],
            customdata=[[row.get("race"), words] for row, words in zip(own, said, strict=True)],
            error_y=draw.whisker(own, "speedup"),
            visible=look["visible"],
        )
        bar["x"] = [[f"temperature {row['temperature']:g}" for row in own], [row["flavour"] for row in own]]
        bar["marker"] |= {} if look["hatch"] else {"opacity": 0.6}
        data.append(bar)
    return Figure(
        key="bars",
        title="Speed-up by temperature and kind of text",
        opens="a bar opens its race",
        wide=True,
        data=data,
        hint="dotted: vanilla; whiskers: 95 % interval; click a name to show or hide it",
        layout=axes(
            "",
            "speed-up over vanilla, ×",
            xaxis={"type": "multicategory", "showgrid": False, "tickangle": 0},
            yaxis=FROM_ZERO,
            barmode="group",
            bargap=0.22,
            bargroupgap=0.06,
            shapes=[ONE],
            showlegend=True,
        ),
    )
