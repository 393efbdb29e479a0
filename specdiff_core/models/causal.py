"""Loads a causal language model, strictly, into this lab's network or transformers' own module."""

from __future__ import annotations

import re
import sys
from collections import defaultdict
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import torch
import transformers
from torch import Tensor
from transformers import AutoConfig, PretrainedConfig, PreTrainedModel, Qwen2Config

from specdiff_core.checkpoints.folders import loading_errors, read_config, read_gguf, short_path
from specdiff_core.checkpoints.quantising import quantization_config
from specdiff_core.checkpoints.reading import StoredRows, check_finite, find_tensors, read_if_quantised, tensor_names
from specdiff_core.models.network import CausalLM, has_sliding_layers, unsupported_layers
from specdiff_core.models.reader import StockSession
from specdiff_core.schema.errors import WeightsError, is_memory

FAMILIES = ("llama", "mistral", "qwen2", "qwen3", "gpt2")
OTHER = "Choose another model for this pair."
TABLES = ("embed_tokens.weight", "lm_head.weight")


def unsupported(config: PretrainedConfig, context: int) -> str:
    """Why this lab's network cannot run a model over ``context`` positions; empty if it can."""
    values: Any = config
    if values.model_type not in FAMILIES:
        return f"the family {values.model_type!r} is not supported"
    if getattr(values, "quantization_config", None):
        return "its weights are quantised"
    if why := unsupported_layers(config):
        return why
    if values.model_type == "gpt2":
        return "" if context <= values.max_position_embeddings else f"it has {values.max_position_embeddings} positions"
    window = getattr(values, "sliding_window", None)
    sliding = window is not None if values.model_type == "mistral" else has_sliding_layers(config)
    return f"it reads a sliding window of {window} tokens" if sliding and (window or 0) < context else ""


def unusable(model: Any, context: int) -> str:
    """Why a loaded model must not decode over ``context`` positions; empty if it may.

    Some families have no cache, or one without rollback, or are bidirectional, so their results
    depend on how a text is read: a few tokens are read at once, and one by one with a rollback."""
    config = model.config
    rope = getattr(config, "rope_parameters", None) or getattr(config, "rope_scaling", None) or {}
    kinds = {str(part.get("rope_type", "")) for part in (rope, *rope.values()) if isinstance(part, dict)}
    if varying := kinds & {"dynamic", "longrope"}:
        return f"its rotary positions ({varying.pop()}) depend on the length of a pass"
    learned = getattr(config, "n_positions", None)
    if learned is not None and learned < context:
        return f"it has {learned} positions, and the context is {context}"
    ids = [7919 * i % int(config.vocab_size) for i in range(min(10, context))]
    try:
        at_once = StockSession(model, sys.maxsize).score(ids).logits
        run = StockSession(model, sys.maxsize)
        steps = [run.score(ids[:6]).logits]
        run.score(ids[::-1])
        run.rollback(len(ids), ())
        steps += [run.score([token]).logits for token in ids[6:]]
    except (RuntimeError, IndexError, TypeError, ValueError, AttributeError) as error:
        if is_memory(error):
            raise
        return f"its cache does not work as a causal model's does ({type(error).__name__}: {str(error)[:80]})"
    deviation = (torch.cat(steps) - at_once).abs().max() / at_once.abs().max()
    rounding = 1e-4 if model.dtype in (torch.float32, torch.float64) else 0.1
    return "" if bool(deviation <= rounding) else "its logits depend on the tokens per pass"


def load_causal(
    folder: Path,
    dtype: torch.dtype,
    *,
    context: int,
    device: torch.device | None = None,
    spread: Mapping[int | str, int] | None = None,
    role: str = "target",
) -> tuple[CausalLM | PreTrainedModel, str]:
    """The model in ``folder``, frozen: safetensors or GGUF, no remote code; every tensor must fit.

    Args:
        context: number of positions.
        device: by default the CPU.
        spread: bytes that accelerate may use of each device (and ``"cpu"``), if ``device`` is too
            small: transformers' module is then spread over them.
        role: its name in errors.

    Returns:
        the model, and why it is not in this lab's network, if it is not.

    Raises:
        WeightsError: a file is missing, truncated or of the wrong shape; the message names it.
    """
    config = pretrained_config(folder, role)
    with loading_errors(folder, role):
        why = unsupported(config, context) or ("it spans several devices" if spread else "")
    if not why:
        return load_network(folder, config, dtype, context=context, device=device, role=role), ""
    model = load_stock(folder, dtype, device=device, spread=spread, role=role)
    if wrong := unusable(model, context):
        raise WeightsError(f"The {role} in {short_path(folder)} cannot be decoded here: {wrong}.", hint=OTHER)
    return model, why


