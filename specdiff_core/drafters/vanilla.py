"""Drafts nothing, which makes the loop vanilla autoregressive decoding."""

from __future__ import annotations

from transformers import PreTrainedModel

from specdiff_core.drafters.base import Context, Draft, Passless
from specdiff_core.models.device import Placement
from specdiff_core.schema.pairs import DrafterSpec, PairSpec


class VanillaDrafter(Passless):
    """The baseline of every race."""

    name = "none"

    def draft_at_once(self, context: Context) -> Draft:
        return Draft.empty()


def build(spec: DrafterSpec, placement: Placement, *, target: PreTrainedModel, pair: PairSpec) -> VanillaDrafter:
    return VanillaDrafter()
