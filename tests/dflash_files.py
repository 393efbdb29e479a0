"""The tensors and the config of tiny drafters that read their target, in released layouts."""

from __future__ import annotations

from typing import Any

import torch
from checkpoints import IDS
from torch import Tensor

WIDTH, INNER, HEADS, GROUPS, SIZE, DEPTH, THETA, EPSILON = 32, 48, 4, 2, 16, 9, 500.0, 1e-6
LAYERS = [1, 2, 4, 5, 6]
SHAPE: dict[str, Any] = {
    "hidden_size": WIDTH, "intermediate_size": INNER, "num_attention_heads": HEADS,
    "num_key_value_heads": GROUPS, "head_dim": SIZE, "vocab_size": IDS, "rms_norm_eps": EPSILON,
    "max_position_embeddings": 128, "hidden_act": "silu", "attention_bias": False,
    "tie_word_embeddings": False, "bos_token_id": 0, "eos_token_id": 0,
}  # fmt: skip
Tensors = dict[str, Tensor]


def matrices(**shapes: tuple[int, ...]) -> Tensors:
    generator = torch.Generator().manual_seed(len(shapes))
    drawn = {name: 0.2 * torch.randn(shape, generator=generator) for name, shape in shapes.items()}
    return {name: 1 + tensor if "norm" in name else tensor for name, tensor in drawn.items()}


def fields(layers: int, kind: str = "qwen3", **own: Any) -> dict[str, Any]:
    """A ``config.json``."""
    return {**SHAPE, "model_type": kind, "num_hidden_layers": layers, "rope_theta": THETA, **own}


Shapes = dict[str, tuple[int, ...]]


def layer(prefix: str, *, inputs: int = WIDTH, head_norms: bool = False, without: str = "") -> Shapes:
    """Names and shapes of a layer."""
    own, shared = HEADS * SIZE, GROUPS * SIZE
    shapes: dict[str, tuple[int, ...]] = {
        "self_attn.q_proj.weight": (own, inputs), "self_attn.k_proj.weight": (shared, inputs),
        "self_attn.v_proj.weight": (shared, inputs), "self_attn.o_proj.weight": (WIDTH, own),
        "mlp.gate_proj.weight": (INNER, WIDTH), "mlp.up_proj.weight": (INNER, WIDTH),
        "mlp.down_proj.weight": (WIDTH, INNER), "input_layernorm.weight": (WIDTH,),
        "post_attention_layernorm.weight": (WIDTH,),
    }  # fmt: skip
    if head_norms:
        shapes |= {"self_attn.q_norm.weight": (SIZE,), "self_attn.k_norm.weight": (SIZE,)}
    return {prefix + name: shape for name, shape in shapes.items() if name != without}


def block_tensors(count: int, **more: tuple[int, ...]) -> Tensors:
    shapes: dict[str, tuple[int, ...]] = {"fc.weight": (WIDTH, len(LAYERS) * WIDTH)}
    shapes |= {"norm.weight": (WIDTH,), "hidden_norm.weight": (WIDTH,), **more}
    for i in range(count):
        shapes |= layer(f"layers.{i}.", head_norms=True)
    return matrices(**shapes)
