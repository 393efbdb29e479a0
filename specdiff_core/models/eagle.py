"""EAGLE's head (arXiv 2401.15077; the same weights serve EAGLE-2, 2406.16858): one decoder layer that continues the
target's features. Its files have the released names and shapes.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers.modeling_outputs import CausalLMOutputWithPast

from specdiff_core.models.causal import vocabulary
from specdiff_core.models.files import read_tensors, write_folder
from specdiff_core.models.folders import read_config, shown
from specdiff_core.models.layout import lay_out
from specdiff_core.schema.errors import WeightsError

if TYPE_CHECKING:
    from transformers import LlamaConfig, PreTrainedModel

BODY = "body."
"""Where the layer lies in this module; released files leave it out."""
UNUSED = ("embed_tokens.weight",)
"""Released with the head, although it is the target's own table."""


class EagleHead(nn.Module):
    """fc([e; f]) and one Llama layer without its first norm; no norm at the end: the result stands for a feature.

    Args:
        config: of a Llama with one layer, as wide as the target.
        bias: whether fc has one; released heads do.
    """

    def __init__(self, config: LlamaConfig, *, bias: bool = False) -> None:
        from transformers import LlamaModel

        super().__init__()
        self.config = config
        self.fc = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=bias)
        self.body = LlamaModel(config)
        for name in ("embed_tokens", "norm", "layers.0.input_layernorm"):
            self.body.set_submodule(name, nn.Identity())

    def forward(self, embeddings: Tensor, features: Tensor, **others: Any) -> Tensor:
        """``embeddings [B, n, W]`` of tokens t + 1 and ``features [B, n, W]`` of tokens t -> features of tokens t + 1.

        Args:
            others: attention_mask, position_ids, past_key_values, use_cache, as for a Llama.
        """
        joined = self.fc(torch.cat([embeddings, features.to(embeddings)], -1))
        out: Tensor = self.body(inputs_embeds=joined, **others).last_hidden_state
        return out


class EagleReader:
    """A head between its target's embedding and output head: called as a causal model is, with features beside ids."""

    def __init__(self, head: EagleHead, target: PreTrainedModel) -> None:
        self.head, self.config = head, head.config
        self._embedding, self._output = vocabulary(target)
        self.dtype, self.device = target.dtype, target.device

    def __call__(
        self,
        input_ids: Tensor,
        features: Tensor,
        logits_to_keep: int = 0,
        output_hidden_states: Sequence[int] = (),
        **others: Any,
    ) -> CausalLMOutputWithPast:
        """Logits ``[1, n, V]`` of token t + 2 behind each token t + 1 of ``input_ids [1, n]``, and as hidden state 1
        the features ``[1, n, W]`` that they were read off."""
        hidden = self.head(F.embedding(input_ids, self._embedding), features, **others)
        return CausalLMOutputWithPast(
            logits=self._output(hidden[:, -logits_to_keep:]),
            hidden_states=(hidden, hidden) if output_hidden_states else None,  # of the layer; nobody asks for the first
        )


def load_eagle(folder: Path, dtype: torch.dtype = torch.float32, *, fast: bool = True) -> EagleHead:
    """The head in ``folder``, frozen, on the CPU.

    Args:
        fast: lay the weights out for decoding; in training no gradient would reach them.

    Raises:
        WeightsError: a file is missing, damaged, or does not fit ``config.json``; the message names it.
    """
    from transformers import LlamaConfig

    values = read_config(folder)
    try:
        config = LlamaConfig(**{**values, "num_hidden_layers": 1})
        with torch.device("meta"):
            head = EagleHead(config, bias=True)
    except Exception as error:  # a damaged config.json makes transformers raise nearly anything
        raise WeightsError(
            f"{shown(folder / 'config.json')} describes no EAGLE head ({type(error).__name__}).",
            hint="Restore the config.json that was saved with this model.",
        ) from error
    config._attn_implementation = "sdpa"
    expected = {name.removeprefix(BODY): tensor.shape for name, tensor in head.state_dict().items()}
    stored = read_tensors(folder, expected, optional=("fc.bias",), ignored=UNUSED)
    if "fc.bias" not in stored:
        head.fc.register_parameter("bias", None)
    head.load_state_dict({name: stored[name.removeprefix(BODY)].to(dtype) for name in head.state_dict()}, assign=True)
    head.body.rotary_emb = type(head.body.rotary_emb)(config)  # its tables are no weights: they were left on "meta"
    head.eval().requires_grad_(False)
    if fast:
        lay_out(head)
    return head


def save_eagle(head: EagleHead, folder: Path) -> Path:
    """Write ``head`` with the released names: ``config.json`` and bf16 safetensors, in shards below 9 MB."""
    values = {name: value for name, value in head.config.to_diff_dict().items() if name not in {"dtype", "layer_types"}}
    tensors = {name.removeprefix(BODY): tensor for name, tensor in head.state_dict().items()}
    write_folder(folder, values, tensors)
    return folder
