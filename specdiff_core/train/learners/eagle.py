"""EAGLE's head (arXiv 2401.15077): a decoder layer that continues the target's last hidden states."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import LlamaConfig

from specdiff_core.models.eagle import EagleHead, save_eagle
from specdiff_core.train.answers import Batch
from specdiff_core.train.learners.base import ENDS, Learner, Plan, autocast, layer_config
from specdiff_core.train.settings import DrafterSettings

PASSES = 3
"""Times that EAGLE's head reads a row: first the target's features, then, in part, its own
(EAGLE-3's training-time test, arXiv 2503.01840, with a random mixture in place of its mask)."""
OWN = 0.5
"""Share of a later pass's features that are the head's own."""
FEATURE = 0.5
"""Weight of the smooth L1 distance between features beside the cross-entropy (EAGLE: 1 to 0.1)."""


class EagleLearner(Learner):
    """EAGLE's head: smooth L1 to the target's features ``[B, L, W]`` and cross-entropy to its most probable
    words, over :data:`PASSES` readings of each answer."""

    title = "EAGLE"
    model: EagleHead

    @classmethod
    def reads(cls, settings: DrafterSettings, depth: int) -> tuple[int, ...]:
        """The last layer."""
        return (depth - 1,)

    @classmethod
    def new(cls, plan: Plan) -> EagleHead:
        """One that repeats its feature at first."""
        return new_eagle(plan.target, seed=plan.settings.seed)

    def loss(self, batch: Batch, generator: torch.Generator, *, finishing: bool) -> Tensor:
        """Over the tokens whose distribution is stored."""
        states = batch.features[:, :, 0]
        # Entry t reads the feature of token t beside token t + 1, and stands for that of t + 1.
        where = (batch.top_logs[:, 1:, 0] > -torch.inf).nonzero(as_tuple=True)
        behind = where[0], where[1] + 1
        feature = states[behind].float()
        shape = (PASSES - 1, len(states), states.shape[1] - 2, 1)
        use_own = (torch.rand(shape, generator=generator) < OWN).to(self.device)
        embedded = self._embed(batch.tokens[:, 1:])
        loss = torch.zeros((), device=self.device)
        with autocast(self.device):
            readings = list(eagle_readings(self.model, embedded, states.to(embedded), use_own))
        for reading in readings:
            rows = reading[where].float()
            loss = (
                loss
                + self._distilled(rows, batch, behind, finishing=finishing)
                + FEATURE * F.smooth_l1_loss(rows, feature)
            )
        return loss / PASSES

    def export(self, folder: Path) -> None:
        """In the layout of the released EAGLE heads."""
        save_eagle(self.model, folder, embedding=self.embedding if self.settings.tables else None)

    @property
    def about(self) -> str:
        return (
            "EAGLE's head (arXiv 2401.15077): one decoder layer that continues its target's last "
            "hidden states, between the target's own embedding and output head.\n\nLayout: that of "
            "the released EAGLE heads. " + self._checked
        )


def eagle_readings(head: EagleHead, embeddings: Tensor, states: Tensor, use_own: Tensor) -> Iterator[Tensor]:
    """The features ``[B, L − 1, W]`` that the head predicts, reading by reading.

    Args:
        embeddings: ``[B, L − 1, W]`` of tokens 2 .. L.
        states: ``[B, L, W]`` the target's features.
        use_own: ``[P − 1, B, L − 2, 1]`` bool: where a later reading gets the head's own feature. A
            feature that the head predicted belongs one token later.
    """
    inputs = states[:, :-1]
    predicted = head(embeddings, inputs)
    yield predicted
    for mixed in use_own:
        inputs = torch.cat([states[:, :1], torch.where(mixed, predicted[:, :-1], states[:, 1:-1].to(predicted))], 1)
        predicted = head(embeddings, inputs)
        yield predicted


def new_eagle(target: Any, *, seed: int = 0) -> EagleHead:
    """An untrained EAGLE head for a target with this config, which repeats its feature at first."""
    ends: Any = {name: getattr(target, name, None) for name in ENDS}
    config = LlamaConfig(**layer_config(target), **ends, num_hidden_layers=1, architectures=["LlamaForCausalLMEagle"])
    head, generator = EagleHead(config), torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for parameter in head.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=config.initializer_range, generator=generator)
        width = config.hidden_size
        head.fc.weight[:, :width] *= 0.1
        head.fc.weight[:, width:] = torch.eye(width)
        for projection in (head.layers[0].self_attn.o_proj, head.layers[0].mlp.down_proj):
            projection.weight.mul_(0.1)
    return head
