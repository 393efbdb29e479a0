"""Lets a stock Llama continue many prompts at once, for exploration ``align``."""

from __future__ import annotations

import copy

import torch
from torch import Tensor
from transformers import DynamicCache, LlamaForCausalLM

from specdiff_core.models.stock import cache_argument


def fast_copy(target: LlamaForCausalLM) -> LlamaForCausalLM:
    """A bf16 copy of the target that writes quickly; its rotary frequencies keep fp32, as when it decodes."""
    rotary = copy.deepcopy(target.model.rotary_emb)
    writer = copy.deepcopy(target)
    writer.to(torch.bfloat16)  # type: ignore[arg-type]  # transformers wraps Module.to untyped
    writer.model.rotary_emb = rotary
    writer.set_attn_implementation("eager")  # on a CPU twice as fast as fused attention for one token per row
    return writer


@torch.no_grad()
def continue_prompts(
    model: LlamaForCausalLM,
    prompts: Tensor,
    temperatures: Tensor,
    new_tokens: int,
    generator: torch.Generator,
    *,
    end: int,
    mask: int,
) -> Tensor:
    """Continue a batch of equally long prompts.

    Args:
        prompts: ``[B, P]`` int64.
        temperatures: ``[B]`` float; 0 is greedy.
        new_tokens: at most; rows that have ended are filled with ``end``.
        mask: an id that is never written.

    Returns:
        ``[B, P + n]`` int64, n ≤ ``new_tokens``.
    """
    cache = {cache_argument(model): DynamicCache(config=model.config)}
    greedy = temperatures <= 0
    scale = torch.where(greedy, torch.ones_like(temperatures), temperatures)[:, None]
    banned = torch.tensor([mask], device=prompts.device)
    running = torch.ones(len(prompts), dtype=torch.bool, device=prompts.device)
    text, fresh = prompts, prompts
    for _ in range(new_tokens):
        logits = model(input_ids=fresh, use_cache=True, logits_to_keep=1, **cache).logits[:, -1].float()
        logits = logits.index_fill(1, banned, -torch.inf)
        noise = torch.empty_like(logits).exponential_(generator=generator).log_()  # Gumbel-max: argmax(l/T − log E)
        noise[greedy] = 0.0
        fresh = (logits / scale - noise).argmax(-1)
        fresh = torch.where(running, fresh, torch.full_like(fresh, end))[:, None]
        text = torch.cat([text, fresh], dim=1)
        running &= fresh[:, 0] != end
        if not bool(running.any()):
            break
    return text
