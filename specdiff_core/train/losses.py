"""The objectives of ``train drafter``, as pure functions of tensors."""

from __future__ import annotations

import torch
from torch import Tensor


def weighted_mean(values: Tensor, weights: Tensor) -> Tensor:
    """Σ w·v / Σ w over all elements; 0 where all weights are 0."""
    return (values * weights).sum() / weights.sum().clamp_min(1e-9)


def dpace_weights(probs: Tensor, known: Tensor, alpha: float = 0.5) -> Tensor:
    """w_j = Σ_{m≥j} Π_{i≤m} q̃_i with q̃ = (1 − α)q + α: the slope of the expected accepted length
    Σ_m Π_{i≤m} q̃_i in log q̃_j, for the drafter as it is now (D-PACE, arXiv 2605.18810). No
    gradient flows through the weights.

    Args:
        probs: ``[..., γ]`` the drafter's probability of the text's token; 1 in a given slot.
        known: ``[..., γ]`` bool, slots inside the text; from the first one outside, weights are 0.
    """
    smooth = (alpha + (1 - alpha) * probs.detach()) * known
    return smooth.cumprod(-1).flip(-1).cumsum(-1).flip(-1)


def streak_weights(probs: Tensor, known: Tensor) -> Tensor:
    """w_j = Π_{i<j} q_i: a slot counts as often as all tokens before it are accepted
    (streak-distillation, SpecDiff-2, arXiv 2511.00606). Arguments as of :func:`dpace_weights`; no
    gradient flows through the weights."""
    inside = probs.detach() * known
    return torch.cat([torch.ones_like(inside[..., :1]), inside.cumprod(-1)[..., :-1]], -1) * known


ROWS = {"cpu": 768, "cuda": 8192}
"""Rows of logits that are computed at once."""


def top_loss(
    hidden: Tensor,
    table: Tensor,
    labels: Tensor,
    ids: Tensor,
    probs: Tensor,
    *,
    tv: float = 0.0,
    pairs: tuple[Tensor, Tensor] | None = None,
    rows: int = 0,
) -> tuple[Tensor, Tensor]:
    """(1 − tv)·CE + tv·TV against the target's most probable words, and the text's own.

    One half of CE is the cross-entropy of the text's own word, the other that of the target's words
    with probabilities that sum to 1; where only one of the two is known, it counts in full. TV = 1
    − Σ min(p, q): words that the drafter doesn't have count as rejected.

    Args:
        hidden: ``[n, W]``; q is the softmax of h·E.
        table: ``[d, W]``, E, frozen: the words that the drafter has.
        labels: ``[n]`` rows of E: the text's own words; −1: a word that the drafter doesn't have.
        ids: ``[n, K]`` the same of the target's most probable words.
        probs: ``[n, K]`` p of those, which may sum to less than 1.
        pairs: a Markov head's ``b [n, r]`` of the tokens before and ``A [d, r]`` of the drafter's words: q is then
            the softmax of h·E + b·A.

    Returns:
        ``[n]`` values, with a gradient to ``hidden`` and ``pairs`` only, and ``[n]`` log q of the labels without
        one (−∞ where the label is −1); computed in chunks of ``rows``, or of :data:`ROWS`.
    """
    parts, logs, rows = [], [], rows or ROWS[hidden.device.type]
    before, after = pairs or (hidden[:, :0], table[:, :0])
    befores = torch.split(before, rows)  # with their gradient
    with torch.no_grad():
        chunks = (torch.split(tensor, rows) for tensor in (hidden.to(table.dtype), labels, ids, probs.float()))
        for pair, low, label, top, p in zip(befores, *chunks, strict=True):
            logits = (low @ table.T).float()
            if pairs is not None:
                with torch.enable_grad():
                    added = pair @ after.T
                logits += added
            log_q = torch.log_softmax(logits, -1)
            has, label = (label >= 0)[:, None], label.clamp_min(0)[:, None]
            p, top = p * (top >= 0), top.clamp_min(0)
            mass = p.sum(-1, keepdim=True)
            known = mass > 1e-3
            hard = has * torch.where(known, 0.5, 1.0)
            soft = known * (1 - hard) * p / mass.clamp_min(1e-6)  # [rows, K], the rest of ``hard``
            log_top, log_label = log_q.gather(-1, top), log_q.gather(-1, label)
            q_top = log_top.exp()
            entropy = -(soft * log_top).sum(-1, keepdim=True) - hard * log_label
            variation = 1 - torch.minimum(q_top, p).sum(-1, keepdim=True)
            short = tv * q_top * (q_top < p)  # where q still lacks mass
            # With respect to the logits: (1 − tv)·(q·Σt − t) for targets t, and tv·(q·Σ_S q − q_S).
            total = (1 - tv) * (soft.sum(-1, keepdim=True) + hard) + short.sum(-1, keepdim=True)
            slope = log_q.exp_().mul_(total).scatter_add_(-1, top, -(1 - tv) * soft - short)
            slope.scatter_add_(-1, label, -(1 - tv) * hard)
            value = ((1 - tv) * entropy + tv * variation)[:, 0]
            if pairs is not None:
                with torch.enable_grad():
                    value = value + _sloped(added, slope)
            parts.append((value, (slope.to(table.dtype) @ table).float()))
            logs.append(log_label.masked_fill(~has, -torch.inf)[:, 0])
    values, slopes = (torch.cat(tensors) for tensors in zip(*parts, strict=True))
    # Without a Markov head no [n, d] is kept for the way back.
    return values + _sloped(hidden, slopes), torch.cat(logs)


def _sloped(values: Tensor, slopes: Tensor) -> Tensor:
    """``[n]`` zeros whose gradient with respect to ``values [n, W]`` is ``slopes``."""
    return ((values - values.detach()) * slopes).sum(-1)
