"""A window whose tokens depend on the one before them: a denoiser's marginals, and what they become as a Markov chain.

The marginals of one drafter pass choose the candidates of every slot; how each of them follows the token before it says
a small head (DSpark, arXiv 2607.05147). q lives on the candidates: what is drawn, tested and ranked is the chain. Knows
no cache, no target.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from functools import cached_property

import torch
from torch import Tensor

from specdiff_core.config import Sampling
from specdiff_core.rng import Candidates, Chance
from specdiff_core.sampling import certainty, process
from specdiff_core.tree import Ranked

RANKED, SAMPLED = 8, 64
"""Candidates of a slot, where the most probable are wanted and where tokens are drawn. What is no candidate is never
drafted (measured at temperature 1: of 8 candidates 5 % less is accepted than of 64)."""

Follow = Callable[[Tensor, Tensor], Tensor]
"""Of the last drafter pass: what may stand before each slot ``[g, m]``, and the slots' candidates ``[g, k]`` ->
``[g, m, k]``, what each of the former adds to the marginal logit of each candidate."""


class Chain:
    """q of every slot, given the token before it.

    Args:
        follow: what pairs of tokens add.
        logits: ``[g, V]``, the marginals' of the pass.
        known: the tokens of slots that need no draw, None of the others; a token behind one that is not known may
            only be drawn in the same call, after it.
        anchor: the token before slot 0.
        sampling: defines q, over the candidates.
        banned: ids that are no candidates.
        ranked: the most probable texts are wanted, for a tree; so they are at temperature 0.
    """

    def __init__(
        self,
        follow: Follow,
        logits: Tensor,
        known: Sequence[int | None],
        *,
        anchor: int,
        sampling: Sampling,
        banned: Sequence[int] = (),
        ranked: bool = False,
    ) -> None:
        self._sampling, self._vocab = sampling, logits.shape[-1]
        self._greedy = sampling.temperature == 0
        if banned:
            logits = logits.index_fill(-1, torch.tensor(list(banned), device=logits.device), -torch.inf)
        width = RANKED if ranked or self._greedy else SAMPLED
        ids = logits.topk(min(width, self._vocab - len(banned)), -1).indices  # [g, k]
        for slot, token in enumerate(known):
            if token is not None:
                ids[slot] = token
        before = torch.cat([ids.new_full((1, ids.shape[1]), anchor), ids[:-1]])
        self._ids = ids
        self._table = logits.gather(-1, ids)[:, None] + follow(before, ids)  # [g, k before, k]

    def draw(
        self,
        slots: Sequence[int],
        chance: Chance,
        first: int,
        keep: Callable[[Sequence[float]], int] | None = None,
    ) -> tuple[Tensor, Tensor, Callable[[], Tensor]]:
        """Draw ``slots`` from the left, each behind the one before it, which is known or was drawn just now.

        Args:
            first: absolute position of slot 0.
            keep: ends the draft before a slot that is not worth verifying, asked with the largest beliefs so far: by
                the law of a token that is not drawn yet.

        Returns:
            ids ``[n]``; the q that each was drawn from, ``[n, V]`` float64; and how sure the chain was of them,
            ``[n, V]``: q, or at temperature 0 the softmax at 1.
        """
        laws = self._laws
        likeliest = laws.argmax(-1).tolist() if self._greedy else []
        surest = [] if keep is None else self._beliefs.amax(-1).tolist()
        chosen: list[int] = []
        places: list[int] = []  # of each token among its slot's candidates
        beliefs: list[float] = []
        place = 0  # a slot whose token is known has it in every place
        for slot in slots:
            if keep is not None:
                beliefs.append(surest[slot][place])
                if keep(beliefs) < len(beliefs):
                    break
            chosen.append(slot)
            if likeliest:
                place = likeliest[slot][place]
            else:
                among = Candidates(self._ids[slot : slot + 1], self._vocab)
                place = int(chance.pick(laws[slot, place][None], [first + slot], among)[0])
            places.append(place)
        ids, rows = self._ids[chosen], (chosen, [0, *places[:-1]])
        return _at(ids, places), self._wide(ids, laws[rows]), lambda: self._wide(ids, self._beliefs[rows])

    def best(self) -> tuple[Tensor, Callable[[], Tensor]]:
        """The most probable token of every slot behind the one before it: ids ``[g]``, and how sure the chain was of
        them, ``[g, V]``."""
        places = list(itertools.accumulate(self._table.argmax(-1).tolist(), lambda place, row: row[place], initial=0))
        rows = (list(range(len(self._ids))), places[:-1])
        return _at(self._ids, places[1:]), lambda: self._wide(self._ids, self._beliefs[rows])

    @cached_property
    def _laws(self) -> Tensor:
        """``[g, k before, k]`` float64: q of each slot's candidates, behind each candidate of the slot before it."""
        return process(self._table, self._sampling)

    @cached_property
    def _beliefs(self) -> Tensor:
        """The same, of how sure the chain is."""
        return certainty(self._table, self._sampling) if self._greedy else self._laws

    def _wide(self, ids: Tensor, rows: Tensor) -> Tensor:
        """``rows [n, k]`` of the candidates ``ids [n, k]`` as ``[n, V]``."""
        wide = torch.zeros(len(ids), self._vocab, dtype=rows.dtype, device=rows.device)
        return wide.scatter_(-1, ids, rows)

    def ranked(self) -> Ranked:
        """What follows a candidate in the next slot, the most probable first: rows for :func:`best_first`."""
        best = self._beliefs.log().sort(dim=-1, descending=True, stable=True)
        values, order, ids = best.values.tolist(), best.indices.tolist(), self._ids.tolist()

        def row(slot: int, place: int) -> tuple[list[float], list[int], list[int]]:
            places = order[slot][place]
            return values[slot][place], [ids[slot][k] for k in places], places

        return row


def _at(ids: Tensor, places: Sequence[int]) -> Tensor:
    """Of the candidates ``ids [n, k]`` the one at its place in each row, ``[n]``."""
    return ids.gather(1, torch.tensor(places, device=ids.device)[:, None])[:, 0]
