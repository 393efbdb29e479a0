"""The drafting contract: a drafter's inputs and outputs.

A *drafter* is shared weights, never mutated. A *session* is one run's caches. Drafting is a
generator: it yields the window after each denoising step and returns the finished draft, so showing
the steps costs the algorithm nothing."""

from __future__ import annotations

import dataclasses
import sys
from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.maths.distributions import to_host
from specdiff_core.maths.randomness import Sampler
from specdiff_core.maths.trees import ROOT
from specdiff_core.schema.errors import DraftContractError, PairUnavailable
from specdiff_core.schema.events import depths
from specdiff_core.schema.pairs import DrafterSpec, PairSpec
from specdiff_core.schema.settings import RevealOrder, Sampling, cut_steps


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The inputs of a draft."""

    ids: Sequence[int]  # committed tokens, prompt included; the last one is the anchor
    gamma: int  # most tokens to draft in this round, within the session's room
    steps: int  # denoising steps T; at most γ
    order: RevealOrder
    sampling: Sampling  # defines q
    tree_nodes: int = 0  # draft a tree with at most so many nodes, γ deep; 0: a window
    min_node_prob: float = 0.0  # a tree from one pass leaves out less probable nodes but the first
    num_drafts: int = 1  # windows to draw independently
    stop_criterion: Callable[[Sequence[float]], int] | None = None  # confidences -> slots to keep
    sampler: Sampler  # the only source of randomness for this draft

    def __post_init__(self) -> None:
        object.__setattr__(self, "steps", cut_steps(self.steps, self.gamma))

    @classmethod
    def within(cls, room: int, *, gamma: int, steps: int = 1, **fields: Any) -> Context:
        """A context for a single draft outside a decode, limited by its session's ``room``."""
        return cls(gamma=min(gamma, room), steps=steps, **fields)


@dataclass(frozen=True, slots=True, kw_only=True)
class DenoiseState:
    """The window after one denoising step."""

    ids: Tensor  # [g] int64 on the CPU; the mask id where still masked
    masked: Tensor  # [g] bool on the CPU, after the step
    revealed: tuple[int, ...]  # positions revealed by this step
    confidence: Callable[[], Tensor]  # [g, V]: q, or at temperature 0 the softmax at 1

    def check(self, gamma: int) -> None:
        """Raise :class:`DraftContractError` unless this is the state of a window of at most γ."""
        size = len(self.ids)
        if not 0 < size <= gamma or len(self.masked) != size or not all(0 <= slot < size for slot in self.revealed):
            what = f"The drafter yielded a window of {size} tokens, revealed {self.revealed}."
            raise DraftContractError(what)

    @classmethod
    def single(cls, ids: Tensor, step: int, confidence: Callable[[], Tensor]) -> DenoiseState:
        """The window ``ids [g]`` after a pass that revealed slot ``step``; confidence [1, V]."""

        def rows() -> Tensor:
            row = confidence()
            return torch.zeros(len(ids), row.shape[-1], dtype=row.dtype).index_copy(0, torch.tensor([step]), row.cpu())

        return cls(ids=ids, masked=torch.arange(len(ids)) > step, revealed=(step,), confidence=rows)


