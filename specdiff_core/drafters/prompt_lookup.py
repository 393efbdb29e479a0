"""Prompt lookup decoding: copies what followed the last match of the text's end. It has no weights.
A copy is a point mass; without a match the draft is empty and the round a plain step."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from specdiff_core.drafters.base import Context, Draft, Passless
from specdiff_core.models.device import Placement
from specdiff_core.schema.pairs import DrafterSpec, PairSpec

LONGEST_MATCH = 3  # tokens of the longest ending to match; shorter ones are tried next


class PromptLookupDrafter(Passless):
    """Has no cache: every draft reads the whole text."""

    def __init__(self, name: str) -> None:
        self.name = name

    def draft_at_once(self, context: Context) -> Draft:
        """Copy up to γ tokens."""
        return Draft.point_mass(continuation(context.ids, context.gamma), nfe=0)


def continuation(ids: Sequence[int], gamma: int) -> list[int]:
    """At most ``gamma`` tokens after the latest match of the longest ending of ``ids``; or none."""
    text = list(ids)
    for size in range(min(LONGEST_MATCH, len(text) - 1), 0, -1):
        ending = text[-size:]
        for start in range(len(text) - size - 1, -1, -1):
            if text[start : start + size] == ending:
                return text[start + size : start + size + gamma]
    return []


def build(spec: DrafterSpec, placement: Placement, *, target: Any, pair: PairSpec) -> PromptLookupDrafter:
    return PromptLookupDrafter(spec.name)
