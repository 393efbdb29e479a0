"""Heads that make a token of a block depend on the previous one: a Markov chain.

A denoiser fills a window from independent marginals, so neighbours may each be likely, but not
together. This project's head (:class:`MarkovHead`) adds a term from the previous token to a slot's
hidden state, before the target's head. Released drafters have DSpark's (arXiv 2607.05147,
:class:`PairBias`), a low-rank bias on the logits, and DFlash 2's (:class:`Selector`). Each slot is
normalised by itself, so q is a true conditional."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdiff_core.maths.chains import SAMPLED, TOP


class MarkovHead(nn.Module):
    """h + D·silu(A·h + B·e): the state of a slot given the embedding e of the previous token, each
    ``[width]``; A and B have ``inner`` rows."""

    def __init__(self, width: int, inner: int) -> None:
        super().__init__()
        self.state = nn.Linear(width, inner, bias=False)
        self.before = nn.Linear(width, inner, bias=False)
        self.out = nn.Linear(inner, width, bias=False)

    def forward(self, states: Tensor, before: Tensor) -> Tensor:
        """``states [..., W]`` and embeddings of the tokens ``before [..., W]`` -> ``[..., W]``."""
        out: Tensor = states + self.out(F.silu(self.state(states) + self.before(before)))
        return out


class Successors:
    """A Markov head for decoding: what a token adds to the logit of the next one,
    silu(A·h + B·e)·(Dᵀ·e'). B·e and Dᵀ·e' are the same for every draft, so they are tables.

    Args:
        markov: frozen.
        embedding, rows: ``[V, W]`` of the vocabulary's embedding and of its output head.
    """

    candidates = TOP

    @torch.inference_mode()
    def __init__(self, markov: MarkovHead, embedding: Tensor, rows: Tensor) -> None:
        self._state = markov.state
        self._before = markov.before(embedding)  # [V, inner]
        self._after = F.linear(rows, markov.out.weight.t())  # [V, inner]

    @torch.inference_mode()
    def __call__(self, states: Tensor, before: Tensor, candidates: Tensor) -> Tensor:
        """``states [n, W]``, ids ``before [n, m]`` and ``candidates [n, k]`` -> ``[n, m, k]``."""
        previous = F.silu(self._state(states)[:, None] + F.embedding(before, self._before))
        return _scores(previous, candidates, self._after)


class PairBias(nn.Module):
    """DSpark's Markov head: a token adds W₁[token]·W₂[next] to the next logit.

    Args:
        vocab: vocabulary size V.
        rank: of the product.
        gate: width of the slots' states, which gate W₁[token] elementwise; 0: no gate.
    """

    candidates = SAMPLED  # released drafters use the whole vocabulary

    def __init__(self, vocab: int, rank: int, *, gate: int = 0) -> None:
        super().__init__()
        self.markov_w1 = nn.Embedding(vocab, rank)
        self.markov_w2 = nn.Linear(rank, vocab, bias=False)
        self.gate_proj = nn.Linear(gate + rank, rank) if gate else None

    @torch.inference_mode()
    def forward(self, states: Tensor, before: Tensor, candidates: Tensor) -> Tensor:
        """As :meth:`Successors.__call__`."""
        previous = self.markov_w1(before)
        if self.gate_proj is not None:
            expanded = states[:, None].expand(-1, before.shape[1], -1)
            previous = self.gate_proj(torch.cat([expanded, previous], -1)).sigmoid() * previous
        return _scores(previous, candidates, self.markov_w2.weight)


class Confidence(nn.Module):
    """DSpark's acceptance estimate by a slot's state and, with a ``rank``, W₁[previous token]."""

    def __init__(self, width: int, rank: int) -> None:
        super().__init__()
        self.proj = nn.Linear(width + rank, 1)
        self._paired = rank > 0

    @torch.inference_mode()
    def forward(self, states: Tensor, previous: Tensor) -> Tensor:
        """``states [n, W]``, and ``previous [n, m, r]``, W₁ of the tokens before them -> ``[n, m]``."""
        expanded = states[:, None].expand(-1, previous.shape[1], -1)
        score: Tensor = self.proj(torch.cat([expanded, previous], -1) if self._paired else expanded)
        return score[..., 0].float().sigmoid()


class Selector(nn.Module):
    """DFlash 2's head, as released: scores how well each of a slot's ``best`` tokens follows the
    previous one, Σ (P[previous] ∘ A·h)·S[token]."""

    def __init__(self, vocab: int, width: int, rank: int, best: int) -> None:
        super().__init__()
        self.candidates = best
        self.predecessor_codebook = nn.Parameter(torch.zeros(vocab, rank))
        self.successor_codebook = nn.Parameter(torch.zeros(vocab, rank))
        self.hidden_projection = nn.Linear(width, rank, bias=False)

    @torch.inference_mode()
    def forward(self, states: Tensor, before: Tensor, candidates: Tensor) -> Tensor:
        """As :meth:`Successors.__call__`."""
        previous = F.embedding(before, self.predecessor_codebook) * self.hidden_projection(states)[:, None]
        return _scores(previous, candidates, self.successor_codebook)

    def cut(self, logits: Tensor) -> Tensor:
        """``logits [g, V]`` restricted to the best tokens of each slot."""
        best = logits.topk(min(self.candidates, logits.shape[-1]), -1)
        return torch.full_like(logits, -torch.inf).scatter_(-1, best.indices, best.values)


def _scores(previous: Tensor, candidates: Tensor, after: Tensor) -> Tensor:
    """``previous [n, m, r]``, ``candidates [n, k]``, ``after [V, r]`` -> ``[n, m, k]``."""
    return previous @ F.embedding(candidates, after).transpose(1, 2)
