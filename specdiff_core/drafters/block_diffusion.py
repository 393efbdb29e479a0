"""The target-conditioned block drafter (DFlash, arXiv 2602.06036; DSpark, 2607.05147; DFlash 2):
denoises a block while it reads the target's hidden states, whose keys and values it keeps."""

from __future__ import annotations

import itertools
import logging
from collections.abc import Iterator, Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor

from specdiff_core.checkpoints.sources import resolve
from specdiff_core.drafters.base import Context, Drafting, DraftSession, FeatureSession, made_for_another
from specdiff_core.drafters.denoise import denoise
from specdiff_core.models.cache import Pool
from specdiff_core.models.device import Placement, on_device
from specdiff_core.models.dflash import COPIES, DFlashDraftModel, from_folder
from specdiff_core.models.kernels import Product
from specdiff_core.models.markov import PairBias, Selector, Successors
from specdiff_core.models.network import Attend, Vocabulary, attend, rope_at, vocabulary, within_reach
from specdiff_core.schema.errors import DraftContractError
from specdiff_core.schema.pairs import DrafterSpec, PairSpec

logger = logging.getLogger("specdiff.drafters")

NEAR = 0.5
"""How far a table may be from the target's, as a share of its norm; quantisation to two bits costs about 0.3."""


@dataclass(eq=False)
class BlockDrafter:
    """Shared weights: the DFlash network between the target's frozen embedding and head."""

    name: str
    network: DFlashDraftModel  # prepared for inference
    words: Vocabulary  # the target's, or its own tables where the target's are quantised
    _: KW_ONLY
    context: int  # most tokens of a run
    forbidden: Sequence[int] = ()  # ids that the target suppresses, besides the mask
    note: str = ""  # what a run's header says about it

    def __post_init__(self) -> None:
        network, words = self.network, self.words
        self.layers: tuple[int, ...] = tuple(network.config.target_layer_ids)
        self.mask_id = int(network.config.mask_token_id)
        self.lead = network.lead  # slots that predict nothing
        self.window = int(network.config.block_size) - self.lead
        self.successors: Successors | PairBias | Selector | None = network.markov_head or network.candidate_selector
        if network.markov is not None:
            self.successors = Successors(network.markov, words.read_embedding(), words.read_rows())
        self.draft_ids: Tensor | None = None  # [d] ids that it can draft, where it lacks some
        self.head = words.head
        if network.draft_ids is not None:
            self.draft_ids = network.draft_ids.to(network.device)
            self.head = Product(words.read_rows()[self.draft_ids])
        room = self.context + self.window + self.lead  # a block may reach beyond the context
        self.pool = Pool(network, room)
        self.rope = network.rope(torch.arange(room, device=network.device)[None])

    def denoise(self, ids: Tensor, positions: slice, attend: Attend) -> tuple[Tensor, Tensor]:
        """A pass over ``ids [lead + g]``, anchor first: states ``[g, W]``, logits ``[g, V]``."""
        config = self.network.config
        embeddings = self.words.embed(ids)[None]
        if config.input_embedding_scale != 1:
            embeddings = embeddings * config.input_embedding_scale
        states = self.network.denoise(embeddings, rope_at(self.rope, positions), attend)[0, self.lead :]
        logits = self.head(states)
        if config.output_multiplier != 1:
            logits = logits * config.output_multiplier
        if cap := config.final_logit_softcapping:
            logits = cap * torch.tanh(logits / cap)
        if self.draft_ids is not None:
            full = logits.new_full((*logits.shape[:-1], int(config.vocab_size)), -torch.inf)
            logits = full.index_copy_(-1, self.draft_ids, logits)
        selector = self.network.candidate_selector
        return states, logits if selector is None else selector.cut(logits)

    def start(self) -> DraftSession:
        return BlockSession(self)


