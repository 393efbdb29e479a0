"""Numbers folded from events, each defined once. Kept as sums and counts, so that merging two runs is addition.

α   acceptance rate     accepted / positions the verifier reached
τ   block efficiency    tokens committed / target passes (rounds), the target's own token included; 1 ≤ τ ≤ γ+1
draft use               accepted / drafted
NFE                     drafter passes
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import zip_longest

from specdiff_core.events import Committed, DraftReady, Event, Finished, TargetScored, Verified


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
    waited_seconds: float | None = 0.0  # of threads for a processor; None where a run could not tell

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
        """Threads that waited for a processor, on average over the decode clock: about 0 on a quiet machine."""
        return None if self.waited_seconds is None or not self.seconds else self.waited_seconds / self.seconds

    @property
    def alpha_at(self) -> tuple[float | None, ...]:
        """α_j by window position, None where position j was never reached."""
        return tuple(a / t if t else None for a, t in zip(self.accepted_at, self.tested_at, strict=True))

    def __add__(self, other: Metrics) -> Metrics:
        names = sorted({*self.seconds_by, *other.seconds_by})
        return Metrics(
            rounds=self.rounds + other.rounds,
            committed=self.committed + other.committed,
            drafted=self.drafted + other.drafted,
            tested=self.tested + other.tested,
            accepted=self.accepted + other.accepted,
            nfe=self.nfe + other.nfe,
            target_calls=self.target_calls + other.target_calls,
            seconds=self.seconds + other.seconds,
            seconds_by={n: self.seconds_by.get(n, 0.0) + other.seconds_by.get(n, 0.0) for n in names},
            tested_at=_add(self.tested_at, other.tested_at),
            accepted_at=_add(self.accepted_at, other.accepted_at),
            peak_bytes=max(self.peak_bytes, other.peak_bytes),
            waited_seconds=None
            if self.waited_seconds is None or other.waited_seconds is None
            else self.waited_seconds + other.waited_seconds,
        )


def _add(left: tuple[int, ...], right: tuple[int, ...]) -> tuple[int, ...]:
    return tuple(a + b for a, b in zip_longest(left, right, fillvalue=0))


def measure(event: Event) -> Metrics:
    """What one event adds."""
    match event:
        case DraftReady():
            return Metrics(drafted=len(event.ids), nfe=event.nfe)
        case TargetScored():
            return Metrics(target_calls=1)
        case Verified():
            reached: dict[int, bool] = {}  # several drafts may be tested at one position
            for test in event.tests:
                reached[test.position] = reached.get(test.position, False) or test.accepted
            return Metrics(
                tested=len(reached),
                accepted=event.accepted,
                tested_at=(1,) * len(reached),
                accepted_at=tuple(map(int, reached.values())),
            )
        case Committed():
            return Metrics(rounds=1, committed=len(event.ids))
        case Finished():
            return Metrics(
                seconds=event.seconds,
                seconds_by=dict(event.seconds_by),
                peak_bytes=event.peak_bytes or 0,
                waited_seconds=event.waited_seconds,
            )
    return Metrics()


def fold(events: Iterable[Event]) -> Metrics:
    """All metrics of a run (or of several, one after the other). Neighbours are merged in turns, so that even a foreign
    trace with one enormous round takes time in proportion to its length."""
    parts = [measure(event) for event in events] or [Metrics()]
    while len(parts) > 1:
        parts = [a if b is None else a + b for a, b in zip_longest(parts[::2], parts[1::2])]
    return parts[0]
