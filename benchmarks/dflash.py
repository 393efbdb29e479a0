"""The forward pass that transformers' DFlash loop calls, for this project's block drafter."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPast

from specdiff_core.models.dflash import DFlashDraftModel
from specdiff_core.models.network import attend, rope_at, within_reach


def forward(
    network: DFlashDraftModel,
    noise_embeds: Tensor,
    context_hidden_states: Tensor,
    position_ids: Tensor | None = None,
    attention_mask: Tensor | None = None,
    past_key_values: Any = None,
    **unused: Any,
) -> BaseModelOutputWithPast:
    """One pass over a block, with the signature that transformers' ``DFlashTokenCandidateGenerator`` (5.2x) calls.

    Args:
        noise_embeds: ``[B, b, W]`` target embeddings of anchor and masks.
        context_hidden_states: ``[B, n, F·W]`` features of the newly committed tokens only.
        position_ids: ``[B, n + b]`` of both; by default they continue the cache.
        attention_mask: ``[B, m]`` nonzero where a key may be read, m all keys; None reads all.
        past_key_values: transformers' cache; the caller crops the block off again.
    """
    context = network.read_features(context_hidden_states)
    fresh, block = context.shape[1], noise_embeds.shape[1]
    if position_ids is None:
        past = past_key_values.get_seq_length() if past_key_values is not None else 0
        position_ids = torch.arange(past, past + fresh + block, device=context.device)[None]
    rope = network.rope(position_ids, noise_embeds.dtype)
    positions = position_ids[0, fresh:]
    old = network.context_keys_values(context, rope_at(rope, slice(fresh)))

    def read(index: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        old_k, old_v = old[index]
        k, v = torch.cat([old_k, k], dim=2), torch.cat([old_v, v], dim=2)
        if past_key_values is not None:
            k, v = past_key_values.update(k, v, index)
        # Counted from the end: a sliding cache may have cut the front.
        keys = positions[-1] + torch.arange(1 - k.shape[2], 1, device=k.device)
        reach = network.reaches[index]
        mask = None if reach is None else within_reach(positions, keys, reach)
        if attention_mask is not None and not bool(attention_mask.all()):
            readable = attention_mask[:, None, None, -k.shape[2] :].bool()
            mask = readable if mask is None else readable & mask
        return attend(q, k, v, mask)

    hidden = network.denoise(noise_embeds, rope_at(rope, slice(fresh, None)), read)
    return BaseModelOutputWithPast(hidden, past_key_values)  # 5.24 renamed the second field
