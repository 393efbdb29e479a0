"""Records the logits of every committed token."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, cast

from specdiff_core.engine import Engine

if TYPE_CHECKING:
    from torch import Tensor

    from specdiff_core.models.target import Scores, Target


class RecordingEngine(Engine):
    """An engine on the weights of another one, with a target that records.

    Attributes:
        logits: of the last run, ``[V]`` for each committed token, on the CPU.
    """

    def __init__(self, engine: Engine) -> None:
        super().__init__(engine.pair)
        self.logits: list[Tensor] = []
        self.target = cast("Target", _Target(engine.target, self))


class _Target:
    def __init__(self, target: Target, engine: RecordingEngine) -> None:
        self._target, self._engine = target, engine

    def __getattr__(self, name: str) -> Any:
        return getattr(self._target, name)

    def start(self, layers: Sequence[int] = ()) -> _Run:
        self._engine.logits = []
        return _Run(self._target.start(layers), self._engine.logits)


class _Run:
    def __init__(self, run: Any, logits: list[Tensor]) -> None:
        self._run, self._logits = run, logits

    def __getattr__(self, name: str) -> Any:
        return getattr(self._run, name)

    def score(self, *args: Any, **options: Any) -> Scores:
        scores: Scores = self._run.score(*args, **options)
        self._scores = scores
        return scores

    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        """Each kept row produced the next token."""
        self._logits.extend(self._scores.logits[list(rows)].cpu())
        self._run.rollback(scored, rows)
