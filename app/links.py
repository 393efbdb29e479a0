"""The tabs of the page, by the names that links and scripts use, and which tab a link opens."""

from __future__ import annotations

from collections.abc import Mapping

from specdiff_core.schema.methods import BASELINE, DRAFTED

TABS = LIVE, RACE, EXPLORE, COMPARE, LEARN, API = "live", "race", "explore", "compare", "learn", "api"
OPENS = {"open": None, "lesson": LEARN, "explore": EXPLORE, "tab": None, "methods": RACE}
"""Parameter of a link -> the tab that it opens; None: the one that its value names. The first that exists counts."""
LIVE_LANES = BASELINE, DRAFTED
"""A trace without other lanes plays in Live, all others in Race."""


def linked_tab(query: Mapping[str, str]) -> str:
    """The tab that a link's query opens; ``linkedTabs`` in ``app/static/export.js`` does the same."""
    asked = (tab or query[name] for name, tab in OPENS.items() if name in query)
    return next((tab for tab in asked if tab in TABS), LIVE)
