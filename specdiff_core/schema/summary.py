"""The numbers of a run and of a race as plain JSON objects, under the same names in ``decode
--json``, ``race --json``, the page's API and its MCP tools."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from statistics import median
from typing import Any

from specdiff_core.schema.events import DraftReady, Event, Failed, Finished, RunStarted, Verified
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.metrics import Metrics, fold, speed_up

LOOP_TOKENS, LOOP_TRIGRAMS = 48, 13
"""A text loops if its last 48 tokens have fewer than 13 different trigrams."""
EARLY = 6
"""Rounds among which the staged one is sought."""
RunsByLane = Mapping[str, Sequence[Sequence[Event]]]
"""Lane -> its runs; the n-th runs of all lanes form a repeat."""


def header_of(events: Iterable[Event]) -> RunStarted | None:
    """The header of a run."""
    return next((event for event in events if isinstance(event, RunStarted)), None)


def final(events: Iterable[Event]) -> Finished | None:
    """The Finished event of a run, None if it was cut short; reads ``events`` to their end."""
    return next((event for event in reversed([*events]) if isinstance(event, Finished)), None)


def staged(events: Iterable[Event]) -> tuple[DraftReady, Verified] | None:
    """The draft and the result of the round that pages show large, as ``stagedRound`` in ``app/static/state/stops.js``;
    trees are left out. None: nothing was drafted."""
    drafts = dict[int, DraftReady]()
    rounds = list[tuple[DraftReady, Verified]]()
    for event in events:
        if isinstance(event, DraftReady) and event.ids and not event.parents:
            drafts[event.round] = event
        elif isinstance(event, Verified) and event.round in drafts:
            rounds.append((drafts[event.round], event))
    mixed = (one for one in rounds[1 : 1 + EARLY] if 1 < one[1].accepted < len(one[0].ids))
    return next(mixed, (rounds * 2)[1] if rounds else None)


def loops(ids: Sequence[int]) -> bool:
    """Whether a text ends in repetition, which is easy to draft."""
    tail = ids[-LOOP_TOKENS:]
    return len(tail) == LOOP_TOKENS and len(set(zip(tail, tail[1:], tail[2:], strict=False))) < LOOP_TRIGRAMS


def run_summary(events: Sequence[Event], total: Metrics | None = None) -> dict[str, Any]:
    """Summarise a run, whose metrics may be known. Undefined numbers are None; a run cut short is ``incomplete``."""
    total, header, last = total or fold(events), header_of(events), final(events)
    config = header.config if header else {}
    quoted = last.quoted if last else None
    tested = [event for event in events if isinstance(event, Verified)]
    return {
        "text": last.text if last else "",
        "token_ids": list(last.ids) if last else [],
        "new_tokens": total.committed,
        "finished": last.reason if last else "incomplete",
        **total.named("rounds", "tau", "alpha", "alpha_at", "draft_use", "seconds", "seconds_by", "tokens_per_second"),
        **total.named("target_calls", "waiting"),
        "draft_nfe": total.nfe,
        "peak_bytes": total.peak_bytes or None,
        # One biased round makes the run biased. Unknown for a server.
        "lossless": None
        if header and header.server
        else header is not None and header.lossless and all(event.lossless for event in tested),
        "fallbacks": sorted({event.fallback for event in tested if event.fallback}),
        "drafter": config.get("drafter"),
        "rule": config.get("rule"),
        "config": dict(config),
        **{name: getattr(header, name, None) for name in HEADER},
        "versions": dict(header.versions) if header else {},
        "models": dict(header.models) if header else {},
        "server": header.server if header else "",
        "quoted": {name: getattr(quoted, name) for name in QUOTED} if quoted else None,
        "acceptance_record": acceptance_record(events),
    }


def acceptance_record(events: Sequence[Event]) -> dict[str, Any] | None:
    """A run as AIPerf's ``SpecDecodeAcceptanceRecord`` (``spec_decode_models.py`` of ai-dynamo/aiperf), so that it can
    be laid beside a record of another engine; None if nothing was drafted. Its steps are the rounds that drafted."""
    drafted = {event.round: len(event.ids) for event in events if isinstance(event, DraftReady) and event.ids}
    tested = [event for event in events if isinstance(event, Verified) and event.round in drafted]
    if not tested:
        return None
    accepted, proposed = [event.accepted for event in tested], [drafted[event.round] for event in tested]
    return {
        "engine": "specdiff-lab",
        "mean_acceptance_length": 1 + sum(accepted) / len(tested),
        "draft_acceptance_rate": sum(accepted) / sum(proposed),
        "acceptance_histogram": {str(count): accepted.count(count) for count in sorted({*accepted})},
        "num_accepted_draft_tokens": sum(accepted),
        "num_draft_tokens": sum(proposed),
        "num_spec_steps": len(tested),
        "num_spec_tokens": max(proposed),
        "completion_tokens": fold(events).committed,
        "per_step_accepted": accepted,
        "per_step_drafted": proposed,
    }


HEADER = ("exactness", "device", "dtype", "network", "reason", "threads", "grain")
"""Fields of a run's header in a summary; None: the run did not begin."""
QUOTED = ("tau", "draft_use", "rates", "steps", "drafts", "drafted", "accepted", "tokens_per_second")
"""An attached server's own numbers in a summary; None: not reported."""


