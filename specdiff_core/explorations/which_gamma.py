"""Which T, which γ? (the second open question of SpecDiff, arXiv 2408.05636): what the controller decides as it goes,
against the fixed setting that turns out to have been the best for each kind of text.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta
from msgspec.structs import replace

from specdiff_core.bench.grid import BenchSetting, grid
from specdiff_core.explorations.base import Answer, AtTemperature, Step, Stopped, drafter_that, drafters_that, enum
from specdiff_core.explorations.runs import Runs
from specdiff_core.schema.events import DraftReady
from specdiff_core.schema.pairs import find_pair

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

KINDS = ("denoise", "sequential")
DRAFTERS = drafters_that(*KINDS)
Side = Annotated[int, Meta(ge=1, le=32)]
ALL = "all"


class WhichGamma(AtTemperature, frozen=True, kw_only=True):
    """The regret of choosing as one goes: 1 − the controller's speed-up over that of the best fixed setting."""

    name: ClassVar = "which-gamma"
    title: ClassVar = "Which T, which γ?"
    question: ClassVar = "What does choosing γ and T as it goes cost, against knowing the best beforehand?"

    drafter: Annotated[
        str,
        Meta(
            title="Drafter",
            description="T means nothing to the last two.",
            extra_json_schema=enum(DRAFTERS, "drafters"),
        ),
    ] = "block"
    gammas: Annotated[
        tuple[Side, ...], Meta(min_length=1, max_length=12, title="Windows γ", description="Each as a fixed setting.")
    ] = (2, 4, 6, 9, 12, 16)
    steps: Annotated[
        tuple[Side, ...], Meta(min_length=1, max_length=6, title="Steps T", description="Of a denoiser.")
    ] = (1, 2)

    @property
    def drafters(self) -> tuple[str, ...]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        return (drafter_that("has no window to choose", self.pair, self.drafter, *KINDS),)

    def settings(self) -> list[BenchSetting]:
        """The fixed settings, and the controller's last.

        Raises:
            ConfigError: the drafter can follow none.
        """
        sequential = find_pair(self.pair).drafter(self.drafter).drafting == "sequential"
        gammas = sorted(set(self.gammas))
        if sequential:
            fixed = [BenchSetting(self.drafter, gamma, gamma) for gamma in gammas]
        else:
            fixed = list(grid(self.base, [self.drafter], gammas, sorted(set(self.steps)))[1:])
        most = max(fixed, key=lambda setting: (setting.gamma, setting.steps))
        return [*fixed, replace(most, auto=True)]

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        settings = {setting.key: setting for setting in self.settings()}
        prompts, skipped = self.prompts(engine)
        configs = {key: setting.config(self.base) for key, setting in settings.items()}
        runs = Runs(engine, self.base, configs, prompts, stopped)
        flavours = list(dict.fromkeys([ALL, *(prompt.flavour for prompt in prompts)]))
        drafted: dict[str, Counter[int]] = {flavour: Counter() for flavour in flavours}

        def answer() -> Answer:
            rows = [
                {"flavour": flavour, "gamma": setting.gamma, "steps": setting.steps, "auto": setting.auto}
                | runs.row(key, "" if flavour == ALL else flavour)
                for flavour in flavours
                for key, setting in settings.items()
            ]
            chosen = {flavour: sorted(counts.items()) for flavour, counts in drafted.items() if counts}
            regrets = [found for flavour in flavours if (found := regret(flavour, rows))]
            facts = {"skipped": skipped, "regrets": regrets, "chosen": chosen, **runs.facts()}
            return Answer(rows=rows, facts=facts, races=runs.races)

        for done, total, key in runs.fill():
            if settings[key].auto and key not in runs.failed:
                flavour = prompts[len(runs.metrics[key]) - 1].flavour
                sizes = [len(event.ids) for event in runs.events if isinstance(event, DraftReady)]
                for group in {flavour, ALL}:  # a visitor's kind of text may have that name
                    drafted[group].update(sizes)
            yield Step(done, total, settings[key].name, answer)


def regret(flavour: str, rows: list[dict[str, Any]]) -> dict[str, Any] | None:
    """The best fixed setting of a kind of text by hindsight, and the controller; None before both are known."""
    own = [row for row in rows if row["flavour"] == flavour and "speedup" in row]
    fixed = [row for row in own if not row["auto"]]
    auto = next((row for row in own if row["auto"]), None)
    if not fixed or auto is None:
        return None
    best = max(fixed, key=lambda row: row["speedup"])
    return {
        "flavour": flavour,
        "gamma": best["gamma"],
        "steps": best["steps"],
        "best": best["speedup"],
        "auto": auto["speedup"],
        "regret": 1 - auto["speedup"] / best["speedup"],
    }
