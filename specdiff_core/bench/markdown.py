"""Markdown tables, and how numbers and cells read in them. Knows no kind of result."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

Result = dict[str, Any]


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A Markdown table, aligned for reading as plain text too."""
    cells = [list(head), *[list(row) for row in rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in cells
    ]
    lines.insert(1, "|" + "|".join("-" * (width + 2) for width in widths) + "|")
    return "\n".join(lines)


def number(value: float | None, form: str = ".2f") -> str:
    """A number, or a dash where it is not defined."""
    return "–" if value is None else format(value, form)


def cell_name(entry: Result) -> str:
    """``block γ=8 T=1``, with a tree ``block γ=8 B=32``, with several drafts ``block γ=8 K=4 self``; where γ is chosen
    as it goes ``block γ≤16 auto``."""
    if entry["drafter"] == "none":
        return "vanilla"
    auto = entry.get("auto")
    last = f"B{'≤' if auto else '='}{entry['nodes']}" if entry.get("nodes") else f"T={entry['steps']}"
    if entry.get("drafts", 1) > 1:  # neither stands in results from before trees and K
        last = f"K={entry['drafts']} {entry['selection']}"
    if auto:
        last = "auto" if entry["steps"] == 1 and not entry.get("nodes") else f"{last} auto"
    return f"{entry['drafter']} γ{'≤' if auto else '='}{entry['gamma']} {last}"
