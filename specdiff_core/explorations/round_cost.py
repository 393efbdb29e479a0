"""What would it take? A round pays if it brings more tokens than it costs, in passes of vanilla (arXiv 2211.17192,
theorem 3.8). Measures what passes cost here, and where every method stands; the page's sandbox adds a drafter that the
visitor makes up (``app/static/state/exploration.js``).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, AtTemperature, Report, Step, Stopped
from specdiff_core.explorations.figures import FROM_ZERO, Figure, axes, ratio, spread, styles, times
from specdiff_core.explorations.runs import RUN_COLUMNS, Runs
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.schema.events import Verified
from specdiff_core.schema.methods import BASELINE, Method, methods_of
from specdiff_core.schema.metrics import reached

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

ROWS = (1, 2, 3, 4, 5, 7, 9, 13, 17, 21, 25, 32)
"""Rows of the passes of the target that are timed."""
WINDOWS = (1, 4, 8, 16)
"""Windows whose drafter passes are timed."""
REPEATS = 3
"""Of each pass in a sitting; the target's passes have three sittings, those of each drafter two."""


class RoundCost(AtTemperature, frozen=True, kw_only=True):
    """The cost of passes by their rows, and of every method τ, the cost of a round, and how far drafts survive."""

    name: ClassVar = "what-it-takes"
    title: ClassVar = "What would it take?"
    question: ClassVar = "How good, or how cheap, must a drafter be before it pays?"
    columns: ClassVar = RUN_COLUMNS | {
        "method": "name of the method",
        "label": "what it is called",
        "drafter": "what drafts",
        "gamma": "γ",
        "steps": "T",
        "nodes": "B: nodes of a tree",
        "drafts": "K: drafts",
        "cost": "τ over the speed-up: what a round costs, in tokens of vanilla, prefill shared out",
        "draft_cost": "drafting, in bare passes of the target over one row",
        "verify_cost": "the target’s pass and the tests, in bare passes of the target over one row",
    }

    def methods(self) -> dict[BenchSetting, Method]:
        """What is measured besides vanilla."""
        drafted = [method for method in methods_of(self.pair) if method.name != BASELINE]
        return {BenchSetting.of_config(method.config(self.base)): method for method in drafted}

    @property
    def drafters(self) -> tuple[str, ...]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        return tuple(sorted({setting.drafter for setting in self.methods()}))

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        from specdiff_core.measure.passes import PassTimes

        prompts, skipped = self.prompts(engine)
        methods = {setting.key: (setting, method) for setting, method in self.methods().items()}
        configs = {key: setting.config(self.base) for key, (setting, _) in methods.items()}
        runs = Runs(engine, self.base, configs, prompts, stopped)
        sittings = ["none"] * 3 + [name for name in self.drafters for _ in range(2)]
        times: dict[str, PassTimes] = {}
        survived: dict[str, Counter[int]] = {key: Counter() for key in methods}

        def answer() -> Answer:
            widths = times["none"].costs
            one = widths.target[1]
            rows = [_row(*found, runs, one) for found in methods.values()]
            lengths = {methods[key][1].name: sorted(counts.items()) for key, counts in survived.items() if counts}
            facts = {
                "skipped": skipped,
                "curve": widths.plain()["target"],
                "context": widths.context,
                "drafts": {name: timed.costs.plain()["draft"] for name, timed in times.items() if name != "none"},
                "lengths": lengths,
                **runs.facts(),
            }
            return Answer(rows=rows, facts=facts, races=runs.races)

        timed, total = 0, len(sittings) * REPEATS + len(methods) * len(prompts)
        for name in sittings:
            windows = WINDOWS if name != "none" else [width - 1 for width in ROWS if width > 1]
            own = times.setdefault(name, PassTimes(engine, name, windows))
            for _ in runs.bare_passes(own, prompts[0], REPEATS):
                timed += 1
                yield Step(timed, total, f"bare passes: {name}", answer)
            if stopped():
                return
        for done, _, key in runs.fill():
            setting, method = methods[key]
            survived[key].update(_survivors(runs, setting))
            yield Step(timed + done, total, method.label, answer)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        best = draw.fastest(rows)
        slow = [row["label"] for row in rows if row.get("speedup") and row["speedup"] < 1]
        return Report(
            answer=""
            if best is None
            else f"A round pays where it yields more tokens than it costs: {best['label']} yields "
            f"{ratio(best['tau'])} tokens "
            f"for the time of {ratio(best['cost'])} vanilla tokens, {times(best['speedup'])}.",
            notes=[
                *([f"Slower than vanilla here: {draw.listed(slow)}."] if slow else []),
                "The formula takes one α for all positions and all rounds. Real drafts succeed and fail in streaks: "
                "the "
                "token after an accepted one is easier than the token after a rejected one, so the measured curve "
                "leaves "
                "the dotted one.",
            ],
            figures=[_plane(rows), _passes(rows, facts), _lengths(rows, facts)],
            titles={row["race"]: row["label"] for row in rows if row.get("race")},
        )


