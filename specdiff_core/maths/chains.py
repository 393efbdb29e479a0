"""Windows whose tokens depend on the one before: a denoiser's marginals as a Markov chain.

One drafter pass gives a marginal for every slot. The most probable tokens of each marginal are the
slot's candidates, and a small head scores how well each candidate follows the token before it
(DSpark, arXiv 2607.05147). q is the distribution over these candidates given the token before."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, partial

import torch
from torch import Tensor

from specdiff_core.maths.distributions import confidence_probs, to_host, to_probs
from specdiff_core.maths.randomness import Candidates, Sampler
from specdiff_core.maths.trees import Successors
from specdiff_core.schema.settings import Sampling

TOP, SAMPLED = 8, 64
"""Candidates of a slot, where the most probable are wanted and where tokens are drawn. A token that
is no candidate is never drafted, so at temperature 1 few candidates cost acceptance."""

PairScores = Callable[[Tensor, Tensor], Tensor]
"""After a drafter pass: the tokens that may precede each slot ``[g, m]``, and its candidates
``[g, k]`` -> ``[g, m, k]``, what the former add to the marginal logit of each candidate."""


class Chain:
    """q of every slot, given the token before it.

    Args:
        pair_scores: what a token adds to the logits of the next.
        logits: ``[g, V]``, the marginals of the pass.
        known: the token of each slot that is revealed already, None of the others; a token after
            one that is not known can be drawn only in the same call, after it.
        anchor: the token before slot 0.
        sampling: defines q, over the candidates.
        banned: ids that are no candidates.
        top: whether the most probable texts are wanted, as at temperature 0 and for a tree.
        candidates: of each slot, where the most probable are wanted.
        confidence_head: tokens ``[g, m]`` before each slot -> the confidence in the slot after
            each, ``[g, m]``. Default: the largest probability.
    """

    def __init__(
        self,
        pair_scores: PairScores,
        logits: Tensor,
        known: Sequence[int | None],
        *,
        anchor: int,
        sampling: Sampling,
        banned: Sequence[int] = (),
        top: bool = False,
        candidates: int = TOP,
        confidence_head: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self._sampling, self._vocab = sampling, logits.shape[-1]
        self._greedy = sampling.temperature == 0
        if banned:
            logits = logits.index_fill(-1, torch.tensor(list(banned), device=logits.device), -torch.inf)
        width = candidates if top or self._greedy else SAMPLED
        ids = logits.topk(min(width, self._vocab - len(banned)), -1).indices  # [g, k]
        for slot, token in enumerate(known):
            if token is not None:
                ids[slot] = token
        before = torch.cat([ids.new_full((1, ids.shape[1]), anchor), ids[:-1]])
        self._ids = ids
        self._head = None if confidence_head is None else partial(confidence_head, before)
        self._table = logits.gather(-1, ids)[:, None] + pair_scores(before, ids)  # [g, k before, k]

    def draw(
        self,
        slots: Sequence[int],
        sampler: Sampler,
        first: int,
        stop_criterion: Callable[[Sequence[float]], int] | None = None,
    ) -> tuple[Tensor, Tensor, Callable[[], Tensor]]:
        """Draw ``slots`` from the left, each given the token before it, known or drawn just now.

        Args:
            first: absolute position of slot 0.
            stop_criterion: ends the draft before a slot not to be verified; it sees how confident
                the drafter is of every slot so far, never the value of a token yet to be drawn.

        Returns:
            ids ``[n]`` on the CPU; q of each, ``[n, V]`` float64; the confidence, ``[n, V]``.
        """
        dists = self._dists
        host_dists, host_ids = to_host(dists, self._ids)  # small tables, asked slot by slot
        likeliest = host_dists.argmax(-1).tolist() if self._greedy else []
        highest = [] if stop_criterion is None else self._highest().tolist()
        chosen: list[int] = []
        indices: list[int] = []  # of each token among its slot's candidates
        confidences: list[float] = []
        candidate = 0  # a slot whose token is known is every candidate
        for slot in slots:
            if stop_criterion is not None:
                confidences.append(highest[slot][candidate])
                if stop_criterion(confidences) < len(confidences):
                    break
            chosen.append(slot)
            if likeliest:
                candidate = likeliest[slot][candidate]
            else:
                among = Candidates(host_ids[slot : slot + 1], self._vocab)
                candidate = int(sampler.sample(host_dists[slot, candidate][None], [first + slot], among)[0])
            indices.append(candidate)
        ids, rows = self._ids[chosen], (chosen, [0, *indices[:-1]])
        return host_ids[chosen, indices], self._wide(ids, dists[rows]), lambda: self._wide(ids, self._confidence[rows])

    def confidence(self, before: Sequence[int]) -> Tensor:
        """``[g, V]``: each slot's confidence given the candidate ``before [g]`` of the slot to its left."""
        return self._wide(self._ids, self._confidence[list(range(len(self._ids))), list(before)])

    @cached_property
    def _dists(self) -> Tensor:
        """``[g, k before, k]`` float64: q of each slot given each candidate of the previous one."""
        return to_probs(self._table, self._sampling)

    @cached_property
    def _confidence(self) -> Tensor:
        return confidence_probs(self._table, self._sampling) if self._greedy else self._dists

    def _highest(self) -> Tensor:
        """``[g, k]``: each slot's highest confidence, given each candidate of the previous slot."""
        return self._confidence.amax(-1) if self._head is None else self._head()

    def _wide(self, ids: Tensor, rows: Tensor) -> Tensor:
        """``rows [n, k]`` of the candidates ``ids [n, k]`` as ``[n, V]``."""
        wide = torch.zeros(len(ids), self._vocab, dtype=rows.dtype, device=rows.device)
        return wide.scatter_(-1, ids, rows)

    def successors(self) -> Successors:
        """What follows a candidate in the next slot, the most probable first: rows for
        :func:`specdiff_core.maths.trees.best_first`."""
        best = self._confidence.log().sort(dim=-1, descending=True, stable=True)
        values, order, ids = (part.tolist() for part in to_host(*best, self._ids))

        def row(slot: int, candidate: int) -> tuple[list[float], list[int], list[int]]:
            following = order[slot][candidate]
            return values[slot][candidate], [ids[slot][k] for k in following], following

        return row
