"""The γ × T map (SpecDiff, arXiv 2408.05636, Figure 3, and its second open question): which window
pays, in how many steps, and how well does a controller choose both?

Vanilla runs again before every few cells, on the same prompt, so that drift of the machine affects
both. Cells are measured coarse to fine, so the first few already show the shape.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec.structs import replace

from specdiff_core.explorations import figures as draw
from specdiff_core.explorations.base import Answer, AtTemperature, Report, Step
from specdiff_core.explorations.fields import WINDOW_DRAFTERS, labels
from specdiff_core.explorations.figures import FROM_ZERO, Figure, Slider, axes
from specdiff_core.explorations.measured import RUN_COLUMNS, Runs, fastest, rivals
from specdiff_core.explorations.papers import BY_STEPS, beside
from specdiff_core.explorations.prediction import agreement, predicted
from specdiff_core.explorations.wording import (
    Row,
    percent,
    ratio,
    shortlist,
    slower,
    speedup,
    speedup_words,
    with_interval,
)
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.measure.prompts import Prompt
from specdiff_core.schema.decoder import Stop
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import DecodeConfig, Order, RevealOrder, cut_steps

if TYPE_CHECKING:
    from specdiff_core.engine import Engine
    from specdiff_core.measure.passes import PassCosts

Side = Annotated[int, ask("", low=1, high=32)]
REPEATS = 4
"""Repeats of each bare pass before the runs of each prompt."""


class WindowMap(AtTemperature, frozen=True, kw_only=True):
    """Speed-up over vanilla for every window γ and number of denoising steps T ≤ γ, measured and predicted, and a
    controller's, with its regret: 1 − its speed-up over that of the best fixed setting."""

    name: ClassVar = "window-map"
    rank: ClassVar = 1
    title: ClassVar = "γ × T map"
    question: ClassVar = "Which window pays off, and with how many denoising steps?"
    takes: ClassVar = 150
    windows: ClassVar = True
    scales: ClassVar = ("gammas", "steps", "flavours", "per_flavour", "tokens")
    columns: ClassVar = RUN_COLUMNS | {
        "gamma": "γ; for the controller, the largest it may choose",
        "steps": "T",
        "auto": "whether a controller chooses γ and T",
        "race": "the cell, as `bench` names it",
        "predicted_tau": "E[τ] = 1 + Σ_m Π_{j≤m} α_j",
        "geometric_tau": "(1 − α^{γ+1}) / (1 − α), with one α for all positions",
        "predicted": "predicted speed-up",
    }

    drafter: Annotated[
        str,
        ask(
            "Drafter",
            "T matters only for denoisers; a model that drafts token by token makes γ passes.",
            enum=WINDOW_DRAFTERS,
            of="drafters",
        ),
    ] = "masked"
    gammas: Annotated[
        tuple[Side, ...],
        ask("Windows γ", "Tokens drafted per round.", least=1, most=20),
    ] = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16)
    steps: Annotated[
        tuple[Side, ...],
        ask("Steps T", "Drafter passes per window.", least=1, most=20),
    ] = (1, 2, 3, 4, 5, 6, 8, 10)
    order: Order = RevealOrder.LEFT_TO_RIGHT
    controller: Annotated[
        bool,
        ask("Controller", "Also measure a controller that chooses γ and T round by round."),
    ] = True

    @property
    def base(self) -> DecodeConfig:
        return DecodeConfig.parse({**super().base.to_dict(), "order": self.order})

    def cells(self) -> list[BenchSetting]:
        """All cells with T ≤ γ, coarse to fine, then the controller.

        Raises:
            ConfigError: there is no such cell.
        """
        gammas, steps = sorted(set(self.gammas)), sorted(set(self.steps))
        if find_pair(self.pair).drafter(self.drafter).drafting == "sequential":
            cells = [BenchSetting(self.drafter, gamma, gamma) for gamma in gammas]
        else:
            all_cells = [
                BenchSetting(self.drafter, gamma, T) for gamma in gammas for T in steps if cut_steps(T, gamma) == T
            ]
            cells = [cell for cell in all_cells if cell.effective(self.base)[1]]
        if not cells:
            words = f"There is nothing to measure: {self.drafter} supports none of these windows and steps."
            raise ConfigError(words, field="steps", hint="Choose T at most γ, and γ at most the drafter's window.")
        rank = {
            (gamma, step): max(_level(i, len(gammas)), _level(j, len(steps)))
            for i, gamma in enumerate(gammas)
            for j, step in enumerate(steps)
        }
        widest = max(cells, key=lambda cell: (cell.gamma, cell.steps))
        cells.sort(key=lambda cell: rank.get((cell.gamma, cell.steps), 0))
        return [*cells, *([replace(widest, auto=True)] if self.controller else [])]

    def explore(self, engine: Engine, stop: Stop) -> Iterator[Step]:
        from specdiff_core.measure.passes import PassTimes

        cells = {cell.key: cell for cell in self.cells()}
        prompts, skipped = self.prompts(engine)
        first = prompts[0].flavour

        def trace_name(key: str, prompt: Prompt) -> str:  # one for each kind of text
            return key if prompt.flavour == first else f"{key}@{prompt.flavour}"

        configs = {key: cell.config(self.base) for key, cell in cells.items()}
        runs = Runs(engine, self.base, configs, prompts, stop, trace_name=trace_name)
        times = PassTimes(engine, self.drafter, sorted({cell.gamma for cell in cells.values()}))
        ordered = sorted(cells.values(), key=lambda cell: (cell.auto, cell.steps, cell.gamma))

        def answer() -> Answer:
            curve = times.costs
            facts: dict[str, Any] = {"threads": runs.threads, "skipped": skipped}
            facts |= {"curve": curve.plain()} if curve.draft else {}
            rows = [_row(cell, runs, curve) for cell in ordered]
            rows = runs.compared(rows, [row for row in rows if not row["auto"]])
            return Answer(rows=rows, facts=facts, runs=runs.prompt_rows(), races=runs.traces)

        total = (REPEATS + len(cells)) * len(prompts)

        def passes(turn: int) -> Iterator[Step]:
            timed = turn * (REPEATS + len(cells))
            rounds = times.rounds(prompts[turn].prompt, REPEATS, stop, runs.threads)
            for done, _ in enumerate(rounds, timed + 1):
                yield Step(done, total, f"bare passes: {self.drafter}", answer)

        yield from passes(0)
        for done, _, run in runs.fill():
            turn = run.turn + 1
            yield Step(turn * REPEATS + done, total, cells[run.lane].name, answer)
            if done == turn * len(cells) and turn < len(prompts):
                yield from passes(turn)

    def report(self, rows: list[dict[str, Any]], facts: dict[str, Any]) -> Report:
        cells = [row for row in rows if not row.get("auto")]
        best, controller = fastest(cells), next((row for row in rows if row.get("auto") and row.get("speedup")), None)
        notes, agree = [], agreement(rows)
        pair, drafter = labels(self.pair, self.drafter)
        if best and best["speedup"] < 1:
            all_slower = all(slower(row) for row in cells if row.get("speedup"))
            words = "every cell is slower than vanilla" if all_slower else "no cell is faster than vanilla"
            notes.append(f"No window pays off: {words}.")
        if best and controller:
            regret, ends = 1 - 1 / controller.get("behind", best["speedup"] / controller["speedup"]), ""
            if controller.get("behind_low"):  # over a few prompts there is no interval
                low, high = 1 - 1 / controller["behind_low"], 1 - 1 / controller["behind_high"]
                ends = f" (95 % interval {100 * low:.0f} to {100 * high:.0f} %, on the same prompts)"
            notes.append(
                f"The controller reaches {speedup_words(controller)} without knowing the best setting: a regret of "
                f"{100 * regret:.1f} %{ends} against the best of {sum(bool(row.get('speedup')) for row in cells)} "
                "measured cells, which chance favours."
                + (" It beats every fixed setting that was measured." if regret < 0 else "")
            )
        if agree["cells"]:
            notes.append(
                "The prediction is within 10 % of the measurement in "
                f"{percent(agree['within_10_percent'])} of {agree['cells']} cells. It takes the "
                "tokens per round that follow from the acceptance at each position, and the time of T passes of the "
                "drafter and one of the target, without the work between them. The acceptance comes from the same "
                "runs, so this tests the formula and the costs, not a forecast of acceptance."
            )
        return Report(
            answer=""
            if best is None
            else f"{pair}, {drafter}, temperature {self.temperature:g}: the fastest window "
            f"measured is γ {best['gamma']} with T {best['steps']}, {speedup_words(best)} over vanilla, with "
            f"τ = {ratio(best['tau'])} tokens per round." + _may_be_as_fast(best, cells),
            notes=notes,
            figures=[*_maps(cells, best, controller), *_by_gamma(cells, facts)],
            titles={
                row["race"]: f"{drafter} "
                + ("controller" if row.get("auto") else f"γ {row['gamma']}, T {row['steps']}")
                for row in rows
                if row.get("race")
            },
        )


