"""``pairs``: the model pairs, and why one cannot be used here."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

from specdiff_core.cli import options
from specdiff_core.schema.pairs import PAIRS, DrafterSpec


def add_command(commands: Any) -> None:
    """Add ``pairs`` to a parser's subcommands."""
    parser = options.add_parser(commands, "pairs", run, "List the model pairs, and why one cannot be used here.")
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """``pairs``: the registry, and what can be used here."""
    from specdiff_core.models.availability import availability

    rows = []
    for pair in PAIRS.values():
        available, reason = availability(pair)
        here = {drafter.name: drafter_is_here(drafter) for drafter in pair.drafters}
        rows.append(
            {"name": pair.name, "label": pair.label, "available": available, "reason": reason, "drafters": here}
        )
        print(f"{pair.name}: {pair.label}")
        print(f"    {'available' if available else 'not available: ' + reason}")
        for drafter in pair.drafters:
            gone = "" if here[drafter.name] else " (its weights are not here)"
            print(f"    --drafter {drafter.name:14} {drafter.about}{gone}")
    if args.json:
        print(json.dumps({"pairs": rows}, ensure_ascii=False))


def drafter_is_here(drafter: DrafterSpec) -> bool:
    """Whether a drafter that ships with the project has its files; hub drafters are judged with their pair."""
    folder = Path(drafter.source)
    return not drafter.source or not folder.is_absolute() or (folder / "config.json").is_file()
