"""Numbers, lists and rows of a table in words."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from typing import Any

Row = Mapping[str, Any]


def ratio(value: float | None, digits: int = 2) -> str:
    """A number with a fixed number of digits, or a dash."""
    return "–" if value is None else f"{value:.{digits}f}"


def speedup(value: float | None) -> str:
    """A speed-up, marked as slower below 1."""
    return "–" if value is None else f"{value:.2f}×" if value >= 1 else f"{value:.2f}× (slower)"


def slower(row: Row) -> bool:
    """Whether a row is slower than vanilla, with its whole interval if it has one."""
    return bool(row["speedup"] < 1 and (row.get("high") or 0) < 1)


def speedup_words(row: Row) -> str:
    """A row's speed-up, marked as slower only if :func:`slower`."""
    return speedup(row["speedup"]) if row["speedup"] >= 1 or slower(row) else f"{ratio(row['speedup'])}×"


def percent(share: float, digits: int = 0) -> str:
    """A share as a percentage."""
    return f"{100 * share:.{digits}f} %"


def plural(count: int, noun: str) -> str:
    """``1 token``, ``2 tokens``."""
    return f"{count:,} {noun}{'' if count == 1 else 'es' if noun.endswith('s') else 's'}"


def listed(words: Sequence[str]) -> str:
    """``a, b and c``."""
    return " and ".join([*([", ".join(words[:-1])] if words[:-1] else []), *words[-1:]])


def shortlist(words: Sequence[str]) -> str:
    """``a, b, c and 4 others``."""
    left = len(words) - 3
    return listed(words) if left < 2 else listed([*words[:3], f"{left} others"])


def escaped(words: object) -> str:
    """Text of a visitor or a model, escaped because Plotly reads some markup in labels."""
    return html.escape(str(words), quote=False)


def quoted(piece: str) -> str:
    """A token within a sentence, with visible spaces and line ends."""
    visible = piece.replace("\r\n", "↵").replace("\n", "↵").replace("\t", "⇥")
    return f"“{'␣' * min(4, len(visible)) if visible and not visible.strip(' ') else visible.removeprefix(' ')[:32]}”"


def interval_words(row: Row) -> str:
    """The interval of a row's speed-up."""
    if row.get("low") is None:
        return "too few prompts for an interval"
    return f"95 % interval {ratio(row['low'])} to {ratio(row['high'])}, {plural(row['prompts'], 'prompt')}"


def with_interval(row: Row) -> str:
    """A row's speed-up and its interval, for a mark."""
    return f"{speedup(row['speedup'])}<br>{interval_words(row)}"
