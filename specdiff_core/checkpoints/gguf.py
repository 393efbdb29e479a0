"""Reads GGUF files, llama.cpp's format, without torch. Config and tokenizer are converted once,
into a folder of the user's cache; the weights stay in the file (``gguf_file.py``) and are dequantised when loaded.

Rejects architectures that this lab's network lacks."""

from __future__ import annotations

import hashlib
import json
import math
import os
import re
import shutil
import tempfile
import time
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import msgspec
import numpy as np

from specdiff_core.checkpoints.folders import (
    GGUF,
    Depth,
    Gguf,
    Size,
    Stored,
    cache_errors,
    damage_errors,
    short_path,
    user_cache,
)
from specdiff_core.checkpoints.gguf_file import Header, dequantised, read_header
from specdiff_core.checkpoints.gguf_tokenizer import tokenizer_files
from specdiff_core.schema.errors import WeightsError

VERSION = 2  # version of the cached folders; others are not used
KILLED = 3600.0  # seconds after which a half-made folder is a killed process's
HEAD = 2**20  # bytes at the beginning of a file that are hashed to detect changes
ARCHITECTURES = ("llama", "qwen2", "qwen3")  # in a file; llama for Mistral's, too
WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_q_norm": "self_attn.q_norm",
    "attn_k_norm": "self_attn.k_norm",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
"""Tensor names in a file -> transformers' names, for the model and within each layer."""
EMBEDDING, HEADS = "token_embd.weight", ("attn_q", "attn_k")
FACTORS = "rope_freqs.weight"  # divisors of Llama 3's rotary frequencies
WINDOW = "attention.sliding_window"
UNBUILT = ("expert_count", "attention.scale", "logit_scale", "embedding_scale",
           "residual_scale", "attention.clamp_kqv")  # fmt: skip
"""Header fields that, unless 0, describe an unsupported network."""


class _Network(msgspec.Struct):
    """Header fields of the network, without the architecture prefix."""

    layers: Depth = msgspec.field(name="block_count")
    width: Size = msgspec.field(name="embedding_length")
    inner: Size = msgspec.field(name="feed_forward_length")
    heads: Size = msgspec.field(name="attention.head_count")
    positions: Size = msgspec.field(name="context_length")
    epsilon: Annotated[float, msgspec.Meta(gt=0, le=1)] = msgspec.field(name="attention.layer_norm_rms_epsilon")
    kv_heads: Size | None = msgspec.field(name="attention.head_count_kv", default=None)
    key: Size | None = msgspec.field(name="attention.key_length", default=None)
    value: Size | None = msgspec.field(name="attention.value_length", default=None)
    rotary_size: Size | None = msgspec.field(name="rope.dimension_count", default=None)
    base: Annotated[float, msgspec.Meta(gt=0, le=1e18)] = msgspec.field(name="rope.freq_base", default=10_000.0)
    scaling: str = msgspec.field(name="rope.scaling.type", default="none")
    factor: Annotated[float, msgspec.Meta(gt=0, le=1e6)] = msgspec.field(name="rope.scaling.factor", default=1.0)
    original_context: Size | None = msgspec.field(name="rope.scaling.original_context_length", default=None)
    attn_factor: float = msgspec.field(name="rope.scaling.attn_factor", default=1.0)

    @property
    def size(self) -> int:
        """Of a head."""
        return self.key or self.width // self.heads


