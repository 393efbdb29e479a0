"""Estimates the memory of a pair before its weights are fetched, without torch.

Counted: the parameters of target and drafters, their keys and values over the whole context, and a
float32 row of logits for each position read at once. Not counted: temporary memory of passes."""

from __future__ import annotations

import contextlib
import math
import shutil
import subprocess
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open

from specdiff_core.checkpoints.folders import read_config, read_gguf, weight_files
from specdiff_core.checkpoints.sources import cached_folder
from specdiff_core.processor import computes_bf16
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.pairs import PAIRS, PairSpec
from specdiff_core.schema.published import Model
from specdiff_core.schema.settings import SETTINGS

RUNTIME = {"cpu": 350_000_000, "cuda": 600_000_000}
"""Bytes that torch and transformers use, measured on a CPU; on a CUDA device, assumed."""
WIDTHS = {"fp32": 4, "bf16": 2}  # bytes of a number


@dataclass(frozen=True, slots=True, kw_only=True)
class Machine:
    """The device and dtype for a pair."""

    device: str  # "cpu" or "cuda"
    dtype: str  # "fp32" or "bf16"
    free: int  # bytes, of the device
    beside: int = 0  # further bytes that accelerate could use: other devices, main memory
    bf16: bool = False  # whether pairs that prefer bf16 on a CPU get it

    def dtype_of(self, pair: PairSpec) -> str:
        """The dtype that ``models/device.py`` would choose for ``pair``."""
        return "bf16" if self.bf16 and pair.bf16 else self.dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class Need:
    """Bytes that a pair needs on a machine."""

    target: int
    weights: int  # of the target, included in it
    drafters: dict[str, int]
    runtime: int

    @property
    def total(self) -> int:
        return self.target + sum(self.drafters.values()) + self.runtime


def find_machine(device: str = "auto", dtype: str = "auto") -> Machine:
    """The machine that ``models/device.py`` would choose, with its free memory."""
    import psutil

    memory = int(psutil.virtual_memory().available)
    gpus = [] if device == "cpu" else _cuda()
    if not gpus:
        auto = dtype == "auto"
        return Machine(device="cpu", dtype="fp32" if auto else dtype, free=memory, bf16=auto and computes_bf16())
    (free, bf16), *other_gpus = gpus
    if dtype == "auto":
        dtype = "bf16" if bf16 else "fp32"
    return Machine(device="cuda", dtype=dtype, free=free, beside=memory + sum(other for other, _ in other_gpus))


def _cuda() -> list[tuple[int, bool]]:
    """The free bytes of each CUDA device, and whether it computes bf16. Asks nvidia-smi if torch,
    which takes seconds to import, is not loaded."""
    torch = sys.modules.get("torch")
    if torch is not None:
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        return [(int(torch.cuda.mem_get_info(i)[0]), torch.cuda.get_device_capability(i)[0] >= 8) for i in range(count)]
    program = shutil.which("nvidia-smi")
    if program is None:
        return []
    query = [program, "--query-gpu=memory.free,compute_cap", "--format=csv,noheader,nounits"]
    with contextlib.suppress(OSError, ValueError, subprocess.SubprocessError):
        listed = subprocess.run(query, capture_output=True, text=True, timeout=5, check=True).stdout
        rows = [line.split(",") for line in listed.splitlines() if line.strip()]
        return [(int(free) * 2**20, float(capability) >= 8) for free, capability in rows]
    return []


def needed(pair: PairSpec, machine: Machine, drafters: Iterable[str] | None = None) -> Need:
    """What ``pair`` needs with ``drafters`` (all by default). Unknown sizes count as 0."""
    machine = replace(machine, dtype=machine.dtype_of(pair))
    names = None if drafters is None else set(drafters)
    specs = [spec for spec in pair.drafters if spec.source and (names is None or spec.name in names)]
    target = model_size(pair.target, pair.revision, pair.published)
    return Need(
        target=_bytes(target, pair.context, machine),
        weights=target.parameters * WIDTHS[machine.dtype] if target else 0,
        drafters={  # denoisers that re-read the text keep no KV cache
            spec.name: _bytes(
                model_size(spec.source, spec.revision, spec.published), 0 if spec.context else pair.context, machine
            )
            for spec in specs
        },
        runtime=RUNTIME[machine.device],
    )