@dataclass(frozen=True, slots=True, kw_only=True)
class Draft:
    """A finished draft of g tokens: a window, 0 <= g <= γ, or a tree of at most ``tree_nodes``
    nodes, at most γ deep. An empty draft means a plain step of the target."""

    ids: tuple[int, ...]  # [g]
    probs: Tensor | None  # [g, V] float64, the q each token was drawn from; None: a point mass
    reveal_steps: tuple[int, ...]  # [g] the denoising step that revealed each position
    exact_q: tuple[bool, ...]  # [g] positions that may be tested with p/q (maths/unmasking.py)
    nfe: int  # drafter passes
    parents: tuple[int, ...] | None = None  # [g] of a tree; None: each follows the one before
    branches: tuple[tuple[int, ...], ...] = ()  # K independent drafts: their nodes
    totals: tuple[float, ...] = ()  # [g] of a tree that was not drawn: Σ log q up to each

    @classmethod
    def point_mass(
        cls,
        ids: Sequence[int],
        *,
        nfe: int,
        parents: Sequence[int] | None = None,
        reveal_steps: Sequence[int] = (),
        totals: Sequence[float] = (),
    ) -> Draft:
        """Tokens that were not drawn from a known q; by default all revealed at once."""
        return cls(
            ids=tuple(ids),
            probs=None,
            reveal_steps=tuple(reveal_steps) or (0,) * len(ids),
            exact_q=(False,) * len(ids),
            nfe=nfe,
            parents=None if parents is None else tuple(parents),
            totals=tuple(totals),
        )

    @property
    def q(self) -> list[float]:
        """The probability of each token under the drafter; 1 for a point mass."""
        q: list[float] = [1.0] * len(self.ids) if self.probs is None else gather_probs(self.probs, self.ids).tolist()
        return q

    @classmethod
    def empty(cls) -> Draft:
        return cls.point_mass((), nfe=0)

    def subset(self, nodes: Sequence[int]) -> Draft:
        """The draft restricted to ``nodes``, ascending, each with its parent."""
        index = {ROOT: ROOT, **{node: i for i, node in enumerate(nodes)}}  # node -> its new number
        parents = self.parents
        return dataclasses.replace(
            self,
            ids=tuple(self.ids[node] for node in nodes),
            probs=None if self.probs is None else self.probs[list(nodes)],
            reveal_steps=tuple(self.reveal_steps[node] for node in nodes),
            exact_q=tuple(self.exact_q[node] for node in nodes),
            parents=None if parents is None else tuple(index[parents[node]] for node in nodes),
            branches=tuple(tuple(index[node] for node in branch if node in index) for branch in self.branches),
            totals=tuple(self.totals[node] for node in nodes) if self.totals else (),
        )

    def truncated(self, ends: Sequence[int]) -> Draft:
        """Cut after the first id of ``ends``: what follows the end of a text is never emitted."""
        if not any(token in ends for token in self.ids):
            return self
        nodes: list[int] = []
        for node, parent in enumerate(range(ROOT, len(self.ids) - 1) if self.parents is None else self.parents):
            if parent == ROOT or (parent in nodes and self.ids[parent] not in ends):
                nodes.append(node)
        return self.subset(nodes)

    def check(self, gamma: int, vocab_size: int, tree_nodes: int = 0) -> None:
        """Raise :class:`DraftContractError` unless the draft can be verified."""
        if fault := next(self._faults(gamma, vocab_size, tree_nodes), ""):
            raise DraftContractError(fault)

    def _faults(self, gamma: int, vocab_size: int, tree_nodes: int) -> Iterator[str]:
        size, parents, probs = len(self.ids), self.parents, self.probs
        if size > (gamma if parents is None else max(tree_nodes, gamma * len(self.branches))):
            yield f"The drafter returned {size} tokens for γ = {gamma} and {tree_nodes} nodes."
        if parents is not None:
            if len(parents) != size or not all(ROOT <= p < i for i, p in enumerate(parents)):
                yield "The draft's parents are not a tree: each must come before its children."
            if max(depths(parents), default=0) >= gamma:
                yield f"The draft's tree is deeper than γ = {gamma}."
        if not all(isinstance(token, int) and 0 <= token < vocab_size for token in self.ids):
            yield "The draft's ids must be whole numbers inside the vocabulary."
        if len(self.exact_q) != size or len(self.reveal_steps) != size:
            yield "The draft's exact_q and reveal_steps do not match its tokens."
        if self.totals and (parents is None or len(self.totals) != size):
            yield "The draft's totals do not match the nodes of a tree."
        nodes = range(0 if parents is None else size)
        if not all(node in nodes for branch in self.branches for node in branch):
            yield "The draft's branches name nodes that its tree does not have."
        elif parents is not None and any(
            parents[node] != before for branch in self.branches for before, node in pairwise((ROOT, *branch))
        ):
            yield "Each of the draft's branches must be a path of its tree that begins at the root."
        if len(set(map(len, self.branches))) > 1:
            yield "The draft's branches must be equally long."
        if not all(isinstance(n, int) and n >= 0 for n in (self.nfe, *self.reveal_steps)):
            yield "The draft's nfe and reveal_steps must be whole numbers, 0 or more."
        if probs is None:
            if any(self.exact_q):
                yield "A point-mass draft claims conditionals."
        elif probs.shape != (size, vocab_size):
            yield f"q has shape {tuple(probs.shape)}, not {(size, vocab_size)}."
        elif size:
            sums, lowest, drawn = to_host(probs.sum(-1), probs.min(), gather_probs(probs, self.ids))
            if not bool(torch.isfinite(sums).all()):
                yield "The drafter's q is not finite: its weights may be damaged."
            if bool(((sums - 1).abs().max() > 1e-6) | (lowest < 0)):
                yield "The drafter's q is not a distribution: rows must be 0 or more and sum to 1."
            if not bool((drawn > 0).all()):
                yield "The drafter drew a token to which its own q gives no probability."


