"""Tiny networks of every family that the lab runs itself."""

from __future__ import annotations

from transformers import GPT2Config, LlamaConfig, MistralConfig, PretrainedConfig, Qwen2Config, Qwen3Config

SIZES = {
    "vocab_size": 60, "hidden_size": 32, "intermediate_size": 48, "num_hidden_layers": 3,
    "num_attention_heads": 4, "num_key_value_heads": 4, "max_position_embeddings": 128,
    "eos_token_id": None, "pad_token_id": 0, "bos_token_id": None, "tie_word_embeddings": False,
}  # fmt: skip
LLAMA3 = {
    "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
    "original_max_position_embeddings": 32, "rope_theta": 500.0,
}  # fmt: skip
YARN = {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 10_000.0}
LINEAR = {"rope_type": "linear", "factor": 4.0, "rope_theta": 10_000.0}
FAMILIES: dict[str, PretrainedConfig] = {
    "llama": LlamaConfig(**SIZES),
    "llama, tied": LlamaConfig(**SIZES | {"tie_word_embeddings": True}),
    "llama, biases": LlamaConfig(**SIZES, attention_bias=True, mlp_bias=True),
    "llama, grouped queries": LlamaConfig(**SIZES | {"num_key_value_heads": 2}),
    "llama, one key head, wide heads": LlamaConfig(**SIZES | {"num_key_value_heads": 1}, head_dim=16),
    "llama, llama3 positions": LlamaConfig(**SIZES, rope_parameters=LLAMA3),
    "llama, yarn positions": LlamaConfig(**SIZES, rope_parameters=YARN),
    "llama, linear positions": LlamaConfig(**SIZES, rope_parameters=LINEAR),
    "mistral": MistralConfig(**SIZES | {"num_key_value_heads": 2}, sliding_window=None),
    "mistral, a window that is never full": MistralConfig(**SIZES, sliding_window=4096),
    "qwen2": Qwen2Config(**SIZES | {"num_key_value_heads": 2}),
    "qwen3": Qwen3Config(**SIZES | {"num_key_value_heads": 2}, head_dim=16),
    "gpt2": GPT2Config(
        vocab_size=60, n_embd=32, n_layer=3, n_head=4, n_positions=128, bos_token_id=None, eos_token_id=None
    ),
}
