"""Drafts with one layer over the target's features (EAGLE, arXiv 2401.15077; EAGLE-3, 2503.01840),
or grows a tree with it (EAGLE-2, 2406.16858)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from specdiff_core.checkpoints.sources import resolve
from specdiff_core.drafters.base import (
    Context,
    DenoiseState,
    Draft,
    Drafting,
    DraftSession,
    FeatureSession,
    made_for_another,
)
from specdiff_core.drafters.sequential import draft_in_order
from specdiff_core.maths.distributions import confidence_probs
from specdiff_core.maths.trees import ROOT, Growth
from specdiff_core.models.device import Placement
from specdiff_core.models.eagle import EagleHead, load_eagle
from specdiff_core.models.network import vocabulary
from specdiff_core.models.reader import Reader, Scores
from specdiff_core.schema.events import depths
from specdiff_core.schema.pairs import DrafterSpec, PairSpec

WIDTH = 8
"""Most nodes to extend at each depth of a tree (EAGLE-2's "top-k", 10 there)."""


class EagleSession(FeatureSession):
    """One run. A cache entry is a token with the target's feature of the previous token; between a
    draft and its verification, drafted entries with the head's own features follow."""

    def __init__(self, drafter: EagleDrafter) -> None:
        super().__init__(drafter.name)
        self._drafter, self._run = drafter, drafter.reader.start((0,))
        self._ahead = 0  # entries in the cache that are drafted

    @property
    def room(self) -> int:
        """The room left in its context; 0 after a prompt of one token, which has no feature yet."""
        pending = sum(len(part) for part in self._features)
        return max(0, self._run.room - pending + 1) if pending else 0

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Drop drafted entries, and keep the features ``[n, F]`` of committed tokens."""
        self._run.rollback(self._ahead, ())
        self._ahead = 0
        super().observe(ids, features)

    def draft(self, context: Context) -> Drafting:
        """γ passes: the first reads what was committed since the last draft."""
        if context.tree_nodes:
            return (yield from self._tree(context))
        expected: Tensor  # the feature that the head expects of the token before

        def predict(token: int | None) -> Tensor:
            nonlocal expected
            logits, expected = self._first(context) if token is None else self._next([token], expected)
            return logits

        return (yield from draft_in_order(predict, context, self._drafter.reader.suppress))

    def _first(self, context: Context) -> tuple[Tensor, Tensor]:
        """The pass over committed entries: each feature beside the next token, the anchor last."""
        features = self._drafter.read(torch.cat(self._features))
        tokens = context.ids[self._observed - len(features) + 1 : self._observed + 1]
        self._features.clear()
        return _last(self._run.score(tokens, features=features, last=1))

    def _next(
        self, ids: Sequence[int], features: Tensor, parents: Sequence[int] | None = None
    ) -> tuple[Tensor, Tensor]:
        """A pass over drafted tokens, beside the features that the head expects before them."""
        self._ahead += len(ids)
        return _last(self._run.score(ids, parents, features=features))

    def _tree(self, context: Context) -> Drafting:
        """Per depth one pass over the most probable open nodes; at the end the
        ``context.tree_nodes`` most probable of all. It stops where no deeper node could be among them: that depends on
        probabilities alone, on nothing that was drawn."""
        growth, forbidden = Growth(context.tree_nodes, WIDTH), self._drafter.reader.suppress
        node_features: dict[int, Tensor] = {}  # node -> the feature that the head expects of it
        entries: list[int] = []  # nodes in the cache, in order
        rows, passes = [ROOT], 0
        logits, features = self._first(context)
        while True:
            passes += 1
            confidence = confidence_probs(logits, context.sampling, forbidden)
            node_features |= dict(zip(rows, features, strict=True))
            growth.extend(rows, confidence.log())
            yield _best_path(growth, context.gamma, passes - 1, confidence)
            rows = growth.open()[: self._run.room] if passes < context.gamma else []
            if not rows:
                break
            entries += rows
            index = {node: i for i, node in enumerate(entries)} | {ROOT: ROOT}
            parents = [index[growth.parents[node]] for node in entries]
            parent_features = torch.stack([node_features[growth.parents[node]] for node in rows])
            logits, features = self._next([growth.ids[node] for node in rows], parent_features, parents)
        ids, tree, totals = growth.best()
        return Draft.point_mass(ids, nfe=passes, parents=tree, reveal_steps=depths(tree), totals=totals)


def _last(scores: Scores) -> tuple[Tensor, Tensor]:
    """The logits of a pass of the head, and the features that they were read off."""
    assert scores.features is not None, "the head's session returns features"
    return scores.logits, scores.features[-len(scores.logits) :]


def _best_path(growth: Growth, gamma: int, step: int, confidence: Tensor) -> DenoiseState:
    """The most probable text of the tree so far, as a window."""
    path = growth.best_path()
    window = torch.zeros(gamma, dtype=torch.long)
    window[: len(path)] = torch.tensor(path)
    return DenoiseState.single(window, step, lambda: confidence[:1])


@dataclass(eq=False)
class EagleDrafter:
    """Shared weights: the head between its target's embedding and output head."""

    name: str
    reader: Reader  # runs a frozen :class:`EagleHead`; ids that it suppresses are never drafted
    layers: tuple[int, ...]  # of the target, which the head reads: the last, or several (EAGLE-3)

    @torch.inference_mode()
    def read(self, features: Tensor) -> Tensor:
        """The target's ``features [n, F]`` as the head's layer reads them, ``[n, W]``."""
        head = self.reader.model
        return head.read(features) if isinstance(head, EagleHead) else features

    def start(self) -> DraftSession:
        return EagleSession(self)


def build(spec: DrafterSpec, placement: Placement, *, target: Any, pair: PairSpec) -> EagleDrafter:
    """Load the head of ``spec`` for a loaded target.

    Raises:
        WeightsError: its files are missing, damaged, or do not fit their config.
        PairUnavailable: it was made for another target, or cannot be reached.
    """
    head: EagleHead = load_eagle(resolve(spec.source, spec.revision), placement.dtype).to(placement.device)
    config, vocab = target.config, vocabulary(target)
    layers, width = head.target_layers(int(config.num_hidden_layers)), int(config.hidden_size)
    wrong = ""
    if head.config.vocab_size != config.vocab_size:
        wrong = f"its vocabulary has {head.config.vocab_size} tokens, the target's {config.vocab_size}"
    elif head.features != len(layers) * width:
        wrong = f"it expects {head.features} features per token, the target provides {len(layers)} × {width}"
    elif not head.own_words and head.shape.width != width:
        wrong = f"its width is {head.shape.width}, the target's {width}, and it has no embedding of its own"
    elif not 0 <= min(layers) <= max(layers) < config.num_hidden_layers:
        wrong = f"it reads the layers {list(layers)}, the target has {config.num_hidden_layers}"
    if wrong:
        raise made_for_another(spec, pair, wrong)
    head.freeze(vocab, context=pair.context)
    reader = Reader(head, context=pair.context, suppress=pair.suppress)
    return EagleDrafter(spec.name, reader, layers=layers)
