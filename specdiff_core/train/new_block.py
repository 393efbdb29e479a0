"""Block drafters before training: shaped after their target, or a trained one with more weights. Knows no data."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.models.dflash import DFlashDraftModel
from specdiff_core.models.dflash_config import make_config, resized
from specdiff_core.schema.errors import ConfigError

if TYPE_CHECKING:
    from transformers import LlamaForCausalLM


def feature_layers(count: int, target_layers: int) -> list[int]:
    """``count`` layers spread evenly from 1 to L − 3 (papers.md §5.1): 5 of 36 are 1, 9, 17, 25, 33; where those are
    too few, from the first to the last but one. The last is read only where it is the only one: its output is normed.

    Raises:
        ConfigError: the target has not so many.
    """
    most = max(1, target_layers - 1)
    if count > most:
        raise ConfigError(
            f"--features {count}, but the target has {target_layers} layers, the last of which is not read.",
            field="features",
            hint=f"Give a number up to {most}.",
        )
    high = min(most - 1, max(1, target_layers - 3))
    low = min(1, high)
    if count > high - low + 1:
        low, high = 0, most - 1
    if count == 1:
        return [high]
    return [round(low + i * (high - low) / (count - 1)) for i in range(count)]


def drafter_config(
    target: LlamaForCausalLM,
    *,
    layers: int = 3,
    features: int | None = None,
    intermediate: int | None = None,
    block_size: int = 17,
    mask_id: int = 1,
) -> dict[str, Any]:
    """The ``config.json`` of a new drafter for ``target``: its width, heads, context and rotary base.

    Args:
        features: how many layers of the target it reads; by default 3, or as many as there are.
        intermediate: width of its MLPs; 8/3 of the target's by default.
    """
    config = target.config
    width = config.hidden_size
    rope = getattr(config, "rope_parameters", None) or {}
    return make_config(
        width=width,
        layers=layers,
        heads=config.num_attention_heads,
        intermediate=intermediate or 64 * max(1, round(width * 8 / 3 / 64)),
        vocab_size=config.vocab_size,
        context=config.max_position_embeddings,
        block_size=block_size,
        mask_token_id=mask_id,
        target_layer_ids=feature_layers(
            features or min(3, max(1, config.num_hidden_layers - 1)), config.num_hidden_layers
        ),
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


def grown(
    model: DFlashDraftModel,
    *,
    target_layers: int,
    features: int | None = None,
    intermediate: int | None = None,
    markov: int = 0,
    seed: int = 0,
) -> DFlashDraftModel:
    """The drafter ``model`` with more weights, which change nothing yet: what they feed begins at zero.

    Args:
        target_layers: L of its target.
        features: how many layers of the target it reads; those of ``model`` must be among them.
        intermediate: width of its MLPs.
        markov: width of its Markov head.

    Raises:
        ConfigError: that would drop weights.
    """
    config = model.config
    layers = feature_layers(features, target_layers) if features else config.target_layer_ids
    if not set(config.target_layer_ids) <= set(layers):
        raise ConfigError(
            f"--features {features} stands for the target's layers {layers}; the drafter to begin with reads "
            f"{config.target_layer_ids}.",
            field="features",
            hint="Leave --features out, or choose a number whose layers include those.",
        )
    intermediate = intermediate or config.intermediate_size
    if intermediate < config.intermediate_size or (config.markov_width and markov not in (0, config.markov_width)):
        raise ConfigError(
            f"--intermediate {intermediate} --markov {markov}, but the drafter to begin with has MLPs of width "
            f"{config.intermediate_size} and a Markov head of width {config.markov_width}.",
            field="intermediate" if intermediate < config.intermediate_size else "markov",
            hint="Leave the option out, or begin with another drafter.",
        )
    larger = DFlashDraftModel(resized(model.released, layers, intermediate, markov or config.markov_width))
    larger.initialize(torch.Generator().manual_seed(seed))
    tensors = larger.state_dict()
    for name, held in model.state_dict().items():
        fresh, (rows, columns) = tensors[name], (held.shape[0], held.shape[-1])
        if name == "fc.weight":  # one square for each of the target's layers
            tensors[name] = torch.zeros_like(fresh)
            squares = tensors[name].split(rows, 1)
            for layer, square in zip(config.target_layer_ids, held.split(rows, 1), strict=True):
                squares[layers.index(layer)].add_(square)
        elif held.shape == fresh.shape:
            tensors[name] = held
        elif columns == fresh.shape[1]:  # into an MLP: more rows, as they were drawn
            tensors[name] = torch.cat([held, fresh[rows:]])
        else:  # out of it: more columns, zero
            tensors[name] = torch.cat([held, torch.zeros_like(fresh[:, columns:])], 1)
    larger.load_state_dict(tensors)
    return larger
