"""Explorations: each question of the papers, answered by a live measurement. Importing them imports no torch."""

from __future__ import annotations

from specdiff_core.explorations.base import Exploration
from specdiff_core.explorations.budget import Budget
from specdiff_core.explorations.compare import Compare
from specdiff_core.explorations.diverge import Diverge
from specdiff_core.explorations.doctor import Doctor
from specdiff_core.explorations.learn import Learn
from specdiff_core.explorations.losslessness import Losslessness
from specdiff_core.explorations.round_cost import RoundCost
from specdiff_core.explorations.side_by_side import SideBySide
from specdiff_core.explorations.temperature import Temperature
from specdiff_core.explorations.text import WhichText
from specdiff_core.explorations.window_map import WindowMap
from specdiff_core.schema.errors import ConfigError

ORDER = (WindowMap, RoundCost, Losslessness, Temperature, WhichText, Budget, SideBySide, Learn, Compare)
COMMANDS = (Doctor, Diverge)
"""Without a view on the page."""
EXPLORATIONS: dict[str, type[Exploration]] = {kind.name: kind for kind in (*ORDER, *COMMANDS)}
RENAMED = {"which-gamma": "window-map", "length": "text", "kinds-of-text": "text", "align": "learn"}
"""Explorations of older links -> those that hold them now."""


def find_exploration(name: str) -> type[Exploration]:
    """The exploration of a name; ConfigError: there is none."""
    if name not in EXPLORATIONS:
        hint = f"Choose one of: {', '.join(EXPLORATIONS)}."
        raise ConfigError(f"There is no exploration called {str(name)[:40]!r}.", field="explore", hint=hint)
    return EXPLORATIONS[name]
