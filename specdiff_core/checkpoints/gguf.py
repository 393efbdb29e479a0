"""Reads GGUF files, llama.cpp's format, without torch. Config and tokenizer are converted once,
into a folder of the user's cache; the weights stay in the file and are dequantised when loaded.

Rejects architectures that this lab's network lacks, and tokenizers with unknown rules."""

from __future__ import annotations

import hashlib
import json
import math
import mmap
import os
import re
import shutil
import struct
import tempfile
import time
from collections.abc import Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Annotated, Any, NoReturn

import gguf
import msgspec
import numpy as np
import numpy.typing as npt
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors

from specdiff_core.checkpoints.folders import GGUF, Depth, Gguf, Size, Stored, cache_errors, damage, shown, user_cache
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
NUMBERS = {0: "B", 1: "b", 2: "H", 3: "h", 4: "I", 5: "i", 6: "f", 7: "?", 10: "Q", 11: "q", 12: "d"}
"""Number types of a header -> struct codes."""
TEXT, LIST = 8, 9
MOST = 2**22  # most entries of a list in the header, ten times any vocabulary
NORMAL, CONTROL, DEFINED, BYTE = 1, 3, 4, 6
"""Types of tokens; control tokens and other added ones (DEFINED) are matched as a whole."""
SHORT = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|"
WORDS = r"[^\r\n\p{L}\p{N}]?\p{L}+|"
CASES = (  # a word ends before its next capital
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
    r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|"
)
SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False)
DIGITS = [pre_tokenizers.Digits(individual_digits=True), BYTES]
HAN = "[一-龥ࠀ-一가-퟿]+"


def _split(*patterns: str) -> list[pre_tokenizers.PreTokenizer]:
    """Splits a text by each pattern in turn, then into bytes."""
    splits = [pre_tokenizers.Split(Regex(pattern), "isolated") for pattern in patterns]
    return [*splits, pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)]


LLAMA3 = _split(SHORT + WORDS + r"\p{N}{1,3}" + SIGNS)
WHOLE_WORDS = ("llama-bpe", "llama3", "llama-v3", "falcon3", "pixtral", "tekken")
"""A word of the vocabulary is one token, whatever the merges; a text has a bos."""
SPLITS: dict[str, list[pre_tokenizers.PreTokenizer]] = {
    **dict.fromkeys((*WHOLE_WORDS, "smaug-bpe"), LLAMA3),
    "gpt-2": [BYTES],
    "smollm": DIGITS,
    "starcoder": DIGITS,
    "qwen2": _split(SHORT + WORDS + r"\p{N}" + SIGNS),
    "deepseek-r1-qwen": _split(SHORT + WORDS + r"\p{N}" + SIGNS),
    "tekken": _split(CASES + r"\p{N}" + SIGNS.replace("[\\r\\n]*", "[\\r\\n/]*")),
    "deepseek-llm": _split(
        r"[\r\n]", r"\s?[\p{Lu}\p{Ll}\p{Lt}]+", r"\s?[!-/:-~！-／：-～‘-‟　-。]+", r"\s+$", HAN, r"\p{N}+"
    ),
    "deepseek-coder": _split(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN, r"\p{N}"),
    "default": _split(
        r"[\p{P}\$\+<=>\^~\|]+",
        r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)",
        r"\p{N}+",
        r"[0-9][0-9][0-9]",
    ),
}
"""Pre-tokenizers by a file's ``tokenizer.ggml.pre``, as in llama.cpp; its regular expressions are those
of the released tokenizers."""
OTHER = "Choose a GGUF file of Llama, Mistral, Qwen2 or Qwen3, or the model's own safetensors."


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