def _may_be_as_fast(best: Row, cells: Sequence[Row]) -> str:
    """A sentence on the other cells that may be as fast as the best one."""
    serial = all(row["steps"] == row["gamma"] for row in cells)  # a pass for each token
    others = [
        f"γ {row['gamma']}" + ("" if serial or row["steps"] == best["steps"] else f" with T {row['steps']}")
        for row in rivals(best, cells)
    ]
    if not others:
        return ""
    return f" {shortlist(others)} may be as fast: the interval of the ratio on the same prompts contains 1."


def _maps(cells: Sequence[Row], best: Row | None, controller: Row | None) -> Iterator[Figure]:
    """The measured and the predicted map, and slices with the controller as a line."""
    sides = ("gamma", "γ, tokens drafted per round"), ("steps", "T, denoising steps")

    def heat(field: str, words: Any, **fields: Any) -> Figure:
        named = lambda row: f"γ {row['gamma']}, T {row['steps']}<br>{words(row)}"
        return draw.heat(cells, *sides, field, named, **fields)

    def measured(row: Mapping[str, Any]) -> str:
        guess = f"<br>predicted {speedup(row['predicted'])}" if "predicted" in row else ""
        return (
            f"measured speed-up {with_interval(row)}<br>τ = {ratio(row['tau'])}, "
            f"α = {ratio(row['alpha'])}<br>{1000 * row['seconds_per_round']:.1f} ms a round{guess}"
        )

    yield heat(
        "speedup",
        measured,
        star=best,
        key="measured",
        title="Measured speed-up over vanilla",
        hint="★: the best cell; T ≤ γ",
        opens="a cell lists its races",
        wide=True,
        empty="No cell has been measured yet.",
    )
    if any("predicted" in row for row in cells):
        label = lambda row: f"predicted {speedup(row['predicted'])}, measured {speedup(row['speedup'])}"
        hint = "from the acceptance measured in the same runs, over bare passes; not a measurement"
        yield heat("predicted", label, key="predicted", title="Predicted", hint=hint)
    lines = draw.lines(
        cells,
        "steps",
        "gamma",
        "speedup",
        lambda row: f"T {row['steps']}, γ {row['gamma']}: {with_interval(row)}",
        name="T {}",
        whiskers=True,
    )
    if controller and lines:
        ends = [min(row["gamma"] for row in cells), max(row["gamma"] for row in cells)]
        hover = f"controller: {with_interval(controller)}"
        y, words = [controller["speedup"]] * 2, [[controller.get("race"), hover]] * 2
        lines.append(draw.trace("controller", ends, y, "@accent", dash="longdash", width=2.4, words=words))
    yield Figure(
        key="slices",
        title="Slices: speed-up by γ",
        wide=True,
        data=lines,
        hint="one line for each T; whiskers: 95 % interval over prompts; dotted: vanilla",
        opens="a point opens its race",
        layout=draw.speeds("γ, tokens drafted per round", showlegend=True),
        empty="A line for each T appears once its cells are measured.",
    )
    yield from _by_steps(cells)


