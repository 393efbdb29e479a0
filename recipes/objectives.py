"""Objectives that several recipes share, as pure functions of tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def position_weights(rank: Tensor, decay: float) -> Tensor:
    """exp(−rank/decay), ``rank`` unknown positions before this one: a late position counts only if
    all before it were accepted (DFlash, arXiv 2602.06036)."""
    return torch.exp(-rank.float() / decay)


def probs_without(logits: Tensor, banned: int) -> Tensor:
    """Softmax of ``logits [..., V]`` in float32 over all ids but one, such as the mask."""
    return logits.float().index_fill(-1, torch.tensor([banned], device=logits.device), -torch.inf).softmax(-1)


def soft_cross_entropy(logits: Tensor, target_probs: Tensor) -> Tensor:
    """−Σ_v p(v) log q(v) in nats: ``logits [..., V]``, ``target_probs [..., V]`` -> ``[...]``."""
    return -(target_probs * F.log_softmax(logits.float(), dim=-1)).sum(-1)


def cross_entropy_streak(log_q: Tensor, known: Tensor) -> Tensor:
    """SpecDiff-2's streak distillation (arXiv 2511.00606, docs/theory.md): −mean_blocks Σ_j sg(Π_{i<j} q_i)·log q_j.

    Each slot's cross-entropy weighs as much as all tokens before it are likely to be accepted. The gradient stays large
    where q is small; that of the expected accepted run Σ_m Π_{j≤m} q_j itself vanishes there.

    Args:
        log_q: ``[blocks, γ]`` log-probability of the target's own token at each slot.
        known: ``[blocks, γ]`` bool, slots that lie inside the text; a run ends at the first one outside.
    """
    inside = known.long().cumprod(-1)
    masked = log_q * inside
    before = torch.exp(masked.cumsum(-1) - masked).detach()
    return -(before * masked).sum(-1).mean()
