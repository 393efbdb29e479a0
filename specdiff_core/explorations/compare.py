"""Which method is fastest? Methods against vanilla on prompts of several kinds, at several temperatures: the page's
Compare tab. The ranking can change with the temperature, so one number is never enough.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, Board, OnPrompts, Report, Step, Switch
from specdiff_core.explorations.fields import DEGREE, METHOD
from specdiff_core.explorations.figures import Figure, Row, axes, plural, ratio, speedup
from specdiff_core.explorations.measured import RUN_COLUMNS, Runs, bounds
from specdiff_core.explorations.papers import BY_POSITION, overlaid
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.measure.prompts import Prompt
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import BASELINE, find_method, resolve_methods
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

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


class Compare(OnPrompts, frozen=True, kw_only=True):
    """Speed-up of methods by temperature and kind of text, with intervals, and which one is fastest."""

    name: ClassVar = "compare"
    title: ClassVar = "Which method is fastest?"
    question: ClassVar = "Which method is fastest, and does the ranking change when the target samples?"
    tab: ClassVar = "compare"
    takes: ClassVar = 20
    scales: ClassVar = ("methods", "temperatures", "flavours", "per_flavour", "tokens")
    columns: ClassVar = RUN_COLUMNS | {
        "temperature": "of the target",
        "flavour": "kind of text, or the mean of all kinds",
        "method": "name of the method",
        "label": "its label",
        "short": "its short label",
        "setting": "its settings, as `bench sweep --settings` reads them",
        "words": "its settings in words",
        "lossless": "whether the rule is lossless",
        "cost": "τ over the speed-up: what a round costs, in vanilla tokens",
        "drafter_passes": "drafter passes per round",
        "target_passes": "target passes per new token",
        "same_text": "prompts whose text matches vanilla’s, token for token",
        "texts": "prompts that were compared",
    }

    methods: Annotated[
        tuple[METHOD, ...], ask("Methods", "Each is compared with vanilla on the same prompts.", least=1, most=12)
    ] = ("prompt_lookup", "dflash", "ddtree")
    temperatures: Annotated[
        tuple[DEGREE, ...],
        ask("Temperatures", "The target’s: 0 is greedy, 1 is plain sampling.", least=1, most=4),
    ] = (0.0, 1.0)
    tokens: Annotated[int, ask("New tokens", "In each run; end-of-text tokens are ignored.", 8, 256)] = 96
    per_flavour: Annotated[int, ask("Prompts of each kind", "Three or more give intervals for each kind.", 1, 5)] = 1

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        prompts, skipped = self.prompts(engine)
        methods = {one.name: one for one in resolve_methods(self.pair, self.methods) if one.name != BASELINE}
        groups: dict[float, Runs] = {}
        degrees = sorted(set(self.temperatures))

        def race_name(name: str, prompt: Prompt) -> str:  # one of all methods for each kind of text
            return f"{prompt.flavour}#{name}"

        def answer() -> Answer:
            rows = [
                row
                for degree, runs in groups.items()
                for name in (BASELINE, *methods)
                for row in _rows(self.base, degree, name, runs)
            ]
            rows = [row for degree, runs in groups.items() for row in compared(rows, degree, runs)]
            failed = dict.fromkeys(why for runs in groups.values() for why in runs.left_out())
            races = {f"{degree:g}/{name}": race for degree, runs in groups.items() for name, race in runs.races.items()}
            each = [row for degree, runs in groups.items() for row in runs.prompt_rows({"temperature": degree})]
            facts = {"threads": threads, "skipped": [*skipped, *failed]}
            return Answer(rows=rows, facts=facts, runs=each, races=races)

        threads = engine.threads
        for turn, degree in enumerate(degrees):
            base = dataclasses.replace(self.base, temperature=degree)
            configs = {name: method.config(base) for name, method in methods.items()}
            runs = groups[degree] = Runs(engine, base, configs, prompts, stop, threads=threads, race_name=race_name)
            for done, total, run in runs.fill():
                doing = f"{methods[run.lane].label}, temperature {degree:g}"
                yield Step(turn * total + done, len(degrees) * total, doing, answer)
            if stop.is_set():
                return

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        timed = sorted((row for row in rows if row.get("speedup")), key=lambda row: -row["speedup"])

        def best(degree: float, flavour: str) -> list[dict[str, Any]]:
            return [row for row in timed if (row["temperature"], row["flavour"]) == (degree, flavour)]

        degrees = sorted({row["temperature"] for row in timed if row["method"] != BASELINE})
        if not degrees:
            return Report()
        ranked = {degree: [row for row in best(degree, MEAN) if row["method"] != BASELINE] for degree in degrees}
        flavours = list(dict.fromkeys(row["flavour"] for row in rows if row["flavour"] != MEAN))
        looks = _looks(ranked)
        answer, notes = conclusion(ranked)
        kinds = [MEAN, *flavours] if len(flavours) > 1 else [MEAN]
        sampled = ("The target takes its most probable token", "The target samples")
        temperatures = [(f"{degree:g}", f"{degree:g}", sampled[degree > 0]) for degree in degrees]
        kind_options = [(MEAN, "Mean", "Mean of the kinds of text"), *((kind, kind, "") for kind in kinds[1:])]
        switches = [
            Switch(name="temperature", title="Temperature", options=temperatures),
            Switch(name="flavour", title="Text", options=kind_options),
        ]
        figures, boards = [], []
        for degree in degrees:
            for flavour in kinds:
                when = {"temperature": f"{degree:g}", "flavour": flavour}
                boards.append(_board(best(degree, flavour), looks, when))
                figures.append(_plane(best(degree, flavour), looks, when))
            figures.append(_positions(ranked[degree], looks, {"temperature": f"{degree:g}"}))
            figures.append(_lengths(ranked[degree], looks, {"temperature": f"{degree:g}"}))
        figures.append(_by_kind(rows, looks, kinds[1:] or kinds))
        return Report(
            answer=answer,
            notes=notes,
            figures=figures,
            boards=boards,
            switches=[switch for switch in switches if len(switch.options) > 1],
            titles={
                row["race"]: f"{row['label']}, {row['flavour']}, temperature {row['temperature']:g}"
                for row in rows
                if row.get("race")
            },
        )


def _rows(base: DecodeConfig, degree: float, name: str, runs: Runs) -> Iterator[dict[str, Any]]:
    """Rows of a method at one temperature: the mean over the kinds of text, of τ and α as of the speed-up, whose
    intervals resample prompts within each kind, then each kind."""
    method = find_method(name)
    setting = BenchSetting.of_config(method.config(base))
    fields = {
        "temperature": degree,
        "method": name,
        "label": method.label,
        "short": method.short,
        "setting": setting.key,
        "words": setting.words,
    }
    if not (groups := runs.groups(name)):
        yield fields | {"flavour": MEAN, "failed": runs.failed.get(name, "not measured yet")}
        return
    speeds, rates = runs.speedups(name, groups), runs.rate_fields(name, groups)
    same = [] if name == BASELINE else [*runs.same_texts(name).values()]
    for kind in (MEAN, *groups):
        total = runs.total(name, "" if kind == MEAN else kind)
        speed, counts = speeds[kind], [len(prompts) for name, prompts in groups.items() if kind in (MEAN, name)]
        race = None if name == BASELINE else f"{degree:g}/{next(iter(groups)) if kind == MEAN else kind}#{name}"
        row = fields | {
            "flavour": kind,
            **bounds(speed, counts if name != BASELINE else [1]),
            "prompts": sum(counts),
            **rates[kind],
            "waiting": total.waiting,
            "cost": rates[kind]["tau"] / speed.value,
            "drafter_passes": total.nfe / total.rounds,
            "target_passes": total.target_calls / total.committed,
            "race": race,
            "lossless": base.rule.lossless,
        }
        exact = {**total.named("alpha_at", "tested_at"), "texts": len(same), "same_text": sum(same)}
        yield row | (exact if kind == MEAN else {})


def compared(rows: Iterable[dict[str, Any]], degree: float, runs: Runs) -> Iterator[dict[str, Any]]:
    """The rows of one temperature, each with how far it is behind the fastest one of its kind of text."""
    at = [row for row in rows if row["temperature"] == degree]
    drafted = [row for row in at if row["method"] != BASELINE]
    best = {kind: draw.fastest(row for row in drafted if row["flavour"] == kind) for kind in {r["flavour"] for r in at}}
    for row in at:
        first = best[row["flavour"]]
        yield row | (runs.behind(row["method"], first["method"]).get(row["flavour"], {}) if first else {})


def conclusion(ranked: Mapping[float, Sequence[Row]]) -> tuple[str, list[str]]:
    """Which method is fastest at each temperature, whether the ranking changes between the lowest and the highest, and
    which methods are slower than vanilla; from the rows of each temperature, fastest first."""
    degrees = sorted(degree for degree, rows in ranked.items() if rows)
    cold, warm = degrees[0], degrees[-1]

    def named(rows: Iterable[Row]) -> list[str]:  # no commas: they are listed
        return [re.sub(r", (.*)", r" (\1)", row["short"]) for row in rows]

    def best(degree: float) -> str:
        row, *others = ranked[degree]
        if row["speedup"] <= 1:
            reached = f"the best is {row['short']} with {draw.measured(row)}"
            return f"At temperature {degree:g} no method beats vanilla; {reached}."
        close = draw.shortlist(named(draw.rivals(row, others)))
        close = f"; {close} may be as fast" if close else ""
        return f"At temperature {degree:g} {row['short']} is fastest, {speedup(row['speedup'])}{close}."

    if warm == cold:
        return best(cold), ["Only one temperature was measured; the ranking may differ at another."]
    cool, hot = ({row["method"]: row for row in ranked[degree]} for degree in (cold, warm))
    (leader, first), order = next(iter(cool.items())), list(hot)
    notes = ["The same method measured highest at both temperatures."] if leader == order[0] else []
    if leader in order[1:] and hot[leader] not in draw.rivals(hot[order[0]], hot.values()):
        rank = order.index(leader)
        notes = [
            f"The ranking changes with the temperature: {first['short']} falls from first to place {rank + 1} of "
            f"{len(order)}, {draw.measured(first)} to {draw.measured(hot[leader])}."
        ]
    for tree, window in (("ddtree", "dflash"), ("markov_tree", "markov"), ("eagle2", "eagle")):
        if not {tree, window} <= cool.keys() & hot.keys():
            continue
        (a, b), (c, d) = ([rows[name] for name in (tree, window)] for rows in (cool, hot))
        if a["tau"] > b["tau"] and c["tau"] < d["tau"]:
            notes.append(
                f"At temperature {cold:g} the tree of {a['short']} accepts more than the window of {b['short']} (τ "
                f"{ratio(a['tau'])} against {ratio(b['tau'])}); at {warm:g} it accepts less ({ratio(c['tau'])} against "
                f"{ratio(d['tau'])}): a tree must contain the token that the target draws, while a window is tested "
                "with p/q."
            )
    if losing := named(row for row in ranked[warm] if draw.slower(row)):
        notes.append(f"Slower than vanilla at temperature {warm:g}: {draw.listed(losing)}.")
    for degree in dict.fromkeys((cold, warm)):
        if even := named(row for row in ranked[degree] if (row.get("low") or 2) <= 1 <= (row.get("high") or 0)):
            notes.append(
                f"Neither clearly faster nor slower than vanilla at temperature {degree:g}: {draw.listed(even)}."
            )
    return f"{best(cold)} {best(warm)}", notes


# Figures.


class Look(draw.Style, frozen=True):
    """How a method is drawn here."""

    glyph: str  # the mark as a character
    hatch: str
    visible: Any = True


VANILLA = Look("@target", "line-ns", "dot", "Vanilla", draw.GLYPHS["line-ns"], "")


def _looks(ranked: Mapping[float, Sequence[Row]]) -> dict[str, Look]:
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
        return ["the target itself", "Vanilla decoding: one target pass per token."]
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


def _board(rows: Sequence[Row], looks: Mapping[str, Look], when: dict[str, str]) -> Board:
    busy = any(row["method"] == BASELINE and (row.get("waiting") or 0) >= CROWDED for row in rows)
    entries = []
    for row in rows:
        look, alone = looks.get(row["label"], VANILLA), "too few prompts of this kind for an interval"
        measured = alone if row.get("low") is None else draw.spread(row)
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


def _plane(rows: Sequence[Row], looks: Mapping[str, Look], when: dict[str, str]) -> Figure:
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


def _positions(rows: Sequence[Row], looks: Mapping[str, Look], when: dict[str, str]) -> Figure:
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


def _lengths(rows: Sequence[Row], looks: Mapping[str, Look], when: dict[str, str]) -> Figure:
    """Histogram of accepted lengths."""
    data = []
    for row in rows:
        look, shares = looks[row["label"]], draw.accepted_lengths(row) if row.get("tested_at") else []
        if look.visible is not True or not shares:
            continue
        words = [
            f"{m} accepted: {draw.percent(share)} of the drafts"
            + (f"<br>{m} or more (joint rate): {draw.percent(sum(shares[m:]))}" if m else "")
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


def _by_kind(rows: Sequence[Row], looks: Mapping[str, Look], flavours: Sequence[str]) -> Figure:
    """Speed-up by temperature and kind of text, a bar for each method."""
    data = []
    for label, look in looks.items():
        timed = [row for row in rows if row["label"] == label and row["flavour"] in flavours and row.get("speedup")]
        hovers = [f"<b>{label}</b>, {row['words']}<br>{row['flavour']}: {draw.timed(row)}" for row in timed]
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
