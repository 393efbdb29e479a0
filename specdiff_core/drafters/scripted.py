"""A drafter that proposes what a function tells it: for tests of the loop and of the rules.

It runs the production ``denoise`` over that function, so reveal orders and randomness are the real ones.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

from torch import Tensor

from specdiff_core.drafters.base import Context, DenoiseState, Draft, DraftSession
from specdiff_core.drafters.denoise import denoise

Script = Callable[[tuple[int, ...], Tensor], Tensor]
"""(committed ids, window ids [g]) -> logits [g, V]."""


class ScriptedSession:
    """Records what it observed, so that tests can compare it with what was committed."""

    def __init__(self, script: Script, mask_id: int) -> None:
        self._script, self._mask_id = script, mask_id
        self.observed: list[int] = []

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Append to ``observed``."""
        self.observed.extend(ids)

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        """Denoise by the script."""
        known = tuple(context.ids)
        return (yield from denoise(lambda window: self._script(known, window), context, mask_id=self._mask_id))


class ScriptedDrafter:
    """Weights: a function."""

    name = "scripted"
    layers: tuple[int, ...] = ()

    def __init__(self, script: Script, *, mask_id: int) -> None:
        self._script, self._mask_id = script, mask_id

    def start(self) -> DraftSession:
        """A fresh session of the same script."""
        return ScriptedSession(self._script, self._mask_id)
