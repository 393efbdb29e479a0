"""Fills a window of masks in T steps: the drafter's half of SpecDiff, for any network; or grows a tree from one step.
Knows no cache, no target.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from functools import partial

import torch
from torch import Tensor

from specdiff_core.config import RevealOrder
from specdiff_core.drafters.base import Context, DenoiseState, Draft
from specdiff_core.sampling import belief, process
from specdiff_core.tree import best_first, depths, merge
from specdiff_core.unmask import most_confident, reveal, schedule, soft_positions

RANKED = (RevealOrder.ENTROPY, RevealOrder.MARGIN, RevealOrder.MAX_PROB)
"""Orders that compare distributions."""


def denoise(
    predict: Callable[[Tensor], Tensor],
    context: Context,
    *,
    mask_id: int,
    forbidden: Sequence[int] = (),
    window: Tensor | None = None,
) -> Generator[DenoiseState, None, Draft]:
    """Draft γ tokens in T denoising steps (SpecDiff §3; MDLM's reverse process with fixed counts per step), with T = 1
    only those that ``context.keep`` finds worth verifying; or, where the context asks for a tree or several drafts,
    those, from the marginals of one step (papers.md §5.2, §2.3).

    Args:
        predict: window ids ``[g]`` (``mask_id`` where masked) -> logits ``[g, V]``, one drafter pass.
        context: γ, T, reveal order, the drafter's sampling and its chance.
        mask_id: never drawn: its probability is zero before normalising (SUBS).
        forbidden: further ids that the target cannot say.
        window: an all-masked window to start from; by default γ masks on the CPU.

    Yields:
        the window after each step.

    Returns:
        the draft; ``probs[i]`` is the q that position i was drawn from, at the step that revealed it.
    """
    if context.nodes or context.drafts > 1:
        return (yield from _branch(predict, context, mask_id, forbidden, window))
    size = context.gamma
    ids = torch.full((size,), mask_id, dtype=torch.long) if window is None else window.clone()
    never = tuple(dict.fromkeys((mask_id, *forbidden)))
    masked = list(range(size))
    reveal_steps = [0] * size
    first = len(context.ids)  # absolute position of window slot 0
    drawn_from: Tensor | None = None
    plan = schedule(size, context.steps)
    for step, count in enumerate(plan):
        logits = predict(ids)
        banned = tuple(token for token in never if token < logits.shape[-1])
        probs = process(logits, context.sampling, banned)  # [g, V]
        sure = belief(logits, probs, context.sampling, banned)
        if context.keep is not None and len(plan) == 1:  # cut by distributions only, before a value is drawn
            size = count = context.keep(sure().amax(-1).tolist())
            ids, probs, masked, sure = ids[:size], probs[:size], masked[:size], partial(_first, sure, size)
        if context.order is RevealOrder.VALUE_CONFIDENCE:
            values = context.chance.pick(probs[masked], [first + i for i in masked])
            drawn = sure()[masked, values.to(probs.device)]
            chosen = most_confident(drawn, masked, count)
            values = values[[masked.index(i) for i in chosen]]
        else:
            ranked = sure() if count < len(masked) and context.order in RANKED else probs
            chosen = reveal(context.order, ranked, masked, count, context.chance)
            rows = probs if len(chosen) == size else probs[chosen]
            values = context.chance.pick(rows, [first + i for i in chosen])
        ids = ids.clone()
        ids[chosen] = values.to(ids.device)
        if drawn_from is None:
            drawn_from = probs.clone() if len(plan) > 1 else probs
        else:
            drawn_from[chosen] = probs[chosen]
        for position in chosen:
            masked.remove(position)
            reveal_steps[position] = step
        yield DenoiseState(
            ids=ids,
            masked=torch.tensor([i in masked for i in range(size)]),
            revealed=tuple(chosen),
            probs=probs,
            belief=sure,
        )
    return Draft(
        ids=ids,
        probs=drawn_from,
        reveal_steps=tuple(reveal_steps[:size]),
        soft=soft_positions(context.order, reveal_steps[:size]),
        nfe=len(plan),
    )


def _first(belief: Callable[[], Tensor], size: int) -> Tensor:
    return belief()[:size]


def _branch(
    predict: Callable[[Tensor], Tensor], context: Context, mask_id: int, forbidden: Sequence[int], window: Tensor | None
) -> Generator[DenoiseState, None, Draft]:
    """One pass over γ masks, then from its marginals either the most probable prefixes, a point mass; or K windows."""
    size = context.gamma
    masks = torch.full((size,), mask_id, dtype=torch.long) if window is None else window
    logits = predict(masks)
    banned = tuple(token for token in dict.fromkeys((mask_id, *forbidden)) if token < logits.shape[-1])
    probs = process(logits, context.sampling, banned)
    sure = belief(logits, probs, context.sampling, banned)
    if context.nodes:
        marginals = sure()
        shown = marginals.argmax(-1)
        ids, parents = best_first(marginals.log(), context.nodes)
        branches: list[tuple[int, ...]] = []
        drawn_from = None
    else:
        positions = range(len(context.ids), len(context.ids) + size)
        first, others = context.chance, context.chance.fresh()
        drafts = [(others if k else first).pick(probs, positions) for k in range(context.drafts)]
        shown = drafts[0]
        ids, parents, branches = merge([draft.tolist() for draft in drafts])
        drawn_from = probs[depths(parents)]
    yield DenoiseState(
        ids=shown,
        masked=torch.zeros(size, dtype=torch.bool),
        revealed=tuple(range(size)),
        probs=probs,
        belief=sure,
    )
    return Draft(
        ids=torch.tensor(ids),
        probs=drawn_from,
        reveal_steps=(0,) * len(ids),
        soft=(drawn_from is not None,) * len(ids),
        nfe=1,
        parents=tuple(parents),
        branches=tuple(branches),
    )
