"""Fills a window of masks in T steps: the drafter's half of SpecDiff, for any network; or grows a tree from one step.
Knows no cache, no target.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from functools import partial
from typing import NamedTuple

import torch
from torch import Tensor

from specdiff_core.chain import Chain, Follow
from specdiff_core.config import RevealOrder
from specdiff_core.drafters.base import Context, DenoiseState, Draft
from specdiff_core.sampling import belief, certainty, process
from specdiff_core.tree import best_first, depths, independent, merge
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
    follow: Follow | None = None,
) -> Generator[DenoiseState, None, Draft]:
    """Draft γ tokens in T denoising steps (SpecDiff §3; MDLM's reverse process with fixed counts per step), with T = 1
    only those that ``context.keep`` finds worth verifying; or, where the context asks for a tree or several drafts,
    those, from one step (papers.md §5.2, §2.3).

    Args:
        predict: window ids ``[g]`` (``mask_id`` where masked) -> logits ``[g, V]``, one drafter pass.
        context: γ, T, reveal order, the drafter's sampling and its chance.
        mask_id: never drawn: its probability is zero before normalising (SUBS).
        forbidden: further ids that the target cannot say.
        window: an all-masked window to start from; by default γ masks on the CPU.
        follow: of a denoiser whose tokens depend on the one before them. What a step reveals side by side from the left
            is then drawn in order; other reveals, and those that look at drawn values, take the marginals.

    Yields:
        the window after each step.

    Returns:
        the draft; ``probs[i]`` is the q that position i was drawn from, at the step that revealed it.
    """
    size = context.gamma
    ids = torch.full((size,), mask_id, dtype=torch.long) if window is None else window.clone()
    never = tuple(dict.fromkeys((mask_id, *forbidden)))
    chain_of = None if follow is None else partial(Chain, follow, anchor=context.ids[-1], sampling=context.sampling)
    if context.nodes or context.drafts > 1:
        logits = predict(ids)
        banned = tuple(token for token in never if token < logits.shape[-1])
        return (yield from (_tree if context.nodes else _several)(logits, context, banned, chain_of))
    masked = list(range(size))
    reveal_steps = [0] * size
    drawn_from: Tensor | None = None
    plan = schedule(size, context.steps)
    if len(plan) > 1:
        context = dataclasses.replace(context, keep=None)  # what a later step will say is not known yet
    for step, count in enumerate(plan):
        logits = predict(ids)
        banned = tuple(token for token in never if token < logits.shape[-1])
        if chain_of is not None and _in_order(context.order, count, len(masked)):
            known = [None if i in masked else token for i, token in enumerate(ids.tolist())]
            said = _in_turn(chain_of(logits, known, banned=banned), logits, context, masked[:count], banned)
        else:
            said = _side_by_side(logits, context, masked, count, banned)
        size = len(said.probs)
        ids, masked = ids[:size].clone(), masked[:size]
        ids[said.chosen] = said.values.to(ids.device)
        if drawn_from is None:
            drawn_from = said.probs.clone() if len(plan) > 1 else said.probs
        else:
            drawn_from[said.chosen] = said.probs[said.chosen]
        for position in said.chosen:
            masked.remove(position)
            reveal_steps[position] = step
        yield DenoiseState(
            ids=ids,
            masked=torch.tensor([i in masked for i in range(size)]),
            revealed=tuple(said.chosen),
            belief=said.belief,
        )
    return Draft(
        ids=ids,
        probs=drawn_from,
        reveal_steps=tuple(reveal_steps[:size]),
        soft=soft_positions(context.order, reveal_steps[:size]),
        nfe=len(plan),
    )


class _Said(NamedTuple):
    """What one step revealed, in a window that it may have cut to g slots."""

    chosen: list[int]
    values: Tensor  # [n] ids of the chosen slots
    probs: Tensor  # [g, V] q
    belief: Callable[[], Tensor]  # [g, V]


def _side_by_side(logits: Tensor, context: Context, masked: list[int], count: int, banned: Sequence[int]) -> _Said:
    """Reveal ``count`` of the ``masked`` slots, each drawn from its own marginal."""
    first = len(context.ids)  # absolute position of window slot 0
    probs = process(logits, context.sampling, banned)  # [g, V]
    sure = belief(logits, probs, context.sampling, banned)
    if context.keep is not None:  # cut by distributions only, before a value is drawn
        count = context.keep(sure().amax(-1).tolist())
        probs, masked, sure = probs[:count], masked[:count], partial(_first, sure, count)
    if context.order is RevealOrder.VALUE_CONFIDENCE:
        values = context.chance.pick(probs[masked], [first + i for i in masked])
        drawn = sure()[masked, values.to(probs.device)]
        chosen = most_confident(drawn, masked, count)
        values = values[[masked.index(i) for i in chosen]]
    else:
        ranked = sure() if count < len(masked) and context.order in RANKED else probs
        chosen = reveal(context.order, ranked, masked, count, context.chance)
        rows = probs if len(chosen) == len(probs) else probs[chosen]
        values = context.chance.pick(rows, [first + i for i in chosen])
    return _Said(chosen, values, probs, sure)


def _in_turn(chain: Chain, logits: Tensor, context: Context, chosen: list[int], banned: Sequence[int]) -> _Said:
    """Reveal the ``chosen`` slots from the left, each drawn behind the one before it. Whether a draft ends before a
    token is asked by the law of that token alone."""
    values, probs, sure = chain.draw(chosen, context.chance, len(context.ids), context.keep)
    chosen = chosen[: len(values)]
    if context.keep is None and len(chosen) < len(logits):  # the other slots: as the pass saw them
        marginals = process(logits, context.sampling, banned)
        others = belief(logits, marginals, context.sampling, banned)
        rows = torch.tensor(chosen, device=probs.device)
        return _Said(chosen, values, marginals.index_copy(0, rows, probs), partial(_replaced, others, rows, sure))
    return _Said(chosen, values, probs, sure)


def _in_order(order: RevealOrder, count: int, masked: int) -> bool:
    """Whether a step reveals the leftmost masks, whatever they become."""
    return order is RevealOrder.LEFT_TO_RIGHT or (count == masked and order is not RevealOrder.VALUE_CONFIDENCE)


def _replaced(belief: Callable[[], Tensor], slots: Tensor, rows: Callable[[], Tensor]) -> Tensor:
    return belief().index_copy(0, slots, rows())


def _first(belief: Callable[[], Tensor], size: int) -> Tensor:
    return belief()[:size]


def _tree(
    logits: Tensor, context: Context, banned: Sequence[int], chain_of: Callable[..., Chain] | None
) -> Generator[DenoiseState, None, Draft]:
    """From one pass over γ masks the most probable prefixes, a point mass."""
    size = context.gamma
    if chain_of is None:
        marginals = certainty(logits, context.sampling, banned)
        ranked = independent(marginals.log(), context.nodes)
        state = _whole(marginals.argmax(-1), lambda: marginals)
    else:
        chain = chain_of(logits, [None] * size, banned=banned, ranked=True)
        ranked = chain.ranked()
        state = _whole(*chain.best())
    ids, parents = best_first(ranked, size, context.nodes, context.worth)
    yield state
    return _forked(ids, parents)


def _several(
    logits: Tensor, context: Context, banned: Sequence[int], chain_of: Callable[..., Chain] | None
) -> Generator[DenoiseState, None, Draft]:
    """From one pass over γ masks K windows, drawn independently; equal beginnings are one."""
    size, first = context.gamma, len(context.ids)
    chances = [context.chance, *[context.chance.fresh()] * (context.drafts - 1)]
    if chain_of is None:
        probs = process(logits, context.sampling, banned)
        sure = belief(logits, probs, context.sampling, banned)
        drawn = [chance.pick(probs, range(first, first + size)) for chance in chances]
        ids, parents, branches = merge([values.tolist() for values in drawn])
        drawn_from = probs[depths(parents)]
        yield _whole(drawn[0], sure)
    else:
        chain = chain_of(logits, [None] * size, banned=banned)
        said = [chain.draw(range(size), chance, first) for chance in chances]
        ids, parents, branches = merge([values.tolist() for values, _, _ in said])
        laws: dict[int, Tensor] = {}  # of a node: what it was drawn from, the same in every draft that holds it
        for (_, rows, _), branch in zip(said, branches, strict=True):
            laws |= dict(zip(branch, rows, strict=True))
        drawn_from = torch.stack([laws[node] for node in range(len(ids))])
        yield _whole(said[0][0], said[0][2])
    return _forked(ids, parents, drawn_from, branches)


def _whole(ids: Tensor, belief: Callable[[], Tensor]) -> DenoiseState:
    """A window that one step revealed."""
    size = len(ids)
    masked = torch.zeros(size, dtype=torch.bool)
    return DenoiseState(ids=ids, masked=masked, revealed=tuple(range(size)), belief=belief)


def _forked(
    ids: Sequence[int], parents: Sequence[int], probs: Tensor | None = None, branches: Sequence[tuple[int, ...]] = ()
) -> Draft:
    """A draft that is no single text."""
    return Draft(
        ids=torch.tensor(ids),
        probs=probs,
        reveal_steps=(0,) * len(ids),
        soft=(probs is not None,) * len(ids),
        nfe=1,
        parents=tuple(parents),
        branches=tuple(branches),
    )