class BlockSession(FeatureSession):
    """One run. The cache has the committed tokens that the target has read, with features projected
    once. A block's own keys and values are written after them and overwritten by the next pass."""

    def __init__(self, drafter: BlockDrafter) -> None:
        super().__init__(drafter.name)
        self._drafter = drafter
        self._cache = drafter.pool.take(self)

    @property
    def room(self) -> int:
        """The size of the blocks that the network was trained for."""
        return self._drafter.window

    def draft(self, context: Context) -> Drafting:
        """Denoise a block after the anchor.

        Raises:
            DraftContractError: the observed tokens are not all committed tokens before the anchor.
        """
        drafter = self._drafter
        if self._observed != len(context.ids) - 1:
            raise DraftContractError(
                f"The block drafter has seen {self._observed} tokens before an anchor at {len(context.ids) - 1}."
            )
        self._absorb(context.gamma + drafter.lead)
        successors, states = drafter.successors, torch.empty(0)  # of the last pass, [g, W]

        @torch.inference_mode()
        def predict(window: Tensor) -> Tensor:
            nonlocal states
            block = [context.ids[-1], *window.tolist()][: len(window) + drafter.lead]
            states, logits = self._pass(on_device(block, drafter.network.device))
            return logits

        scores = None if successors is None else lambda before, candidates: successors(states, before, candidates)
        heads: dict[str, Any] = {} if successors is None else {"candidates": successors.candidates}
        confidence, pairs = drafter.network.confidence_head, drafter.network.markov_head
        if confidence is not None and pairs is not None:
            heads["confidence_head"] = lambda before: confidence(states, pairs.markov_w1(before))
        mask_id, forbidden = drafter.mask_id, drafter.forbidden
        return (yield from denoise(predict, context, mask_id=mask_id, forbidden=forbidden, pair_scores=scores, **heads))

    @torch.inference_mode()
    def _absorb(self, block: int) -> None:
        """Project pending features into every layer's cache, over the last block."""
        network, cache = self._drafter.network, self._cache
        cache.reserve(self._observed + block)
        if not self._features:
            return
        features = torch.cat(self._features)
        self._features.clear()
        context = network.read_features(features[None].to(network.dtype))
        rope = rope_at(self._drafter.rope, slice(cache.length, self._observed))
        keys_values = itertools.chain.from_iterable(network.context_keys_values(context, rope))
        for slot, part in zip(cache.views(cache.length, self._observed), keys_values, strict=True):
            slot.copy_(part)
        cache.length = self._observed

    def _pass(self, ids: Tensor) -> tuple[Tensor, Tensor]:
        """A pass over a block ``ids``, which reads [features; block] as far as a layer reaches."""
        drafter, cache = self._drafter, self._cache
        reaches, first, end = drafter.network.reaches, cache.length, cache.length + len(ids)
        slots, keys_values = cache.views(first, end), cache.views(0, end)
        positions = torch.arange(end, device=ids.device)

        def read(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            slots[2 * layer].copy_(k)
            slots[2 * layer + 1].copy_(v)
            reach = reaches[layer]
            mask = None if reach is None else within_reach(positions[first:], positions, reach)
            return attend(q, keys_values[2 * layer], keys_values[2 * layer + 1], mask)

        return drafter.denoise(ids, slice(first, end), read)


def build(spec: DrafterSpec, placement: Placement, *, target: Any, pair: PairSpec) -> BlockDrafter:
    """Load the drafter of ``spec`` for a loaded target.

    Raises:
        WeightsError: its files are missing, damaged, or do not fit their config.
        PairUnavailable: it was made for another target.
    """
    network = from_folder(resolve(spec.source, spec.revision), placement.dtype).to(placement.device).prepare()
    if not spec.chained:  # one folder may serve two drafters, with and without its Markov head
        network.markov = network.markov_head = network.confidence_head = None
    vocab = vocabulary(target)
    if wrong := _misfit(network, vocab, target.config, spec):
        raise made_for_another(spec, pair, wrong)
    words = _own_words(network, vocab)
    note = "" if words is vocab else "the drafter uses its own tables: the target's are of another precision"
    if note:
        logger.warning("%s of %s: %s", spec.name, pair.label, note)
    network.copies.clear()
    return BlockDrafter(spec.name, network, words, context=pair.context, forbidden=pair.suppress, note=note)


def _tables(network: DFlashDraftModel, vocab: Vocabulary) -> Iterator[tuple[str, Tensor, Tensor]]:
    """The tables in a network's files: name, table, and the same rows of the target's."""
    for name, read in zip(COPIES, (vocab.read_embedding, vocab.read_rows), strict=True):
        if (stored := network.copies.get(name)) is not None:
            ids, table = network.draft_ids, read()
            yield name, stored, table if ids is None or name == COPIES[0] else table[ids.to(table.device)]


def _equal(stored: Tensor, table: Tensor) -> bool:
    """Whether two tables are equal in the coarser dtype."""
    return torch.equal(stored.to(table), table) or torch.equal(table.to(stored), stored)


def _own_words(network: DFlashDraftModel, vocab: Vocabulary) -> Vocabulary:
    """``vocab``, but with the tables in the network's files where they differ from the target's."""
    words = vocab
    for name, stored, theirs in _tables(network, vocab):
        if _equal(stored, theirs):
            continue
        own = stored.to(network.device, network.dtype)
        if name == COPIES[1] and network.draft_ids is not None:
            own = vocab.read_rows().to(own).index_copy(0, network.draft_ids.to(own.device), own)
        table = torch.nn.Embedding.from_pretrained(own)  # type: ignore[no-untyped-call]
        first = name == COPIES[0]
        words = words._replace(embed=table) if first else words._replace(output=table, head=Product(own))
    return words


def _misfit(network: DFlashDraftModel, vocab: Vocabulary, target: Any, spec: DrafterSpec) -> str:
    """Why a network cannot draft for a target with the config ``target``; empty if it can."""
    config, size, width = network.config, int(target.vocab_size), int(target.hidden_size)
    layers = int(target.num_hidden_layers)
    made_for, last = getattr(config, "num_target_layers", None) or layers, max(config.target_layer_ids)
    if config.hidden_size != width:
        return f"it reads states of width {config.hidden_size}, the target's have {width}"
    if made_for != layers or last >= layers:
        return f"it reads layer {last} of {made_for} layers, the target has {layers}"
    if spec.mask_id not in (None, config.mask_token_id):
        return f"its mask_token_id is {config.mask_token_id}, the pair declares {spec.mask_id}"
    if config.mask_token_id >= size:
        return f"its mask id is {config.mask_token_id}, the target's table has {size} rows"
    own_words = network.draft_ids is not None or network.markov_head or network.candidate_selector
    if own_words and config.vocab_size != size:
        return f"its vocabulary has {config.vocab_size} tokens, the target's {size}"
    for name, stored, table in _tables(network, vocab):
        some = slice(None, None, max(1, len(table) // 4096))
        if stored.shape != table.shape or (stored[some].to(table) - table[some]).norm() > NEAR * table[some].norm():
            return f"the {name} stored with it is not the target's"
    return ""
