"""The target-conditioned block drafter (DFlash, arXiv 2602.06036): denoises a block while it reads the target's hidden
states, whose keys and values it keeps.
"""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Generator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from specdiff_core.drafters.base import Context, DenoiseState, Draft, DraftSession, check_features
from specdiff_core.drafters.denoise import denoise
from specdiff_core.models.cache import FixedReading, Pool
from specdiff_core.models.causal import Vocabulary, vocabulary
from specdiff_core.models.device import Placement, on_device
from specdiff_core.models.dflash import DFlashDraftModel, from_folder
from specdiff_core.models.folders import resolve
from specdiff_core.models.graphs import Graphs
from specdiff_core.models.markov import Successors
from specdiff_core.models.network import Attend, at, attend, near
from specdiff_core.schema.errors import DraftContractError, PairUnavailable
from specdiff_core.schema.pairs import DrafterSpec, PairSpec


@dataclass(eq=False)
class BlockDrafter:
    """Shared weights: the DFlash network between the target's frozen embedding and head."""

    name: str
    network: DFlashDraftModel  # prepared for inference
    words: Vocabulary  # the target's
    _: KW_ONLY
    context: int  # tokens that a run may hold
    forbidden: Sequence[int] = ()  # ids that the target never says, besides the mask
    graphs: Graphs | None = None  # records the passes over a block

    def __post_init__(self) -> None:
        network, words = self.network, self.words
        self.layers: tuple[int, ...] = tuple(network.config.target_layer_ids)
        self.mask_id = int(network.config.mask_token_id)
        self.window = int(network.config.block_size) - 1  # the anchor takes one slot
        self.successors = None if network.markov is None else Successors(network.markov, words.embedding, words.rows)
        room = self.context + self.window + 1  # a block may stand beyond what will be read of it
        self.pool = Pool(network, room, self.graphs)
        self.rope = network.rope(torch.arange(room, device=network.device)[None])

    def denoise(self, ids: Tensor, places: slice | Tensor, attend: Attend) -> tuple[Tensor, Tensor]:
        """A pass over a block ``ids [1 + g]``, anchor and slots: the slots' states ``[g, W]`` and logits ``[g, V]``."""
        embeddings = F.embedding(ids, self.words.embedding)[None]
        states = self.network.denoise(embeddings, at(self.rope, places), attend)[0, 1:]
        return states, self.words.head(states)

    def start(self) -> DraftSession:
        """A session with an empty cache."""
        return BlockSession(self)


class BlockSession:
    """One run. The cache holds the committed tokens that the target has read; features are projected once for each. A
    block's own keys and values are written behind them, so every pass finds the cache as the one before did."""

    def __init__(self, drafter: BlockDrafter) -> None:
        self._drafter = drafter
        self._pending: list[Tensor] = []
        self._observed = 0  # tokens that the target has read
        self._cache = drafter.pool.lend(self)

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Keep the features ``[n, F·W]`` of committed tokens until the next draft reads them.

        Raises:
            DraftContractError: there is not exactly one row of features for each id.
        """
        if ids:
            self._pending.append(check_features(self._drafter.name, ids, features))
            self._observed += len(ids)

    def draft(self, context: Context) -> Generator[DenoiseState, None, Draft]:
        """Denoise a block behind the anchor. A window longer than the network was trained for is cut to its size.

        Raises:
            DraftContractError: the observed tokens are not all committed tokens before the anchor.
        """
        drafter = self._drafter
        if self._observed != len(context.ids) - 1:
            raise DraftContractError(
                f"The block drafter has seen {self._observed} tokens before an anchor at {len(context.ids) - 1}."
            )
        gamma = min(context.gamma, drafter.window)
        self._absorb(gamma + 1)
        successors, states = drafter.successors, drafter.words.embedding  # of the last pass, [g, W]

        @torch.inference_mode()
        def predict(window: Tensor) -> Tensor:
            nonlocal states
            states, logits = self._pass(on_device([context.ids[-1], *window.tolist()], drafter.network.device))
            return logits

        follow = None if successors is None else lambda before, found: successors(states, before, found)
        cut = dataclasses.replace(context, gamma=gamma, steps=min(context.steps, gamma))
        mask_id, forbidden = drafter.mask_id, drafter.forbidden
        return (yield from denoise(predict, cut, mask_id=mask_id, forbidden=forbidden, follow=follow))

    @torch.inference_mode()
    def _absorb(self, block: int) -> None:
        """Project the pending features into every layer's cache, where the last block was; make room for the next."""
        network, cache = self._drafter.network, self._cache
        cache.reserve(self._observed + block)
        if not self._pending:
            return
        features = torch.cat(self._pending)
        self._pending.clear()
        context = network.read_features(features[None].to(network.dtype))
        rope = at(self._drafter.rope, slice(cache.length, self._observed))
        found = itertools.chain.from_iterable(network.context_keys_values(context, rope))
        for slot, part in zip(cache.views(cache.length, self._observed), found, strict=True):
            slot.copy_(part)
        cache.length = self._observed

    def _pass(self, ids: Tensor) -> tuple[Tensor, ...]:
        """One pass over a block ``ids [1 + g]``, which reads [features; block], in both directions."""
        drafter, cache = self._drafter, self._cache
        windows, first, end = drafter.network.windows, cache.length, cache.length + len(ids)
        if cache.passes is not None:

            def work(ids: Tensor, first: Tensor) -> tuple[Tensor, ...]:
                everything = ids.new_ones(len(ids), len(ids), dtype=torch.bool)
                reading = FixedReading(cache, first, everything, windows)
                return drafter.denoise(ids, first + torch.arange(len(ids), device=ids.device), reading)

            return cache.passes(len(ids), work, ids, on_device(first, ids.device))
        slots, held = cache.views(first, end), cache.views(0, end)
        places = torch.arange(end, device=ids.device)

        def read(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            slots[2 * layer].copy_(k)
            slots[2 * layer + 1].copy_(v)
            window = windows[layer]
            mask = None if window is None else near(places[first:], places, window)
            return attend(q, held[2 * layer], held[2 * layer + 1], mask)

        return drafter.denoise(ids, slice(first, end), read)


def build(spec: DrafterSpec, placement: Placement, *, target: Any, pair: PairSpec) -> BlockDrafter:
    """Load the drafter of ``spec`` for a loaded target.

    Raises:
        WeightsError: its files are missing, damaged, or do not fit their config.
        PairUnavailable: it was made for another target.
    """
    network = from_folder(resolve(spec.source, spec.revision), placement.dtype).to(placement.device).prepare()
    config, theirs = network.config, target.config
    words = vocabulary(target)
    if (
        config.hidden_size != words.embedding.shape[1]
        or getattr(config, "num_target_layers", theirs.num_hidden_layers) != theirs.num_hidden_layers
        or max(config.target_layer_ids) >= theirs.num_hidden_layers
        or config.mask_token_id >= words.embedding.shape[0]
    ):
        raise PairUnavailable(
            f"The drafter {spec.name!r} was made for another target than {pair.label}.",
            hint="Its width, its feature layers and its mask id must exist in the target.",
        )
    forbidden, graphs = pair.suppress, placement.graphs
    return BlockDrafter(spec.name, network, words, context=pair.context, forbidden=forbidden, graphs=graphs)
