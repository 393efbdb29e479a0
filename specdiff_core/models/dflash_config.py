"""The ``config.json`` of a DFlash drafter: read, checked, and written anew. Knows fields, no tensor.

Source: papers.md §5.1; the Qwen3 fields, ``block_size`` (anchor included), ``num_target_layers``, ``dflash_config``.
"""

from __future__ import annotations

from typing import Any

from huggingface_hub.errors import StrictDataclassError
from transformers import Qwen3Config  # transformers >= 4.51 brought Qwen3

from specdiff_core.schema.errors import WeightsError


def read_config(values: dict[str, Any]) -> Qwen3Config:
    """A released ``config.json`` -> Qwen3 config with ``block_size``, ``mask_token_id``, ``target_layer_ids`` on top.

    Raises:
        WeightsError: it is not the config of a DFlash drafter.
    """
    special = values.get("dflash_config")
    if not isinstance(special, dict) or not {"mask_token_id", "target_layer_ids"} <= special.keys():
        raise WeightsError(
            "config.json has no dflash_config with mask_token_id and target_layer_ids.",
            hint="Point the pair at a folder that holds a DFlash drafter.",
        )
    try:
        return _read_config(values, special)
    except (TypeError, ValueError, KeyError, StrictDataclassError) as error:
        raise WeightsError(
            f"config.json is not the config of a DFlash drafter: {str(error).splitlines()[0][:120]}",
            hint="Restore the released config.json of this drafter.",
        ) from error


def _read_config(values: dict[str, Any], special: dict[str, Any]) -> Qwen3Config:
    config = Qwen3Config(**values)
    sizes = ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads", "num_key_value_heads")
    if small := [name for name in (*sizes, "head_dim") if getattr(config, name) < 1]:
        raise ValueError(f"{', '.join(small)} must be at least 1")
    config.layer_types = list(config.layer_types or ["full_attention"] * config.num_hidden_layers)
    if "sliding_attention" in config.layer_types:
        config.sliding_window = values.get("sliding_window")  # Qwen3Config drops it unless use_sliding_window is set
    config.block_size = int(values.get("block_size", 16))
    if config.block_size < 2:
        raise WeightsError(
            f"config.json says block_size {config.block_size}: an anchor without a single mask.",
            hint="Restore the released config.json of this drafter.",
        )
    config.mask_token_id = int(special["mask_token_id"])
    config.target_layer_ids = [int(layer) for layer in special["target_layer_ids"]]
    config.markov_width = int(special.get("markov_width", 0))
    return config


def resized(values: dict[str, Any], layers: list[int], intermediate: int, markov: int) -> dict[str, Any]:
    """The ``config.json`` of a drafter that reads the target's ``layers``, has MLPs of width ``intermediate`` and a
    Markov head of width ``markov`` (0: none), and is ``values``' otherwise."""
    special = {**values["dflash_config"], "target_layer_ids": list(layers)}
    if markov:
        special["markov_width"] = markov
    return {**values, "intermediate_size": intermediate, "dflash_config": special}


def make_config(
    *,
    width: int,
    layers: int,
    heads: int,
    intermediate: int,
    vocab_size: int,
    context: int,
    block_size: int,
    mask_token_id: int,
    target_layer_ids: list[int],
    num_target_layers: int,
    rope_theta: float = 10_000.0,
) -> dict[str, Any]:
    """The ``config.json`` of a new drafter, in the released format."""
    return {
        "architectures": ["DFlashDraftModel"],
        "model_type": "qwen3",
        "attention_bias": False,
        "attention_dropout": 0.0,
        "block_size": block_size,
        "dflash_config": {"mask_token_id": mask_token_id, "target_layer_ids": target_layer_ids},
        "dtype": "bfloat16",
        "head_dim": width // heads,
        "hidden_act": "silu",
        "hidden_size": width,
        "initializer_range": 0.02,
        "intermediate_size": intermediate,
        "layer_types": ["full_attention"] * layers,
        "max_position_embeddings": context,
        "num_attention_heads": heads,
        "num_hidden_layers": layers,
        "num_key_value_heads": heads,
        "num_target_layers": num_target_layers,
        "rms_norm_eps": 1e-6,
        "rope_scaling": None,
        "rope_theta": rope_theta,
        "sliding_window": None,
        "tie_word_embeddings": False,
        "use_sliding_window": False,
        "vocab_size": vocab_size,
    }
