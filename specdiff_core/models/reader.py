"""Causal networks that read a text piece by piece, the target and drafters that draft token by token: they read, score,
and roll back, in :meth:`ReaderSession.rollback` only.

Invariant between rounds: the cache has every committed token except the last one, the anchor."""

from __future__ import annotations

import inspect
from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor
from transformers import DynamicCache

from specdiff_core.maths.trees import position_ids, visible
from specdiff_core.models.cache import CausalReading, Pool
from specdiff_core.models.device import on_device
from specdiff_core.models.eagle import EagleHead
from specdiff_core.models.network import CausalLM
from specdiff_core.schema.errors import ConfigError, ContextOverflow


class Scores(NamedTuple):
    """The results of a pass over n tokens."""

    logits: Tensor  # [n, V] of the token after each
    features: Tensor | None  # [n, F] hidden states of the requested layers, concatenated


Ints = Sequence[int]
Pass = tuple[Tensor, list[Tensor]]
"""Logits ``[last or n, V]``, and the outputs of the requested layers, ``[n, W]`` each."""


class ReaderSession(ABC):
    """One run over a cache of at most ``context`` tokens."""

    def __init__(self, context: int) -> None:
        self._context = context

    @property
    @abstractmethod
    def length(self) -> int:
        """Tokens in the cache."""

    @property
    def room(self) -> int:
        """Tokens that can still be scored before the context is full."""
        return self._context - self.length

    def read(self, ids: Sequence[int]) -> Tensor | None:
        """Prefill: add ``ids`` to the cache; returns their features."""
        return self.score(ids, last=0).features if ids else None

    def score(
        self,
        ids: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        features: Tensor | None = None,
        last: int | None = None,
    ) -> Scores:
        """One pass over [anchor, draft]: n distributions; all n tokens enter the cache.

        Args:
            parents: of a tree, for all tokens after its anchor: each reads only its own path, at
                its own position. If ``ids`` are fewer, they are the last; the others are cached.
            features: ``[n, W]``, for a model that reads tokens and features (EAGLE's head).
            last: number of last tokens to return distributions for; None: all.

        Raises:
            ContextOverflow: there is no room for them.
            ConfigError: a tree with layers whose masks only transformers can make.
        """
        if len(ids) > self.room:
            what = f"{self.length + len(ids)} tokens do not fit into a context of {self._context}."
            raise ContextOverflow(what, hint="Shorten the prompt.")
        logits, outputs = self.forward(ids, parents, features, last)
        return Scores(logits, torch.cat(outputs, -1) if outputs else None)

    @abstractmethod
    def forward(self, ids: Ints, parents: Ints | None, features: Tensor | None, last: int | None) -> Pass:
        """The pass, whose tokens enter the cache."""

    @abstractmethod
    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        """Of the last ``scored`` tokens keep only ``rows`` (ascending)."""


Network = CausalLM | EagleHead  # this lab's networks, which use its caches


class NetworkSession(ReaderSession):
    """Of this lab's networks."""

    def __init__(self, network: Network, layers: Sequence[int], pool: Pool, context: int) -> None:
        super().__init__(context)
        self._network, self._layers = network, tuple(layers)
        self._cache = pool.take(self)

    @property
    def length(self) -> int:
        return self._cache.length

    @torch.inference_mode()
    def forward(self, ids: Ints, parents: Ints | None, features: Tensor | None, last: int | None) -> Pass:
        network, length, new = self._network, self._cache.length, len(ids)
        reading = CausalReading(self._cache, new, parents)
        tree = None if parents is None else on_device(position_ids(length, new, parents), network.device)
        where = slice(length, length + new) if tree is None else tree
        feature_rows = None if features is None else features[None]
        rows = on_device([list(ids)], network.device)
        logits, outputs = network.decode(rows, where, reading, layers=self._layers, last=last, features=feature_rows)
        self._cache.length += new
        return logits[0], [output[0] for output in outputs]

    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        self._cache.keep(scored, rows)

    def cached(self, begin: int) -> tuple[Tensor, ...]:
        """Keys and values of the tokens from ``begin`` on, of all layers; views."""
        return self._cache.views(begin, self.length)


