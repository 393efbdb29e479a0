"""The target of one run: reads, scores, and forgets. The only module that rolls a target's cache back.

Invariant, held between rounds: the cache holds every committed token except the last one, the anchor.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol, runtime_checkable

import torch
from torch import Tensor

from specdiff_core.maths.trees import places, visible
from specdiff_core.models.cache import BORDERS, CausalReading, FixedReading, KeyValues, Pool
from specdiff_core.models.device import on_device
from specdiff_core.models.graphs import Graphs, Passes
from specdiff_core.models.network import Attend, Shape
from specdiff_core.models.stock import CausalModel, Placed, StockRun
from specdiff_core.schema.errors import ContextOverflow


@dataclass(frozen=True, slots=True)
class Scores:
    """What one pass over n tokens said."""

    logits: Tensor  # [n, V] of the token after each
    features: Tensor | None  # [n, F] hidden states of the asked layers, concatenated


@runtime_checkable
class Network(Placed, Protocol):
    """What is asked of a network of this lab (:mod:`specdiff_core.models.network`)."""

    @property
    def shape(self) -> Shape: ...

    def decode(
        self,
        ids: Tensor,
        places: slice | Tensor,
        attend: Attend,
        *,
        layers: Sequence[int],
        last: int | None,
        features: Tensor | None,
    ) -> tuple[Tensor, list[Tensor]]: ...


class NetworkRun:
    """One run's cache, and the passes over it, of a network of this lab."""

    def __init__(self, network: Network, layers: Sequence[int], cache: KeyValues) -> None:
        self._network, self._layers, self._cache = network, tuple(layers), cache

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self._cache.length

    @torch.inference_mode()
    def forward(
        self, ids: Sequence[int], parents: Sequence[int] | None, features: Tensor | None, last: int | None
    ) -> tuple[Tensor, list[Tensor]]:
        """A pass over n ``ids``, which enter the cache.

        Args:
            parents: of a tree, see :meth:`TargetSession.score`.
            features: ``[n, W]`` beside the tokens.
            last: logits of so many last tokens; None: of all.

        Returns:
            logits ``[last or n, V]``, and the outputs of the asked layers, ``[n, W]`` each.
        """
        network, held, new = self._network, self._cache.length, len(ids)
        if self._cache.passes is not None and last != 0:  # a prompt is read once: not worth recording
            return self._recorded(self._cache.passes, ids, parents, features, last)
        where: slice | Tensor = slice(held, held + new)
        if parents is not None:
            where = on_device(places(held, new, parents), network.device)
        logits, outputs = network.decode(
            on_device([list(ids)], network.device),
            where,
            CausalReading(self._cache, new, parents, dtype=network.dtype),
            layers=self._layers,
            last=last,
            features=None if features is None else features[None],
        )
        self._cache.length += new
        return logits[0], [output[0] for output in outputs]

    def _recorded(
        self,
        passes: Passes,
        ids: Sequence[int],
        parents: Sequence[int] | None,
        features: Tensor | None,
        last: int | None,
    ) -> tuple[Tensor, list[Tensor]]:
        """The same pass as a function of tensors alone."""
        network, cache, layers = self._network, self._cache, self._layers
        held, new = cache.length, len(ids)
        if parents is None:
            where, seen = list(range(held, held + new)), torch.ones(new, new, dtype=torch.bool).tril()
        else:
            where, seen = places(held, new, parents), visible(parents)[-new:]

        def work(ids: Tensor, where: Tensor, first: Tensor, seen: Tensor, *features: Tensor) -> tuple[Tensor, ...]:
            attend = FixedReading(cache, first, seen, dtype=network.dtype)
            beside = features[0] if features else None
            logits, outputs = network.decode(ids, where, attend, layers=layers, last=last, features=beside)
            return (logits, *outputs)

        kind = (new, seen.shape[1], last, layers, features is None)
        inputs = on_device([list(ids)], network.device), *(on_device(part, network.device) for part in (where, held))
        beside = () if features is None else (features[None],)
        logits, *outputs = passes(kind, work, *inputs, on_device(seen, network.device), *beside)
        cache.length += new
        return logits[0], [output[0] for output in outputs]

    @torch.inference_mode()
    def keep(self, scored: int, rows: Sequence[int]) -> None:
        """Of the last ``scored`` tokens only ``rows`` (ascending) stay, side by side."""
        self._cache.keep(scored, rows)


