"""What training tasks on packed text share: batches, a compiled loss, scores by flavour; for drafters, labels and τ."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from specdiff_core.train.corpus import EncodedCorpus
from specdiff_core.train.losses import probs_without
from specdiff_core.train.rows import PackedRows
from specdiff_core.train.simulated_tau import SimulatedTau
from specdiff_core.train.trainer import compiled, frozen, with_means

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM

    from specdiff_core.train.jobs import DrafterSettings, ModelSettings


class PackedTask(ABC):
    """A task whose batches are packed rows."""

    model: Any

    def __init__(self, model: nn.Module, data: EncodedCorpus, settings: ModelSettings, rows: PackedRows) -> None:
        self.model, self._settings, self._rows = model, settings, rows
        self._device, self._held_out = next(model.parameters()).device, data.held_out()
        self._objective = compiled(self.objective, settings.compile)

    @property
    def tokens_per_step(self) -> int:
        return self._rows.rows * self._rows.length

    @abstractmethod
    def objective(self, *inputs: Tensor) -> Tensor:
        """The loss of a batch, from what :meth:`inputs` made of it."""

    def inputs(self, rows: np.ndarray, rng: np.random.Generator) -> tuple[Tensor, ...]:
        """What :meth:`objective` takes, on the model's device, from ``rows [B, L]`` and the step's random numbers."""
        return self._on_device(rows)

    @abstractmethod
    def score(self, flavour: str, tokens: np.ndarray) -> dict[str, float]:
        """Scores on held-out ``tokens [N]``, by kind."""

    def _on_device(self, *parts: Tensor | np.ndarray) -> tuple[Tensor, ...]:
        return tuple(torch.as_tensor(part).to(self._device) for part in parts)

    def loss(self) -> Tensor:
        return self._objective(*self.inputs(*self._rows.draw()))

    def skip(self) -> None:
        self._rows.draw()

    def evaluate(self) -> dict[str, float]:
        found = {name: self.score(name, tokens) for name, tokens in self._held_out.items()}
        scores = {f"{kind}/{name}": value for name, kinds in found.items() for kind, value in kinds.items()}
        return with_means({name.removeprefix("/"): value for name, value in scores.items()})


class DrafterTask(PackedTask):
    """A drafter learns the distributions of a frozen target, bf16 autocast.

    Args:
        written: ``[N]`` tokens that the target wrote; ``settings.share`` of the rows come from them.
        prompts: held-out documents of each flavour on which τ is simulated.

    Raises:
        CorpusError: a text is too short for the rows or for the measurement.
    """

    def __init__(
        self,
        model: nn.Module,
        target: LlamaForCausalLM,
        data: EncodedCorpus,
        settings: DrafterSettings,
        *,
        written: np.ndarray | None = None,
        prompts: int = 8,
    ) -> None:
        shape = {"rows": settings.rows, "length": settings.length}
        rows = PackedRows(data, settings.seed + 1, **shape, written=written, share=settings.share)
        super().__init__(model, data, settings, rows)
        self._target, self._mask = frozen(target), data.mask
        self._tau = SimulatedTau(target, self._held_out, end=data.end, mask=data.mask, prompts=prompts)

    def target_probs(self, states: Tensor) -> Tensor:
        """What the target predicts from its final states ``[…, W]``: probabilities ``[…, V]``, never the mask."""
        return probs_without(self._target.lm_head(states), self._mask)
