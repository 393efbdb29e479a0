"""Every training objective, as a pure function of tensors."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Σ w·v / Σ w over all elements; 0 where all weights are 0."""
    return (values * weights).sum() / weights.sum().clamp_min(1e-9)


def position_weights(rank: Tensor, decay: float) -> Tensor:
    """exp(−rank/decay), ``rank`` unknown positions before this one: a late position counts only if all before it were
    accepted (DFlash, arXiv 2602.06036)."""
    return torch.exp(-rank.float() / decay)


def dpace_weights(probs: Tensor, known: Tensor, alpha: float = 0.5) -> Tensor:
    """w_j = Σ_{m≥j} Π_{i≤m} q̃_i with q̃ = (1 − α)q + α: the slope of the expected accepted length Σ_m Π_{i≤m} q̃_i in
    log q̃_j, for the drafter as it is now (D-PACE, arXiv 2605.18810). No gradient flows through the weights.

    Args:
        probs: ``[..., γ]`` the drafter's probability of the text's own token; 1 where the slot was given.
        known: ``[..., γ]`` bool, slots inside the text; from the first one outside, weights are 0.
    """
    smooth = (alpha + (1 - alpha) * probs.detach()) * known
    return smooth.cumprod(-1).flip(-1).cumsum(-1).flip(-1)


def probs_without(logits: Tensor, banned: int) -> Tensor:
    """Softmax of ``logits [..., V]`` in float32 over all ids but one: a target never says the mask."""
    return logits.float().index_fill(-1, torch.tensor([banned], device=logits.device), -torch.inf).softmax(-1)


def soft_cross_entropy(logits: Tensor, target_probs: Tensor) -> Tensor:
    """−Σ_v p(v) log q(v) in nats: ``logits [..., V]``, ``target_probs [..., V]`` -> ``[...]``."""
    return -(target_probs * F.log_softmax(logits.float(), dim=-1)).sum(-1)


def _with_slope(hidden: Tensor, parts: list[tuple[Tensor, Tensor]]) -> Tensor:
    """A value per row of ``hidden [n, W]`` whose gradient was computed along with it, so that no ``[n, V]`` is kept;
    ``parts``: values ``[rows]`` and gradients ``[rows, W]``, in chunks."""
    values, slopes = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    return values + ((hidden - hidden.detach()) * slopes).sum(-1)  # what is added is 0, and its gradient is the slope


def log_normalizer(hidden: Tensor, table: Tensor, *, rows: int = 512) -> Tensor:
    """log Σ_v exp(h·e_v): ``hidden [n, W]``, frozen ``table [V, W]`` -> ``[n]``; gradient to ``hidden`` only.

    Computed in chunks of ``rows``: the ``[n, V]`` logits never exist at once.
    """
    parts = []
    with torch.no_grad():
        for low in torch.split(hidden.to(table.dtype), rows):
            logits = (low @ table.T).float()  # [rows, V]
            peak = logits.amax(-1, keepdim=True)
            mass = logits.sub_(peak).exp_()
            total = mass.sum(-1, keepdim=True)
            slope = (mass.to(table.dtype) @ table).float() / total  # softmax(h·E) E
            parts.append(((peak + total.log())[:, 0], slope))
    return _with_slope(hidden, parts)


def lk_loss(hidden: Tensor, teacher: Tensor, table: Tensor, *, eta: float = 3.0, rows: int = 512) -> Tensor:
    """λ·CE(p, q) + (1 − λ)·TV(p, q) with λ = exp(−η·(1 − TV)), held constant: cross-entropy while q is far from p, then
    the share of drafts that are rejected, which is TV (the hybrid LK loss, arXiv 2602.23881).

    Args:
        hidden: ``[n, W]``; q is the softmax of h·E.
        teacher: ``[n, W]`` the target's last hidden states; p is the softmax of t·E.
        table: ``[V, W]``, E, frozen.

    Returns:
        ``[n]``, gradient to ``hidden`` only; computed in chunks of ``rows``.
    """
    parts = []
    with torch.no_grad():
        chunks = (torch.split(states.to(table.dtype), rows) for states in (hidden, teacher))
        for low, wanted in zip(*chunks, strict=True):
            log_q = torch.log_softmax((low @ table.T).float(), -1)
            p, q = torch.softmax((wanted @ table.T).float(), -1), log_q.exp()
            tv = 0.5 * (p - q).abs().sum(-1, keepdim=True)
            share = torch.exp(-eta * (1 - tv))
            signs = 0.5 * torch.sign(q - p)
            towards_tv = q * (signs - (q * signs).sum(-1, keepdim=True))
            slope = share * (q - p) + (1 - share) * towards_tv  # with respect to the logits
            values = share * -(p * log_q).sum(-1, keepdim=True) + (1 - share) * tv
            parts.append((values[:, 0], (slope.to(table.dtype) @ table).float()))
    return _with_slope(hidden, parts)


@torch.no_grad()
def expected_embedding(hidden: Tensor, table: Tensor, *, rows: int = 512) -> Tensor:
    """Σ_v p(v) e_v with p = softmax(h·E): ``[n, W]``, ``[V, W]`` -> ``[n, W]`` float32.

    All that soft cross-entropy needs to know about a teacher whose head is shared with the student.
    """
    low = hidden.to(table.dtype)
    chunks = [torch.softmax((part @ table.T).float(), -1).to(table.dtype) @ table for part in torch.split(low, rows)]
    return torch.cat(chunks).float()


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


def subs_loss(logits: Tensor, ids: Tensor, masked: Tensor, t: Tensor, mask_id: int) -> Tensor:
    """MDLM's continuous-time bound (arXiv 2406.07524): masked cross-entropy, weight 1/t for 1 − α_t ≈ t.

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