def _plane(rows: list[dict[str, Any]]) -> Figure:
    """Methods by the yield and the cost of a round, with lines of equal speed-up; the page adds the sandbox."""
    known = [row for row in rows if row.get("speedup")]
    right, top = (1.08 * max([least, *(row[field] for row in known)]) for least, field in ((3, "cost"), (4, "tau")))
    look = styles(row["method"] for row in known)
    data: list[dict[str, Any]] = []
    labels = []
    for speed in (1, 1.5, 2, 3, 4, 6):
        if speed * 0.8 < top:
            x, y = min(right, top / speed), min(top, right * speed)
            width, dash = (1.6, "dash") if speed == 1 else (1.0, "solid")
            line = {"color": "@residual" if speed == 1 else "@line", "width": width, "dash": dash}
            data.append(
                {
                    "type": "scatter",
                    "mode": "lines",
                    "x": [0, x],
                    "y": [0, y],
                    "hoverinfo": "skip",
                    "showlegend": False,
                    "line": line,
                }
            )
            labels.append(
                {
                    "x": x,
                    "y": y,
                    "text": f"{speed:g}×",
                    "showarrow": False,
                    "xanchor": "right",
                    "yanchor": "top",
                    "font": {"size": 11, "color": "@muted"},
                }
            )
    for row in known:
        own = look[row["method"]]
        round = f"{1000 * row['seconds_per_round']:.1f} ms a round"
        words = f"{row['label']}: {times(row['speedup'])}<br>{spread(row)}<br>{round}"
        data.append(
            {
                "type": "scatter",
                "mode": "markers",
                "name": own.label,
                "x": [row["cost"]],
                "y": [row["tau"]],
                "customdata": [[row["race"], words]],
                "marker": {"size": 10, "symbol": own.mark, "color": own.colour},
                "hovertemplate": "%{customdata[1]}<br>τ = %{y:.2f}, cost %{x:.2f}<extra></extra>",
            }
        )
    return Figure(
        key="plane",
        title="What a round yields and what it costs",
        wide=True,
        data=data,
        hint="measured methods, and the sandbox ★ on the page; lines of equal speed-up, dashed: 1×",
        opens="a mark opens its race",
        layout=axes(
            "cost of a round, in vanilla passes",
            "τ, tokens per round",
            xaxis={"range": [0, right]},
            yaxis={"range": [0, top]},
            annotations=labels,
            showlegend=True,
        ),
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
        title="What a pass costs here",
        hint="bare passes, medians",
        data=[
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": name,
                "x": [at for at, _ in curve],
                "y": [1000 * seconds for _, seconds in curve],
                "line": {"color": colour, "width": 1.8, "dash": dash},
                "marker": {"symbol": mark, "size": 7, "color": colour},
                "hovertemplate": f"{name}, %{{x}}: %{{y:.2f}} ms<extra></extra>",
            }
            for name, colour, mark, dash, curve in curves
        ],
        layout=axes(
            "rows of the target’s pass, γ of a drafter’s", "milliseconds of one pass", yaxis=FROM_ZERO, showlegend=True
        ),
    )


def _lengths(rows: list[dict[str, Any]], facts: dict[str, Any]) -> Figure:
    """How many tokens of a draft are accepted, against what one α for all positions would give."""
    fits = [
        row
        for row in rows
        if facts["lengths"].get(row["method"])
        and row.get("alpha")
        and row["gamma"] >= 4
        and not row["nodes"]
        and row["drafts"] == 1
    ]
    data = []
    for row in sorted(fits, key=lambda row: (-row["gamma"], -row["tau"]))[:3]:
        counts, look = facts["lengths"][row["method"]], styles([row["method"]])[row["method"]]
        rounds, x = sum(count for _, count in counts), list(range(row["gamma"] + 1))
        data += [
            {
                "type": "scatter",
                "mode": "lines+markers",
                "name": f"{look.label}, measured",
                "x": x,
                "y": [sum(count for kept, count in counts if kept >= m) / rounds for m in x],
                "line": {"color": look.colour, "width": 2},
                "marker": {"symbol": look.mark, "size": 7, "color": look.colour},
                "hovertemplate": f"{look.label}: %{{y:.2f}} of {rounds} rounds accepted %{{x}} or more<extra></extra>",
            },
            {
                "type": "scatter",
                "mode": "lines",
                "name": f"α^m, α = {ratio(row['alpha'])}",
                "x": x,
                "y": [row["alpha"] ** m for m in x],
                "line": {"color": look.colour, "width": 1.4, "dash": "dot"},
                "hovertemplate": "one α for all: %{y:.2f}<extra></extra>",
            },
        ]
    return Figure(
        key="lengths",
        title="How many drafted tokens are accepted",
        data=data,
        hint="measured, and with one α for all positions (dotted)",
        layout=axes(
            "m, tokens of the draft", "rounds that accepted m or more", yaxis={"range": [0, 1.04]}, showlegend=True
        ),
        empty="Lines for windows of four tokens and more, as soon as they are measured.",
    )


def _survivors(runs: Runs, setting: BenchSetting) -> Iterator[int]:
    """How many drafted tokens each round of the last run kept, of those rounds whose window was whole."""
    for event in runs.events:
        if isinstance(event, Verified):
            tested = reached(event.tests)
            if tested and (not tested[-1] or len(tested) >= setting.gamma):
                yield event.accepted


def _row(setting: BenchSetting, method: Method, runs: Runs, one: float) -> dict[str, Any]:
    """A method with the cost of its round, in bare passes of the target over one row."""
    settings: dict[str, Any] = {"method": method.name, "label": method.label, "drafter": setting.drafter}
    settings |= {
        "gamma": setting.gamma,
        "steps": setting.steps,
        "nodes": setting.tree_nodes,
        "drafts": setting.num_drafts,
    }
    row = settings | runs.row(setting.key)
    if "speedup" in row:
        row["cost"] = row["tau"] / row["speedup"]
        row["draft_cost"], row["verify_cost"] = row["draft_seconds"] / one, row["verify_seconds"] / one
    return row
