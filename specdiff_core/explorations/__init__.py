"""Explorations: questions of the papers, each answered by a live measurement. Importing them doesn't import torch."""

from __future__ import annotations

import importlib
import pkgutil

from specdiff_core.explorations.base import NAMED, Exploration
from specdiff_core.schema.errors import no_such

for _file in pkgutil.iter_modules(__path__):  # an exploration is one file
    importlib.import_module(f"{__name__}.{_file.name}")

FIRST = (
    "window-map",
    "what-it-takes",
    "losslessness",
    "temperature",
    "text",
    "budget",
    "doctor",
    "side-by-side",
    "learn",
)
"""The order on the page; one that is not named here follows."""
EXPLORATIONS = {name: NAMED[name] for name in dict.fromkeys((*FIRST, *NAMED))}


def find_exploration(name: str) -> type[Exploration]:
    """Find an exploration by name; ConfigError if there is none."""
    if name not in EXPLORATIONS:
        raise no_such("exploration", name, EXPLORATIONS, "explore")
    return EXPLORATIONS[name]
