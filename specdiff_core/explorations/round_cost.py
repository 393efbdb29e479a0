"""What would it take? A round pays if it brings more tokens than it costs, in passes of vanilla (arXiv 2211.17192,
theorem 3.8). Measures what passes cost here, and where every method stands; the page draws the rest from sliders.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, ClassVar

from specdiff_core.bench.grid import BenchSetting
from specdiff_core.explorations.base import Answer, AtTemperature, Step, Stopped
from specdiff_core.explorations.runs import Runs
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
        from specdiff_core.bench.forwards import PassTimes

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
