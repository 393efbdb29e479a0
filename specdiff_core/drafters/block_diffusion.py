"""The target-conditioned block drafter (DFlash, arXiv 2602.06036): denoises a block while it reads the target's hidden
states, whose keys and values it keeps.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Generator, Sequence

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from transformers import PreTrainedModel

from specdiff_core.drafters.base import Context, DenoiseState, Draft, DraftSession, check_features
from specdiff_core.drafters.denoise import denoise
from specdiff_core.models.cache import ROOM, Rooms, RoomyLayer
from specdiff_core.models.causal import vocabulary
from specdiff_core.models.device import Placement
from specdiff_core.models.dflash import DFlashDraftModel, Rope, from_folder
from specdiff_core.models.folders import resolve
from specdiff_core.models.markov import Successors
from specdiff_core.schema.errors import DraftContractError, PairUnavailable
from specdiff_core.schema.pairs import DrafterSpec, PairSpec


class BlockDrafter:
    """Shared weights: the DFlash network between the target's frozen embedding and head.

    Args:
        embedding: ``[V, W]``.
        head: hidden states ``[n, W]`` to logits ``[n, V]``; its rows are ``[V, W]``.
        forbidden: ids that the target never says, besides the mask.
    """

    def __init__(
        self,
        name: str,
        network: DFlashDraftModel,
        embedding: Tensor,
        head: nn.Linear,
        *,
        forbidden: Sequence[int] = (),
    ) -> None:
        self.name = name
        self.network = network
        self.embedding, self.head = embedding, head
        self.forbidden = tuple(forbidden)
        self.layers: tuple[int, ...] = tuple(network.config.target_layer_ids)
        self.mask_id = int(network.config.mask_token_id)
        self.window = int(network.config.block_size) - 1  # the anchor takes one slot
        self.successors = None if network.markov is None else Successors(network.markov, embedding, head.weight)

    def start(self) -> DraftSession:
        """A session with an empty cache."""
        return BlockSession(self)


class BlockSession:
    """One run. The cache holds the committed tokens that the target has read; features are projected once for each.

    A block's own keys and values are written behind them and cropped by what comes next, so every denoising pass finds
    the cache as the one before did.
    """

    def __init__(self, drafter: BlockDrafter) -> None:
        self._drafter = drafter
        self._pending: list[Tensor] = []
        self._observed = 0  # tokens that the target has read
        self._cached = 0  # of them, those whose keys and values are in the cache
        layers = len(drafter.network.layers)
        rooms = Rooms(2 * layers)
        self._cache = [RoomyLayer(rooms) for _ in range(layers)]
        self._rope: Rope | None = None  # of the first positions

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
        self._absorb()
        with torch.inference_mode():  # what all passes of this block share
            rope = self._rope_at(self._cached, self._cached + gamma + 1)
            anchor = torch.tensor([context.ids[-1]], device=drafter.network.device)
            masks = torch.full((gamma,), drafter.mask_id, device=drafter.network.device)
        successors, states = drafter.successors, drafter.embedding  # of the last pass, [g, W]

        @torch.inference_mode()
        def predict(window: Tensor) -> Tensor:
            nonlocal states
            ids = torch.cat([anchor, window])
            hidden = drafter.network.denoise(F.embedding(ids, drafter.embedding)[None], rope, self._attend)
            states = hidden[0, 1:]
            logits: Tensor = drafter.head(states)
            return logits

        def follow(before: Tensor, candidates: Tensor) -> Tensor:
            assert successors is not None, "asked only of a drafter with a Markov head"
            return successors(states, before, candidates)

        return (
            yield from denoise(
                predict,
                dataclasses.replace(context, gamma=gamma, steps=min(context.steps, gamma)),
                mask_id=drafter.mask_id,
                forbidden=drafter.forbidden,
                window=masks,
                follow=None if successors is None else follow,
            )
        )

    def _rope_at(self, first: int, end: int) -> Rope:
        """Rotary factors of the positions ``first .. end − 1``."""
        if self._rope is None or self._rope[0].shape[2] < end:
            network, room = self._drafter.network, -(-2 * end // ROOM) * ROOM
            self._rope = network.rope(torch.arange(room, device=network.device)[None])
        cos, sin = self._rope
        return cos[:, :, first:end], sin[:, :, first:end]

    @torch.inference_mode()
    def _absorb(self) -> None:
        """Project the pending features into every layer's cache, where the last block was."""
        if not self._pending:
            return
        network = self._drafter.network
        features = torch.cat(self._pending)
        self._pending.clear()
        context = network.read_features(features[None].to(network.dtype))
        rope = self._rope_at(self._cached, self._observed)
        for layer, (k, v) in enumerate(network.context_keys_values(context, rope)):
            self._put(layer, k, v)
        self._cached = self._observed

    def _put(self, layer: int, k: Tensor, v: Tensor) -> tuple[Tensor, Tensor]:
        """Write ``k, v [1, Hkv, n, D]`` behind the cached positions, over an earlier block; returns all of them."""
        held = self._cache[layer]
        if block := held.get_seq_length() - self._cached:
            held.crop(-block)
        return held.update(k, v)

    def _attend(self, layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
        """Read [features; block], in both directions."""
        keys, values = self._put(layer, k, v)
        attention, mask = self._drafter.network.layers[layer].self_attn, None
        if attention.window is not None:
            places = torch.arange(keys.shape[2], device=q.device)
            mask = self._drafter.network.window_mask(layer, places[self._cached :], places)
        return attention.mix(q, keys, values, mask)


def build(spec: DrafterSpec, placement: Placement, *, target: PreTrainedModel, pair: PairSpec) -> BlockDrafter:
    """Load the drafter of ``spec`` for a loaded target.

    Raises:
        WeightsError: its files are missing, damaged, or do not fit their config.
        PairUnavailable: it was made for another target.
    """
    network = from_folder(resolve(spec.source, spec.revision), placement.dtype).to(placement.device).prepare()
    config, theirs = network.config, target.config
    embedding, head = vocabulary(target)
    if (
        config.hidden_size != embedding.shape[1]
        or getattr(config, "num_target_layers", theirs.num_hidden_layers) != theirs.num_hidden_layers
        or max(config.target_layer_ids) >= theirs.num_hidden_layers
        or config.mask_token_id >= embedding.shape[0]
    ):
        raise PairUnavailable(
            f"The drafter {spec.name!r} was made for another target than {pair.label}.",
            hint="Its width, its feature layers and its mask id must exist in the target.",
        )
    return BlockDrafter(spec.name, network, embedding, head, forbidden=pair.suppress)
