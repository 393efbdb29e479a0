"""EAGLE's head (arXiv 2401.15077; the same weights serve EAGLE-2, 2406.16858): one decoder layer that continues the
target's features. Its files have the released names and shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdiff_core.models.causal import Vocabulary
from specdiff_core.models.files import read_tensors, tensor_names, write_folder
from specdiff_core.models.folders import described, read_config
from specdiff_core.models.kernels import Product
from specdiff_core.models.network import Attend, Layer, Rope, Shape, at, causal, rotary_table

if TYPE_CHECKING:
    from transformers import LlamaConfig

UNUSED = ("embed_tokens.weight",)
"""Released with the head, although it is the target's own table."""


class EagleHead(nn.Module):
    """fc([e; f]) and one Llama layer without its first norm; no norm at the end: the result stands for a feature.

    Args:
        config: of a Llama with one layer, as wide as the target.
        bias: whether fc has one; released heads do.
    """

    layers: Sequence[Layer]
    device: torch.device  # this and the following: once frozen
    dtype: torch.dtype
    _words: Vocabulary
    _rope: Rope

    def __init__(self, config: LlamaConfig, *, bias: bool = False) -> None:
        super().__init__()
        self.config = config
        self.shape = shape = Shape.of(config)
        self.fc = nn.Linear(2 * shape.width, shape.width, bias=bias)
        self.layers = nn.ModuleList([Layer(shape, 0, first_norm=False)])  # type: ignore[assignment]  # as in Decoder
        self._join: Product | None = None  # fc

    def freeze(self, words: Vocabulary, *, context: int) -> EagleHead:
        """Prepare for decoding between the embedding and the output head of its target, at up to ``context`` positions.
        Call after the weights are loaded, and where they shall be."""
        self.device, self.dtype = self.fc.weight.device, self.fc.weight.dtype
        self._words = words
        self._rope = rotary_table(self.config, torch.arange(context, device=self.device)[None], self.dtype)
        self._join = Product.of([self.fc])
        self.layers[0].freeze()
        return self

    def forward(
        self, embeddings: Tensor, features: Tensor, rope: Rope | None = None, attend: Attend = causal
    ) -> Tensor:
        """``embeddings [B, n, W]`` of tokens t + 1 and ``features [B, n, W]`` of tokens t -> features of tokens t + 1;
        by default of a whole text."""
        if rope is None:
            everywhere = torch.arange(embeddings.shape[1], device=embeddings.device)[None]
            rope = rotary_table(self.config, everywhere, embeddings.dtype)
        joined = (self._join or self.fc)(torch.cat([embeddings, features.to(embeddings)], -1))
        out: Tensor = self.layers[0](joined, rope, attend)
        return out

    def decode(
        self,
        ids: Tensor,
        places: slice | Tensor,
        attend: Attend,
        *,
        layers: Sequence[int] = (),
        last: int | None = None,
        features: Tensor | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """Logits ``[1, last or n, V]`` of token t + 2 behind each token t + 1 of ``ids [1, n]``, and as the output of
        layer 0 the features ``[1, n, W]`` that they were read off."""
        assert features is not None, "EAGLE reads features"
        hidden = self(F.embedding(ids, self._words.embedding), features, at(self._rope, places), attend)
        states = hidden if last is None else hidden[:, hidden.shape[1] - last :]
        return self._words.head(states), [hidden] * len(layers)


def load_eagle(folder: Path, dtype: torch.dtype = torch.float32) -> EagleHead:
    """The head in ``folder``, frozen, on the CPU.

    Raises:
        WeightsError: a file is missing, damaged, or does not fit ``config.json``; the message names it.
    """
    from transformers import LlamaConfig

    values = read_config(folder)
    with described(folder, "EAGLE head"), torch.device("meta"):
        config = LlamaConfig(**{**values, "num_hidden_layers": 1})
        head = EagleHead(config, bias="fc.bias" in tensor_names(folder))
    stored = read_tensors(folder, head.state_dict(), ignored=UNUSED)
    head.load_state_dict({name: tensor.to(dtype) for name, tensor in stored.items()}, assign=True)
    return head.eval().requires_grad_(False)


def save_eagle(head: EagleHead, folder: Path) -> Path:
    """Write ``head`` with the released names: ``config.json`` and bf16 safetensors, in shards below 9 MB."""
    values = {name: value for name, value in head.config.to_diff_dict().items() if name not in {"dtype", "layer_types"}}
    return write_folder(folder, values, head.state_dict())
