"""The drafting contract: what a drafter is told, what it must return. Knows no concrete drafter and no target.

A *drafter* is shared weights, never mutated. A *session* is one run's caches. Drafting is a generator: it yields the
window after each denoising step and returns the finished draft, so animation costs the algorithm nothing.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Sequence
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor

from specdiff_core.config import RevealOrder, Sampling
from specdiff_core.errors import DraftContractError
from specdiff_core.rng import Chance


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """What a session may know when it drafts."""

    ids: Sequence[int]  # committed tokens, prompt included; the last one is the anchor
    gamma: int  # tokens to draft in this round (never more; the loop has cut it to the room left)
    steps: int  # denoising steps T, 1 <= T <= gamma
    order: RevealOrder
    sampling: Sampling  # defines q
    chance: Chance  # the only source of randomness for this draft


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoiseState:
    """The window after one denoising step."""

    ids: Tensor  # [g] int64; the mask id where still masked
    masked: Tensor  # [g] bool, after the step
    revealed: tuple[int, ...]  # positions revealed by this step
    probs: Tensor  # [g, V] q as this step saw it (without meaning where known before)
    belief: Callable[[], Tensor]  # [g, V] how sure it is: q, or at temperature 0 the softmax at 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A finished draft of g tokens, 0 <= g <= gamma. An empty draft means a plain step of the target."""

    ids: Tensor  # [g] int64
    probs: Tensor | None  # [g, V] float64, the q each token was drawn from; None: a point mass
    reveal_steps: tuple[int, ...]  # [g] the denoising step that revealed each position
    soft: tuple[bool, ...]  # [g] positions that may be tested with p/q (specdiff_core/unmask.py)
    nfe: int  # drafter passes

    @classmethod
    def empty(cls) -> Draft:
        return cls(ids=torch.empty(0, dtype=torch.long), probs=None, reveal_steps=(), soft=(), nfe=0)

    def until(self, ends: Sequence[int]) -> Draft:
        """Cut behind the first id of ``ends``: what follows the end of the text can never be emitted, so it is not
        asked about. The law stays the target's, because the cut tokens could change no text."""
        cut = next((i + 1 for i, token in enumerate(self.ids.tolist()) if token in ends), None)
        if cut is None:
            return self
        return dataclasses.replace(
            self,
            ids=self.ids[:cut],
            probs=None if self.probs is None else self.probs[:cut],
            reveal_steps=self.reveal_steps[:cut],
            soft=self.soft[:cut],
        )

    def check(self, gamma: int, vocab_size: int) -> None:
        """Raise :class:`DraftContractError` unless the draft can be verified."""
        size = self.ids.numel()
        if size > gamma:
            raise DraftContractError(f"The drafter returned {size} tokens for a window of γ = {gamma}.")
        if size and not (int(self.ids.min()) >= 0 and int(self.ids.max()) < vocab_size):
            raise DraftContractError("The drafter returned an id outside the vocabulary.")
        if len(self.soft) != size or len(self.reveal_steps) != size:
            raise DraftContractError("The draft's soft and reveal_steps do not match its tokens.")
        if self.probs is None and any(self.soft):
            raise DraftContractError("A point-mass draft claims conditionals.")
        if self.probs is not None and self.probs.shape != (size, vocab_size):
            raise DraftContractError(
                f"q has shape {tuple(self.probs.shape)}, the target's vocabulary needs {(size, vocab_size)}."
            )
        if self.probs is not None and size and not bool(torch.isfinite(self.probs.sum())):
            raise DraftContractError("The drafter's q is not finite.", hint="Its weights may be damaged.")
        if self.probs is not None and not bool((self.probs[range(size), self.ids.tolist()] > 0).all()):
            raise DraftContractError("The drafter drew a token to which its own q gives no probability.")


class DraftSession(Protocol):
    """One run of one drafter."""

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Learn that ``ids`` were read by the target (prompt[:-1] first, then [anchor, accepted...] of each round).

        Args:
            ids: n committed tokens, in order, without gaps over the whole run.
            features: ``[n, F]`` the target's hidden states at those tokens, where the drafter needs them.
        """

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        """Yield the window after each step; return the draft. Everything undone here must be undone by itself."""


class Drafter(Protocol):
    """Shared weights with a name."""

    name: str
    layers: tuple[int, ...]  # target layers whose outputs it reads (0 = after the first layer); none for many

    def start(self) -> DraftSession:
        """A fresh session; two sessions never interfere."""
