"""Heads that make a token of a block depend on the previous one: a Markov chain.

A denoiser fills a window from independent marginals, so neighbours may each be likely, but not
together. Released drafters have DSpark's head (arXiv 2607.05147, :class:`PairBias`), a low-rank
bias on the logits, or DFlash 2's (:class:`Selector`). This project's (:class:`MarkovHead`) is
DSpark's with its two tables computed from the target's. Each slot is normalised by itself, so q is
a true conditional."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from specdiff_core.maths.chains import SAMPLED, TOP


class MarkovHead(nn.Module):
    """h + D·silu(B·e + b): the state of a slot given the embedding e of the previous token, each
    ``[width]``; B has ``inner`` rows. On the logits that is DSpark's W₁[token]·W₂[next], with
    W₁ = silu(E·Bᵀ + b) and W₂ = R·D for the target's embedding E and output rows R: it needs no
    tables of its own, and also learns of words that training rarely meets.

    Args:
        gated: A·h takes the place of b, which no engine's head has.
    """

    def __init__(self, width: int, inner: int, *, gated: bool = False) -> None:
        super().__init__()
        self.state = nn.Linear(width, inner, bias=False) if gated else None
        self.before = nn.Linear(width, inner, bias=not gated)
        self.out = nn.Linear(inner, width, bias=False)

    def forward(self, states: Tensor, before: Tensor) -> Tensor:
        """``states [..., W]`` and embeddings of the tokens ``before [..., W]`` -> ``[..., W]``."""
        inner = self.before(before) if self.state is None else self.state(states) + self.before(before)
        out: Tensor = states + self.out(F.silu(inner))
        return out

    def tables(self, embedding: Tensor, rows: Tensor) -> tuple[Tensor, Tensor]:
        """W₁ ``[n, inner]`` of the tokens with this ``embedding [n, W]`` (gated: before A·h and the
        silu), and W₂ ``[m, inner]`` of those with these ``rows [m, W]`` of the output head."""
        before: Tensor = self.before(embedding)
        return F.silu(before) if self.state is None else before, rows @ self.out.weight


class Successors:
    """A :class:`MarkovHead` for decoding: what a token adds to the logit of the next one, from its
    tables, which are the same for every draft.

    Args:
        markov: frozen.
        embedding, rows: ``[V, W]`` of the vocabulary's embedding and of its output head.
    """

    candidates = TOP

    @torch.inference_mode()
    def __init__(self, markov: MarkovHead, embedding: Tensor, rows: Tensor) -> None:
        self._state = markov.state
        self._before, self._after = markov.tables(embedding, rows)

    @torch.inference_mode()
    def __call__(self, states: Tensor, before: Tensor, candidates: Tensor) -> Tensor:
        """``states [n, W]``, ids ``before [n, m]`` and ``candidates [n, k]`` -> ``[n, m, k]``."""
        previous = F.embedding(before, self._before)
        if self._state is not None:
            previous = F.silu(self._state(states)[:, None] + previous)
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
