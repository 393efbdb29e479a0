"""Lets a token of a block depend on the one before it: a block's marginals become a Markov chain.

A denoiser fills a window from independent marginals, so neighbours that are likely each, but not together, meet. The
chain adds to the hidden state of a slot what the token before it says; the head that reads both is the target's own, as
for the marginals. The Markov head of DSpark (arXiv 2607.05147) adds a low-rank bias to the logits instead. Each slot is
normalised by itself, so q is a true conditional.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn


class MarkovHead(nn.Module):
    """h + D·silu(A·h + B·e): the state of a slot, given the embedding e of the token before it, each ``[width]``;
    A and B have ``inner`` rows."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.state = nn.Linear(width, inner, bias=False)
        self.before = nn.Linear(width, inner, bias=False)
        self.out = nn.Linear(inner, width, bias=False)

    def initialize(self, generator: torch.Generator, *, std: float) -> None:
        """A chain that has learnt nothing: the marginals, until D grows."""
        for part in (self.state, self.before):
            nn.init.normal_(part.weight, std=std, generator=generator)
        nn.init.zeros_(self.out.weight)

    def forward(self, states: Tensor, before: Tensor) -> Tensor:
        """``states [..., W]`` of slots, ``before [..., W]``: embeddings of the tokens before them -> ``[..., W]``."""
        out: Tensor = states + self.out(F.silu(self.state(states) + self.before(before)))
        return out


class Successors:
    """A Markov head between a vocabulary's embedding and its output head, for decoding: what a token adds to the logit
    of the one behind it, silu(A·h + B·e)·(Dᵀ·e'). B·e and Dᵀ·e' are the same for every draft, so they are tables.

    Args:
        markov: frozen.
        embedding, rows: ``[V, W]`` of the vocabulary's embedding and of its output head.
    """

    @torch.inference_mode()
    def __init__(self, markov: MarkovHead, embedding: Tensor, rows: Tensor) -> None:
        self._state = markov.state
        self._said = markov.before(embedding)  # [V, inner]
        self._heard = F.linear(rows, markov.out.weight.t())  # [V, inner]

    @torch.inference_mode()
    def __call__(self, states: Tensor, before: Tensor, candidates: Tensor) -> Tensor:
        """``states [n, W]`` of slots, the ids ``before [n, m]`` them and ``candidates [n, k]`` for them ->
        ``[n, m, k]``."""
        said = F.silu(self._state(states)[:, None] + F.embedding(before, self._said))
        return said @ F.embedding(candidates, self._heard).transpose(1, 2)
