"""Fills a window of masks in T steps with any denoising network: the drafter's half of SpecDiff.
From a single step it can also make a tree or draw several windows."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from specdiff_core.drafters.base import Context, DenoiseState, Draft, Drafting
from specdiff_core.maths import chains
from specdiff_core.maths.chains import Chain, PairScores
from specdiff_core.maths.distributions import confidence_probs, lazy_confidence, to_probs
from specdiff_core.maths.trees import best_first, independent, merge, most_probable
from specdiff_core.maths.unmasking import BY_DISTRIBUTION, exact_positions, most_confident, next_revealed, schedule
from specdiff_core.schema.events import depths
from specdiff_core.schema.settings import RevealOrder

MakeChain = Callable[..., Chain] | None


def denoise(
    predict: Callable[[Tensor], Tensor],
    context: Context,
    *,
    mask_id: int,
    forbidden: Sequence[int] = (),
    pair_scores: PairScores | None = None,
    candidates: int = chains.TOP,
    confidence_head: Callable[[Tensor], Tensor] | None = None,
) -> Drafting:
    """Draft γ tokens in T denoising steps (SpecDiff §3; MDLM's reverse process with fixed counts
    per step). With T = 1 the context's stop criterion may end the window early. A tree (DDTree) or
    several drafts (SpecDiff-2) come from one step.

    Args:
        predict: a drafter pass: window ids ``[g]`` on the CPU, with masks -> logits ``[g, V]``.
        context: γ, T, reveal order, the drafter's sampling and its randomness.
        mask_id: its probability is set to zero before normalising (SUBS).
        forbidden: further ids that the target suppresses.
        pair_scores: for a denoiser whose tokens depend on the previous one (``maths/chains.py``).
            Leftmost masks revealed together are then drawn in order; other reveals, and those that
            depend on drawn values, use the marginals.
        candidates, confidence_head: for such a denoiser (``maths/chains.py``).

    Yields:
        the window after each step.

    Returns:
        the draft; ``probs[i]``: the q that position i was drawn from, in the step that revealed it.
    """
    size = context.gamma
    ids = torch.full((size,), mask_id, dtype=torch.long)
    suppressed = tuple(dict.fromkeys((mask_id, *forbidden)))
    chain_of = None
    if pair_scores is not None:
        anchor, sampling = context.ids[-1], context.sampling
        chain_of = partial(
            Chain, pair_scores, anchor=anchor, sampling=sampling, candidates=candidates, confidence_head=confidence_head
        )
    if context.tree_nodes or context.num_drafts > 1:
        logits = predict(ids)
        banned = tuple(token for token in suppressed if token < logits.shape[-1])
        return (yield from (_tree if context.tree_nodes else _several)(logits, context, banned, chain_of))
    masked = list(range(size))
    reveal_steps = [0] * size
    drawn_from: Tensor | None = None
    plan = schedule(size, context.steps)
    if len(plan) > 1:
        context = dataclasses.replace(context, stop_criterion=None)  # confidences may still change
    for step, count in enumerate(plan):
        logits = predict(ids)
        banned = tuple(token for token in suppressed if token < logits.shape[-1])
        if chain_of is not None and _in_order(context.order, count, len(masked)):
            known = [None if i in masked else token for i, token in enumerate(ids.tolist())]
            revealed = _in_turn(chain_of(logits, known, banned=banned), logits, context, masked[:count], banned)
        else:
            revealed = _side_by_side(logits, context, masked, count, banned)
        size = len(revealed.probs)
        ids, masked = ids[:size].clone(), masked[:size]
        ids[revealed.chosen] = revealed.values
        if drawn_from is None:
            drawn_from = revealed.probs.clone() if len(plan) > 1 else revealed.probs
        else:
            drawn_from[revealed.chosen] = revealed.probs[revealed.chosen]
        for position in revealed.chosen:
            masked.remove(position)
            reveal_steps[position] = step
        mask = torch.tensor([i in masked for i in range(size)])
        yield DenoiseState(ids=ids, masked=mask, revealed=tuple(revealed.chosen), confidence=revealed.confidence)
    return Draft(
        ids=tuple(ids.tolist()),
        probs=drawn_from,
        reveal_steps=tuple(reveal_steps[:size]),
        exact_q=exact_positions(context.order, reveal_steps[:size]),
        nfe=len(plan),
    )


class _Revealed(NamedTuple):
    """What one step revealed, in a window that it may have cut to g slots."""

    chosen: list[int]
    values: Tensor  # [n] ids of the chosen slots, on the CPU
    probs: Tensor  # [g, V] q
    confidence: Callable[[], Tensor]  # [g, V]


def _side_by_side(logits: Tensor, context: Context, masked: list[int], count: int, banned: Sequence[int]) -> _Revealed:
    """Reveal ``count`` of the ``masked`` slots, each drawn from its own marginal."""
    first = len(context.ids)  # absolute position of window slot 0
    probs = to_probs(logits, context.sampling, banned)  # [g, V]
    confidence = lazy_confidence(logits, probs, context.sampling, banned)
    if context.stop_criterion is not None:  # decided by distributions only, before a value is drawn
        count = context.stop_criterion(confidence().amax(-1).tolist())
        uncut = confidence
        probs, masked, confidence = probs[:count], masked[:count], lambda: uncut()[:count]
    if context.order is RevealOrder.VALUE_CONFIDENCE:
        values = context.sampler.sample(probs[masked], [first + i for i in masked])
        drawn = confidence()[masked, values.to(probs.device)]
        chosen = most_confident(drawn, masked, count)
        values = values[[masked.index(i) for i in chosen]]
    else:
        compared = confidence() if count < len(masked) and context.order in BY_DISTRIBUTION else probs
        chosen = next_revealed(context.order, compared, masked, count, context.sampler)
        rows = probs if len(chosen) == len(probs) else probs[chosen]
        values = context.sampler.sample(rows, [first + i for i in chosen])
    return _Revealed(chosen, values, probs, confidence)


def _in_turn(chain: Chain, logits: Tensor, context: Context, chosen: list[int], banned: Sequence[int]) -> _Revealed:
    """Reveal the ``chosen`` slots from the left, each drawn given the one before it."""
    values, probs, confidence = chain.draw(chosen, context.sampler, len(context.ids), context.stop_criterion)
    chosen = chosen[: len(values)]
    if context.stop_criterion is not None or len(chosen) == len(logits):
        return _Revealed(chosen, values, probs, confidence)
    marginals = to_probs(logits, context.sampling, banned)  # the other slots: as the pass saw them
    others = lazy_confidence(logits, marginals, context.sampling, banned)
    rows = torch.tensor(chosen, device=probs.device)
    return _Revealed(
        chosen, values, marginals.index_copy(0, rows, probs), lambda: others().index_copy(0, rows, confidence())
    )


def _in_order(order: RevealOrder, count: int, masked: int) -> bool:
    """Whether a step reveals the leftmost masks, whatever they become."""
    return order is RevealOrder.LEFT_TO_RIGHT or (count == masked and order is not RevealOrder.VALUE_CONFIDENCE)


def _tree(logits: Tensor, context: Context, banned: Sequence[int], chain_of: MakeChain) -> Drafting:
    """The most probable prefixes after one pass (DDTree, arXiv 2604.12989), a point mass."""
    size = context.gamma
    if chain_of is None:
        marginals = confidence_probs(logits, context.sampling, banned)
        successors, confidence = independent(marginals, context.tree_nodes), lambda before: marginals
    else:
        chain = chain_of(logits, [None] * size, banned=banned, top=True)
        successors, confidence = chain.successors(), chain.confidence
    window, before = most_probable(successors, size)
    state = _all_revealed(torch.tensor(window), partial(confidence, before))
    ids, parents, totals = best_first(successors, size, context.tree_nodes, context.min_node_prob)
    yield state
    return Draft.point_mass(ids, nfe=1, parents=parents, totals=totals)


def _several(logits: Tensor, context: Context, banned: Sequence[int], chain_of: MakeChain) -> Drafting:
    """From one pass over γ masks K windows, drawn independently; equal beginnings are one."""
    size, first = context.gamma, len(context.ids)
    samplers = [context.sampler, *[context.sampler.fork()] * (context.num_drafts - 1)]
    if chain_of is None:
        probs = to_probs(logits, context.sampling, banned)
        drawn = [sampler.sample(probs, range(first, first + size)) for sampler in samplers]
        ids, parents, branches = merge([values.tolist() for values in drawn])
        drawn_from = probs[depths(parents)]
        yield _all_revealed(drawn[0], lazy_confidence(logits, probs, context.sampling, banned))
    else:
        chain = chain_of(logits, [None] * size, banned=banned)
        windows = [chain.draw(range(size), sampler, first) for sampler in samplers]
        ids, parents, branches = merge([values.tolist() for values, _, _ in windows])
        dists: dict[int, Tensor] = {}  # node -> what it was drawn from, in every draft with it
        for (_, rows, _), branch in zip(windows, branches, strict=True):
            dists |= dict(zip(branch, rows, strict=True))
        drawn_from = torch.stack([dists[node] for node in range(len(ids))])
        yield _all_revealed(windows[0][0], windows[0][2])
    return Draft(
        ids=tuple(ids),
        probs=drawn_from,
        reveal_steps=(0,) * len(ids),
        exact_q=(True,) * len(ids),
        nfe=1,
        parents=tuple(parents),
        branches=tuple(branches),
    )


def _all_revealed(ids: Tensor, confidence: Callable[[], Tensor]) -> DenoiseState:
    """A window that one step revealed."""
    size = len(ids)
    masked = torch.zeros(size, dtype=torch.bool)
    return DenoiseState(ids=ids, masked=masked, revealed=tuple(range(size)), confidence=confidence)
