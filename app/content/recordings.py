"""The recordings that ship with the lab: races, and answers of explorations."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from specdiff_core.explorations.run import ExplorationResult
from specdiff_core.measure.store import read_result
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import ASSETS

from .html import served

LOG = logging.getLogger(__name__)
RECORDINGS = ASSETS / "traces"
INDEX = "index.json"
"""Beside recordings: file name -> {"title", "settings"}: the controls' values, as in a link."""
BLOCKS = "blocks"
"""The folder of recorded blocks, by the names of their recordings."""


def recordings(folder: Path, address: Callable[[Path], str] = served) -> list[dict[str, Any]]:
    """The recordings in a folder's index: title, address, settings, block; none if it cannot be read."""
    index = folder / INDEX
    try:
        entries = json.loads(index.read_text(encoding="utf-8")) if index.is_file() else {}
    except (OSError, ValueError) as error:  # the page also works without recordings
        LOG.warning("%s is left out: %s", index, error)
        entries = {}
    files = {name: {"url": folder / name, "block": folder / BLOCKS / name} for name in entries}
    return [
        {**entries[name], **{kind: address(path) for kind, path in paths.items() if path.is_file()}}
        for name, paths in files.items()
        if paths["url"].is_file()
    ]


def answers(folder: Path, name: str) -> Iterator[tuple[str, ExplorationResult]]:
    """The recorded answers of an exploration, each with its file's name (``NAME`` or ``NAME.WORD``, without ``.json``).
    Invalid files are left out."""
    for path in sorted([*folder.glob(f"{name}.json"), *folder.glob(f"{name}.*.json")], key=lambda path: path.stem):
        try:
            yield path.stem, read_result(path, ExplorationResult)
        except ConfigError as error:  # the others still work
            LOG.warning("%s is left out: %s", path, error)
