"""What would it take? A round pays if it yields more tokens than it costs in vanilla passes (arXiv
2211.17192, theorem 3.8). Measures the cost of passes on this machine and every method; the page's
sandbox adds a hypothetical drafter (``app/static/state/sandbox.js``).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, ClassVar

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, AtTemperature, Report, Step
from specdiff_core.explorations.figures import FROM_ZERO, Figure, Slider, axes, styles
from specdiff_core.explorations.measured import RUN_COLUMNS, Runs, fastest
from specdiff_core.explorations.prediction import break_even, joint_rates
from specdiff_core.explorations.wording import Row, interval_words, listed, ratio, slower, speedup_words, with_interval
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.methods import BASELINE, Method, find_method, methods_of
from specdiff_core.schema.pairs import NONE

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

ROWS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 21, 25, 32, 48, 64, 96, 128)
"""Rows of the timed target passes."""
PEOPLE = [1, 2, 4, 8, 16, 32, 64]
"""Marks of the axis of people served at once."""
WINDOWS = (1, 4, 8, 16)
"""Windows of the timed drafter passes."""
REPEATS = 3
"""Repeats of each pass in a sitting: before, midway through (the target only) and after the runs, so that a slow
moment of the machine does not fall on the passes alone."""


class WhatItTakes(AtTemperature, frozen=True, kw_only=True):
    """The cost of passes by their rows; τ, the cost of a round and the accepted tokens of every method."""

    name: ClassVar = "what-it-takes"
    rank: ClassVar = 2
    title: ClassVar = "What would it take?"
    question: ClassVar = "How accurate, or how cheap, must a drafter be to pay off?"
    takes: ClassVar = 40
    columns: ClassVar = RUN_COLUMNS | {
        "method": "name of the method",
        "label": "its label",
        "drafter": "its drafter",
        "gamma": "γ",
        "steps": "T",
        "tree_nodes": "B: nodes of a tree",
        "num_drafts": "K: drafts",
        "passes": "drafter passes per round",
        "cost": "τ over the speed-up: the cost of a round in vanilla tokens, prefill distributed over them",
        "draft_cost": "drafting, in bare target passes over one row",
        "verify_cost": "the target’s pass and the tests, in bare target passes over one row",
    }

    @property
    def methods(self) -> dict[str, tuple[Method, BenchSetting]]:
        """The methods to measure besides vanilla, by name; methods with the same settings once."""
        drafted = [method for method in methods_of(self.pair) if method.name != BASELINE]
        settings = {BenchSetting.of_config(method.config(self.base)): method for method in drafted}
        return {method.name: (method, setting) for setting, method in settings.items()}

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        from specdiff_core.measure.passes import PassTimes

        prompts, skipped = self.prompts(engine)
        methods = self.methods
        configs = {name: setting.config(self.base) for name, (_, setting) in methods.items()}
        runs = Runs(engine, self.base, configs, prompts, stop)
        everyone = [NONE.name, *sorted(self.drafters)]
        times: dict[str, PassTimes] = {}

        def answer() -> Answer:
            widths = times[NONE.name].costs
            one_row = widths.target[1]
            rows = runs.compared([_row(*entry, runs, one_row) for entry in methods.values()])
            facts = {
                "skipped": skipped,
                "curve": widths.plain()["target"],
                "drafts": {name: timed.costs.plain()["draft"] for name, timed in times.items() if name != NONE.name},
                "threads": runs.threads,
            }
            return Answer(rows=rows, facts=facts, runs=runs.prompt_rows(), races=runs.traces)

        decoded = len(methods) * len(prompts)
        steps, total = count(1), decoded + (2 * len(everyone) + 1) * REPEATS

        def sitting(names: Sequence[str]) -> Iterator[Step]:
            for name in names:
                windows = WINDOWS if name != NONE.name else [width - 1 for width in ROWS if width > 1]
                timer = times.setdefault(name, PassTimes(engine, name, windows))
                for _ in timer.rounds(prompts[0].prompt, REPEATS, stop, runs.threads):
                    yield Step(next(steps), total, f"bare passes: {name}", answer)

        yield from sitting(everyone)
        if stop.is_set():
            return
        for done, _, run in runs.fill():
            yield Step(next(steps), total, methods[run.lane][0].label, answer)
            if done == decoded // 2:
                yield from sitting([NONE.name])
        yield from sitting(everyone)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        best = fastest(rows)
        slow = [row["label"] for row in rows if row.get("speedup") and slower(row)]
        return Report(
            answer=" ".join([*_break_even(rows), *_fastest(best)]),
            notes=[
                *([f"Slower than vanilla: {listed(slow)}."] if slow else []),
                "The formula assumes one α for all positions and rounds, but real drafts come in streaks: a token is "
                "easier to guess after an accepted one. So the measured curve differs from the dotted one.",
            ],
            figures=[_plane(rows), *_serving(rows, facts), _passes(rows, facts), _lengths(rows)],
            titles={row["race"]: row["label"] for row in rows if row.get("race")},
        )


def _break_even(rows: Sequence[Row]) -> Iterator[str]:
    """From which acceptance, and up to which cost, the fastest single window pays."""
    window = fastest(row for row in rows if _one_window(row) and row.get("alpha") and row["gamma"] > 1)
    if window and (alpha := break_even(window["cost"], window["gamma"])) is not None:
        yield (
            f"If a round with γ {window['gamma']} costs {ratio(window['cost'])} vanilla tokens, as with "
            f"{window['label']} here (drafting: {ratio(window['draft_cost'])} target passes), drafting pays from an "
            f"acceptance rate α of {ratio(alpha)} on; it has {ratio(window['alpha'])}. With its τ of "
            f"{ratio(window['tau'])}, drafting pays as long as a round costs fewer vanilla tokens than that."
        )


def _fastest(best: Row | None) -> Iterator[str]:
    if best:
        yield (
            f"The fastest, {best['label']}, yields {ratio(best['tau'])} tokens for {ratio(best['cost'])}: "
            f"{speedup_words(best)} ({interval_words(best)})."
        )


def _plane(rows: list[dict[str, Any]]) -> Figure:
    """Methods by tokens and cost of a round; the page adds the sandbox."""
    measured = [row for row in rows if row.get("speedup")]
    look = styles(row["method"] for row in measured)

    def words(row: Row) -> str:
        round = f"{1000 * row['seconds_per_round']:.1f} ms a round"
        return f"{row['label']}: {with_interval(row)}<br>{round}"

    hint = "ring: the page’s sandbox, in bare vanilla passes; lines of equal speed-up, dashed: 1×"
    return draw.plane(measured, lambda row: look[row["method"]], words, key="plane", wide=True, hint=hint)


def _serving(rows: list[dict[str, Any]], facts: dict[str, Any]) -> Iterator[Figure]:
    """Speed-up by people served at once, which the page predicts for the fastest method with a single window."""
    single = [row for row in rows if row["gamma"] > 1 and _one_window(row)]
    if (best := fastest(row for row in single if facts["drafts"].get(row["drafter"]))) is None:
        return
    most = facts["curve"][-1][0] // 2  # a round needs at least two rows per person
    yield Figure(
        key="serving",
        title=f"Serving load: does {best['label']} still pay?",
        hint=f"predicted from target passes of up to {facts['curve'][-1][0]} rows, timed in these runs; lines end "
        "there; drafter passes over several texts are assumed to grow as the target’s do",
        formula="serving",
        race=best["race"],
        sliders=[Slider("people", "people served at once", "Each adds a row to vanilla’s pass", 1, most, 1, 1)],
        layout=draw.speeds("people served at once", xaxis={"type": "log", "tickvals": PEOPLE}, showlegend=True),
    )


def _passes(rows: list[dict[str, Any]], facts: dict[str, Any]) -> Figure:
    """Milliseconds of bare passes: the target's by rows, those of drafters by γ."""
    user = {row["drafter"]: row["method"] for row in reversed(rows)}
    curves = [("target, by rows", "@target", "circle", "solid", facts["curve"])]
    for i, (name, curve) in enumerate(facts["drafts"].items()):
        look = styles([user.get(name, name)])[user.get(name, name)]
        curves.append((f"{name}, by γ", look.colour, look.mark, draw.DASHES[i % len(draw.DASHES)], curve))
    return Figure(
        key="passes",
        title="Cost of a pass",
        hint="bare passes, medians",
        data=[
            draw.trace(
                name,
                [at for at, _ in curve],
                [1000 * seconds for _, seconds in curve],
                colour,
                dash=dash,
                mark=mark,
                hover=f"{name}, %{{x}}: %{{y:.2f}} ms",
            )
            for name, colour, mark, dash, curve in curves
        ],
        layout=axes("size of the pass", "milliseconds of one pass", yaxis=FROM_ZERO, showlegend=True),
    )


