"""Every training objective as a pure function of tensors: soft cross-entropy, position weights, streaks.

Knows formulas and their stable evaluation; refuses to know models, batches and schedules.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Σ w·v / Σ w over all elements; 0 where all weights are 0."""
    return (values * weights).sum() / weights.sum().clamp_min(1e-9)


def position_weights(rank: Tensor, decay: float) -> Tensor:
    """exp(−rank/decay): a late position counts only if all before it were accepted (DFlash, papers.md §5.1).

    Args:
        rank: how many unknown positions come before this one, any shape.
        decay: in positions.
    """
    return torch.exp(-rank.float() / decay)


def soft_cross_entropy(logits: Tensor, target_probs: Tensor) -> Tensor:
    """−Σ_v p(v) log q(v) in nats: ``logits [..., V]``, ``target_probs [..., V]`` -> ``[...]``."""
    return -(target_probs * F.log_softmax(logits.float(), dim=-1)).sum(-1)


class _LogNormalizer(torch.autograd.Function):
    """log Σ_v exp(h·e_v) for a frozen table, in chunks of rows: the ``[n, V]`` logits never exist at once."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, table: Tensor, rows: int) -> Tensor:
        result = torch.empty(hidden.shape[0], dtype=torch.float32, device=hidden.device)
        slope = torch.empty_like(hidden, dtype=torch.float32)
        low = hidden.to(table.dtype)
        for first in range(0, hidden.shape[0], rows):
            part = slice(first, first + rows)
            logits = (low[part] @ table.T).float()  # [rows, V]
            peak = logits.amax(-1, keepdim=True)
            mass = logits.sub_(peak).exp_()
            total = mass.sum(-1, keepdim=True)
            result[part] = (peak + total.log())[:, 0]
            slope[part] = (mass.to(table.dtype) @ table).float() / total  # softmax(h·E) E = the gradient
        ctx.save_for_backward(slope)
        return result

    @staticmethod
    def backward(ctx: Any, *gradients: Any) -> tuple[Tensor, None, None]:
        (slope,) = ctx.saved_tensors
        return gradients[0][:, None] * slope, None, None


def log_normalizer(hidden: Tensor, table: Tensor, *, rows: int = 512) -> Tensor:
    """log Σ_v exp(h·e_v): ``hidden [n, W]``, frozen ``table [V, W]`` -> ``[n]``; gradient to ``hidden`` only."""
    result: Tensor = _LogNormalizer.apply(hidden, table, rows)  # type: ignore[no-untyped-call]  # untyped in torch
    return result


@torch.no_grad()
def expected_embedding(hidden: Tensor, table: Tensor, *, rows: int = 512) -> Tensor:
    """Σ_v p(v) e_v with p = softmax(h·E): ``[n, W]``, ``[V, W]`` -> ``[n, W]`` float32.

    All that soft cross-entropy needs to know about a teacher whose head is shared with the student.
    """
    low = hidden.to(table.dtype)
    chunks = [torch.softmax((part @ table.T).float(), -1).to(table.dtype) @ table for part in torch.split(low, rows)]
    return torch.cat(chunks).float()


def streak(log_q: Tensor, known: Tensor) -> Tensor:
    """SpecDiff-2's expected accepted run (papers.md §2.2), negated for descent: −mean_blocks Σ_m Π_{j≤m} q_j(x_j).

    Args:
        log_q: ``[blocks, γ]`` log-probability of the target's own token at each slot.
        known: ``[blocks, γ]`` bool, slots that lie inside the text; a run ends at the first one outside.
    """
    inside = known.long().cumprod(-1)
    runs = torch.exp((log_q * inside).cumsum(-1)) * inside
    return -runs.sum(-1).mean()


def cross_entropy_streak(log_q: Tensor, known: Tensor) -> Tensor:
    """The same reward, numerically kinder where q is small: −mean_blocks Σ_j sg(Π_{i<j} q_i)·log q_j."""
    inside = known.long().cumprod(-1)
    masked = log_q * inside
    before = torch.exp(masked.cumsum(-1) - masked).detach()
    return -(before * masked).sum(-1).mean()


def subs_loss(logits: Tensor, ids: Tensor, masked: Tensor, t: Tensor, mask_id: int) -> Tensor:
    """MDLM's continuous-time bound (papers.md §3): weighted masked cross-entropy, weight 1/t for 1 − α_t ≈ t.

    SUBS: the mask's logit is removed before normalising; unmasked positions are carried over and cost nothing.

    Args:
        logits: ``[B, L, V]`` raw.
        ids: ``[B, L]`` the clean tokens.
        masked: ``[B, L]`` bool, which of them the network did not see.
        t: ``[B]`` diffusion time in (0, 1].

    Returns:
        nats per token, a scalar.
    """
    known = logits.float().index_fill(-1, torch.tensor([mask_id], device=logits.device), -1e6)
    nats = F.cross_entropy(known.flatten(0, 1), ids.flatten(), reduction="none").view_as(ids)
    return (nats * masked / t[:, None]).sum() / ids.numel()
