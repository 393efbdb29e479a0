"""Turns logits into the distribution that is really sampled from, once; temperature 0 is a one-hot
distribution, so greedy decoding is no special case anywhere else."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.settings import Sampling


def to_host(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Copies on the CPU, with one wait for a GPU; tensors that are there stay as they are."""
    if all(tensor.device.type == "cpu" for tensor in tensors):
        return tensors
    flat = torch.cat([tensor.to(torch.float64).flatten() for tensor in tensors]).cpu()
    parts = torch.split(flat, [tensor.numel() for tensor in tensors])
    return tuple(part.view(tensor.shape).to(tensor.dtype) for part, tensor in zip(parts, tensors, strict=True))


def to_probs(logits: Tensor, sampling: Sampling, forbidden: Sequence[int] = ()) -> Tensor:
    """The distribution of ``softmax(logits / temperature)`` after top-k and top-p.

    Args:
        logits: ``[..., V]``, any float type.
        sampling: the transformation.
        forbidden: ids of probability zero, such as a mask token, removed before normalising.

    Returns:
        ``[..., V]`` float64, every row sums to 1. Ties at the top-k border: the lower id stays.

    Raises:
        SpecDiffError: a row holds no finite logit, or a NaN.
    """
    logits = logits.to(torch.float32) if logits.dtype in (torch.bfloat16, torch.float16) else logits
    if forbidden and sampling.temperature:
        logits = _never(logits, forbidden)
    values, indices, finite, ids = _best(logits)
    # A greedy row needs its largest logit only: no copy, unless a forbidden id has it.
    if forbidden and not sampling.temperature and not set(forbidden).isdisjoint(ids.flatten().tolist()):
        values, indices, finite, _ = _best(_never(logits, forbidden))
    if not finite:  # a NaN anywhere makes the maximum NaN
        raise SpecDiffError(
            "A model returned logits that are not numbers.",
            hint="Its weights may be damaged; try fp32, or download them again.",
        )
    if sampling.temperature == 0:
        return torch.zeros(logits.shape, dtype=torch.float64, device=logits.device).scatter_(-1, indices, 1.0)
    # Subtracting the maximum changes no distribution, and prevents overflow at small temperatures.
    scaled = (logits.to(torch.float64) - values.to(torch.float64)) / sampling.temperature
    if sampling.top_k and sampling.top_k < scaled.shape[-1]:
        minus_inf = torch.full_like(scaled, -torch.inf)
        best = scaled.sort(dim=-1, descending=True, stable=True)
        index = best.indices[..., : sampling.top_k]
        scaled = minus_inf.scatter_(-1, index, best.values[..., : sampling.top_k])
    probs = scaled.softmax(-1)
    if sampling.top_p < 1:
        ordered = probs.sort(dim=-1, descending=True, stable=True)
        before = ordered.values.cumsum(-1) - ordered.values  # mass of the more probable tokens
        left_out = torch.zeros_like(probs, dtype=torch.bool).scatter_(-1, ordered.indices, before >= sampling.top_p)
        probs = scaled.masked_fill(left_out, -torch.inf).softmax(-1)  # a sum of one row differs
    return probs


def _never(logits: Tensor, forbidden: Sequence[int]) -> Tensor:
    """A copy in which ``forbidden`` ids have no probability."""
    index = torch.tensor(list(forbidden)).to(logits.device, non_blocking=True)
    return logits.index_fill(-1, index, -torch.inf)


def _best(logits: Tensor) -> tuple[Tensor, Tensor, bool, Tensor]:
    """Each row's largest logit ``[..., 1]``, its id; whether all are finite; ids on the CPU."""
    top = logits.max(-1, keepdim=True)
    finite, ids = to_host(torch.isfinite(top.values).all(), top.indices)
    return top.values, top.indices, bool(finite), ids


def confidence_probs(logits: Tensor, sampling: Sampling, forbidden: Sequence[int] = ()) -> Tensor:
    """How confident a drafter is, ``[..., V]`` float64: its q; at temperature 0, where q is
    one-hot, the softmax at temperature 1. Reveal orders, trees and the stop criterion rank by it
    and the page shows it; tokens are drawn from q and tested with q alone."""
    return to_probs(logits, sampling if sampling.temperature > 0 else Sampling(temperature=1.0), forbidden)


def lazy_confidence(
    logits: Tensor, probs: Tensor, sampling: Sampling, forbidden: Sequence[int] = ()
) -> Callable[[], Tensor]:
    """:func:`confidence_probs` where q = ``probs`` is known; a softmax only on demand."""
    return lambda: probs if sampling.temperature > 0 else confidence_probs(logits, sampling, forbidden)


def residual(target_probs: Tensor, draft_probs: Tensor) -> Tensor:
    """norm(max(0, p − q)), of the token after a rejected ratio test (Leviathan et al., Alg. 1).

    Args:
        target_probs, draft_probs: ``[V]`` float64.
    """
    return _normed((target_probs - draft_probs).clamp_min(0.0), target_probs)


def point_mass_residual(target_probs: Tensor, token: int) -> Tensor:
    """p with ``token`` removed, renormalised: the residual of a point mass. ``[V]`` float64."""
    probs = target_probs.clone()
    probs[token] = 0.0
    return _normed(probs, target_probs)


def _normed(mass: Tensor, fallback: Tensor) -> Tensor:
    """``mass`` as a distribution. Where there is none, a rejection had probability zero, but
    rounding may still ask for a distribution: then ``fallback``."""
    total = mass.sum()
    return torch.where(total > 0.0, mass / total, fallback)