class Target:
    """Shared weights of a causal language model.

    Args:
        model: a network of this lab; or a model of transformers, or one that is called like it.
        context: tokens that a run may hold.
        suppress: ids that it never says.
        graphs: records the passes of a network of this lab.
    """

    def __init__(
        self,
        model: Network | CausalModel,
        *,
        context: int,
        suppress: Sequence[int] = (),
        graphs: Graphs | None = None,
    ) -> None:
        self.model: Any = model
        self.context = context
        self.suppress = tuple(suppress)
        self.vocab_size = int(model.config.vocab_size)
        self._pool: Pool | None = None
        if isinstance(model, Network):
            self._pool = Pool(model.shape, context, dtype=model.dtype, device=model.device, graphs=graphs)

    def start(self, layers: Sequence[int] = ()) -> TargetSession:
        """A fresh run. ``layers``: whose outputs to return as features (0 = after the first layer)."""
        return TargetSession(self, self._run(layers), features=bool(layers))

    def _run(self, layers: Sequence[int]) -> NetworkRun | StockRun:
        if self._pool is None:
            return StockRun(self.model, layers)
        cache = self._pool.new()
        run = NetworkRun(self.model, layers, cache)
        self._pool.give_back(cache, when_gone=run)
        return run

    def rehearse(self, widths: Iterable[int], layers: Sequence[int] = ()) -> None:
        """Make a pass of each of ``widths``, for somebody who records them."""
        run = self.start(layers)
        for width in widths:
            run.score([0] * width)
            run.rollback(width, ())

    @cached_property
    def exactness(self) -> str:
        """``bitwise`` where a token's logits have the same bits however many tokens are read beside it, as they have
        here if the kernels below keep their promise: tried on these weights and this machine, on the first asking.
        ``rounding`` where sums round differently.
        """
        if self._pool is None:
            return "rounding"
        widths = (1, 3, 13)
        ids = [7919 * i % self.vocab_size for i in range(sum(widths))]
        whole, split = self._run(()), self._run(())
        for border in (0, *(border for border in BORDERS if border + len(ids) <= self.context)):
            for run in (whole, split):  # with something in the cache, just before a length where sums may change
                if missing := max(0, border - len(ids) // 2 - run.length):
                    run.forward([ids[i % len(ids)] for i in range(missing)], None, None, 0)
            at_once, _ = whole.forward(ids, None, None, None)
            first = 0
            for width in widths:
                alone, _ = split.forward(ids[first : first + width], None, None, None)
                if not torch.equal(alone, at_once[first : first + width]):
                    return "rounding"
                first += width
        return "bitwise"


class TargetSession:
    """One run over a cache."""

    def __init__(self, target: Target, run: NetworkRun | StockRun, *, features: bool) -> None:
        self._target, self._run, self._features = target, run, features

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self._run.length

    @property
    def room(self) -> int:
        """Tokens that can still be scored before the context is full."""
        return self._target.context - self.length

    def read(self, ids: Sequence[int]) -> Tensor | None:
        """Prefill: take ``ids`` into the cache for good; returns their features."""
        return self._forward(ids, None, None, 0).features if ids else None

    def score(
        self,
        ids: Sequence[int],
        parents: Sequence[int] | None = None,
        *,
        features: Tensor | None = None,
        last: int | None = None,
    ) -> Scores:
        """One pass over [anchor, draft]: n distributions, all n tokens enter the cache until :meth:`rollback`.

        Args:
            parents: of a tree, for all tokens behind its anchor: each reads its own text only, at its own position.
                Where ``ids`` are fewer, they are its last ones, and the others are in the cache already.
            features: ``[n, W]`` beside the tokens, for a model that reads both (EAGLE's head).
            last: return the distributions of so many last tokens only; None: of all.
        """
        return self._forward(ids, parents, features, last)

    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        """Roll back: of the last ``scored`` tokens only ``rows`` (ascending) stay, side by side."""
        self._run.keep(scored, rows)

    def _forward(
        self, ids: Sequence[int], parents: Sequence[int] | None, features: Tensor | None, last: int | None
    ) -> Scores:
        if len(ids) > self.room:
            raise ContextOverflow(
                f"{self.length + len(ids)} tokens do not fit into a context of {self._target.context}.",
                hint="Shorten the prompt.",
            )
        logits, outputs = self._run.forward(ids, parents, features, last)
        return Scores(logits, torch.cat(outputs, -1) if self._features else None)
