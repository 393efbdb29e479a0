"""Explorations: questions of the papers, each answered by a live measurement. Importing them doesn't import torch.

A file without a question of its own is shared by several, or is part of one, which its first lines name.
"""

from __future__ import annotations

import importlib
import pkgutil

from specdiff_core.explorations.base import NAMED, Exploration
from specdiff_core.schema.errors import no_such

for _file in pkgutil.iter_modules(__path__):  # an exploration is declared in one file
    importlib.import_module(f"{__name__}.{_file.name}")

EXPLORATIONS = dict(sorted(NAMED.items(), key=lambda item: item[1].rank))
"""By name, in the order of the page."""


def find_exploration(name: str) -> type[Exploration]:
    """Find an exploration by name; ConfigError if there is none."""
    if name not in EXPLORATIONS:
        raise no_such("exploration", name, EXPLORATIONS, "explore")
    return EXPLORATIONS[name]
