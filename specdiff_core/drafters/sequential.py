"""Fills a window token by token, one pass each, for autoregressive drafters."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdiff_core.drafters.base import Context, DenoiseState, Draft, Drafting
from specdiff_core.maths.distributions import lazy_confidence, to_probs


def draft_in_order(
    predict: Callable[[int | None], Tensor], context: Context, forbidden: Sequence[int] = ()
) -> Drafting:
    """Draft up to γ tokens, each from its true conditional (Leviathan et al. 2211.17192).

    The context's stop criterion is applied before a token is drawn: a position that is not to be
    verified ends the draft before its token, one that does not pay for another pass after it.

    Args:
        predict: a drafter pass: the last drawn token, None at first -> logits ``[1, V]``.
        forbidden: ids that the target suppresses.

    Yields:
        the window after each pass.
    """
    ids = torch.zeros(context.gamma, dtype=torch.long)
    probs: list[Tensor] = []
    confidences: list[float] = []
    token: int | None = None
    limit, passes = context.gamma, 0
    while passes < limit:
        logits = predict(token)
        step, passes = passes, passes + 1
        q = to_probs(logits, context.sampling, forbidden)
        confidence = lazy_confidence(logits, q, context.sampling, forbidden)
        if context.stop_criterion is not None:
            confidences.append(float(confidence().amax()))
            count = context.stop_criterion(confidences)
            if count < passes:
                break
            limit = limit if count > passes else passes
        probs.append(q)
        token = int(context.sampler.sample(q, [len(context.ids) + step])[0])
        ids = ids.clone()
        ids[step] = token
        yield DenoiseState.single(ids, step, confidence)
    size = len(probs)
    if not size:
        return Draft.point_mass((), nfe=passes)
    return Draft(
        ids=tuple(ids[:size].tolist()),
        probs=torch.cat(probs),
        reveal_steps=tuple(range(size)),
        exact_q=(True,) * size,
        nfe=passes,
    )