def pretrained_config(folder: Path, role: str) -> PretrainedConfig:
    """``config.json`` as transformers reads it; Dream's, whose class is remote code, as Qwen2's.

    Raises:
        WeightsError: the file is missing or damaged, or transformers does not know its kind.
    """
    values = read_config(folder)
    with loading_errors(folder, role):
        if values.get("model_type") == "Dream":
            attrs = {k: value for k, value in values.items() if k not in ("model_type", "auto_map")}
            return Qwen2Config(**attrs)
        config: PretrainedConfig = AutoConfig.from_pretrained(folder, trust_remote_code=False)
        ours = [quantization_config(bits) for bits in (8, 4)]  # reading.py dequantises
        if getattr(config, "quantization_config", None) in ours:
            del config.quantization_config
        pad: Any = config.pad_token_id
        if not end_ids(pad, getattr(config, "vocab_size", 0)):  # transformers' modules reject it
            config.pad_token_id = None
        return config


def end_ids(entry: Any, size: int) -> list[int]:
    """The ids below ``size`` in an ``eos_token_id``, which may be one, several, or none."""
    ends = entry if isinstance(entry, list) else [entry]
    return [end for end in ends if isinstance(end, int) and 0 <= end < size]


def load_network(
    folder: Path,
    config: PretrainedConfig,
    dtype: torch.dtype,
    *,
    context: int,
    device: torch.device | None = None,
    role: str = "target",
) -> CausalLM:
    """Load the weights in ``folder`` into this lab's network, layer by layer, frozen; see
    :func:`load_causal`. On a CPU the embedding of a GGUF file stays in the file.

    Raises:
        WeightsError: a file is missing or damaged, or this network cannot run the model.
    """
    with loading_errors(folder, role), torch.device("meta"):
        if why := unsupported(config, context):
            raise WeightsError(f"The {role} in {short_path(folder)} cannot be run here: {why}.", hint=OTHER)
        network = CausalLM(config, context=context)
    gguf = read_gguf(folder) if device is None or device.type == "cpu" else None
    read = _reader(folder, network)

    def load(prefix: str) -> None:
        tensors = {}
        for name, stored in read(prefix, () if gguf is None else TABLES):
            tensors[name.removeprefix(prefix)] = tensor = stored.to(device, dtype)
            if torch.finfo(dtype).max < torch.finfo(stored.dtype).max:  # may overflow
                check_finite(folder, name, tensor)
        network.get_submodule(prefix.rstrip(".")).load_state_dict(tensors, assign=True, strict=False)
        if gguf is not None and not prefix:
            network.embed_tokens = StoredRows(gguf, "model.embed_tokens.weight", dtype)
            if not config.tie_word_embeddings:
                network.lm_head = StoredRows(gguf, "lm_head.weight", dtype)

    return network.freeze(load)


def read_layers(folder: Path, layers: Sequence[int]) -> dict[str, Tensor]:
    """The weights of some ``layers`` of the model in ``folder``, numbered anew, and of its last norm,
    in fp32, for a drafter cut from it.

    Raises:
        WeightsError: as :func:`load_network`.
    """
    read, tensors = _opened(folder), dict[str, Tensor]()
    for place, layer in enumerate(layers):
        for name, tensor in read(f"layers.{layer}.", ()):
            tensors[name.replace(f"layers.{layer}.", f"layers.{place}.", 1)] = tensor.float()
    tensors |= {name: tensor.float() for name, tensor in read("", TABLES) if name.startswith("norm.")}
    return tensors


def read_tables(folder: Path) -> tuple[Tensor, Tensor]:
    """The embedding ``[V, W]`` of the model in ``folder``, and the rows ``[V, W]`` of its output head.

    Raises:
        WeightsError: as :func:`load_network`.
    """
    tensors = dict(_opened(folder)("", ()))
    embedding, head = (tensors.get(name) for name in TABLES)
    assert embedding is not None, "the reader checks names"
    return embedding, embedding if head is None else head


def _opened(folder: Path) -> Callable[[str, Collection[str]], Iterator[tuple[str, Tensor]]]:
    """:func:`_reader` of a model for this lab's network."""
    config = pretrained_config(folder, "target")
    with loading_errors(folder, "target"), torch.device("meta"):
        if why := unsupported(config, 1):
            raise WeightsError(f"No drafter can be made from parts of {short_path(folder)}: {why}.", hint=OTHER)
        network = CausalLM(config, context=1)
    return _reader(folder, network)