def made_for_another(drafter: DrafterSpec, pair: PairSpec, why: str) -> PairUnavailable:
    """The error where a drafter's weights don't fit the target of ``pair``."""
    what = f"The drafter {drafter.name!r} was made for a different target, not {pair.label}: {why}."
    hint = "Choose one whose width, feature layers, vocabulary and mask id fit the target."
    return PairUnavailable(what, hint=hint)


def fit_width(logits: Tensor, vocab: int | None) -> Tensor:
    """``logits [n, V]`` of ``vocab`` ids: further ones are cut off, missing ones are impossible."""
    missing = (vocab or 0) - logits.shape[-1]
    return F.pad(logits, (0, missing), value=-torch.inf) if missing > 0 else logits[:, :vocab]


def run_to_end(drafting: Generator[Any, None, Draft]) -> Draft:
    """The draft at the end of a session's drafting."""
    while True:
        try:
            next(drafting)
        except StopIteration as done:
            draft: Draft = done.value
            return draft


def gather_probs(probs: Tensor, ids: Sequence[int]) -> Tensor:
    """``probs [n, V]`` at n ``ids``: ``[n]``."""
    index = torch.tensor(ids, dtype=torch.long).to(probs.device, non_blocking=True)
    return probs.gather(-1, index[:, None])[:, 0]


Drafting = Generator[DenoiseState, None, Draft]
"""Yields the window after each step, and returns the draft."""


class DraftSession(ABC):
    """One run of one drafter."""

    @property
    def room(self) -> int:
        """Most tokens it can draft now; the loop limits γ to it. By default unlimited."""
        return sys.maxsize

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:  # noqa: B027 - most drafters ignore it
        """The target has read ``ids``: prompt[:-1], then [anchor, accepted...] of each round.

        Args:
            ids: n committed tokens, in order and without gaps over the whole run.
            features: ``[n, F]``, the target's states at these, if the drafter has ``layers``.
        """

    @abstractmethod
    def draft(self, context: Context) -> Drafting:
        """Draft behind the context, and roll the session's own caches back."""


class FeatureSession(DraftSession):
    """A run of a drafter that reads the target's features, which it keeps until its next draft."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._features: list[Tensor] = []  # [n, F] of observed tokens that no draft has read yet
        self._observed = 0  # tokens that the target has read

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Keep the features ``[n, F]`` of committed tokens until the next draft.

        Raises:
            DraftContractError: there is not exactly one row of features for each id.
        """
        count = 0 if features is None else len(features)
        if count != len(ids):
            what = f"The drafter {self._name!r} needs features of {len(ids)} tokens and got {count}."
            raise DraftContractError(what)
        if features is not None and count:
            self._features.append(features)
            self._observed += count


class Drafter(Protocol):
    """Shared weights with a name."""

    name: str
    layers: tuple[int, ...]  # of the target, whose outputs it reads (0: the first layer's)

    def start(self) -> DraftSession:
        """A fresh session, independent of all others."""


class Stateless(DraftSession):
    """A drafter without caches: it is its own session."""

    layers: tuple[int, ...] = ()

    def start(self) -> DraftSession:
        return self


class Passless(Stateless):
    """A drafter that runs no network."""

    def draft(self, context: Context) -> Drafting:
        yield from ()  # there is no pass, so no window to show before the draft
        return self.draft_at_once(context)

    @abstractmethod
    def draft_at_once(self, context: Context) -> Draft:
        """Draft behind the context."""
