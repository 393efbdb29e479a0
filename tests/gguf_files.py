"""GGUF files as llama.cpp's converter writes them: random weights, or a checkpoint's."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import torch
from gguf import GGMLQuantizationType as Kind
from gguf import GGUFValueType as Type
from torch import Tensor
from transformers import LlamaConfig, PretrainedConfig, Qwen2Config, Qwen3Config
from transformers.convert_slow_tokenizer import bytes_to_unicode

from specdiff_core.checkpoints.reading import read_if_quantised

NAMES = gguf.get_tensor_name_map(gguf.MODEL_ARCH.QWEN3, 32)
LETTERS = list(bytes_to_unicode().values())
MERGES = ("t h", "th e", "Ġ the", "Ġ c", "Ġc a", "Ġca t", "1 2", "12 3", "3 4")
SPECIAL = ("<|end|>", "<|user|>")
WORDS = [*SPECIAL, *LETTERS, *(merge.replace(" ", "") for merge in MERGES), "<think>"]
TEMPLATE = "{% for m in messages %}<|user|>{{ m['content'] }}<|end|>{% endfor %}"
SIZES = {"hidden_size": 64, "intermediate_size": 96, "num_hidden_layers": 2, "num_attention_heads": 4,
         "num_key_value_heads": 2, "max_position_embeddings": 256, "vocab_size": len(WORDS)}  # fmt: skip


def config_of(arch: str, **changes: Any) -> PretrainedConfig:
    """A tiny network of an architecture."""
    kinds = {"llama": LlamaConfig, "qwen2": Qwen2Config, "qwen3": Qwen3Config}
    values = {**SIZES, "head_dim": 16, "rms_norm_eps": 1e-5, "tie_word_embeddings": True, **changes}
    return kinds[arch](**values, bos_token_id=0, eos_token_id=0)


def write(
    path: Path,
    arch: str = "llama",
    kind: Kind = Kind.Q8_0,
    *,
    header: Mapping[str, Any] | None = None,
    extra: Mapping[str, np.ndarray] | None = None,
    pre: str | None = "smollm",
    seed: int = 0,
    **changes: Any,
) -> dict[str, Tensor]:
    """Write a file with random weights; returns them dequantised, by transformers' names.

    Args:
        kind: of all matrices; vectors are stored in fp32.
        header: fields to add or to change; None leaves one out.
        extra: further tensors, by their names in the file.
        changes: to the network's config.
    """
    from transformers import AutoModelForCausalLM

    config = config_of(arch, **changes)
    with torch.random.fork_rng():
        torch.manual_seed(seed)
        model = AutoModelForCausalLM.from_config(config)
        for name, parameter in model.named_parameters():
            torch.nn.init.normal_(parameter, 1.0 if "norm" in name else 0.0, 0.1)
    tensors, held = {}, {}
    for name, tensor in model.state_dict().items():
        if name == "lm_head.weight" and config.tie_word_embeddings:
            continue
        heads = halves(arch, name, config)
        values = regrouped(tensor.numpy(), heads, 2, -1)
        stored = kind if values.ndim > 1 else Kind.F32
        key = gguf_name_of(name)
        tensors[key] = (gguf.quantize(np.ascontiguousarray(values), stored), stored)
        held[name] = torch.from_numpy(regrouped(np.array(gguf.dequantize(tensors[key][0], stored)), heads, -1, 2))
    for name, values in (extra or {}).items():
        tensors[name] = (values, Kind.F32)
    dump(path, {**fields_of(arch, config, pre), **(header or {})}, tensors)
    return held


def convert(folder: Path, path: Path, kind: Kind = Kind.F32) -> None:
    """A checkpoint of Llama's kind as a file, its matrices in ``kind``. A text begins with the end of the last."""
    config, spelled = LlamaConfig.from_pretrained(folder), json.loads((folder / "tokenizer.json").read_text())
    tensors = {}
    for name, tensor in (read_if_quantised(folder) or {}).items():
        values = regrouped(tensor.float().numpy(), halves("llama", name, config), 2, -1)
        stored = kind if values.ndim > 1 else Kind.F32
        tensors[gguf_name_of(name)] = (gguf.quantize(np.ascontiguousarray(values), stored), stored)
    words = {token: word for word, token in spelled["model"]["vocab"].items()}
    special = {one["id"]: one["content"] for one in spelled["added_tokens"]}
    merges = [one if isinstance(one, str) else " ".join(one) for one in spelled["model"]["merges"]]
    ids = range(config.vocab_size)
    tokenizer = {
        "pre": "starcoder",  # every digit by itself, then GPT-2's words
        "tokens": [special.get(i) or words.get(i) or f"<unused {i}>" for i in ids],
        "token_type": [3 if i in special else 1 if i in words else 5 for i in ids],
        "merges": merges,
        "add_bos_token": True,
    }
    header = {f"tokenizer.ggml.{name}": value for name, value in tokenizer.items()}
    dump(path, {**fields_of("llama", config, ""), **header, "tokenizer.chat_template": None}, tensors)


