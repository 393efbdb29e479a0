"""The plain numbers of a race as the API and the MCP tool return them. Uses the core's summary; knows no page."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Any

from specdiff_core.schema.events import Event
from specdiff_core.schema.methods import BASELINE
from specdiff_core.schema.metrics import CROWDED
from specdiff_core.schema.summary import methods_summary, race_summary, run_summary
from specdiff_core.schema.trace import event_to_dict


def summarise(lanes: Mapping[str, Sequence[Event]], *, with_events: bool = False) -> dict[str, Any]:
    """One JSON object for a race of two lanes, or of vanilla alone; every number is measured or counted."""
    vanilla, drafted = lanes.get("vanilla", ()), lanes.get("drafted", ())
    if drafted:
        told = race_summary([vanilla], [drafted])
    else:
        alone = run_summary(vanilla)
        told = {
            "speedup": None,
            "quiet": None if alone["waiting"] is None else alone["waiting"] < CROWDED,
            "lossless": alone["lossless"],
            "text": alone["text"],
            "vanilla": alone,
            "drafted": None,
        }
    return {"finished": True, **told, "events": _events(lanes) if with_events else None}


def summarise_methods(lanes: Mapping[str, Sequence[Event]], *, with_events: bool = False) -> dict[str, Any]:
    """One JSON object for a race of several methods, vanilla among them."""
    told = methods_summary({lane: [run] for lane, run in lanes.items()}, BASELINE)
    return {"finished": True, **told, "events": _events(lanes) if with_events else None}


def _events(lanes: Mapping[str, Sequence[Event]]) -> dict[str, list[Any]]:
    """As JSON holds them: what carries the answer takes no numbers for keys."""
    return {lane: [json.loads(json.dumps(event_to_dict(event))) for event in run] for lane, run in lanes.items()}