def _lengths(rows: list[dict[str, Any]]) -> Figure:
    """Share of drafts with m or more accepted tokens, Π_{j≤m} α_j, and the same with one α for all positions."""
    fits = [row for row in rows if row.get("alpha") and row["gamma"] >= 4 and _one_window(row)]
    data = []
    for row in sorted(fits, key=lambda row: (-row["gamma"], -row["tau"]))[:3]:
        look, x = styles([row["method"]])[row["method"]], list(range(row["gamma"] + 1))
        shares = joint_rates(row["alpha_at"])
        hover = f"{look.label}: %{{y:.2f}} of the drafts have %{{x}} or more accepted"
        name, geometric = f"{look.label}, measured", [row["alpha"] ** m for m in x]
        data.append(draw.trace(name, x, shares, look.colour, dash="solid", mark=look.mark, hover=hover))
        name, hover = f"α<sup>m</sup>, α = {ratio(row['alpha'])}", "one α for all: %{y:.2f}"
        data.append(draw.trace(name, x, geometric, look.colour, dash="dot", width=1.4, hover=hover))
    return Figure(
        key="lengths",
        title="How many drafted tokens are accepted",
        data=data,
        hint="measured, and with one α for all positions (dotted)",
        layout=axes(
            "m, tokens of the draft", "drafts with m or more accepted", yaxis={"range": [0, 1.04]}, showlegend=True
        ),
        empty="Lines appear when windows of four or more tokens have been measured.",
    )


def _one_window(row: Row) -> bool:
    """Whether all its drafts have one length."""
    return not row["tree_nodes"] and row["num_drafts"] == 1 and not find_method(row["method"]).settings.get("auto")


def _row(method: Method, setting: BenchSetting, runs: Runs, one_row: float) -> dict[str, Any]:
    """A method's row, with the cost of its round in bare target passes over one row."""
    settings = {name: getattr(setting, name) for name in ("drafter", "gamma", "steps", "tree_nodes", "num_drafts")}
    row = {"method": method.name, "label": method.label, **settings, **runs.row(method.name)}
    if "speedup" in row:
        total = runs.total(method.name)
        row["cost"], row["passes"] = row["tau"] / row["speedup"], total.nfe / total.rounds
        row["draft_cost"], row["verify_cost"] = row["draft_seconds"] / one_row, row["verify_seconds"] / one_row
    return row
