"""Writes the tensors of a model folder, as safetensors files only."""

from __future__ import annotations

import errno
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import SafetensorError
from torch import Tensor

from specdiff_core.checkpoints.folders import INDEX, short_path
from specdiff_core.checkpoints.quantising import pack, pop_scales, quantise, quantization_config
from specdiff_core.checkpoints.reading import stored_tensors
from specdiff_core.schema.errors import SpecDiffError

SHARD_BYTES = 8_900_000  # every shipped file stays below 9 MB
ROOM, RIGHTS = "Make room on that disk.", "Choose a folder that you can write to."
HINTS = {errno.ENOSPC: ROOM, errno.EACCES: RIGHTS, errno.EROFS: RIGHTS}
"""By the number of an OSError."""


def empty_folder(folder: Path) -> None:
    """Create a folder, or remove the weights in it."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (*folder.glob("*.safetensors"), folder / INDEX):
        stale.unlink(missing_ok=True)


def write_folder(
    folder: Path,
    config: Mapping[str, Any],
    tensors: Mapping[str, Tensor],
    *,
    tables: Mapping[str, Tensor] | None = None,
) -> Path:
    """Write ``config.json`` and the tensors as bf16 safetensors, in shards below 9 MB with their
    index; ``tables`` (integers or booleans) keep their dtype."""
    empty_folder(folder)
    (folder / "config.json").write_text(json.dumps(dict(config), indent=2) + "\n", encoding="utf-8")
    stored = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    stored |= {name: table.cpu().contiguous() for name, table in (tables or {}).items()}
    save_torch_state_dict(stored, folder, max_shard_size=SHARD_BYTES)
    return folder


def shrink(folder: Path, bits: int = 8) -> None:
    """:func:`~specdiff_core.checkpoints.quantising.quantise` the matrices of a folder in place. What is quantised
    already is not changed.

    Raises:
        WeightsError: a file is missing or damaged, or the columns of a matrix are no whole groups.
    """
    tensors, _ = stored_tensors(folder)
    scales = pop_scales(tensors)
    stored = quantise({name: tensor for name, tensor in tensors.items() if name not in scales}, bits)
    for name, scale in scales.items():
        stored |= pack(name, tensors[name], scale)
    stored = {name: tensor.clone() for name, tensor in stored.items()}  # files are deleted
    config = json.loads((folder / "config.json").read_text(encoding="utf-8"))
    if any(str(name).endswith("ForCausalLM") for name in config.get("architectures") or ()) and not scales:
        written = json.dumps(config | {"quantization_config": quantization_config(bits)}, indent=2)
        (folder / "config.json").write_text(written + "\n", encoding="utf-8")
    empty_folder(folder)
    save_torch_state_dict(stored, folder, max_shard_size=SHARD_BYTES)


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """Yields a path to write; on success it replaces the file ``path``.

    Raises:
        SpecDiffError: it can't be written (of torch's and safetensors' exceptions, too).
    """
    fresh = path.with_name(f"{path.name}.partial")
    try:
        yield fresh
        fresh.replace(path)
    except (OSError, RuntimeError, SafetensorError) as error:
        fresh.unlink(missing_ok=True)
        hint = HINTS.get(getattr(error, "errno", 0), "Check that its disk has room and that you can write there.")
        raise SpecDiffError(f"{short_path(path)} can't be written ({error}).", hint=hint) from error
