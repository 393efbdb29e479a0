"""Drafts with an independent masked-diffusion network (SpecDiff, arXiv 2408.05636): MDLM, or a
causal network adapted to read in both directions (DiffuGPT, DiffuLLaMA, Dream, DiffuCoder).

Every denoising step reads [context ; window] again, so there is no cache to roll back."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from typing import Any

import torch
from torch import Tensor

from specdiff_core.drafters.base import Context, Drafting, Stateless, fit_width
from specdiff_core.drafters.denoise import denoise
from specdiff_core.models.bidirectional import Bidirectional, is_bidirectional, load_bidirectional, released_shift
from specdiff_core.models.device import Placement, on_device
from specdiff_core.models.folders import resolve
from specdiff_core.models.mdlm import Mdlm, load_mdlm
from specdiff_core.models.vocabularies import unshared_of
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
        self.view = min(self.view, self.model.config.model_length)
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


def build(spec: DrafterSpec, placement: Placement, *, target: Any, pair: PairSpec) -> MaskedDiffusionDrafter:
    """Load the network of ``spec`` and map it to the target's ids.

    Raises:
        WeightsError: a file is missing or damaged, or contradicts the pair's declaration.
        PairUnavailable: the repository cannot be reached.
        TokenizerMismatch: its ids, without the mask, differ from the target's.
    """
    vocab_size = int(target.config.vocab_size)
    unshared = unshared_of(spec, pair, vocab_size)
    folder = resolve(spec.source, spec.revision)
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
