"""The DFlash network (arXiv 2602.06036): Qwen3-style layers denoise a block, reading a target's hidden states.

It knows parameters, their released names, config.json and the forward pass (also the one that transformers' own
DFlash candidate generator calls). It refuses to know masks to draw, embeddings, heads, caches and training.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from huggingface_hub.errors import StrictDataclassError
from torch import Tensor, nn
from transformers import Qwen3Config  # transformers >= 4.51 brought Qwen3
from transformers.modeling_outputs import BaseModelOutputWithPast
from transformers.models.qwen3.modeling_qwen3 import (
    Qwen3MLP,
    Qwen3RMSNorm,
    Qwen3RotaryEmbedding,
    rotate_half,
)

from specdiff_core.errors import WeightsError
from specdiff_core.models import files

Rope = tuple[Tensor, Tensor]  # cos, sin: [B or 1, n, head_dim]
# (layer, q [B, H, n, D], k [B, Hkv, n, D], v [B, Hkv, n, D] of the block) -> [B, H, n, D]
Attend = Callable[[int, Tensor, Tensor, Tensor], Tensor]


def _rotate(states: Tensor, rope: Rope) -> Tensor:
    """Rotary embedding of ``states [B, heads, n, D]``."""
    cos, sin = rope
    return states * cos.unsqueeze(1) + rotate_half(states) * sin.unsqueeze(1)


class DFlashAttention(nn.Module):
    """Projections of one layer. Keys and values come from the block's hidden states *and* from the context features."""

    def __init__(self, config: Qwen3Config, index: int) -> None:
        super().__init__()
        width, heads, self.head_dim = config.hidden_size, config.num_attention_heads, config.head_dim
        groups = config.num_key_value_heads
        self.q_proj = nn.Linear(width, heads * self.head_dim, bias=config.attention_bias)
        self.k_proj = nn.Linear(width, groups * self.head_dim, bias=config.attention_bias)
        self.v_proj = nn.Linear(width, groups * self.head_dim, bias=config.attention_bias)
        self.o_proj = nn.Linear(heads * self.head_dim, width, bias=config.attention_bias)
        self.q_norm = Qwen3RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.k_norm = Qwen3RMSNorm(self.head_dim, eps=config.rms_norm_eps)
        self.grouped = heads != groups
        self.window = config.sliding_window if config.layer_types[index] == "sliding_attention" else None

    def queries(self, hidden: Tensor, rope: Rope) -> Tensor:
        """``hidden [B, n, W]`` -> normed, rotated queries ``[B, H, n, D]``."""
        split = self.q_proj(hidden).view(*hidden.shape[:-1], -1, self.head_dim)
        return _rotate(self.q_norm(split).transpose(1, 2), rope)

    def keys_values(self, hidden: Tensor, rope: Rope) -> tuple[Tensor, Tensor]:
        """``hidden [B, n, W]`` (block states or context features) -> k, v, each ``[B, Hkv, n, D]``."""
        split = (*hidden.shape[:-1], -1, self.head_dim)
        keys = self.k_norm(self.k_proj(hidden).view(split)).transpose(1, 2)
        return _rotate(keys, rope), self.v_proj(hidden).view(split).transpose(1, 2)

    def scores(self, q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None) -> Tensor:
        """Attention of ``q [B, H, n, D]`` over ``k, v [B, Hkv, m, D]``, not causal; mask True = may be read."""
        return F.scaled_dot_product_attention(q, k, v, attn_mask=mask, enable_gqa=self.grouped)


class DFlashLayer(nn.Module):
    """Pre-norm attention and SwiGLU, as in Qwen3."""

    def __init__(self, config: Qwen3Config, index: int) -> None:
        super().__init__()
        self.index = index
        self.self_attn = DFlashAttention(config, index)
        self.mlp = Qwen3MLP(config)
        self.input_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.post_attention_layernorm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, hidden: Tensor, rope: Rope, attend: Attend) -> Tensor:
        normed = self.input_layernorm(hidden)
        mixed = attend(self.index, self.self_attn.queries(normed, rope), *self.self_attn.keys_values(normed, rope))
        hidden = hidden + self.self_attn.o_proj(mixed.transpose(1, 2).flatten(2))
        return hidden + self.mlp(self.post_attention_layernorm(hidden))


