"""Block drafters before training: shaped after their target, or a trained one with a new Markov head. Knows no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.models.dflash import DFlashDraftModel
from specdiff_core.models.dflash_config import make_config
from specdiff_core.models.dflash_config import with_markov as add_markov

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


def feature_layers(count: int, target_layers: int) -> list[int]:
    """``count`` layers spread evenly from 1 to L − 3 (papers.md §5.1): 5 of 36 are 1, 9, 17, 25, 33."""
    low, high = min(1, target_layers - 1), max(1, target_layers - 3)
    if count == 1:
        return [min(high, target_layers - 1)]
    return [round(low + i * (high - low) / (count - 1)) for i in range(count)]


def drafter_config(
    target: LlamaForCausalLM, *, layers: int = 3, features: int = 3, block_size: int = 17, mask_id: int = 1
) -> dict[str, Any]:
    """The ``config.json`` of a new drafter for ``target``: its width, heads, context and rotary base."""
    config = target.config
    width = config.hidden_size
    rope = getattr(config, "rope_parameters", None) or {}
    return make_config(
        width=width,
        layers=layers,
        heads=config.num_attention_heads,
        intermediate=64 * max(1, round(width * 8 / 3 / 64)),
        vocab_size=config.vocab_size,
        context=config.max_position_embeddings,
        block_size=block_size,
        mask_token_id=mask_id,
        target_layer_ids=feature_layers(features, config.num_hidden_layers),
        num_target_layers=config.num_hidden_layers,
        rope_theta=float(rope.get("rope_theta", getattr(config, "rope_theta", 10_000.0))),
    )


def new_drafter(target: LlamaForCausalLM, values: dict[str, Any], seed: int = 0) -> DFlashDraftModel:
    """An untrained drafter; its last norm begins as the target's, since both feed the same head."""
    model = DFlashDraftModel(values)
    model.initialize(torch.Generator().manual_seed(seed))
    with torch.no_grad():
        model.norm.weight.copy_(target.model.norm.weight)
    return model


def with_markov(model: DFlashDraftModel, width: int, seed: int = 0) -> DFlashDraftModel:
    """The drafter ``model`` with a new Markov head of ``width``, which changes nothing yet."""
    longer = DFlashDraftModel(add_markov(model.released, width))
    longer.load_state_dict(model.state_dict(), strict=False)
    assert longer.markov is not None
    longer.markov.initialize(torch.Generator().manual_seed(seed), std=model.config.initializer_range)
    return longer