def _by_steps(cells: Sequence[Row]) -> Iterator[Figure]:
    """Speed-up by T, each at its fastest γ."""
    by_steps = [fastest(row for row in cells if row["steps"] == T) for T in sorted({row["steps"] for row in cells})]
    points = [row for row in by_steps if row]
    if len(points) < 2 or all(row["steps"] == row["gamma"] for row in points):  # a pass for each token
        return
    yield Figure(
        key="steps",
        title="Speed-up by T, at its fastest γ",
        hint="the fastest of several γ, which chance favours; click a published curve to lay it over",
        **beside(BY_STEPS, points, "steps", lambda row: f"T {row['steps']}, γ {row['gamma']}"),
        layout=draw.speeds("T, denoising steps", showlegend=True),
    )


def _by_gamma(cells: Sequence[Row], facts: Mapping[str, Any]) -> Iterator[Figure]:
    """Tokens per round and speed-up by γ, which the page predicts for the widest window in the fewest steps."""
    measured = [row for row in cells if len(row.get("alpha_at", ())) > 1]
    if not measured or "curve" not in facts:
        return
    widest = max(measured, key=lambda row: (row["gamma"], -row["steps"]))
    yield Figure(
        key="block",
        title="Drag γ over one drafted block",
        hint="lines: predicted from measured acceptance and bare passes; open marks: measured; rings: this γ; all with "
        "prefill",
        formula="by_gamma",
        race=widest["race"],
        sliders=[Slider("gamma", "γ", "Tokens drafted per round", 1, widest["gamma"], 1, min(4, widest["gamma"]))],
        layout=axes(
            "γ, tokens drafted per round",
            "τ, tokens per round",
            yaxis=FROM_ZERO,
            yaxis2=FROM_ZERO
            | {"title": "speed-up over vanilla, ×", "overlaying": "y", "side": "right", "showgrid": False}
            | {"tickmode": "auto"},  # round numbers, not the other axis’s lines
            showlegend=True,
        ),
    )


def _level(index: int, count: int) -> int:
    """0 for the ends of an axis, 1 for its middle, then the middles between those, and so on."""
    left, right, level = 0, count - 1, 0
    while index not in (left, right):
        middle, level = (left + right) // 2, level + 1
        left, right = (left, middle) if index <= middle else (middle, right)
    return level


def _row(cell: BenchSetting, runs: Runs, curve: PassCosts) -> dict[str, Any]:
    row = {"gamma": cell.gamma, "steps": cell.steps, "auto": cell.auto, **runs.row(cell.key)}
    timed = "speedup" in row and not cell.auto and cell.gamma in curve.draft  # too wide for a short context
    return row | predicted(cell, runs.total(cell.key), runs.total(BASELINE), curve) if timed else row
