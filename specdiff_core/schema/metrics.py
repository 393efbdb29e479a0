"""Every number on the page, folded from events and kept as sums and counts, so that runs can be added. The player folds
the same events in the browser (``app/static/state/progress.js``); a test compares the two.

``app/content/symbols.py`` defines the symbols. Without a symbol: draft use, accepted over drafted tokens; and
speed-up, tokens per second over vanilla's, both on the decode clock, prefill included."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, fields
from itertools import zip_longest
from typing import Any

from specdiff_core.schema.events import SERVER, Committed, DraftReady, Event, Finished, TargetScored, Test, Verified

CROWDED = 0.2
"""From this many threads waiting for a processor, on average, a measured time cannot be trusted.
Measured on two cores with two threads: at most 0.03 when quiet, 0.9 beside one busy process. A pass
ends with its last thread, so the lane with more passes loses more."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Metrics:
    """Sums over rounds and runs."""

    rounds: int = 0
    committed: int = 0
    drafted: int = 0
    tested: int = 0
    accepted: int = 0
    nfe: int = 0
    target_calls: int = 0
    seconds: float = 0.0  # decode clock
    seconds_by: dict[str, float] = field(default_factory=dict)
    tested_at: tuple[int, ...] = ()  # tests by window position
    accepted_at: tuple[int, ...] = ()
    peak_bytes: int = 0  # the largest of all runs
    waited_seconds: float | None = 0.0  # of threads for a processor; None where it was not measured

    @property
    def alpha(self) -> float | None:
        """α, or None where nothing was tested (vanilla)."""
        return self.accepted / self.tested if self.tested else None

    @property
    def tau(self) -> float | None:
        """τ in tokens per round, or None before the first round."""
        return self.committed / self.rounds if self.rounds else None

    @property
    def draft_use(self) -> float | None:
        """Share of drafted tokens that were accepted."""
        return self.accepted / self.drafted if self.drafted else None

    @property
    def tokens_per_second(self) -> float | None:
        """New tokens per second of decode clock, prefill included."""
        return self.committed / self.seconds if self.seconds else None

    @property
    def waiting(self) -> float | None:
        """Threads that waited for a processor, on average: about 0 on a quiet machine."""
        return None if self.waited_seconds is None or not self.seconds else self.waited_seconds / self.seconds

    @property
    def crowded(self) -> bool | None:
        """Whether threads waited so long that times cannot be trusted; None if unknown."""
        return None if self.waiting is None else self.waiting >= CROWDED

    @property
    def alpha_at(self) -> tuple[float | None, ...]:
        """α_j by window position, None where position j was never reached."""
        return tuple(a / t if t else None for a, t in zip(self.accepted_at, self.tested_at, strict=True))

    def named(self, *names: str) -> dict[str, Any]:
        """Some of these numbers by name, as results have them."""
        return {name: getattr(self, name) for name in names}

    def __add__(self, other: Metrics) -> Metrics:
        sums = {metric.name: _plus(getattr(self, metric.name), getattr(other, metric.name)) for metric in fields(self)}
        return Metrics(**{**sums, "peak_bytes": max(self.peak_bytes, other.peak_bytes)})


def _plus(left: Any, right: Any) -> Any:
    """The sum of two numbers, dicts by name, or tuples by position; None if one is unknown."""
    if isinstance(left, dict):
        return {name: left.get(name, 0.0) + right.get(name, 0.0) for name in sorted({*left, *right})}
    if isinstance(left, tuple):
        return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))
    return None if left is None or right is None else left + right


def measure(event: Event) -> Metrics:
    """What one event adds."""
    match event:
        case DraftReady():
            return Metrics(drafted=len(event.ids), nfe=event.nfe)
        case TargetScored():
            return Metrics(target_calls=1)
        case Verified():
            passed = passed_positions(event.tests)
            return Metrics(
                tested=len(passed),
                accepted=event.accepted,
                tested_at=(1,) * len(passed),
                accepted_at=tuple(map(int, passed)),
            )
        case Committed():  # a chunk of a server's stream is no round
            return Metrics(rounds=int(SERVER not in event.sources), committed=len(event.ids))
        case Finished():
            return Metrics(
                seconds=event.seconds,
                seconds_by=dict(event.seconds_by),
                peak_bytes=event.peak_bytes or 0,
                waited_seconds=event.waited_seconds,
            )
    return Metrics()


def passed_positions(tests: Iterable[Test]) -> list[bool]:
    """Of each position that the verifier reached, whether one of its tests was passed: several
    drafts may be tested at one position."""
    passed: dict[int, bool] = {}
    for test in tests:
        passed[test.position] = passed.get(test.position, False) or test.accepted
    return list(passed.values())


def speed_up(vanilla: Metrics, drafted: Metrics) -> float | None:
    """Tokens per second of ``drafted`` over those of ``vanilla``."""
    slow, fast = vanilla.tokens_per_second, drafted.tokens_per_second
    return fast / slow if slow and fast else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Prediction:
    """The speed-up if nothing but passes cost time: a prediction, not a measurement."""

    cost: float  # c, of a drafter pass in vanilla's passes
    verify: float  # v, of a verifying pass in vanilla's passes
    speed_up: float  # τ / (v + c · NFE per round)


def predict(vanilla: Metrics, drafted: Metrics) -> Prediction | None:
    """τ over the cost of a round, with both kinds of pass at what they cost in these runs
    (docs/theory.md, Cost); None where it is not defined."""
    base, spent = vanilla.seconds_by.get("score"), drafted.seconds_by
    counts = drafted.rounds and drafted.nfe and drafted.target_calls and vanilla.target_calls
    if not counts or not base or not spent.get("draft") or not spent.get("score"):
        return None
    unit = base / vanilla.target_calls
    cost, verify = spent["draft"] / drafted.nfe / unit, spent["score"] / drafted.target_calls / unit
    tau = drafted.committed / drafted.rounds
    return Prediction(cost=cost, verify=verify, speed_up=tau / (verify + cost * drafted.nfe / drafted.rounds))


def fold(events: Iterable[Event]) -> Metrics:
    """All metrics of a run (or of several, one after the other). Neighbours are merged in turns, so
    that even a foreign trace with one enormous round takes time in proportion to its length."""
    counted = (DraftReady, TargetScored, Verified, Committed, Finished)  # others add nothing
    parts = [measure(event) for event in events if isinstance(event, counted)] or [Metrics()]
    while len(parts) > 1:
        parts = [a if b is None else a + b for a, b in zip_longest(parts[::2], parts[1::2])]
    return parts[0]