class DFlashDraftModel(nn.Module):
    """A target-conditioned block denoiser, without embedding and head: it uses the target's.

    Args:
        released: the contents of ``config.json``: the Qwen3 fields, ``block_size`` (anchor included),
            ``num_target_layers`` and ``dflash_config``.
    """

    def __init__(self, released: dict[str, Any]) -> None:
        super().__init__()
        self.released = dict(released)
        self.config = config = read_config(released)
        features = len(config.target_layer_ids) * config.hidden_size
        self.fc = nn.Linear(features, config.hidden_size, bias=False)
        self.hidden_norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.layers = nn.ModuleList(DFlashLayer(config, index) for index in range(config.num_hidden_layers))
        self.norm = Qwen3RMSNorm(config.hidden_size, eps=config.rms_norm_eps)
        self.rotary_emb = Qwen3RotaryEmbedding(config=config)

    def initialize(self, generator: torch.Generator) -> None:
        """Draw the matrices of an untrained network: normal, ``config.initializer_range``; norms stay one."""
        for parameter in self.parameters():
            if parameter.ndim == 2:
                nn.init.normal_(parameter, std=self.config.initializer_range, generator=generator)

    @property
    def device(self) -> torch.device:
        return self.fc.weight.device

    @property
    def dtype(self) -> torch.dtype:
        return self.fc.weight.dtype

    def read_features(self, features: Tensor) -> Tensor:
        """``features [B, n, F·W]``, the target's layers side by side -> what every layer reads ``[B, n, W]``."""
        return self.hidden_norm(self.fc(features))

    def rope(self, positions: Tensor, dtype: torch.dtype | None = None) -> Rope:
        """cos and sin at absolute ``positions [B, n]``."""
        like = torch.empty(0, device=positions.device, dtype=dtype or self.dtype)
        cos, sin = self.rotary_emb(like, positions)
        return cos, sin

    def denoise(self, embeddings: Tensor, rope: Rope, attend: Attend) -> Tensor:
        """One pass over a block: ``embeddings [B, n, W]`` -> final hidden states for the target's head.

        ``attend`` decides what each layer's queries read besides the block itself; that is all in which decoding,
        training and transformers' own loop differ.
        """
        hidden = embeddings
        for layer in self.layers:
            hidden = layer(hidden, rope, attend)
        return self.norm(hidden)

    def window_mask(self, layer: int, queries: Tensor, keys: Tensor) -> Tensor | None:
        """For sliding layers, True where ``|query - key| < window``; positions ``[n]`` and ``[m]`` -> ``[n, m]``."""
        window = self.layers[layer].self_attn.window
        if window is None or keys.numel() == 0:
            return None
        return (queries[:, None] - keys[None, :]).abs() < window

    def forward(
        self,
        noise_embeds: Tensor,
        context_hidden_states: Tensor,
        position_ids: Tensor | None = None,
        attention_mask: Tensor | None = None,
        past_key_values: Any = None,
        **unused: Any,
    ) -> BaseModelOutputWithPast:
        """The signature of transformers' ``DFlashTokenCandidateGenerator`` (5.2x): stock ``generate`` runs it.

        Args:
            noise_embeds: ``[B, b, W]`` target embeddings of anchor and masks.
            context_hidden_states: ``[B, n, F·W]`` features of the newly committed tokens only.
            position_ids: ``[B, n + b]`` absolute positions of both; by default they continue the cache.
            attention_mask: ``[B, m]`` nonzero where a key may be read, m all keys; None reads all.
            past_key_values: a transformers cache with ``update(k, v, layer)``; the caller crops the block off again.
        """
        context = self.read_features(context_hidden_states)
        fresh, block = context.shape[1], noise_embeds.shape[1]
        if position_ids is None:
            seen = past_key_values.get_seq_length() if past_key_values is not None else 0
            position_ids = torch.arange(seen, seen + fresh + block, device=context.device)[None]
        cos, sin = self.rope(position_ids, noise_embeds.dtype)
        context_rope = (cos[:, :fresh], sin[:, :fresh])
        block_rope = (cos[:, fresh:], sin[:, fresh:])
        places = position_ids[0, fresh:]

        def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            attention = self.layers[index].self_attn
            old_k, old_v = attention.keys_values(context, context_rope)
            k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
            if past_key_values is not None:
                k, v = past_key_values.update(k, v, index)
            # Counted from the end: a sliding cache may have cut the front.
            keys = places[-1] + torch.arange(1 - k.shape[2], 1, device=k.device)
            mask = self.window_mask(index, places, keys)
            if attention_mask is not None and not bool(attention_mask.all()):
                readable = attention_mask[:, None, None, -k.shape[2] :].bool()
                mask = readable if mask is None else readable & mask
            return attention.scores(q, k, v, mask)

        hidden = self.denoise(noise_embeds, block_rope, attend)
        return BaseModelOutputWithPast(last_hidden_state=hidden, past_key_values=past_key_values)


