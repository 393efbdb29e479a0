"""The γ × T map (the first experiment of SpecDiff, arXiv 2408.05636, Figure 3): which window, and in how many steps?

Vanilla runs again before every few cells, on the same prompt, so that drift of the machine falls on both. Cells are
measured coarse to fine: the first few show the shape, later ones and further prompts sharpen it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import accumulate
from operator import mul
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from specdiff_core.bench.grid import BenchSetting, grid
from specdiff_core.explorations.base import Answer, AtTemperature, Step, Stopped, drafter_that, drafters_that, enum
from specdiff_core.explorations.runs import Runs
from specdiff_core.schema.metrics import Metrics

if TYPE_CHECKING:
    from specdiff_core.bench.forwards import PassCosts
    from specdiff_core.engine import Engine

DRAFTERS = drafters_that("denoise")
Side = Annotated[int, Meta(ge=1, le=32)]
REPEATS = 4
"""Of each bare pass, before the runs of each prompt."""


class WindowMap(AtTemperature, frozen=True, kw_only=True):
    """Speed-up over vanilla for every window γ and number of denoising steps T ≤ γ, measured and predicted."""

    name: ClassVar = "window-map"
    title: ClassVar = "γ × T map"
    question: ClassVar = "Which window pays, and in how many denoising steps?"

    drafter: Annotated[
        str,
        Meta(
            title="Drafter",
            description="A denoiser: T means nothing to others.",
            extra_json_schema=enum(DRAFTERS, "drafters"),
        ),
    ] = "mdlm"
    gammas: Annotated[
        tuple[Side, ...], Meta(min_length=1, max_length=20, title="Windows γ", description="Tokens drafted per round.")
    ] = (1, 2, 3, 4, 5, 6, 8, 10, 13, 16)
    steps: Annotated[
        tuple[Side, ...], Meta(min_length=1, max_length=20, title="Steps T", description="Drafter passes per window.")
    ] = (1, 2, 3, 4, 5, 6, 8, 10)

    @property
    def drafters(self) -> tuple[str, ...]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        return (drafter_that("has no denoising steps", self.pair, self.drafter, "denoise"),)

    def cells(self) -> list[BenchSetting]:
        """All cells with T ≤ γ, coarse to fine.

        Raises:
            ConfigError: there is none.
        """
        gammas, steps = sorted(set(self.gammas)), sorted(set(self.steps))
        rank = {(gamma, step): max(_level(i, len(gammas)), _level(j, len(steps)))
                for i, gamma in enumerate(gammas) for j, step in enumerate(steps)}  # fmt: skip
        _, *cells = grid(self.base, [self.drafter], gammas, steps)
        return sorted(cells, key=lambda cell: rank.get((cell.gamma, cell.steps), 0))

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        from specdiff_core.bench.forwards import PassTimes

        cells = self.cells()
        prompts, skipped = self.prompts(engine)
        runs = Runs(engine, self.base, {cell.key: cell.config(self.base) for cell in cells}, prompts, stopped)
        times = PassTimes(engine, self.drafter, sorted({cell.gamma for cell in cells}))
        ordered = sorted(cells, key=lambda cell: (cell.steps, cell.gamma))

        def answer() -> Answer:
            curve = times.costs
            rows = [_row(cell, runs, curve) for cell in ordered]
            facts = {"skipped": skipped, "curve": curve.plain(), "agree": agreement(rows), **runs.facts()}
            return Answer(rows=rows, facts=facts, races=runs.races)

        total = (REPEATS + len(cells)) * len(prompts)

        def passes(turn: int) -> Iterator[Step]:
            timed = turn * (REPEATS + len(cells))
            for done, _ in enumerate(runs.bare_passes(times, prompts[turn], REPEATS), timed + 1):
                yield Step(done, total, f"bare passes: {self.drafter}", answer)

        yield from passes(0)
        for done, _, key in runs.fill():
            turn = (done - 1) // len(cells) + 1
            yield Step(turn * REPEATS + done, total, BenchSetting.parse(key).name, answer)
            if done == turn * len(cells) and turn < len(prompts):
                yield from passes(turn)


def _level(index: int, count: int) -> int:
    """0 for the ends of a side, 1 for its middle, then the middles between those, and so on."""
    left, right, level = 0, count - 1, 0
    while index not in (left, right):
        middle, level = (left + right) // 2, level + 1
        left, right = (left, middle) if index <= middle else (middle, right)
    return level


def _row(cell: BenchSetting, runs: Runs, curve: PassCosts) -> dict[str, Any]:
    row = {"gamma": cell.gamma, "steps": cell.steps, **runs.row(cell.key)}
    timed = "speedup" in row and cell.gamma in curve.draft  # a context may have no room for it behind a prompt
    return row | predicted(cell, *runs.sums(cell.key), curve) if timed else row


def expected_tau(alphas: Sequence[float | None]) -> float:
    """E[τ] = 1 + Σ_m Π_{j≤m} α_j, from the acceptance of each position given that it is reached; a position that was
    never reached adds nothing."""
    return sum(accumulate((alpha or 0.0 for alpha in alphas), mul), 1.0)


def geometric_tau(alpha: float, gamma: int) -> float:
    """(1 − α^{γ+1}) / (1 − α), with one α for all positions (arXiv 2211.17192, equation 1)."""
    return gamma + 1.0 if alpha >= 1 else (1 - alpha ** (gamma + 1)) / (1 - alpha)


def predicted(cell: BenchSetting, own: Metrics, vanilla: Metrics, curve: PassCosts) -> dict[str, float]:
    """What the formula says of a cell: E[τ] from its measured α_j, and the speed-up where a round costs T bare drafter
    passes and one bare pass of the target over γ + 1 rows. Reading the prompt costs both the same."""
    tau = expected_tau(own.alpha_at)
    tokens = own.committed
    prefill = vanilla.seconds_by["prefill"] / vanilla.committed * tokens
    round = curve.drafting(cell.gamma, cell.steps) + curve.target[cell.gamma + 1]
    return {
        "predicted_tau": tau,
        "geometric_tau": geometric_tau(own.alpha or 0.0, cell.gamma),
        "predicted": (prefill + tokens * curve.target[1]) / (prefill + tokens / tau * round),
    }


def agreement(rows: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """How many cells were measured, and of how many the predicted speed-up is within 10 % of the measured one."""
    both = [(row["predicted"], row["speedup"]) for row in rows if "predicted" in row]
    close = sum(abs(guess / measured - 1) <= 0.1 for guess, measured in both)
    return {"cells": len(both), "within_10_percent": close / len(both) if both else 0.0}