@dataclass(frozen=True, slots=True)
class _Header:
    """The part of a file before its weights."""

    file: Path
    fields: dict[str, Any]
    tensors: dict[str, Stored]  # by the file's names

    def refuse(self, what: str) -> NoReturn:
        raise WeightsError(f"{shown(self.file)} cannot be used here: {what}.", hint=OTHER)

    def token(self, name: str) -> int | None:
        """The id of a special token, such as ``eos``; None if the vocabulary has none."""
        value = self.fields.get(f"tokenizer.ggml.{name}_token_id")
        return value if isinstance(value, int) and value < len(self.fields["tokenizer.ggml.tokens"]) else None


def convert(file: Path) -> Path:
    """The folder with config, tokenizer and index of a GGUF file, created on first use.

    Raises:
        WeightsError: the file is missing, damaged or unsupported; the message names it.
        PairUnavailable: the cache cannot be written.
    """
    if not os.path.isfile(file):
        raise WeightsError(f"The model file {shown(file)} does not exist.", hint="Check its path.")
    with damage(f"{shown(file)} is truncated or damaged"):
        folder = _cache_folder(file)
        if (folder / GGUF).is_file():
            return folder
        header = _read_header(file)
        if header.fields.get("general.architecture") not in ARCHITECTURES:
            header.refuse(f"its architecture is {header.fields.get('general.architecture')!r}")
        if header.fields.get("split.count", 1) not in (0, 1):
            header.refuse("it is one of several parts of a model; join them with llama-gguf-split --merge")
        network = _network(header)
        config = _config(header, network)
        tensors = _tensors(header, network)
        tokenizer, tokenizer_config = _tokenizer(header, config["vocab_size"])
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


class _Bytes:
    """Reads a header sequentially, never beyond the end of its file."""

    def __init__(self, data: mmap.mmap) -> None:
        self._data, self.at = data, 0

    def number(self, code: str) -> Any:
        return self.numbers(code, 1)[0]

    def numbers(self, code: str, count: int) -> tuple[Any, ...]:
        form = struct.Struct(f"<{count}{code}")
        values = form.unpack_from(self._data, self.at)
        self.at += form.size
        return values

    def count(self) -> int:
        """Read a count, with a limit."""
        count = int(self.number("Q"))
        if count > MOST:
            raise ValueError(f"a list of {count:,} entries")
        return count

    def text(self) -> str:
        length = self.count()
        data = self._data[self.at : self.at + length]
        if len(data) < length:
            raise ValueError("it ends in the middle of a word")
        self.at += length
        return data.decode("utf-8")

    def value(self, kind: int) -> Any:
        if kind == TEXT:
            return self.text()
        if kind != LIST:
            number = self.number(NUMBERS[kind])
            return float(str(np.float32(number))) if NUMBERS[kind] == "f" else number  # 1e-5, not 9.99999975e-06
        kind, count = self.number("I"), self.count()
        return [self.text() for _ in range(count)] if kind == TEXT else list(self.numbers(NUMBERS[kind], count))


