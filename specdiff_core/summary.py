"""The plain numbers of a run and of a race, as one JSON object. Folds events with the metrics; knows no model, no page.

``decode --json``, ``race --json``, the page's API and its MCP tool tell the same numbers under the same names.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from specdiff_core.events import Event, Failed, Finished, RunStarted, Verified
from specdiff_core.metrics import Metrics, fold

CROWDED = 0.2
"""Threads waiting for a processor, on average, from which a measured time cannot be trusted. Measured on two cores with
two threads: at most 0.03 when quiet, 0.9 beside one busy process. A pass ends when its last thread does, so the lane
with more passes loses more."""


def header_of(events: Sequence[Event]) -> RunStarted | None:
    """What the run said about itself."""
    return next((event for event in events if isinstance(event, RunStarted)), None)


def final(events: Iterable[Event]) -> Finished | None:
    """The last word of a run that was not cut short; reads ``events`` to their end."""
    found = None
    for event in events:
        if isinstance(event, Finished):
            found = event
    return found


def run_summary(events: Sequence[Event]) -> dict[str, Any]:
    """One run. A number that is not defined is None (vanilla tests nothing); a run cut short says ``incomplete``."""
    total, header = fold(events), header_of(events)
    last = final(events)
    config = header.config if header else {}
    tested = [event for event in events if isinstance(event, Verified)]
    return {
        "text": last.text if last else "",
        "token_ids": list(last.ids) if last else [],
        "new_tokens": total.committed,
        "finished": last.reason if last else "incomplete",
        "rounds": total.rounds,
        "tau": total.tau,
        "alpha": total.alpha,
        "draft_use": total.draft_use,
        "seconds": total.seconds,
        "seconds_by": total.seconds_by,
        "tokens_per_second": total.tokens_per_second,
        "draft_nfe": total.nfe,
        "target_calls": total.target_calls,
        "peak_bytes": total.peak_bytes or None,
        "waiting": total.waiting,
        # What the rule claims, and what every round then did: one biased round makes the run biased.
        "lossless": header is not None and header.lossless and all(event.lossless for event in tested),
        "fallbacks": sorted({event.fallback for event in tested if event.fallback}),
        "drafter": config.get("drafter"),
        "rule": config.get("rule"),
        "config": dict(config),
        "device": header.device if header else None,
        "dtype": header.dtype if header else None,
        "reason": header.reason if header else None,
        "threads": header.threads if header else None,
        "grain": header.grain if header else None,
        "versions": dict(header.versions) if header else {},
        "models": dict(header.models) if header else {},
    }


def speed_up(vanilla: Metrics, drafted: Metrics) -> float | None:
    """Drafted tokens per second over vanilla tokens per second, both on the decode clock, prefill included."""
    slow, fast = vanilla.tokens_per_second, drafted.tokens_per_second
    return fast / slow if slow and fast else None


def race_summary(vanilla: Sequence[Sequence[Event]], drafted: Sequence[Sequence[Event]]) -> dict[str, Any]:
    """A race of n interleaved repeats; the n-th runs of both lanes belong together.

    ``speedup`` is taken over all repeats together; ``speedups`` and their median, least and largest tell its spread.
    """
    lanes = {"vanilla": vanilla, "drafted": drafted}
    totals = {lane: sum((fold(run) for run in runs), Metrics()) for lane, runs in lanes.items()}
    pairs = [speed_up(fold(slow), fold(fast)) for slow, fast in zip(vanilla, drafted, strict=True)]
    each = [value for value in pairs if value is not None]
    waits = [fold(run).waiting for run in (*vanilla, *drafted)]
    last = {lane: run_summary(runs[-1]) for lane, runs in lanes.items()}
    return {
        "speedup": speed_up(totals["vanilla"], totals["drafted"]),
        "speedup_median": median(each) if each else None,
        "speedup_least": min(each, default=None),
        "speedup_largest": max(each, default=None),
        "speedups": each,
        "repeats": len(pairs),
        "quiet": None if None in waits else all(wait < CROWDED for wait in waits if wait is not None),
        "lossless": last["drafted"]["lossless"],
        "same_text_as_vanilla": last["vanilla"]["token_ids"] == last["drafted"]["token_ids"],
        "text": last["drafted"]["text"],
        **last,
    }


AGAINST = ("speedup", "speedup_median", "speedup_least", "speedup_largest", "speedups", "same_text_as_vanilla")
"""What :func:`race_summary` says of a lane against the baseline."""


def methods_summary(lanes: Mapping[str, Sequence[Sequence[Event]]], baseline: str) -> dict[str, Any]:
    """A race of several methods over n interleaved repeats: of each lane the numbers of its last run, and how it did
    against ``baseline``, which is one of them.

    A lane that failed says why. What did not end, or has a baseline that did not, is compared with nothing; what never
    began claims no law.
    """
    ended = {lane for lane, runs in lanes.items() if all(final(run) is not None for run in runs)}
    races = {lane: race_summary(lanes[baseline], lanes[lane]) for lane in lanes if {lane, baseline} <= ended}
    told = {}
    for lane, runs in lanes.items():
        failed = next((event for run in runs for event in run if isinstance(event, Failed)), None)
        alone = run_summary(runs[-1])
        if header_of(runs[-1]) is None:
            alone["lossless"] = None
        against = {name: races[lane][name] if lane in races else None for name in AGAINST}
        reason = None if failed is None else f"{failed.message} {failed.hint}".strip()
        told[lane] = {**against, "failed": reason, **alone}
    quiet = [race["quiet"] for race in races.values()]
    laws = [lane["lossless"] for lane in told.values() if lane["lossless"] is not None]
    return {
        "repeats": len(lanes[baseline]),
        "quiet": False if False in quiet else None if None in quiet or not quiet else True,
        "lossless": all(laws) if laws else None,
        "lanes": told,
    }