def refusal(pair: PairSpec, machine: Machine, drafters: Sequence[str]) -> str:
    """Why ``pair`` with ``drafters`` does not fit, and what would; empty if it fits, possibly
    spread over several devices and main memory."""
    machine = replace(machine, dtype=machine.dtype_of(pair))
    need = needed(pair, machine, drafters)
    if need.total - need.weights <= machine.free and need.total <= machine.free + machine.beside:
        return ""
    needs = f"It needs about {need.total / 1e9:.1f} GB of memory in {machine.dtype}"
    sentences = [f"{needs}; {machine.free / 1e9:.1f} GB are free."]
    fewer = sorted(need.drafters, key=need.drafters.__getitem__)
    while fewer and needed(pair, machine, fewer).total > machine.free:
        fewer.pop()
    halved = Machine(device=machine.device, dtype="bf16", free=machine.free)
    siblings = [sibling for sibling in PAIRS.values() if sibling.group == pair.group and sibling.name != pair.name]
    sizes = {sibling.name: needed(sibling, machine, drafters).total for sibling in siblings}
    smaller = [sibling for sibling in siblings if sizes[sibling.name] <= machine.free]
    if len(drafters) > 1 and fewer:
        sentences.append(f"With fewer drafters it fits: {', '.join(fewer)}.")
    if machine.dtype == "fp32" and needed(pair, halved, drafters).total <= machine.free:
        sentences.append("In bf16 it fits (--dtype bf16).")
    if smaller:
        best = max(smaller, key=lambda sibling: sizes[sibling.name])
        sentences.append(f"The size {best.size} fits (--pair {best.name}).")
    return " ".join(sentences)


def model_size(source: str, revision: str = "", published: Model | None = None) -> Model | None:
    """The size of a model from its weights, otherwise from what is published, otherwise by the
    sizes in its config.json. None if nothing is known."""
    try:
        folder = cached_folder(source, revision)
        if folder is None or not (folder / "config.json").is_file():
            return published
        values, stored = read_config(folder), _stored(folder)
        if published and not stored:
            return published
        tied = values.get("tie_word_embeddings", values.get("model_type") == "gpt2")
        parameters, cache = config_sizes(values, tied=tied)
        if not (parameters := stored or parameters):
            return None
        return Model(
            repo=source,
            parameters=parameters,
            cache=cache,
            vocabulary=_number(values, "vocab_size"),
            # A GGUF file's rows stay in the file.
            tied=_number(values, "hidden_size", "n_embd") if tied and read_gguf(folder) is None else 0,
        )
    except SpecDiffError:  # damaged: loading reports how
        return published


def config_sizes(values: dict[str, Any], *, tied: bool = True) -> tuple[int, int]:
    """Parameters of a transformer with this ``config.json``, without norms and biases; and numbers
    in the keys and values of one token."""
    layers = _number(values, "num_hidden_layers", "n_layer", "num_layers", "n_blocks")
    heads = _number(values, "num_attention_heads", "n_head", "num_heads", "n_heads")
    width = _number(values, "hidden_size", "n_embd", "hidden_dim")
    size = _number(values, "head_dim") or (width // heads if heads else 0)
    kv_heads = _number(values, "num_key_value_heads") or heads
    inner = _number(values, "intermediate_size", "n_inner") or 4 * width
    layer = 2 * width * size * (heads + kv_heads) + (3 if "hidden_act" in values else 2) * width * inner
    tables = 0 if "dflash_config" in values else 1 if tied else 2
    rows = tables * _number(values, "vocab_size") + _number(values, "n_positions")
    return layers * layer + rows * width, 2 * layers * kv_heads * size


def _stored(folder: Path) -> int:
    """Numbers in a folder's weight files, from their headers; 0 if a file is missing."""
    count = 0
    try:
        if (index := read_gguf(folder)) is not None:
            return sum(math.prod(stored.shape) for stored in index.tensors.values())
        for path in weight_files(folder):
            with safe_open(path, "numpy") as file:
                count += sum(math.prod(file.get_slice(name).get_shape()) for name in file.keys())  # noqa: SIM118 - not a dict
    except (SpecDiffError, OSError, SafetensorError):
        return 0
    return count


def _bytes(model: Model | None, context: int, machine: Machine) -> int:
    if model is None:
        return 0
    rows = int(SETTINGS["gamma"].high or 0) + 1
    packed = model.tied * model.vocabulary if machine.device == "cpu" else 0
    numbers = model.parameters + packed + model.cache * context
    return numbers * WIDTHS[machine.dtype] + 4 * rows * model.vocabulary


def _number(values: dict[str, Any], *names: str) -> int:
    value = next((values[name] for name in names if isinstance(values.get(name), int)), 0)
    return int(value)