def race_summary(runs: RunsByLane) -> dict[str, Any]:
    """Summarise a race of n interleaved repeats: for each lane the numbers of its last run, and its
    comparison with vanilla.

    ``speedup`` is over all repeats together; ``speedups`` and their median, least and largest show
    its spread. A failed lane has the reason. A lane is compared if it and the baseline ended by
    themselves, or were stopped with enough text to compare; ``lossless`` is None for a lane
    without a token."""
    ended = {lane for lane, repeats in runs.items() if repeats and all(map(_comparable, repeats))}
    totals = {lane: [fold(run) for run in repeats] for lane, repeats in runs.items()}
    lanes: dict[str, Any] = {}
    for lane, repeats in runs.items():
        alone = run_summary(repeats[-1], totals[lane][-1]) if repeats else run_summary(())
        if not alone["new_tokens"]:
            alone["lossless"] = None
        failed = next((event for run in repeats for event in run if isinstance(event, Failed)), None)
        comparison = dict.fromkeys(AGAINST)
        if {lane, BASELINE} <= ended:
            comparison = _against(runs[BASELINE][-1], repeats[-1], totals[BASELINE], totals[lane])
        lanes[lane] = {**comparison, "failed": failed and f"{failed.message} {failed.hint}".strip(), **alone}
    local = [lane for lane in ended if not lanes[lane]["server"]]  # a server's threads are unknown
    compared = [total.crowded for lane in local if BASELINE in ended for total in totals[lane]]
    claims = [lane["lossless"] for lane in lanes.values() if lane["lossless"] is not None]
    return {
        "repeats": len(runs[BASELINE]),
        "quiet": False if True in compared else None if None in compared or not compared else True,
        "lossless": all(claims) if claims else None,
        "lanes": lanes,
    }


ENOUGH = 8
"""Tokens from which a stopped lane is compared. Stop ends all lanes at one moment of the clock."""


def _comparable(run: Sequence[Event]) -> bool:
    last = final(run)
    return last is not None and (last.reason != "stopped" or len(last.ids) >= ENOUGH)


AGAINST = ("speedup", "speedup_median", "speedup_least", "speedup_largest", "speedups", "same_text_as_vanilla")
"""The fields of a lane's comparison with the baseline."""


def _against(
    vanilla: Sequence[Event], drafted: Sequence[Event], slow: Sequence[Metrics], fast: Sequence[Metrics]
) -> dict[str, Any]:
    """A lane's comparison with vanilla, from the last run of each and the metrics of all."""
    speed_ups = [value for pair in zip(slow, fast, strict=True) if (value := speed_up(*pair)) is not None]
    last, base, header = final(drafted), final(vanilla), header_of(drafted)
    same = False
    if last is not None and base is not None:
        both = min(len(last.ids), len(base.ids)) if "stopped" in (last.reason, base.reason) else None
        same = last.ids[:both] == base.ids[:both]
    if header is not None and header.server:  # its ids are not the target's
        same = last is not None and base is not None and last.text == base.text
    values = (
        speed_up(sum(slow, Metrics()), sum(fast, Metrics())),
        median(speed_ups) if speed_ups else None,
        min(speed_ups, default=None),
        max(speed_ups, default=None),
        speed_ups,
        same,
    )
    return dict(zip(AGAINST, values, strict=True))
