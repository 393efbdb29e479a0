"""The autoregressive drafter: a small causal model of the target's own kind, as in standard speculative sampling."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdiff_core.checkpoints.writing import write_folder
from specdiff_core.models.masked import MaskedDraftModel
from specdiff_core.models.network import causal
from specdiff_core.train.answers import Batch
from specdiff_core.train.learners.base import ENDS, Learner, Plan, autocast, begun_with, layer_config
from specdiff_core.train.learners.masked import new_masked
from specdiff_core.train.settings import DrafterSettings


class AutoregressiveLearner(Learner):
    """A small causal model: the layers of :class:`MaskedDraftModel`, which here read the texts ``[B, L]`` before them
    only. It learns the target's distributions (DistillSpec's forward KL, arXiv 2310.08461)."""

    title = "Autoregressive"
    model: MaskedDraftModel

    @classmethod
    def candidates(cls, size: int, mask: int, start: Any, most: int) -> tuple[Sequence[int], int]:
        """All of the target's, because a stock Llama has them."""
        return range(size), size

    @classmethod
    def new(cls, plan: Plan) -> MaskedDraftModel:
        """One of new layers or the target's."""
        fresh = causal_config(plan.target, plan.settings)
        return new_masked(plan.released or fresh, plan.read_cut(), seed=plan.settings.seed)

    def loss(self, batch: Batch, generator: torch.Generator, *, finishing: bool) -> Tensor:
        """Over the tokens whose distribution is stored."""
        positions = torch.arange(batch.tokens.shape[1], device=self.device)
        with autocast(self.device):
            rope = self.model.rope(positions[None])
            hidden = self.model(self._embed(batch.tokens), rope, causal, last=len(positions))
        where = (batch.top_logs[..., 0] > -torch.inf).nonzero(as_tuple=True)
        return self._distilled(hidden[where].float(), batch, where, finishing=finishing)

    def export(self, folder: Path) -> None:
        """As a stock ``LlamaForCausalLM`` with the target's embedding and output head."""
        tensors = {f"model.{name}": tensor for name, tensor in self.model.state_dict().items()}
        tensors["model.embed_tokens.weight"] = self.embedding
        if not self.model.config.tie_word_embeddings:
            tensors["lm_head.weight"] = self._head
        write_folder(folder, self.model.released, tensors)

    @property
    def about(self) -> str:
        return (
            "A small autoregressive drafter, as in standard speculative sampling (arXiv 2211.17192, 2302.01318): a "
            f"stock `LlamaForCausalLM` as wide as its target, of {self.model.shape.layers} "
            f"layers{begun_with(self.settings)}, with the target's embedding and output head. It learned the target's "
            "distributions (arXiv 2310.08461)."
        )


def causal_config(target: Any, settings: DrafterSettings) -> dict[str, Any]:
    """The ``config.json`` of a new autoregressive drafter for ``target``."""
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "num_hidden_layers": len(settings.cut) or settings.layers,
        **layer_config(target),
        **{name: getattr(target, name, None) for name in ENDS},
        "tie_word_embeddings": bool(getattr(target, "tie_word_embeddings", False)),
        "dtype": "bfloat16",
    }