def _read_header(file: Path) -> _Header:
    """Every field and the position of every tensor, checked to be inside the file."""
    with file.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
        if data[:4] != b"GGUF":
            raise WeightsError(f"{shown(file)} is not a GGUF file.", hint="Choose a file whose name ends in .gguf.")
        source = _Bytes(data)
        source.at = 4
        if (version := source.number("I")) not in (2, 3):
            raise WeightsError(f"{shown(file)} is of version {version} of GGUF.", hint="Convert the model again.")
        tensors, count = source.count(), source.count()
        fields = {}
        for _ in range(count):
            name = source.text()
            fields[name] = source.value(source.number("I"))
        header = _Header(file, fields, {})
        entries = [
            (source.text(), source.numbers("Q", source.number("I")), *source.numbers("IQ", 1)) for _ in range(tensors)
        ]
        step = fields.get("general.alignment", 32)
        first = -(-source.at // step) * step
        for name, sides, kind, offset in entries:
            if name in header.tensors:
                raise ValueError(f"two tensors are called {name}")
            dtype = gguf.GGMLQuantizationType(kind) if kind in iter(gguf.GGMLQuantizationType) else None
            if dtype is None or not _dequantises(dtype):
                header.refuse(f"{name} is stored as {dtype.name if dtype else f'type {kind}'}, which is not read here")
            stored = Stored(kind=dtype.name, shape=[int(side) for side in reversed(sides)], start=first + offset)
            if stored.start + math.prod(_form(stored)) > len(data):
                raise ValueError(f"{name} lies behind its end")
            header.tensors[name] = stored
    return header


def _dequantises(kind: gguf.GGMLQuantizationType) -> bool:
    """Whether the package ``gguf`` can dequantise this type."""
    try:
        gguf.dequantize(np.zeros((1, gguf.GGML_QUANT_SIZES[kind][1]), np.uint8), kind)
    except NotImplementedError:
        return False
    return True


def _form(stored: Stored) -> tuple[int, int]:
    """Rows of a tensor, and bytes of each."""
    block, size = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[stored.kind]]
    *sides, row = stored.shape
    if row % block:
        raise ValueError(f"rows of {row} numbers in blocks of {block}")
    return math.prod(sides), row // block * size


def _network(header: _Header) -> _Network:
    """The network's sizes; rejects unsupported networks."""
    front = f"{header.fields['general.architecture']}."
    values = {name.removeprefix(front): value for name, value in header.fields.items() if name.startswith(front)}
    network = msgspec.convert(values, _Network)
    if feature := next((name for name in UNBUILT if values.get(name)), None):
        header.refuse(f"its network has {front}{feature}")
    if network.rotary_size not in (None, network.size) or network.value not in (None, network.size):
        header.refuse("its rotary positions apply to a part of each head, or its values and keys differ in size")
    return network


def _config(header: _Header, network: _Network) -> dict[str, Any]:
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


def _rope(header: _Header, network: _Network) -> dict[str, Any]:
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


def _tensors(header: _Header, network: _Network) -> dict[str, Stored]:
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


def _tokenizer(header: _Header, rows: int) -> tuple[Tokenizer, dict[str, Any]]:
    """``tokenizer.json`` and ``tokenizer_config.json``, for an embedding with ``rows`` rows."""

    def field(name: str, default: Any = None) -> Any:
        return header.fields.get(f"tokenizer.ggml.{name}", default)

    tokens, types, kind = field("tokens"), field("token_type") or (), field("model")
    if len(tokens) > rows:
        raise ValueError(f"{len(tokens):,} tokens for an embedding of {rows:,} rows")
    names = {"bos": "bos", "eos": "eos", "unknown": "unk", "padding": "pad"}
    vocabulary = dict[str, int]()
    for i, token in enumerate(tokens):
        if token in vocabulary and (i >= len(types) or types[i] in (NORMAL, BYTE)):
            header.refuse(f"two of its tokens, {vocabulary[token]} and {i}, are {token!r}")
        vocabulary[f"<unused {i}>" if token in vocabulary else token] = i
    spelled = list(vocabulary)
    special = {f"{key}_token": spelled[at] for name, key in names.items() if (at := header.token(name)) is not None}
    for name, kinds in (("merges", ("gpt2",)), ("scores", ("llama",))):
        if kind in kinds and len(field(name) or ()) < 1:
            header.refuse(f"it has no tokenizer.ggml.{name}, without which no text can be split")
    if kind == "gpt2":
        pre = field("pre", "default")  # as llama.cpp, which warns that the file is old
        if pre not in SPLITS:
            header.refuse(f"it splits text by rules that are not known here (tokenizer.ggml.pre is {pre!r})")
        tokenizer = _byte_level(vocabulary, field("merges"), pre)
        begins = pre in WHOLE_WORDS
    elif kind == "llama":
        controls = {token for token, type in zip(tokens, types, strict=False) if type == CONTROL}
        prefix = bool(field("add_space_prefix", True))
        tokenizer = _sentencepiece(vocabulary, field("scores"), controls, special.get("unk_token"), prefix)
        begins = True
    else:
        header.refuse(f"its tokenizer is of the kind {kind!r}")
    for token, type in zip(vocabulary, types, strict=False):
        if type in (CONTROL, DEFINED):
            added = AddedToken(token, special=type == CONTROL, normalized=False)
            (tokenizer.add_special_tokens if type == CONTROL else tokenizer.add_tokens)([added])
    if field("add_bos_token", begins) and "bos_token" in special:
        first = special["bos_token"]
        tokenizer.post_processor = processors.TemplateProcessing(
            single=[first, "$A"], pair=[first, "$A", first, "$B"], special_tokens=[(first, vocabulary[first])]
        )
    config = {
        **special,
        "tokenizer_class": "TokenizersBackend",
        "clean_up_tokenization_spaces": False,
        "model_max_length": header.fields[f"{header.fields['general.architecture']}.context_length"],
    }
    if isinstance(template := header.fields.get("tokenizer.chat_template"), str):
        config["chat_template"] = template
    return tokenizer, config


