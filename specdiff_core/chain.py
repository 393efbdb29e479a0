"""A window whose tokens depend on the one before them: a denoiser's marginals, and what they become as a Markov chain.

From one drafter pass come the k most probable candidates of every slot and, for every pair of neighbours, how one
follows the other. q lives on the candidates: what is drawn, tested and ranked is the chain. Knows no cache, no target.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from specdiff_core.config import Sampling
from specdiff_core.rng import Chance
from specdiff_core.sampling import process
from specdiff_core.tree import Ranked

RANKED, SAMPLED = 8, 32
"""Candidates of a slot where the most probable are wanted, and where tokens are drawn: what lies outside is never
drafted (measured at temperature 1: 8 accept 5 % less than 64). The pairs cost one product over γ · k rows."""

Follow = Callable[[Tensor, Tensor], Tensor]
"""Of the last drafter pass: what may stand before each slot ``[g, m]``, and candidates ``[g, k]`` -> logits
``[g, m, k]`` of each candidate behind each of them."""


class Chain:
    """q of every slot, given each candidate of the slot before it.

    Args:
        follow: logits of pairs.
        logits: ``[g, V]``, the marginals' of the pass.
        known: the tokens of slots that need no draw, None of the others; a token behind one that is not known may
            only be drawn in the same call, after it.
        anchor: the token before slot 0.
        sampling: defines q, over the candidates.
        banned: ids that are no candidates.
        ranked: only the most probable candidates are wanted, for a tree; so they are at temperature 0.
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
        self._vocab = logits.shape[-1]
        self._greedy = sampling.temperature == 0
        if banned:
            logits = logits.index_fill(-1, torch.tensor(list(banned), device=logits.device), -torch.inf)
        width = RANKED if ranked or self._greedy else SAMPLED
        self._ids = logits.topk(min(width, self._vocab - len(banned)), -1).indices  # [g, k]
        for slot, token in enumerate(known):
            if token is not None:
                self._ids[slot] = token
        before = torch.cat([self._ids.new_full((1, self._ids.shape[1]), anchor), self._ids[:-1]])
        self._table = follow(before, self._ids)  # [g, k, k]
        self._q = process(self._table, sampling)
        self._tokens: list[list[int]] = self._ids.tolist()

    @functools.cached_property
    def _sure(self) -> Tensor:
        """``[g, k, k]`` float64: q, or at temperature 0, where q is one-hot, the softmax at 1."""
        return process(self._table, Sampling(temperature=1.0)) if self._greedy else self._q

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
            keep: ends the draft before a slot that is not worth verifying, asked with the largest beliefs so far.

        Returns:
            ids ``[n]``; the q that each was drawn from, ``[n, V]`` float64; and how sure the chain was of them,
            ``[n, V]``: q, or at temperature 0 the softmax at 1.
        """
        best = self._q.argmax(-1).tolist() if self._greedy else []
        places: list[int] = []  # of each token among its slot's candidates
        rows: list[tuple[int, int]] = []  # slot, and the place of the token before it
        sure = self._sure.amax(-1).tolist() if keep is not None else []
        beliefs: list[float] = []
        place = 0
        for slot in slots:
            if keep is not None:
                beliefs.append(sure[slot][place])
                if keep(beliefs) < len(beliefs):
                    break
            rows.append((slot, place))
            place = best[slot][place] if self._greedy else self._pick(slot, place, chance, first)
            places.append(place)
        index = tuple(torch.tensor(rows, device=self._ids.device).T)
        ids = self._ids[index[0]]
        values = ids.gather(1, torch.tensor(places, device=ids.device)[:, None])[:, 0]
        return values, self._wide(ids, self._q[index]), lambda: self._wide(ids, self._sure[index])

    def _pick(self, slot: int, place: int, chance: Chance, first: int) -> int:
        """Over the whole vocabulary, because shared noise belongs to an id."""
        row = self._wide(self._ids[slot : slot + 1], self._q[slot, place][None])
        return self._tokens[slot].index(int(chance.pick(row, [first + slot])[0]))

    def _wide(self, ids: Tensor, rows: Tensor) -> Tensor:
        """``rows [n, k]`` of the candidates ``ids [n, k]`` as ``[n, V]``."""
        wide = torch.zeros(len(ids), self._vocab, dtype=rows.dtype, device=rows.device)
        return wide.scatter_(-1, ids, rows)

    def ranked(self) -> Ranked:
        """What follows a candidate in the next slot, the most probable first: rows for :func:`best_first`."""
        best = self._sure.log().sort(dim=-1, descending=True, stable=True)
        values, order = best.values.tolist(), best.indices.tolist()

        def row(slot: int, place: int) -> tuple[list[float], list[int], list[int]]:
            places = order[slot][place]
            return values[slot][place], [self._tokens[slot][k] for k in places], places

        return row