def load_stock(
    folder: Path,
    dtype: torch.dtype,
    *,
    device: torch.device | None = None,
    spread: Mapping[int | str, int] | None = None,
    role: str = "target",
) -> PreTrainedModel:
    """The model in ``folder`` in transformers' own module, frozen; see :func:`load_causal`.

    Raises:
        WeightsError: a file is missing, truncated or of the wrong shape; the message names it.
    """
    read_config(folder)
    tensor_names(folder)  # checks the files
    model: PreTrainedModel
    kind: Any = transformers.AutoModelForCausalLM
    report: dict[str, Any]
    options: dict[str, Any] = {}
    with loading_errors(folder, role):
        if (state := read_if_quantised(folder)) is not None:
            config = pretrained_config(folder, role)
            kind = getattr(transformers, (config.architectures or [""])[0])
            options = {"config": config, "state_dict": state}
        model, report = kind.from_pretrained(
            folder if state is None else None,
            dtype=dtype,
            device_map="auto" if spread else None,
            max_memory=dict(spread) if spread else None,
            **options,
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    # transformers fills missing tensors with random numbers.
    for kind in ("missing_keys", "mismatched_keys"):
        if names := sorted(str(name) for name in report.get(kind) or ()):
            where = f"the {role} in {short_path(folder)}"
            raise WeightsError(f"{len(names)} tensors of {where} are {kind.split('_')[0]}, first {names[0]}.")
    if device is not None and not spread:
        model.to(device)  # type: ignore[arg-type]  # transformers wraps Module.to untyped
    model.train(False).requires_grad_(False)
    for name, tensor in model.named_parameters():
        check_finite(folder, name, tensor)
    return model


class _Stored(NamedTuple):
    """A tensor in a file that contains one or more of the network's tensors."""

    names: tuple[str, ...]  # of the network, concatenated
    transposed: bool = False  # transposed, as in GPT-2


def _reader(folder: Path, network: CausalLM) -> Callable[[str, Collection[str]], Iterator[tuple[str, Tensor]]]:
    """A function that reads the tensors of a network on the meta device: (prefix of
    :meth:`CausalLM.freeze`, names to leave out) -> names and tensors."""
    state = network.state_dict()
    tied, gpt2, count = network.config.tie_word_embeddings, network.shape.gpt2, len(network.layers)
    layout = _gpt2_names(network) if gpt2 else {name: _Stored((name,)) for name in state}
    buffers = ("h.{}.attn.bias", "h.{}.attn.masked_bias") if gpt2 else ("layers.{}.self_attn.rotary_emb.inv_freq",)
    prefix = "" if gpt2 else "model."
    if any(name.startswith("transformer.") for name in tensor_names(folder)):
        prefix = "transformer."
    files = {name if name == "lm_head.weight" else prefix + name: stored for name, stored in layout.items()}
    expected = {}
    for name, (parts, transposed) in files.items():
        joined = torch.cat([state[part] for part in parts])
        expected[name] = joined.t() if transposed else joined
    readers = find_tensors(
        folder,
        expected,
        optional=("lm_head.weight",) if tied else (),
        ignored={prefix + name.format(index) for name in buffers for index in range(count)},
    )
    if tied and "lm_head.weight" in readers:
        embedding = next(name for name, stored in files.items() if stored.names == ("embed_tokens.weight",))
        if not torch.equal(readers.pop("lm_head.weight")(), readers[embedding]()):
            what = f"{short_path(folder)}/config.json ties the output head to the embedding"
            hint = "Set tie_word_embeddings to false there."
            raise WeightsError(f"{what}; its files have another head.", hint=hint)
    groups: dict[str, list[str]] = defaultdict(list)
    for name in readers:
        layer = re.match(r"layers\.\d+\.|", files[name].names[0])
        groups[layer[0] if layer else ""].append(name)

    def read(prefix: str, without: Collection[str]) -> Iterator[tuple[str, Tensor]]:
        for name in groups[prefix]:
            parts, transposed = files[name]
            if parts[0] in without:
                continue
            tensor = readers[name]()
            split = torch.split(tensor.t() if transposed else tensor, [len(state[part]) for part in parts])
            yield from ((part, values.contiguous()) for part, values in zip(parts, split, strict=True))

    return read


def _gpt2_names(network: CausalLM) -> dict[str, _Stored]:
    """GPT-2's names of tensors, and their contents."""
    files = {"wte.weight": _Stored(("embed_tokens.weight",)), "wpe.weight": _Stored(("positions.weight",))}
    files["lm_head.weight"] = _Stored(("lm_head.weight",))
    layer = {
        "attn.c_attn": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
        "attn.c_proj": ("self_attn.o_proj",),
        "mlp.c_fc": ("mlp.up_proj",),
        "mlp.c_proj": ("mlp.down_proj",),
        "ln_1": ("input_layernorm",),
        "ln_2": ("post_attention_layernorm",),
    }
    for kind in ("weight", "bias"):
        files[f"ln_f.{kind}"] = _Stored((f"norm.{kind}",))
        for index in range(len(network.layers)):
            for name, modules in layer.items():
                parts = tuple(f"layers.{index}.{part}.{kind}" for part in modules)
                files[f"h.{index}.{name}.{kind}"] = _Stored(parts, transposed=kind == "weight" and name[:2] != "ln")
    return files
