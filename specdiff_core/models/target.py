"""The target of a run: reads, scores, and rolls back, in :meth:`TargetSession.rollback` only.

Invariant between rounds: the cache has every committed token except the last one, the anchor."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor

from specdiff_core.maths.trees import places
from specdiff_core.models.cache import BORDERS, CausalReading, Pool
from specdiff_core.models.device import on_device
from specdiff_core.models.eagle import EagleHead
from specdiff_core.models.network import CausalLM
from specdiff_core.models.stock import StockRun
from specdiff_core.schema.errors import ContextOverflow


class Scores(NamedTuple):
    """The results of a pass over n tokens."""

    logits: Tensor  # [n, V] of the token after each
    features: Tensor | None  # [n, F] hidden states of the requested layers, concatenated


Network = CausalLM | EagleHead  # this lab's networks, which use its caches


class NetworkRun:
    """The cache of a run, and passes over it, for this lab's networks."""

    def __init__(self, network: Network, layers: Sequence[int], pool: Pool) -> None:
        self._network, self._layers = network, tuple(layers)
        self._cache = pool.take(self)
        self.keep = self._cache.keep

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self._cache.length

    @torch.inference_mode()
    def forward(
        self,
        ids: Sequence[int],
        parents: Sequence[int] | None = None,
        features: Tensor | None = None,
        last: int | None = None,
    ) -> tuple[Tensor, list[Tensor]]:
        """A pass over n ``ids``, which enter the cache -> logits ``[last or n, V]``, and the
        outputs of the requested layers, ``[n, W]`` each; see :meth:`TargetSession.score`."""
        network, held, new = self._network, self._cache.length, len(ids)
        reading = CausalReading(self._cache, new, parents)
        tree = None if parents is None else on_device(places(held, new, parents), network.device)
        where = slice(held, held + new) if tree is None else tree
        beside = None if features is None else features[None]
        rows = on_device([list(ids)], network.device)
        logits, outputs = network.decode(rows, where, reading, layers=self._layers, last=last, features=beside)
        self._cache.length += new
        return logits[0], [output[0] for output in outputs]


class Target:
    """Shared weights of a causal language model.

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
        self._tried: dict[int, str] = {}  # threads -> exactness

    def start(self, layers: Sequence[int] = ()) -> TargetSession:
        """A new run that returns outputs of ``layers`` as features (0 = after the first)."""
        pool = self._pool
        if pool is not None:
            return TargetSession(self, NetworkRun(self.model, layers, pool))
        return TargetSession(self, StockRun(self.model, layers))

    def exactness(self, stopped: Callable[[], bool] = lambda: False) -> str:
        """``bitwise`` if a token's logits have the same bits however many tokens are read with it,
        otherwise ``rounding``; "" if the test, which takes a second or two, was ``stopped``.

        Tested on first use, with these weights, on this machine, for each number of threads."""
        threads = torch.get_num_threads()
        if threads not in self._tried:
            invariant = self._invariant(stopped)
            if stopped():
                return ""
            self._tried[threads] = "bitwise" if invariant else "rounding"
        return self._tried[threads]

    def _invariant(self, stopped: Callable[[], bool]) -> bool:
        """Whether reading tokens at once and in parts gives the same logits, keys and values, at
        the beginning and at the borders where sums are split; False if stopped."""
        if self._pool is None:
            return False
        pool = self._pool  # on a CPU a temporary one: its buffers are large (94 MB for SmolLM2)
        if self.model.device.type == "cpu":
            pool = Pool(self.model, self.context)
        parts = (17, 1, 1, 1, 1, 2, 3, 9)
        ids = [7919 * i % self.vocab_size for i in range(sum(parts))][: self.context]
        whole, split = (NetworkRun(self.model, (), pool) for _ in range(2))
        for border in (0, *(border for border in BORDERS if border + len(ids) <= self.context)):
            for run in (whole, split):
                if stopped():
                    return False
                if missing := max(0, border - len(ids) // 2 - run.length):
                    run.forward([ids[i % len(ids)] for i in range(missing)], last=0)
            begun = whole.length
            at_once, _ = whole.forward(ids)
            pieces = [ids[end - part : end] for part, end in zip(parts, itertools.accumulate(parts), strict=True)]
            found = [split.forward(piece)[0] for piece in pieces if piece]
            held = zip(*(run._cache.views(begun, whole.length) for run in (whole, split)), strict=True)
            if not all(torch.equal(one, two) for one, two in [(torch.cat(found), at_once), *held]):
                return False
        return True


class TargetSession:
    """One run over a cache."""

    def __init__(self, target: Target, run: NetworkRun | StockRun) -> None:
        self._target, self._run = target, run

    @property
    def length(self) -> int:
        """Tokens in the cache."""
        return self._run.length

    @property
    def room(self) -> int:
        """Tokens that can still be scored before the context is full."""
        return self._target.context - self.length

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
                its own position. If there are fewer ``ids``, they are the last ones, and the others
                are in the cache already.
            features: ``[n, W]``, for a model that reads tokens and features (EAGLE's head).
            last: number of last tokens to return distributions for; None: all.
        """
        if len(ids) > self.room:
            words = f"{self.length + len(ids)} tokens do not fit into a context of {self._target.context}."
            raise ContextOverflow(words, hint="Shorten the prompt.")
        logits, outputs = self._run.forward(ids, parents, features, last)
        return Scores(logits, torch.cat(outputs, -1) if outputs else None)

    def rollback(self, scored: int, rows: Sequence[int]) -> None:
        """Of the last ``scored`` tokens keep only ``rows`` (ascending)."""
        self._run.keep(scored, rows)