def read_config(values: dict[str, Any]) -> Qwen3Config:
    """A released ``config.json`` -> Qwen3 config with ``block_size``, ``mask_token_id``, ``target_layer_ids`` on top.

    Raises:
        WeightsError: it is not the config of a DFlash drafter.
    """
    special = values.get("dflash_config")
    if not isinstance(special, dict) or not {"mask_token_id", "target_layer_ids"} <= special.keys():
        raise WeightsError(
            "config.json has no dflash_config with mask_token_id and target_layer_ids.",
            hint="Point the pair at a folder that holds a DFlash drafter.",
        )
    try:
        return _read_config(values, special)
    except (TypeError, ValueError, KeyError, StrictDataclassError) as error:
        raise WeightsError(
            f"config.json is not the config of a DFlash drafter: {str(error).splitlines()[0][:120]}",
            hint="Restore the released config.json of this drafter.",
        ) from error


def _read_config(values: dict[str, Any], special: dict[str, Any]) -> Qwen3Config:
    config = Qwen3Config(**values)
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    if small := [name for name in (*sizes, "head_dim") if getattr(config, name) < 1]:
        raise ValueError(f"{', '.join(small)} must be at least 1")
    config.layer_types = list(config.layer_types or ["full_attention"] * config.num_hidden_layers)
    if "sliding_attention" in config.layer_types:
        config.sliding_window = values.get("sliding_window")  # Qwen3Config drops it unless use_sliding_window is set
    config.block_size = int(values.get("block_size", 16))
    if config.block_size < 2:
        raise WeightsError(
            f"config.json says block_size {config.block_size}: an anchor without a single mask.",
            hint="Restore the released config.json of this drafter.",
        )
    config.mask_token_id = int(special["mask_token_id"])
    config.target_layer_ids = [int(layer) for layer in special["target_layer_ids"]]
    return config


def make_config(
    *,
    width: int,
    layers: int,
    heads: int,
    intermediate: int,
    vocab_size: int,
    context: int,
    block_size: int,
    mask_token_id: int,
    target_layer_ids: list[int],
    num_target_layers: int,
    rope_theta: float = 10_000.0,
) -> dict[str, Any]:
    """The ``config.json`` of a new drafter, in the released format."""
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "block_size": block_size,
        "dflash_config": {"mask_token_id": mask_token_id, "target_layer_ids": target_layer_ids},
        "dtype": "bfloat16",
        "head_dim": width // heads,
        "hidden_act": "silu",
        "hidden_size": width,
        "initializer_range": 0.02,
        "intermediate_size": intermediate,
        "layer_types": ["full_attention"] * layers,
        "max_position_embeddings": context,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": heads,
        "num_target_layers": num_target_layers,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": rope_theta,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "vocab_size": vocab_size,
    }


def from_folder(folder: Path | str, dtype: torch.dtype = torch.float32) -> DFlashDraftModel:
    """Load a released or embedded drafter: ``config.json`` and one or more safetensors files, frozen, on the CPU.

    Raises:
        WeightsError: a file is missing or damaged, or the tensors do not fit the config.
    """
    folder = Path(folder)
    config = files.read_config(folder)
    try:
        model = DFlashDraftModel(config)
    except (ArithmeticError, AttributeError, KeyError, RuntimeError, TypeError, ValueError) as error:
        raise WeightsError(
            f"No drafter can be built from {files.shown(folder)}/config.json: {str(error)[:120]}",
            hint="Restore the released config.json of this drafter.",
        ) from error
    stored = files.read_tensors(folder)
    files.check_shapes(stored, {name: tensor.shape for name, tensor in model.state_dict().items()})
    model.load_state_dict(stored.tensors)
    model = model.to(dtype)
    model.rotary_emb = Qwen3RotaryEmbedding(config=model.config)  # .to() rounds its frequencies, which stay fp32
    return model.eval().requires_grad_(False)


def save_to_folder(model: DFlashDraftModel, folder: Path | str) -> Path:
    """Write ``config.json`` and the weights as bf16 safetensors, in shards below 9 MB."""
    files.write_folder(Path(folder), model.released, model.state_dict())
    return Path(folder)
