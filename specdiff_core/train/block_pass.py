"""One pass of target and drafter over a whole batch of blocks: who reads what. Knows no data and no decoding."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from specdiff_core.models.dflash import DFlashDraftModel, Rope
from specdiff_core.train import losses

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


@dataclass(frozen=True, slots=True)
class Reading:
    """What one frozen target pass over a batch says."""

    features: Tensor  # [B, L, F·W]
    expected: Tensor  # [B, L, W]: Σ_v p(v | tokens ≤ t) e_v at t


@torch.no_grad()
def read_target(target: LlamaForCausalLM, tokens: Tensor, layers: list[int]) -> Reading:
    """Run the target over clean text: hidden states of ``layers`` (0 = after the first layer), and its distribution."""
    with torch.autocast(tokens.device.type, torch.bfloat16):
        out = target.model(input_ids=tokens, use_cache=False, output_hidden_states=True)
    features = torch.cat([out.hidden_states[layer + 1] for layer in layers], dim=-1)
    table = target.lm_head.weight.to(torch.bfloat16)
    expected = losses.expected_embedding(out.last_hidden_state.flatten(0, 1), table)
    return Reading(features.float(), expected.view(*tokens.shape, -1))


def block_hidden(model: DFlashDraftModel, features: Tensor, embeddings: Tensor, anchors: Tensor, size: int) -> Tensor:
    """All blocks of a batch in one pass, each reading the features before its anchor and itself.

    Plain matrix products: on a CPU their backward is faster than that of fused attention at these sizes.

    Args:
        features: ``[B, L, F·W]``.
        embeddings: ``[B, A·b, W]``, the target's, of anchors, clean and mask tokens.
        anchors: ``[B, A]``.
        size: b.

    Returns:
        ``[B, A·b, W]`` hidden states for the target's head.
    """
    batch, length = features.shape[:2]
    count = anchors.shape[1]
    places = (anchors[..., None] + torch.arange(size, device=anchors.device)).flatten(1)  # [B, A·b]
    positions = torch.arange(length, device=anchors.device)
    context_rope = model.rope(positions[None])
    context = model.read_features(features)
    hidden_from = positions >= anchors[..., None]  # [B, A, L]
    bias = torch.zeros_like(hidden_from, dtype=torch.float32).masked_fill_(hidden_from, float("-inf"))[:, None, :, None]

    def attend(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        attention = model.layers[index].self_attn
        keys, values = attention.keys_values(context, context_rope)  # [B, Hkv, L, D]
        copies = q.shape[1] // k.shape[1]
        keys, values, k, v = (
            part.repeat_interleave(copies, 1) if copies > 1 else part for part in (keys, values, k, v)
        )
        heads, width = q.shape[1], q.shape[3]
        q = q * width**-0.5
        blocked = (batch, heads, count, size, width)
        q5, k5, v5 = q.view(blocked), k.reshape(blocked), v.reshape(blocked)
        outside = (q @ keys.transpose(2, 3)).view(batch, heads, count, size, length).float() + bias
        inside = (q5 @ k5.transpose(3, 4)).float()  # [B, H, A, b, b]
        weights = torch.softmax(torch.cat([outside, inside], -1), -1).to(v.dtype)
        mixed = (weights[..., :length].reshape(batch, heads, count * size, length) @ values).view(blocked)
        return (mixed + weights[..., length:] @ v5).view(batch, heads, count * size, width)

    rope: Rope = model.rope(places)
    return model.denoise(embeddings, rope, attend)
