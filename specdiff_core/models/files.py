"""Reads and writes the tensors of a model folder. Knows no network's meaning.

Only safetensors are ever read; a damaged file is named in the error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdiff_core.models.folders import AGAIN, INDEX, shown, weight_files
from specdiff_core.schema.errors import WeightsError

SHARD_BYTES = 8_900_000  # every shipped file stays below 9 MB


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensors:
    """All tensors of one folder, and the file each of them came from."""

    tensors: dict[str, Tensor]
    files: dict[str, Path]


def check_files(folder: Path) -> None:
    """Open every weight file: its header and its length are checked, nothing is read.

    Raises:
        WeightsError: a file is missing, truncated or not in safetensors format.
    """
    from safetensors import SafetensorError, safe_open

    for path in weight_files(folder):
        try:
            with safe_open(path, framework="pt"):
                pass
        except (SafetensorError, OSError, ValueError) as error:
            raise _damaged(path, error) from error


def _damaged(path: Path, error: Exception) -> WeightsError:
    return WeightsError(f"The weight file {shown(path)} is truncated or damaged ({error}).", hint=AGAIN)


def read_tensors(folder: Path) -> StoredTensors:
    """Every tensor of a folder, on the CPU.

    Raises:
        WeightsError: a file is missing, truncated or not in safetensors format.
    """
    from safetensors import SafetensorError
    from safetensors.torch import load_file

    tensors: dict[str, Tensor] = {}
    files: dict[str, Path] = {}
    for path in weight_files(folder):
        try:
            part = load_file(path)
        except (SafetensorError, OSError, ValueError) as error:
            raise _damaged(path, error) from error
        tensors.update(part)
        files.update(dict.fromkeys(part, path))
    return StoredTensors(tensors=tensors, files=files)


def check_shapes(stored: StoredTensors, expected: Mapping[str, torch.Size], *, ignored: Iterable[str] = ()) -> None:
    """Compare names and shapes with a network's own.

    Raises:
        WeightsError: a tensor is missing, unknown, or has another shape; the message names it and its file.
    """
    missing = [name for name in expected if name not in stored.tensors]
    if missing:
        where = sorted({shown(path) for path in stored.files.values()})
        raise WeightsError(
            f"{len(missing)} tensors are missing in {', '.join(where) or 'an empty folder'}, first {missing[0]}.",
            hint=AGAIN,
        )
    skipped = set(ignored)
    for name, tensor in stored.tensors.items():
        if name in skipped:
            continue
        if name not in expected:
            raise WeightsError(
                f"{shown(stored.files[name])} holds an unknown tensor {name}.",
                hint="The files belong to another kind of model; check the pair's source.",
            )
        if tensor.shape != expected[name]:
            raise WeightsError(
                f"{name} in {shown(stored.files[name])} has shape {tuple(tensor.shape)}, "
                f"config.json says {tuple(expected[name])}.",
                hint="config.json and the weights do not belong together; " + AGAIN[0].lower() + AGAIN[1:],
            )


def write_folder(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> None:
    """Write ``config.json`` and the tensors as bf16 safetensors, in shards below 9 MB with their index."""
    from huggingface_hub import save_torch_state_dict

    folder.mkdir(parents=True, exist_ok=True)
    for stale in (*folder.glob("*.safetensors"), folder / INDEX):
        stale.unlink(missing_ok=True)
    (folder / "config.json").write_text(json.dumps(dict(config), indent=2) + "\n", encoding="utf-8")
    stored = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    save_torch_state_dict(stored, folder, max_shard_size=SHARD_BYTES)
