"""A window whose tokens depend on the one before them: a denoiser's marginals, and what they become as a Markov chain.

The marginals of one drafter pass choose the candidates of every slot; how each of them follows the token before it says
a small head (DSpark, arXiv 2607.05147). q lives on the candidates: what is drawn, tested and ranked is the chain. Knows
no cache, no target.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdiff_core.config import Sampling
from specdiff_core.rng import Chance
from specdiff_core.sampling import certainty, process
from specdiff_core.tree import Ranked

RANKED, SAMPLED = 8, 64
"""Candidates of a slot: where the most probable are wanted, behind all candidates of the slot before it at once; and
where tokens are drawn, behind the drawn one. What is no candidate is never drafted (measured at temperature 1: of 8
candidates 5 % less is accepted than of 64)."""

Follow = Callable[[int, Tensor, Tensor], Tensor]
"""Of the last drafter pass: a first slot, what may stand before it and the next ones ``[n, m]``, and their candidates
``[n, k]`` -> ``[n, m, k]``, what each of the others adds to the marginal logit of each candidate."""


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
        self._follow, self._anchor, self._sampling = follow, anchor, sampling
        self._vocab = logits.shape[-1]
        self._greedy = sampling.temperature == 0
        if banned:
            logits = logits.index_fill(-1, torch.tensor(list(banned), device=logits.device), -torch.inf)
        width = RANKED if ranked or self._greedy else SAMPLED
        self._ids = logits.topk(min(width, self._vocab - len(banned)), -1).indices  # [g, k]
        for slot, token in enumerate(known):
            if token is not None:
                self._ids[slot] = token
        self._tokens: list[list[int]] = self._ids.tolist()
        self._own = logits.gather(-1, self._ids)  # [g, k]
        self._table: Tensor | None = None  # [g, k, k]
        if ranked or self._greedy:
            before = torch.cat([self._ids.new_full((1, self._ids.shape[1]), anchor), self._ids[:-1]])
            self._table = self._own[:, None] + follow(0, before, self._ids)

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
        rows: list[Tensor] = []  # logits [k] of each slot's candidates
        places: list[int] = []  # of each token among its slot's candidates
        beliefs: list[float] = []
        likeliest = self._table.argmax(-1).tolist() if self._table is not None and self._greedy else []
        place = 0
        for slot in slots:
            row = self._table[slot, place] if self._table is not None else self._behind(slot, place)
            if keep is not None:
                beliefs.append(float(self._sure(row).amax()))
                if keep(beliefs) < len(beliefs):
                    break
            place = likeliest[slot][place] if likeliest else self._pick(slot, row, chance, first)
            rows.append(row)
            places.append(place)
        table, ids = torch.stack(rows), self._ids[list(slots)[: len(rows)]]
        q = self._wide(ids, process(table, self._sampling))
        return _at(ids, places), q, lambda: self._wide(ids, self._sure(table))

    def best(self) -> tuple[Tensor, Callable[[], Tensor]]:
        """The most probable token of every slot behind the one before it: ids ``[g]``, and how sure the chain was of
        them, ``[g, V]``."""
        table = self._table
        assert table is not None, "asked of a chain that is ranked"
        places = list(itertools.accumulate(table.argmax(-1).tolist(), lambda place, row: row[place], initial=0))
        slots = list(range(len(table)))
        return _at(self._ids, places[1:]), lambda: self._wide(self._ids, self._sure(table[slots, places[:-1]]))

    def _behind(self, slot: int, place: int) -> Tensor:
        """Logits ``[k]`` of a slot's candidates behind one token."""
        before = self._tokens[slot - 1][place] if slot else self._anchor
        added = self._follow(slot, self._ids.new_full((1, 1), before), self._ids[slot : slot + 1])
        return self._own[slot] + added[0, 0]

    def _pick(self, slot: int, row: Tensor, chance: Chance, first: int) -> int:
        """Over the whole vocabulary, because shared noise belongs to an id."""
        q = self._wide(self._ids[slot : slot + 1], process(row[None], self._sampling))
        return self._tokens[slot].index(int(chance.pick(q, [first + slot])[0]))

    def _sure(self, rows: Tensor) -> Tensor:
        """``rows [..., k]`` of logits as beliefs, float64."""
        return certainty(rows, self._sampling)

    def _wide(self, ids: Tensor, rows: Tensor) -> Tensor:
        """``rows [n, k]`` of the candidates ``ids [n, k]`` as ``[n, V]``."""
        wide = torch.zeros(len(ids), self._vocab, dtype=rows.dtype, device=rows.device)
        return wide.scatter_(-1, ids, rows)

    def ranked(self) -> Ranked:
        """What follows a candidate in the next slot, the most probable first: rows for :func:`best_first`."""
        assert self._table is not None, "asked of a chain that is ranked"
        best = self._sure(self._table).log().sort(dim=-1, descending=True, stable=True)
        values, order = best.values.tolist(), best.indices.tolist()

        def row(slot: int, place: int) -> tuple[list[float], list[int], list[int]]:
            places = order[slot][place]
            return values[slot][place], [self._tokens[slot][k] for k in places], places

        return row


def _at(ids: Tensor, places: Sequence[int]) -> Tensor:
    """Of the candidates ``ids [n, k]`` the one at its place in each row, ``[n]``."""
    return ids.gather(1, torch.tensor(places, device=ids.device)[:, None])[:, 0]
