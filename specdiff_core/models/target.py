"""The target of one run: reads, scores, and forgets. The only module that rolls a target's cache back.

Invariant, held between rounds: the cache holds every committed token except the last one, the anchor.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor

from specdiff_core.maths.trees import visible
from specdiff_core.models.cache import move_to_front, new_cache
from specdiff_core.schema.errors import ConfigError, ContextOverflow
from specdiff_core.schema.events import depths


@dataclass(frozen=True, slots=True)
class Scores:
    """What one pass over n tokens said."""

    logits: Tensor  # [n, V] of the token after each
    features: Tensor | None  # [n, F] hidden states of the asked layers, concatenated


class CausalModel(Protocol):
    """What is asked of a causal language model here; those of transformers offer it."""

    @property
    def config(self) -> Any: ...

    @property
    def dtype(self) -> torch.dtype: ...

    @property
    def device(self) -> torch.device: ...

    def __call__(self, *args: Any, **values: Any) -> Any: ...


class Target:
    """Shared weights of a causal language model from transformers, or of one that is called like it."""

    def __init__(self, model: CausalModel, *, context: int, suppress: Sequence[int] = ()) -> None:
        self.model = model
        self.context = context
        self.suppress = tuple(suppress)
        self.vocab_size = int(model.config.vocab_size)
        kinds = set(getattr(model.config, "layer_types", None) or ["full_attention"])
        self._plain = kinds == {"full_attention"} and model.config._attn_implementation in {"sdpa", "eager"}

    def start(self, layers: Sequence[int] = ()) -> TargetSession:
        """A fresh run. ``layers``: whose outputs to return as features (0 = after the first layer)."""
        return TargetSession(self, tuple(layers))

    def mask(self, held: int, new: int, parents: Sequence[int] | None = None) -> Tensor | None:
        """What ``new`` tokens behind ``held`` cached ones may read: ``[1, 1, new, held + new]``, 0 or −∞ to be added.
        They follow one another, or are the last ones of an anchor and the tree behind it.

        transformers would make the same mask, as booleans that every layer converts again (measured: 3 % of a
        verifying pass of a small model on a CPU). None where it shall make its own: nothing cached, window layers.

        Raises:
            ConfigError: a tree, and layers for which only transformers can make a mask.
        """
        if parents is not None and not self._plain:
            raise ConfigError(
                "This target cannot verify a tree: some of its layers see a window only.",
                field="tree_nodes",
                hint="Set the draft tree to 0.",
            )
        if parents is None and (not self._plain or not held or new < 2):
            return None
        mask = torch.zeros(1, 1, new, held + new, dtype=self.model.dtype, device=self.model.device)
        if parents is None:
            mask[..., held:].fill_(float("-inf")).triu_(1)
        else:
            seen = visible(parents)[-new:].to(mask.device)
            mask[..., -seen.shape[1] :].masked_fill_(~seen, float("-inf"))
        return mask


class TargetSession:
    """One run's key-value cache."""

    def __init__(self, target: Target, layers: tuple[int, ...]) -> None:
        self._target, self._layers = target, layers
        self._cache = new_cache(target.model.config)
        self._length = 0

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self._length

    @property
    def room(self) -> int:
        """Tokens that can still be scored before the context is full."""
        return self._target.context - self._length

    def read(self, ids: Sequence[int]) -> Tensor | None:
        """Prefill: take ``ids`` into the cache for good; returns their features."""
        return self._forward(ids, logits_to_keep=1).features if ids else None

    def score(
        self,
        ids: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        features: Tensor | None = None,
        last: int = 0,
    ) -> Scores:
        """One pass over [anchor, draft]: n distributions, all n tokens enter the cache until :meth:`rollback`.

        Args:
            parents: of a tree, for all tokens behind its anchor: each reads its own text only, at its own position.
                Where ``ids`` are fewer, they are its last ones, and the others are in the cache already.
            features: ``[n, W]`` beside the tokens, for a model that reads both (EAGLE's head).
            last: return the distributions of so many last tokens only; 0: of all.
        """
        return self._forward(ids, logits_to_keep=last, parents=parents, features=features)

    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        """Roll back: of the last ``scored`` tokens only ``rows`` (ascending) stay, side by side."""
        surplus = scored - len(rows)
        if list(rows) != list(range(len(rows))):
            move_to_front(self._cache, scored, rows)
        if surplus:
            self._cache.crop(-surplus)  # a negative count removes from the end in every supported version
        self._length -= surplus

    @torch.inference_mode()
    def _forward(
        self,
        ids: Sequence[int],
        logits_to_keep: int,
        parents: Sequence[int] | None = None,
        features: Tensor | None = None,
    ) -> Scores:
        if len(ids) > self.room:
            raise ContextOverflow(
                f"{self._length + len(ids)} tokens do not fit into a context of {self._target.context}.",
                hint="Shorten the prompt.",
            )
        model = self._target.model
        out = model(
            input_ids=torch.tensor([list(ids)], device=model.device),
            attention_mask=self._target.mask(self._length, len(ids), parents),
            position_ids=None if parents is None else self._places(parents, len(ids)),
            past_key_values=self._cache,
            use_cache=True,
            output_hidden_states=[i + 1 for i in self._layers],  # None stands for all the others
            logits_to_keep=logits_to_keep,
            **({} if features is None else {"features": features[None]}),
        )
        self._length += len(ids)
        if not self._layers:
            return Scores(out.logits[0], None)
        # hidden_states[0] is the embedding, so the output of layer i is at i + 1 (docs/theory.md, Block drafters).
        return Scores(out.logits[0], torch.cat([out.hidden_states[i + 1][0] for i in self._layers], -1))

    def _places(self, parents: Sequence[int], new: int) -> Tensor:
        """``[1, new]`` absolute positions of the last ``new`` of an anchor and the tree behind it."""
        anchor = self._length + new - 1 - len(parents)
        places = [anchor, *(anchor + 1 + depth for depth in depths(parents))]
        return torch.tensor([places[-new:]], device=self._target.model.device)