def _byte_level(vocabulary: dict[str, int], merges: Sequence[str], pre: str) -> Tokenizer:
    """A byte-level BPE tokenizer, as GPT-2's."""
    pairs = [(first, second) for first, second in (merge.split(" ") for merge in merges)]
    tokenizer = Tokenizer(models.BPE(vocab=vocabulary, merges=pairs, ignore_merges=pre in WHOLE_WORDS))
    if pre in ("qwen2", "deepseek-r1-qwen"):
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(SPLITS[pre])
    tokenizer.decoder = decoders.ByteLevel()
    return tokenizer


def _sentencepiece(
    vocabulary: dict[str, int], scores: Sequence[float], controls: Collection[str], unknown: str | None, prefix: bool
) -> Tokenizer:
    """A SentencePiece tokenizer, which merges in the order of scores. With ``prefix`` a blank comes before
    a text, and before what follows a token that is matched as a whole, as in llama.cpp."""
    ordered = import_module("transformers.convert_slow_tokenizer").generate_merges  # moved in 5.24
    merges = ordered(vocabulary, dict(zip(vocabulary, scores, strict=True)), controls)
    tokenizer = Tokenizer(
        models.BPE(vocab=vocabulary, merges=merges, unk_token=unknown, fuse_unk=True, byte_fallback=True)
    )
    blank, strip = ([normalizers.Prepend("▁")], [decoders.Strip(" ", 1, 0)]) if prefix else ([], [])
    tokenizer.normalizer = normalizers.Sequence([*blank, normalizers.Replace(" ", "▁")])
    texts = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), *strip]
    tokenizer.decoder = decoders.Sequence(texts)
    return tokenizer


class Rows:
    """The rows of a tensor in a GGUF file, dequantised on access; the file is memory-mapped."""

    def __init__(self, file: Path, stored: Stored) -> None:
        self._kind = gguf.GGMLQuantizationType[stored.kind]
        self._data = np.memmap(file, np.uint8, "r", offset=stored.start, shape=_form(stored))

    def __getitem__(self, index: Any) -> npt.NDArray[np.float32]:
        """Rows by numpy indexing: ``[..., numbers of a row]``."""
        with np.errstate(all="ignore"):  # checked where a whole tensor is read
            return gguf.dequantize(np.asarray(self._data[index]), self._kind)


def dequantised(file: Path, stored: Stored) -> npt.NDArray[np.float32]:
    """A copy of a tensor with transformers' shape and order of rows."""
    values = Rows(file, stored)[:].reshape(stored.shape)
    if stored.heads:
        pairs = values.reshape(stored.heads, -1, 2, *stored.shape[1:])
        values = pairs.swapaxes(1, 2).reshape(stored.shape)
    return values if values.flags.writeable else values.copy()
