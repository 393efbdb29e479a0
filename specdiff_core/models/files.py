"""Reads and writes the tensors of a model folder.

Only safetensors are ever read; a damaged file is named in the error.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Collection, Mapping
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import torch
from huggingface_hub import save_torch_state_dict
from safetensors import SafetensorError, safe_open
from safetensors.torch import load_file
from torch import Tensor

from specdiff_core.models.folders import AGAIN, INDEX, shown, weight_files
from specdiff_core.schema.errors import WeightsError

T = TypeVar("T")
FLOATS = (torch.float64, torch.float32, torch.float16, torch.bfloat16)
SHARD_BYTES = 8_900_000  # every shipped file stays below 9 MB


def read_tensors(
    folder: Path,
    expected: Mapping[str, Tensor],
    *,
    optional: Collection[str] = (),
    ignored: Collection[str] = (),
    tables: Collection[str] = (),
) -> dict[str, Tensor]:
    """The tensors of a folder, mapped on the CPU, by name; their names and shapes must be a network's own.

    Args:
        expected: the network's tensors, for their shapes.
        optional: those of them that may be missing.
        ignored: names that the network does not have, left out where a file holds them.
        tables: those that hold whole numbers, or yes and no.

    Raises:
        WeightsError: a file is missing, truncated or not in safetensors format, or a tensor is missing, unknown, or has
            another shape; the message names it and its file.
    """
    parts = {shown(path): _opened(path, load_file) for path in weight_files(folder)}
    found = {name: tensor for part in parts.values() for name, tensor in part.items() if name not in ignored}
    if missing := [name for name in expected if name not in found and name not in optional]:
        what = f"{len(missing)} tensors are missing in {', '.join(sorted(parts))}, first {missing[0]}."
        raise WeightsError(what, hint=AGAIN)
    for name, tensor in found.items():
        file = next(file for file, part in parts.items() if name in part)
        if name not in expected:
            raise WeightsError(
                f"{file} holds an unknown tensor {name}.",
                hint="The files belong to another kind of model; check the pair's source.",
            )
        if tensor.shape != expected[name].shape:
            raise WeightsError(
                f"{name} in {file} has shape {tuple(tensor.shape)}, config.json says {tuple(expected[name].shape)}.",
                hint="config.json and the weights do not belong together; " + AGAIN[0].lower() + AGAIN[1:],
            )
        if (tensor.dtype not in FLOATS) != (name in tables):
            kind = str(tensor.dtype).removeprefix("torch.")
            raise WeightsError(f"{name} in {file} is stored as {kind}.", hint="Choose weights in fp32, fp16 or bf16.")
        check_finite(file, name, tensor)
    return found


def read_drafted(stored: dict[str, Tensor], size: int, folder: Path) -> Tensor | None:
    """Take ``d2t`` and ``t2d`` out of what was ``stored``: the target's ids ``[n]``, ascending, of the words that a
    drafter with a smaller vocabulary can say; ``d2t`` holds how far each lies behind its own id. None: all ``size``.

    Raises:
        WeightsError: they are no ids of the target, or do not agree.
    """
    behind, said = stored.pop("d2t", None), stored.pop("t2d", None)
    if behind is None:
        return None
    ids, whole = torch.arange(len(behind)) + behind.long(), len(behind) == size
    wrong = bool((ids.diff() <= 0).any()) or not 0 <= int(ids[0]) <= int(ids[-1]) < size
    if wrong or (said is not None and not whole and said.bool().nonzero()[:, 0].tolist() != ids.tolist()):
        what = f"d2t and t2d in {shown(folder)} do not say which of the target's {size:,} words it can say."
        raise WeightsError(what, hint=AGAIN)
    return None if whole else ids


def check_finite(place: str | Path, name: str, tensor: Tensor) -> None:
    """Raise a WeightsError if a tensor of ``place``, in its present dtype, holds what is no finite number."""
    if not bool(torch.isfinite(tensor).all()):
        kind = str(tensor.dtype).removeprefix("torch.")
        raise WeightsError(f"{name} in {shown(place)} holds values that are no finite numbers in {kind}.", hint=AGAIN)


def tensor_names(folder: Path) -> set[str]:
    """Of a folder's weight files; nothing is read.

    Raises:
        WeightsError: a file is missing, truncated or not in safetensors format.
    """
    names: set[str] = set()
    for path in weight_files(folder):
        with _opened(path, partial(safe_open, framework="pt")) as file:
            names.update(file.keys())
    return names


def _opened(path: Path, read: Callable[[Path], T]) -> T:
    try:
        return read(path)
    except (SafetensorError, OSError, ValueError) as error:
        raise WeightsError(f"The weight file {shown(path)} is truncated or damaged ({error}).", hint=AGAIN) from error


def empty_folder(folder: Path) -> None:
    """Make a folder that holds no weights yet."""
    folder.mkdir(parents=True, exist_ok=True)
    for stale in (*folder.glob("*.safetensors"), folder / INDEX):
        stale.unlink(missing_ok=True)


def write_folder(folder: Path, config: Mapping[str, Any], tensors: Mapping[str, Tensor]) -> Path:
    """Write ``config.json`` and the tensors as bf16 safetensors, in shards below 9 MB with their index."""
    empty_folder(folder)
    (folder / "config.json").write_text(json.dumps(dict(config), indent=2) + "\n", encoding="utf-8")
    stored = {name: tensor.detach().to("cpu", torch.bfloat16).contiguous() for name, tensor in tensors.items()}
    save_torch_state_dict(stored, folder, max_shard_size=SHARD_BYTES)
    return folder
