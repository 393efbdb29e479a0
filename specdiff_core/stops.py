"""Stop strings: where a text ends before its limits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdiff_core.schema.errors import ConfigError

TORN = 3
"""Characters that a character becomes, at most, where tokens begin or end inside it."""


def text_before(text: str, stops: Sequence[str]) -> str:
    """``text`` up to the first of ``stops``."""
    return text[: min((start for stop in stops if (start := text.find(stop)) >= 0), default=len(text))]


class StopStrings:
    """Finds where one of several strings ends a text.

    Args:
        stops: the strings, none of them empty; one may be the name of a control token, which is not text.

    Raises:
        ConfigError: one contains such a name and more.
    """

    def __init__(self, tokenizer: Any, stops: Sequence[str]) -> None:
        self._tokenizer, self._stops = tokenizer, tuple(stops)
        added = getattr(tokenizer, "added_tokens_decoder", {}).items()
        names = {str(entry): token for token, entry in added if entry.special and str(entry).strip()}
        self._marks = {names[stop] for stop in stops if stop in names}
        if mixed := [stop for stop in stops for name in names if name in stop and stop not in names]:
            what = f"The text can’t stop at {mixed[0]!r}: it contains a control token, which is not text."
            raise ConfigError(what, field="stop", hint="Give the control token alone.")
        self._reach = max(map(len, stops)) + 2 * TORN

    def __call__(self, written: Sequence[int], fresh: Sequence[int]) -> int | None:
        """How many ``fresh`` tokens behind those ``written`` complete a stop string, or None."""
        size = self._reach
        while size < len(written) and len(self._text(written[-size:])) < self._reach:
            size *= 2  # special tokens have no text
        tail = written[-size:]
        if not self._holds([*tail, *fresh]):
            return None
        return next(count for count in range(1, len(fresh) + 1) if self._holds([*tail, *fresh[:count]]))

    def _holds(self, ids: Sequence[int]) -> bool:
        """Whether ``ids`` contain a stop string in their text, or one that is a token."""
        return not self._marks.isdisjoint(ids) or any(stop in self._text(ids) for stop in self._stops)

    def _text(self, ids: Sequence[int]) -> str:
        return str(self._tokenizer.decode(list(ids), skip_special_tokens=True))
