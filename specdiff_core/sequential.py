"""Fills a window token by token, a pass for each: what autoregressive drafters share. Knows no cache and no network."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence

import torch
from torch import Tensor

from specdiff_core.drafters.base import Context, DenoiseState, Draft
from specdiff_core.sampling import belief, process


def draft_in_order(
    predict: Callable[[int | None], Tensor], context: Context, gamma: int, forbidden: Sequence[int] = ()
) -> Generator[DenoiseState, None, Draft]:
    """Draft up to γ tokens, each from its true conditional (Leviathan et al. 2211.17192). Where ``context.keep`` finds
    a position not worth verifying the draft ends before its token is drawn; where it finds no reason for another pass,
    behind it.

    Args:
        predict: the token drawn last, None at first -> logits ``[1, V]`` of the one behind it; one drafter pass.
        gamma: at most the context's.
        forbidden: ids that the target cannot say.

    Yields:
        the window after each pass.
    """
    ids = torch.zeros(max(gamma, 0), dtype=torch.long)
    probs: list[Tensor] = []
    beliefs: list[float] = []
    token: int | None = None
    wanted, passes = gamma, 0
    while passes < wanted:
        logits = predict(token)
        step, passes = passes, passes + 1
        q = process(logits, context.sampling, forbidden)
        sure = belief(logits, q, context.sampling, forbidden)
        if context.keep is not None:
            beliefs.append(float(sure().amax()))
            kept = context.keep(beliefs)
            if kept < passes:  # not worth its row
                break
            wanted = wanted if kept > passes else passes  # nor a pass for the next
        probs.append(q)
        token = int(context.chance.pick(q, [len(context.ids) + step])[0])
        ids = ids.clone()
        ids[step] = token
        yield DenoiseState.of_one(ids, step, sure)
    size = len(probs)
    if not size:
        return Draft.empty()
    return Draft(
        ids=ids[:size], probs=torch.cat(probs), reveal_steps=tuple(range(size)), soft=(True,) * size, nfe=passes
    )
