"""Drafts with an independent masked-diffusion network (SpecDiff, arXiv 2408.05636): MDLM, or a
causal network adapted to read in both directions (Dream, DiffuCoder).

These read [context ; window] again at every denoising step, so there is no cache to roll back. A
denoiser cut from the target (``models/masked.py``) reads its context causally: a step costs the
window's rows alone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdiff_core.checkpoints.folders import read_config
from specdiff_core.checkpoints.sources import resolve
from specdiff_core.checkpoints.vocabularies import unshared_ids
from specdiff_core.drafters.base import Context, Drafting, DraftSession, Stateless, fit_width, made_for_another
from specdiff_core.drafters.denoise import denoise
from specdiff_core.models.bidirectional import Bidirectional, is_bidirectional, load_bidirectional, released_shift
from specdiff_core.models.cache import Pool
from specdiff_core.models.device import Placement, on_device
from specdiff_core.models.kernels import Product
from specdiff_core.models.masked import ARCHITECTURE, MaskedDraftModel, load_masked
from specdiff_core.models.mdlm import Mdlm, load_mdlm
from specdiff_core.models.network import Vocabulary, attend, rope_at, vocabulary
from specdiff_core.schema.errors import TokenizerMismatch, WeightsError
from specdiff_core.schema.pairs import DrafterSpec, PairSpec

KNOWN = 16
"""Known tokens that remain in view before a wide window."""


@dataclass(eq=False)
class MaskedDiffusionDrafter(Stateless):
    """Shared weights, without a cache: bidirectional states change with every later token."""

    name: str
    model: Mdlm | Bidirectional  # prepared for inference
    _: KW_ONLY
    vocab_size: int  # V of the target; further ids (MDLM's mask token) are cut off
    view: int  # tokens that the network reads, window included (more if a wide window needs it)
    shift: int = 0  # 1 where slot i − 1 predicts token i (declared by the pair)
    forbidden: Sequence[int] = ()  # ids that the target suppresses
    unshared: Sequence[int] = ()  # target ids that the network lacks or uses for something else

    def __post_init__(self) -> None:
        self.mask_id = self.model.config.mask_id
        self.device = self.model.device
        self._never = (*self.forbidden, *self.unshared)
        self._unsupported = frozenset(self.unshared) | frozenset(range(self.model.config.vocab_size, self.vocab_size))

    @property
    def room(self) -> int:
        """Leaves at least the anchor visible."""
        return self.model.config.model_length - 1

    def draft(self, context: Context) -> Drafting:
        """Denoise a window after the last tokens in the network's view."""
        gamma = context.gamma
        text = [self.mask_id if token in self._unsupported else token for token in context.ids[-self.known(gamma) :]]
        ids = on_device(text + [self.mask_id] * gamma, self.device)

        def predict(window: Tensor) -> Tensor:
            ids[-gamma:] = on_device(window, self.device)
            return self.logits(ids, gamma)

        return (yield from denoise(predict, context, mask_id=self.mask_id, forbidden=self._never))

    def known(self, gamma: int) -> int:
        """Known tokens in view before a window of ``gamma``."""
        return min(max(self.view - gamma, KNOWN), self.model.config.model_length - gamma)

    @torch.inference_mode()
    def logits(self, ids: Tensor, gamma: int) -> Tensor:
        """``ids [L]``, masks among the last γ -> logits ``[γ, V]`` of the window."""
        first = len(ids) - gamma - self.shift
        return fit_width(self.model(ids[None], first=first)[0, :gamma], self.vocab_size)


@dataclass(eq=False)
class CachedDenoiser:
    """Shared weights of a denoiser cut from the target, between its frozen embedding and head."""

    name: str
    network: MaskedDraftModel  # frozen
    words: Vocabulary  # the target's
    _: KW_ONLY
    context: int  # most tokens of a run
    forbidden: Sequence[int] = ()  # ids that the target suppresses, besides the mask
    layers: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        network = self.network
        self.mask_id, self.window = int(network.config.mask_token_id), int(network.config.block_size)
        ids = torch.arange(int(network.config.vocab_size)) if network.draft_ids is None else network.draft_ids
        self.draft_ids = ids.to(network.device)
        self.head = Product(self.words.read_rows()[self.draft_ids].to(network.dtype))
        room = self.context + self.window
        self.pool = Pool(network, room)
        self.rope = network.rope(torch.arange(room, device=network.device)[None])

    def start(self) -> DraftSession:
        return CachedSession(self)