def convert(file: Path) -> Path:
    """The folder with config, tokenizer and index of a GGUF file, created on first use.

    Raises:
        WeightsError: the file is missing, damaged or unsupported; the message names it.
        PairUnavailable: the cache cannot be written.
    """
    if not os.path.isfile(file):
        raise WeightsError(f"The model file {short_path(file)} does not exist.", hint="Check its path.")
    with damage_errors(f"{short_path(file)} is truncated or damaged"):
        folder = _cache_folder(file)
        if (folder / GGUF).is_file():
            return folder
        header = read_header(file)
        if header.fields.get("general.architecture") not in ARCHITECTURES:
            header.refuse(f"its architecture is {header.fields.get('general.architecture')!r}")
        if header.fields.get("split.count", 1) not in (0, 1):
            header.refuse("it is one of several parts of a model; join them with llama-gguf-split --merge")
        network = _network(header)
        config = _config(header, network)
        tensors = _tensors(header, network)
        tokenizer, tokenizer_config = tokenizer_files(header, config["vocab_size"])
    ends = [token for token in map(header.token, ("eos", "eot", "eom")) if token is not None]
    generation = {"bos_token_id": header.token("bos"), "eos_token_id": list(dict.fromkeys(ends))}
    index = Gguf(file=str(file.resolve()), size=file.stat().st_size, tensors=tensors)
    files = {"config.json": config, "generation_config.json": generation, "tokenizer_config.json": tokenizer_config}
    with cache_errors():
        folder.parent.mkdir(parents=True, exist_ok=True)
        for left in folder.parent.glob(".*"):
            with suppress(FileNotFoundError):  # another process has made it meanwhile
                if time.time() - left.stat().st_mtime > KILLED:
                    shutil.rmtree(left, ignore_errors=True)
        temporary = Path(tempfile.mkdtemp(prefix=".", dir=folder.parent))
        try:
            for name, values in {**files, GGUF: msgspec.to_builtins(index)}.items():
                (temporary / name).write_text(json.dumps(values, indent=1) + "\n", encoding="utf-8")
            (temporary / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
            os.rename(temporary, folder)
        except OSError:
            if not (folder / GGUF).is_file():  # not created by another process meanwhile
                raise
        finally:
            shutil.rmtree(temporary, ignore_errors=True)
    return folder


def _cache_folder(file: Path) -> Path:
    """The path of the folder of ``file``."""
    stat = file.stat()
    with file.open("rb") as stream:
        head = stream.read(HEAD)
    parts = (str(VERSION), str(file.resolve()), str(stat.st_size), str(stat.st_mtime_ns))
    key = hashlib.sha256("\0".join(parts).encode() + head).hexdigest()[:16]
    return user_cache() / "gguf" / f"{file.stem}-{key}"


def _network(header: Header) -> _Network:
    """The network's sizes; rejects unsupported networks."""
    front = f"{header.fields['general.architecture']}."
    values = {name.removeprefix(front): value for name, value in header.fields.items() if name.startswith(front)}
    network = msgspec.convert(values, _Network)
    if feature := next((name for name in UNBUILT if values.get(name)), None):
        header.refuse(f"its network has {front}{feature}")
    if network.rotary_size not in (None, network.size) or network.value not in (None, network.size):
        header.refuse("its rotary positions apply to a part of each head, or its values and keys differ in size")
    return network


def _config(header: Header, network: _Network) -> dict[str, Any]:
    """``config.json``."""
    kind = header.fields["general.architecture"]
    if window := header.fields.get(f"{kind}.{WINDOW}"):
        if kind != "llama" and window < network.positions:
            header.refuse(f"its network has {kind}.{WINDOW}")
        kind = "mistral" if kind == "llama" else kind
    return {
        "architectures": [f"{kind.title()}ForCausalLM"],
        "model_type": kind,
        "hidden_size": network.width,
        "intermediate_size": network.inner,
        "num_hidden_layers": network.layers,
        "num_attention_heads": network.heads,
        "num_key_value_heads": network.kv_heads or network.heads,
        "head_dim": network.size,
        "hidden_act": "silu",
        "vocab_size": header.tensors[EMBEDDING].shape[0],
        "max_position_embeddings": network.positions,
        "sliding_window": window or None,
        "rms_norm_eps": network.epsilon,
        "rope_parameters": _rope(header, network),
        "tie_word_embeddings": "output.weight" not in header.tensors,
        "bos_token_id": header.token("bos"),
        "eos_token_id": header.token("eos"),
        "pad_token_id": header.token("padding"),
        "dtype": "float32",
    }


def _rope(header: Header, network: _Network) -> dict[str, Any]:
    """Rotary parameters in transformers' format."""
    plain: dict[str, Any] = {"rope_theta": network.base}
    if FACTORS in header.tensors:
        factors = dequantised(header.file, header.tensors[FACTORS]).ravel().tolist()
        parameters = {
            "rope_type": "llama3",
            "factor": max(factors),
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": network.original_context or 8192,
        }
        expected = llama3_factors(network.base, network.size, parameters)
        if network.scaling != "none" or not np.allclose(factors, expected, rtol=1e-4):
            header.refuse(f"{FACTORS} is not Llama 3's")
        return plain | parameters
    if network.scaling == "none":
        return plain | {"rope_type": "default"}
    if network.scaling not in ("linear", "yarn") or network.attn_factor != 1.0:
        header.refuse(f"its rotary positions are scaled by {network.scaling!r}")
    plain |= {"rope_type": network.scaling, "factor": network.factor}
    if network.scaling == "yarn":
        plain["original_max_position_embeddings"] = network.original_context or network.positions
    return plain


def llama3_factors(base: float, size: int, parameters: dict[str, Any]) -> list[float]:
    """Llama 3's divisors of the ``size / 2`` rotary frequencies of a head: 1 for short waves,
    ``factor`` for long ones, interpolated between."""
    low, high, factor = (parameters[name] for name in ("low_freq_factor", "high_freq_factor", "factor"))
    factors = []
    for index in range(size // 2):
        turns = parameters["original_max_position_embeddings"] / (2 * math.pi * base ** (2 * index / size))
        share = min(1.0, max(0.0, (turns - low) / (high - low)))
        factors.append(1 / ((1 - share) / factor + share))
    return factors


def _tensors(header: Header, network: _Network) -> dict[str, Stored]:
    """Tensors by transformers' names. Llama's files interleave a head's two halves."""
    kind = header.fields["general.architecture"]
    heads = {"attn_q": network.heads, "attn_k": network.kv_heads or network.heads} if kind == "llama" else {}
    tensors = {}
    for name, stored in header.tensors.items():
        if name == FACTORS or name.endswith(".attn_rot_embd.weight"):  # old files' frequencies
            continue
        if name in WHOLE:
            tensors[WHOLE[name]] = stored
            continue
        parts = re.fullmatch(r"blk\.(\d+)\.(\w+)\.(weight|bias)", name)
        if parts is None or parts[2] not in LAYER or (parts[3] == "bias" and kind != "qwen2"):
            header.refuse(f"it has a tensor {name}")
        stored.heads = heads.get(parts[2], 0)
        if stored.heads and stored.shape[0] % (2 * stored.heads):
            raise ValueError(f"{name} has {stored.shape[0]} rows for {stored.heads} heads")
        tensors[f"model.layers.{parts[1]}.{LAYER[parts[2]]}.{parts[3]}"] = stored
    return tensors
