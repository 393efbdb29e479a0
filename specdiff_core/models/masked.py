"""A masked denoiser cut from its target: a few of the target's layers, between its embedding and
output head, adapted as DiffuLLaMA (arXiv 2410.17891) and Dream (2508.15487) are.

A window's rows read each other in both directions, and the committed text before them causally, so
that its keys and values are cached. Outputs are shifted by one: the anchor's row predicts the first
mask, and a window of γ costs γ rows. Files: Llama's fields in ``config.json`` with
``mask_token_id``, ``draft_vocab_size`` and ``block_size``; the target's tables are left out."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn
from transformers import LlamaConfig

from specdiff_core.checkpoints.folders import loading_errors, read_config
from specdiff_core.checkpoints.reading import read_drafter
from specdiff_core.models.network import Attend, DraftModel, Layer, Rope, Shape

ARCHITECTURE = "SpecDiffDraftModel"
"""In ``architectures`` of such a ``config.json``."""


class MaskedDraftModel(DraftModel):
    """Layers and a last norm; embedding and head are the target's.

    Args:
        released: the contents of ``config.json``.
    """

    layers: Sequence[Layer]
    draft_ids: Tensor | None = None  # ids [d] that it can draft, ascending; None: all

    def __init__(self, released: dict[str, Any]) -> None:
        super().__init__()
        self.released = dict(released)
        self.config: Any = LlamaConfig(**{k: v for k, v in released.items() if k not in ("model_type", "dtype")})
        self.shape = Shape.of(self.config)
        layers = (Layer(self.shape, index) for index in range(self.shape.layers))
        self.layers = nn.ModuleList(layers)  # type: ignore[assignment]  # typed as what it holds
        self.norm = self.shape.norm()

    def freeze(self) -> MaskedDraftModel:
        """Prepare for inference. Call after moving the model to its device."""
        self.eval().requires_grad_(False)
        for layer in self.layers:
            layer.freeze()
        return self

    def forward(self, embeddings: Tensor, rope: Rope, attend: Attend, *, last: int) -> Tensor:
        """One pass over ``embeddings [B, n, W]`` -> final states ``[B, last, W]`` of the last rows."""
        hidden = embeddings
        for layer in self.layers:
            hidden = layer(hidden, rope, attend)
        out: Tensor = self.norm(hidden[:, hidden.shape[1] - last :])
        return out


def load_masked(folder: Path, dtype: torch.dtype = torch.float32) -> MaskedDraftModel:
    """The drafter in ``folder``, on the CPU.

    Raises:
        WeightsError: a file is missing, damaged or misfit; the message names it.
    """
    with loading_errors(folder, "denoiser"), torch.device("meta"):
        model = MaskedDraftModel(read_config(folder))
    size = int(model.config.vocab_size)
    drafted = int(getattr(model.config, "draft_vocab_size", None) or size)
    stored, model.draft_ids = read_drafter(folder, model.state_dict(), drafted, size)
    model.load_state_dict(stored, assign=True)
    return model.to(dtype).eval().requires_grad_(False)