class CachedSession(DraftSession):
    """One run. The cache holds the committed tokens before the anchor, read causally. A window's
    keys and values are written after them and overwritten by the next pass."""

    def __init__(self, drafter: CachedDenoiser) -> None:
        self._drafter, self._cache = drafter, drafter.pool.take(self)
        self._unread: list[int] = []  # committed tokens that are not in the cache

    @property
    def room(self) -> int:
        """The size of the windows that the network was trained for."""
        return self._drafter.window

    def observe(self, ids: Sequence[int], features: Tensor | None) -> None:
        """Queue the tokens for the next pass."""
        self._unread += ids

    def draft(self, context: Context) -> Drafting:
        """Denoise the window after the anchor; its first pass reads the unread tokens, too."""
        drafter, anchor = self._drafter, context.ids[-1]

        def predict(window: Tensor) -> Tensor:
            # Row i predicts slot i: the anchor comes first, and the last slot is never read.
            return self._pass([anchor, *window.tolist()][: len(window)])

        return (yield from denoise(predict, context, mask_id=drafter.mask_id, forbidden=drafter.forbidden))

    @torch.inference_mode()
    def _pass(self, window: Sequence[int]) -> Tensor:
        """Read [unread tokens ; window] after the cache -> logits ``[γ, V]`` of the window's rows."""
        drafter, cache, network = self._drafter, self._cache, self._drafter.network
        ids = on_device([*self._unread, *window], network.device)
        first, end, known = cache.length, cache.length + len(ids), len(self._unread)
        cache.reserve(end)
        slots, keys_values = cache.views(first, end), cache.views(0, end)
        mask = torch.ones(len(ids), end, dtype=torch.bool, device=ids.device)
        mask[:known] = mask[:known].tril(first)

        def read(layer: int, q: Tensor, k: Tensor, v: Tensor) -> Tensor:
            slots[2 * layer].copy_(k)
            slots[2 * layer + 1].copy_(v)
            return attend(q, keys_values[2 * layer], keys_values[2 * layer + 1], mask if known else None)

        embeddings = drafter.words.embed(ids)[None]
        states = network(embeddings, rope_at(drafter.rope, slice(first, end)), read, last=len(window))
        cache.length += known
        self._unread.clear()
        logits = drafter.head(states)[0]
        full = logits.new_full((len(window), int(network.config.vocab_size)), -torch.inf)
        return full.index_copy_(-1, drafter.draft_ids, logits)


def build_cached(spec: DrafterSpec, placement: Placement, target: Any, pair: PairSpec, folder: Path) -> CachedDenoiser:
    """Load a denoiser cut from ``target``.

    Raises:
        WeightsError: a file is missing or damaged.
        PairUnavailable: it was cut from another target.
    """
    network = load_masked(folder, placement.dtype).to(placement.device).freeze()
    vocab, config = vocabulary(target), network.config
    for name, own, other in (
        ("width", config.hidden_size, target.config.hidden_size),
        ("vocabulary", config.vocab_size, target.config.vocab_size),
    ):
        if own != other:
            raise made_for_another(spec, pair, f"its {name} is {own}, the target's {other}")
    return CachedDenoiser(spec.name, network, vocab, context=pair.context, forbidden=pair.suppress)


def build(
    spec: DrafterSpec, placement: Placement, *, target: Any, pair: PairSpec
) -> MaskedDiffusionDrafter | CachedDenoiser:
    """Load the network of ``spec`` and map it to the target's ids.

    Raises:
        WeightsError: a file is missing or damaged, or contradicts the pair's declaration.
        PairUnavailable: the repository cannot be reached.
        TokenizerMismatch: its ids, without the mask, differ from the target's.
    """
    vocab_size = int(target.config.vocab_size)
    unshared = unshared_ids(spec, pair, vocab_size)
    folder = resolve(spec.source, spec.revision)
    if ARCHITECTURE in (read_config(folder).get("architectures") or ()):
        return build_cached(spec, placement, target, pair, folder)
    if (shift := released_shift(folder)) not in (None, spec.logit_shift):
        raise WeightsError(
            f"The drafter {spec.name!r} was released with a shift of {shift}; the pair declares {spec.logit_shift}.",
            hint="Slot i − shift predicts token i. Correct the declaration (schema/pairs.py).",
        )
    model: Mdlm | Bidirectional
    if is_bidirectional(folder):
        view = spec.context or pair.context
        model = load_bidirectional(folder, placement.dtype, context=view, mask_id=spec.mask_id, device=placement.device)
    else:
        model = load_mdlm(folder).to(placement.device, placement.dtype).prepare()
    config = model.config
    extra = 1 if config.mask_id >= vocab_size else 0  # a mask id that the target does not have
    if unshared is None and config.vocab_size - extra != vocab_size:
        ids = f"{config.vocab_size - extra} ids besides a mask token, the target has {vocab_size}"
        raise TokenizerMismatch(f"The drafter {spec.name!r} has {ids}.")
    if not extra and config.mask_id not in (*pair.suppress, *(unshared or ()), spec.mask_id):
        raise TokenizerMismatch(
            f"The drafter's mask id {config.mask_id} is an ordinary token of the target.",
            hint="Set its mask_id in the pair (schema/pairs.py), or choose another drafter.",
        )
    return MaskedDiffusionDrafter(
        spec.name,
        model,
        vocab_size=vocab_size,
        view=spec.context or config.model_length,
        shift=spec.logit_shift,
        forbidden=pair.suppress,
        unshared=unshared or (),
    )
