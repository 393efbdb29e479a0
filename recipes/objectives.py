"""Objectives that several recipes share, as pure functions of tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.train.losses import streak_weights


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
    """SpecDiff-2's streak distillation (arXiv 2511.00606, docs/theory.md): each slot's
    cross-entropy by :func:`~specdiff_core.train.losses.streak_weights`, mean over blocks. The
    gradient stays large where q is small; that of the expected accepted run Σ_m Π_{j≤m} q_j itself
    vanishes there.

    Args:
        log_q: ``[blocks, γ]`` log-probability of the target's own token at each slot.
        known: ``[blocks, γ]`` bool, slots inside the text; a run ends at the first one outside.
    """
    return -(streak_weights(log_q.exp(), known) * log_q).sum(-1).mean()
