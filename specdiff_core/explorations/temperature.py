"""Temperature and calibration (the first open question of SpecDiff, arXiv 2408.05636): what a temperature of the target
costs, which temperature of the drafter goes with it, and whether the drafter knows what it knows.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from specdiff_core.explorations.base import Answer, OnPrompts, Step, Stopped, drafter_that, drafters_that, enum
from specdiff_core.explorations.runs import Runs
from specdiff_core.schema.events import Test, Verified
from specdiff_core.schema.metrics import Metrics
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

BINS = 10
Degree = Annotated[float, Meta(ge=0, le=2)]
KINDS = ("denoise", "sequential")
DRAFTERS = drafters_that(*KINDS)


class Temperature(OnPrompts, frozen=True, kw_only=True):
    """α, τ and speed-up for every pair of temperatures, and the drafter's confidence against the target's."""

    name: ClassVar = "temperature"
    title: ClassVar = "Temperature and calibration"
    question: ClassVar = "What does temperature cost, and does the drafter know what it knows?"

    drafter: Annotated[
        str, Meta(title="Drafter", description="What drafts one window.", extra_json_schema=enum(DRAFTERS, "drafters"))
    ] = "block"
    gamma: Annotated[int, Meta(ge=1, le=16, title="Window γ", description="Tokens drafted per round.")] = 5
    temperatures: Annotated[
        tuple[Degree, ...], Meta(min_length=1, max_length=6, title="Temperatures", description="Of the target.")
    ] = (0.0, 0.4, 0.7, 1.0)
    draft_temperatures: Annotated[
        tuple[Degree, ...],
        Meta(min_length=1, max_length=8, title="Drafter temperatures", description="Tried with each of those."),
    ] = (0.0, 0.4, 0.7, 1.0, 1.3)

    @property
    def drafters(self) -> tuple[str, ...]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        return (drafter_that("draws from no distribution of its own", self.pair, self.drafter, *KINDS),)

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        prompts, skipped = self.prompts(engine)
        degrees = sorted(set(self.temperatures))
        drafts = sorted(set(self.draft_temperatures))
        groups: dict[float, Runs] = {}
        tests: dict[tuple[float, float], list[Test]] = {}

        def answer() -> Answer:
            rows = [
                {"temperature": degree, "draft_temperature": draft, **runs.row(_key(degree, draft))}
                for degree, runs in groups.items()
                for draft in drafts
            ]
            reliable = [
                {"temperature": degree, "draft_temperature": draft, **reliability(found)}
                for (degree, draft), found in tests.items()
                if draft and found
            ]
            fits = [fit(degree, drafts, runs) for degree, runs in groups.items()]
            facts = {"skipped": skipped, "reliability": reliable, "fits": [one for one in fits if one]}
            races = {key: race for runs in groups.values() for key, race in runs.races.items()}
            return Answer(rows=rows, facts=facts | next(iter(groups.values())).facts(), races=races)

        threads = 0
        each = len(drafts) * len(prompts)
        for number, degree in enumerate(degrees):
            base = dataclasses.replace(self.base, temperature=degree)
            configs = {_key(degree, draft): self._config(base, draft) for draft in drafts}
            runs = groups[degree] = Runs(engine, base, configs, prompts, stopped, threads=threads)
            threads = runs.threads
            for done, _, key in runs.fill():
                draft = configs[key].draft_temperature or 0.0
                found = (event.tests for event in runs.events if isinstance(event, Verified))
                tests.setdefault((degree, draft), []).extend(
                    test for tested in found for test in tested if test.kind == "ratio"
                )
                yield Step(
                    number * each + done, len(degrees) * each, f"temperature {degree:g}, drafter {draft:g}", answer
                )
            if stopped():
                return

    def _config(self, base: DecodeConfig, draft: float) -> DecodeConfig:
        return dataclasses.replace(base, drafter=self.drafter, gamma=self.gamma, draft_temperature=draft)


def _key(degree: float, draft: float) -> str:
    return f"{degree:g}/{draft:g}"


def reliability(tests: Sequence[Test]) -> dict[str, Any]:
    """Drafted tokens by the drafter's q(x): how probable the target found them, and how many it accepted. ``ece``: the
    expected calibration error Σ n_b/N · |mean q − mean p| (arXiv 1706.04599), with the target's p in place of hits."""
    bins: list[list[Test]] = [[] for _ in range(BINS)]
    for test in tests:
        bins[min(BINS - 1, int(test.q * BINS))].append(test)
    points = [
        {
            "tests": len(found),
            "q": sum(test.q for test in found) / len(found),
            "p": sum(test.p for test in found) / len(found),
            "accepted": sum(test.accepted for test in found) / len(found),
        }
        for found in bins
        if found
    ]
    ece = sum(point["tests"] * abs(point["q"] - point["p"]) for point in points) / len(tests)
    return {"bins": points, "tests": len(tests), "ece": ece}


def fit(degree: float, drafts: Sequence[float], runs: Runs) -> dict[str, Any] | None:
    """The drafter temperature with the largest τ on every other prompt, and its τ on the rest, beside that of the
    target's own temperature (the one closest to it that was tried). None before there are two prompts."""
    halves: list[dict[float, float]] = []
    for half in (0, 1):
        taus = {}
        for draft in drafts:
            own = runs.metrics.get(_key(degree, draft), [])[half::2]
            if tau := sum((metrics for _, metrics in own), Metrics()).tau:
                taus[draft] = tau
        halves.append(taus)
    learnt, held_out = halves
    if not learnt or learnt.keys() != held_out.keys():
        return None
    best = max(learnt, key=lambda draft: learnt[draft])
    usual = min(held_out, key=lambda draft: abs(draft - degree))
    return {"temperature": degree, "usual": usual, "fitted": best, "before": held_out[usual], "after": held_out[best]}