def halves(arch: str, name: str, config: Any) -> int:
    """The heads of a matrix whose neighbours llama.cpp rotates, in place of halves; else 0."""
    if arch != "llama":
        return 0
    if name.endswith("q_proj.weight"):
        return int(config.num_attention_heads)
    return int(config.num_key_value_heads) if name.endswith("k_proj.weight") else 0


def gguf_name_of(name: str) -> str:
    """transformers' name of a tensor -> the file's, by gguf's own table."""
    return str(NAMES.get_name(name, (".weight", ".bias")))


def regrouped(values: np.ndarray, heads: int, *sides: int) -> np.ndarray:
    """Swap the two ``sides`` of each head's rows: (2, -1) turns two halves into neighbours, as
    llama.cpp's converter stores them, and (-1, 2) turns them back. Unchanged without heads."""
    if not heads:
        return values
    return values.reshape(heads, *sides, *values.shape[1:]).swapaxes(1, 2).reshape(values.shape)


def fields_of(arch: str, config: Any, pre: str | None) -> dict[str, Any]:
    """The header's fields."""
    return {
        f"{arch}.context_length": config.max_position_embeddings,
        f"{arch}.embedding_length": config.hidden_size,
        f"{arch}.block_count": config.num_hidden_layers,
        f"{arch}.feed_forward_length": config.intermediate_size,
        f"{arch}.attention.head_count": config.num_attention_heads,
        f"{arch}.attention.head_count_kv": config.num_key_value_heads,
        f"{arch}.attention.key_length": config.head_dim,
        f"{arch}.attention.layer_norm_rms_epsilon": float(config.rms_norm_eps),
        f"{arch}.rope.freq_base": 10000.0,
        "general.architecture": arch,
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": pre,
        "tokenizer.ggml.tokens": WORDS,
        "tokenizer.ggml.token_type": [3, 3, *[1] * (len(WORDS) - 3), 4],
        "tokenizer.ggml.merges": list(MERGES),
        "tokenizer.ggml.bos_token_id": 0,
        "tokenizer.ggml.eos_token_id": 0,
        "tokenizer.chat_template": TEMPLATE,
    }


def dump(path: Path, fields: Mapping[str, Any], tensors: Mapping[str, tuple[np.ndarray, Kind]]) -> None:
    """Write a file with these fields and tensors."""
    writer = gguf.GGUFWriter(str(path), str(fields.get("general.architecture", "llama")))
    for name, value in fields.items():
        if name == "general.architecture" or value is None:
            continue
        writer.add_key_value(name, value, Type.UINT32 if type(value) is int else Type.get_type(value))
    for name, (values, kind) in tensors.items():
        writer.add_tensor(name, values, raw_dtype=kind)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
