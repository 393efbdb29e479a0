"""Measures greedy drafting while training: the target writes reference text once, drafts are compared with it.

Greedy speculative decoding is lossless, so the text of a run is known beforehand and rounds can be simulated in a
batch: the figure is the tokens per round of a real greedy run at T = 1, on these prompts. Knows no events, no cache
of drafters, no timing.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


def prompts_from(tokens: np.ndarray, end: int, *, count: int, length: int) -> Tensor:
    """``[n, length]`` the beginnings of evenly spaced held-out documents (n = ``count`` where there are enough)."""
    starts = np.flatnonzero(tokens[: len(tokens) - length] == end)
    starts = starts[np.linspace(0, len(starts) - 1, min(count, len(starts))).astype(int)]
    return torch.from_numpy(np.stack([tokens[i : i + length] for i in starts]).astype(np.int64))


@torch.no_grad()
def greedy_text(target: LlamaForCausalLM, prompts: Tensor, count: int, suppress: Sequence[int] = ()) -> Tensor:
    """``prompts [B, P]`` -> ``[B, P + count]``: the target's greedy continuation, end-of-text ignored."""
    text, cache = prompts.to(target.device), None
    ids = text
    for _ in range(count):
        out = target(input_ids=ids, past_key_values=cache, use_cache=True)
        cache, logits = out.past_key_values, out.logits[:, -1].float()
        logits[:, list(suppress)] = -torch.inf
        ids = logits.argmax(-1, keepdim=True)
        text = torch.cat((text, ids), 1)
    return text


@torch.no_grad()
def greedy_tokens_per_round(
    propose: Callable[[list[Tensor]], Tensor], text: Tensor, prompt_length: int, gamma: int
) -> float:
    """Simulate greedy rounds over known ``text [B, N]``, every row from ``prompt_length`` on.

    Args:
        propose: prefixes (1-D, of different lengths) -> drafts ``[n, gamma]``.

    Returns:
        mean tokens per round, the target's own token included: between 1 and γ + 1.
    """
    position = torch.full((len(text),), prompt_length)
    rounds = emitted = 0
    while bool((active := position + gamma < text.shape[1]).any()):
        rows = active.nonzero()[:, 0]
        drafts = propose([text[row, : position[row]] for row in rows.tolist()])
        wanted = torch.stack([text[row, position[row] : position[row] + gamma] for row in rows.tolist()])
        accepted = (drafts == wanted).long().cumprod(-1).sum(-1).cpu()
        rounds += len(rows)
        emitted += int((accepted + 1).sum())
        position[rows] += accepted + 1
    return emitted / max(1, rounds)
