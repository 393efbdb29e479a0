"""Length (the third open question of SpecDiff, arXiv 2408.05636): what happens to τ, α and the cost of a pass as the
text grows towards the target's context.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, ClassVar

from msgspec import Meta

from specdiff_core.bench.grid import BASELINE
from specdiff_core.explorations.base import DRAFTING, Answer, AtTemperature, Step, Stopped, drafters_of, enum
from specdiff_core.explorations.runs import Runs
from specdiff_core.schema.events import Committed, Event, RoundStarted, TargetScored, Verified
from specdiff_core.schema.methods import find_method
from specdiff_core.schema.metrics import reached

if TYPE_CHECKING:
    from specdiff_core.engine import Engine


@dataclass(slots=True)
class _Part:
    """Sums over the rounds that began with texts of like length."""

    rounds: int = 0
    tokens: int = 0
    seconds: float = 0.0
    scored: float = 0.0  # of those, the target's passes
    tested: int = 0
    accepted: int = 0


class Length(AtTemperature, frozen=True, kw_only=True):
    """Speed, τ and α against the length of the text."""

    name: ClassVar = "length"
    title: ClassVar = "Length"
    question: ClassVar = "Does drafting still pay where the text is long?"

    methods: Annotated[
        tuple[Annotated[str, Meta(extra_json_schema=enum(DRAFTING, "methods"))], ...],
        Meta(min_length=1, max_length=6, title="Methods", description="Each beside vanilla, on the same prompts."),
    ] = ("specdiff", "dflash", "eagle", "markov_tree")
    tokens: Annotated[
        int, Meta(ge=64, le=480, title="New tokens", description="Of each run, up to the target's context.")
    ] = 440
    width: Annotated[
        int, Meta(ge=16, le=256, title="Width of a part", description="Tokens of context that count together.")
    ] = 64
    per_flavour: Annotated[
        int, Meta(ge=1, le=5, title="Prompts of each kind", description="More prompts, less noise.")
    ] = 1

    @property
    def drafters(self) -> tuple[str, ...]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        return drafters_of(self.pair, self.methods)

    def explore(self, engine: Engine, stopped: Stopped) -> Iterator[Step]:
        """See :class:`~specdiff_core.explorations.base.Exploration`."""
        prompts, skipped = self.prompts(engine)
        labels = {name: find_method(name).label for name in self.methods}
        configs = {name: find_method(name).config(self.base) for name in labels}
        runs = Runs(engine, self.base, configs, prompts, stopped)
        parts: dict[str, dict[int, _Part]] = {}

        def answer() -> Answer:
            vanilla = parts[BASELINE.key]
            rows = [
                _row(name, index * self.width, part, vanilla.get(index))
                for name, found in parts.items()
                for index, part in sorted(found.items())
            ]
            failed = [f"{labels[name]}: {why}" for name, why in runs.failed.items()]
            facts = {"skipped": [*skipped, *failed], "labels": {"vanilla": "Vanilla", **labels}, "width": self.width}
            return Answer(rows=rows, facts=facts | runs.facts(), races=runs.races)

        for done, total, name in runs.fill():
            self._add(parts, BASELINE.key, runs.fresh_vanilla())
            self._add(parts, name, runs.events)
            yield Step(done, total, labels[name], answer)

    def _add(self, parts: dict[str, dict[int, _Part]], name: str, events: Sequence[Event]) -> None:
        own, part = parts.setdefault(name, {}), _Part()
        before = scored = 0.0
        for event in events:
            if isinstance(event, RoundStarted):
                part = own.setdefault(event.length // self.width, _Part())
            elif isinstance(event, TargetScored):
                scored = event.span.seconds
            elif isinstance(event, Verified):
                tests = reached(event.tests)
                part.tested += len(tests)
                part.accepted += event.accepted
            elif isinstance(event, Committed):
                if before:  # the first round's time holds the prompt's
                    part.rounds += 1
                    part.tokens += len(event.ids)
                    part.seconds += event.at - before
                    part.scored += scored
                before = event.at


def _row(name: str, context: int, part: _Part, vanilla: _Part | None) -> dict[str, Any]:
    pace = part.seconds / part.tokens if part.tokens else None
    base = vanilla.seconds / vanilla.tokens if vanilla and vanilla.tokens else None
    return {
        "method": "vanilla" if name == BASELINE.key else name,
        "context": context,
        "rounds": part.rounds,
        "seconds_per_token": pace,
        "speedup": base / pace if base and pace else None,
        "tau": part.tokens / part.rounds if part.rounds else None,
        "alpha": part.accepted / part.tested if part.tested else None,
        "pass_seconds": part.scored / part.rounds if part.rounds else None,
    }
