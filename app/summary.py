"""The plain numbers of a race, for API and MCP callers. Folds events with the core's metrics; knows no page."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from specdiff_core.events import Event, Finished, RunStarted
from specdiff_core.metrics import fold
from specdiff_core.trace import event_to_dict


def lane_summary(events: Sequence[Event]) -> dict[str, Any]:
    """Metrics of one lane; None where a number is not defined (vanilla tests nothing)."""
    total = fold(events)
    last = next((event for event in reversed(events) if isinstance(event, Finished)), None)
    return {
        "text": last.text if last else "",
        "token_ids": list(last.ids) if last else [],
        "new_tokens": total.committed,
        "finished": last.reason if last else "incomplete",
        "seconds": total.seconds,
        "seconds_by": total.seconds_by,
        "tokens_per_second": total.tokens_per_second,
        "rounds": total.rounds,
        "tau": total.tau,
        "alpha": total.alpha,
        "target_calls": total.target_calls,
        "draft_nfe": total.nfe,
    }


def race_summary(lanes: Mapping[str, Sequence[Event]], *, with_events: bool = False) -> dict[str, Any]:
    """One JSON object for a whole race; every number is measured or counted.

    ``speedup`` is drafted tokens per second over vanilla tokens per second, both on the decode clock.
    """
    parts = {lane: lane_summary(events) for lane, events in lanes.items() if events}
    header = next((e for events in reversed(list(lanes.values())) for e in events if isinstance(e, RunStarted)), None)
    vanilla, drafted = parts.get("vanilla"), parts.get("drafted")
    speedup = None
    if vanilla and drafted and vanilla["tokens_per_second"] and drafted["tokens_per_second"]:
        speedup = drafted["tokens_per_second"] / vanilla["tokens_per_second"]
    shown = drafted or vanilla or {"text": ""}
    return {
        "finished": True,
        "text": shown["text"],
        "speedup": speedup,
        "lossless": header.lossless if header else None,
        "same_text_as_vanilla": vanilla["token_ids"] == drafted["token_ids"] if vanilla and drafted else None,
        "vanilla": vanilla,
        "drafted": drafted,
        "settings": header.config if header else {},
        "measured_on": {
            "device": header.device,
            "dtype": header.dtype,
            "threads": header.threads,
            "grain": header.grain,
            "versions": header.versions,
            "models": header.models,
        }
        if header
        else {},
        "events": {lane: [event_to_dict(e) for e in run] for lane, run in lanes.items()} if with_events else None,
    }