class StockSession(ReaderSession):
    """Of any causal model with transformers' interface, without bitwise exactness."""

    length = 0

    def __init__(self, model: Any, context: int, layers: Sequence[int] = ()) -> None:
        super().__init__(context)
        self._model, self._layers = model, tuple(layers)
        self._cache = DynamicCache(config=model.config)
        # transformers 5.24 renamed past_key_values.
        parameters = inspect.signature(getattr(model, "forward", model)).parameters
        self._argument = "cache" if "cache" in parameters else "past_key_values"
        for layer in self._cache.layers:  # a rollback may need tokens outside a sliding window
            getattr(layer, "activate_past_recording", lambda: None)()

    @torch.inference_mode()
    def forward(self, ids: Ints, parents: Ints | None, features: Tensor | None, last: int | None) -> Pass:
        model, new = self._model, len(ids)
        where = None if parents is None else torch.tensor([position_ids(self.length, new, parents)]).to(model.device)
        out = model(
            input_ids=torch.tensor([list(ids)], device=model.device),
            attention_mask=None if parents is None else self._tree_mask(parents, new),
            position_ids=where,
            use_cache=True,
            output_hidden_states=[i + 1 for i in self._layers],  # None stands for all the others
            logits_to_keep=0 if last is None else max(1, last),
            **{self._argument: self._cache},
            **({} if features is None else {"features": features[None]}),
        )
        self.length += new
        # hidden_states[0] is the embedding: the output of layer i is at i + 1.
        return out.logits[0], [out.hidden_states[i + 1][0] for i in self._layers]

    def _tree_mask(self, parents: Sequence[int], new: int) -> Tensor:
        """``[1, 1, new, length + new]``, 0 or −∞ to be added."""
        config = self._model.config
        kinds = set(getattr(config, "layer_types", None) or ["full_attention"])
        if kinds != {"full_attention"} or config._attn_implementation not in {"sdpa", "eager"}:
            what = "This target cannot verify a tree: it has sliding-window layers."
            raise ConfigError(what, field="tree_nodes", hint="Set the draft tree to 0.")
        readable = visible(parents)[-new:].to(self._model.device)
        mask = torch.zeros(1, 1, new, self.length + new, dtype=self._model.dtype, device=self._model.device)
        mask[..., -readable.shape[1] :].masked_fill_(~readable, -torch.inf)
        return mask

    @torch.inference_mode()
    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        surplus = scored - len(rows)
        if list(rows) != list(range(len(rows))):
            index = torch.tensor(list(rows))
            for layer in self._cache.layers:
                # transformers types the layers, and what they hold, as optional.
                pair: list[Tensor] = [layer.keys, layer.values]  # type: ignore[union-attr,list-item]
                for tensor in pair:  # layers may be on several devices
                    end = tensor[:, :, tensor.shape[2] - scored :]
                    end[:, :, : len(rows)] = end.index_select(2, index.to(tensor.device))  # a copy
        if surplus:
            self._cache.crop(-surplus)  # negative: from the end
        self.length -= surplus


class Reader:
    """Shared weights of a causal network that reads a text piece by piece: a target, or a drafter that drafts token by
    token.

    Args:
        model: a network of this lab, or a model with transformers' interface.
        context: most tokens of a run.
        suppress: ids that it never emits.
    """

    def __init__(self, model: Any, *, context: int, suppress: Sequence[int] = ()) -> None:
        self.model = model
        self.context = context
        self.suppress = tuple(suppress)
        self.vocab_size = int(model.config.vocab_size)
        self._pool = Pool(model, context) if isinstance(model, Network) else None

    def start(self, layers: Sequence[int] = ()) -> ReaderSession:
        """A new run that returns outputs of ``layers`` as features (0 = after the first)."""
        if self._pool is not None:
            return NetworkSession(self.model, layers, self._pool, self.context)
        return StockSession(self.model, self.context, layers)
