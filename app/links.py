"""The tabs of the page, by the names that links and scripts use, and which tab a link opens."""

from __future__ import annotations

from collections.abc import Mapping

TABS = LIVE, RACE, EXPLORE, COMPARE, LEARN, API = "live", "race", "explore", "compare", "learn", "api"
OPENS = {"open": "", "lesson": LEARN, "explore": EXPLORE, "tab": "", "methods": RACE}
"""Parameter of a link -> the tab that it opens, or "" if its value names one; the first with a tab counts."""


def linked_tab(query: Mapping[str, str]) -> str:
    """The tab that a link's query opens; ``linkedTabs`` in ``app/static/export.js`` does the same."""
    named = (tab or query[name] for name, tab in OPENS.items() if name in query)
    return next((tab for tab in named if tab in TABS), LIVE)
