"""Reads and writes folders of ``config.json`` + safetensors, local or from the hub. Knows no network's meaning.

Only safetensors are ever read and no code from a repository is ever run; a damaged file is named in the error.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from specdiff_core.errors import PairUnavailable, WeightsError

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
SHARD_BYTES = 8_900_000  # every shipped file stays below 9 MB
AGAIN = "Download the files again, or copy them from a clean checkout."


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredTensors:
    """All tensors of one folder, and the file each of them came from."""

    tensors: dict[str, Tensor]
    files: dict[str, Path]


def shown(path: str | Path) -> str:
    """A file or folder as people may see it: the last two names, never where somebody keeps them."""
    return "/".join(Path(path).parts[-2:])


def is_local(source: str | Path) -> bool:
    """Whether ``source`` is written as a path rather than as a hub repository (``owner/name``).

    What happens to lie in the working folder decides nothing: write ``./owner/name`` to mean it.
    """
    path = Path(source)
    return path.is_absolute() or str(source).startswith(".") or len(path.parts) != 2


def resolve(source: str | Path, revision: str = "") -> Path:
    """The folder that holds ``source``: itself, or the hub snapshot at ``revision`` (downloaded if need be).

    Raises:
        WeightsError: a local folder does not exist.
        PairUnavailable: the hub repository is neither cached nor reachable.
    """
    if is_local(source):
        folder = Path(source)
        if not folder.is_dir():
            raise WeightsError(f"The model folder {shown(folder)} does not exist.", hint=AGAIN)
        return folder
    import httpx  # what the hub client speaks through
    from huggingface_hub import snapshot_download
    from huggingface_hub.errors import HfHubHTTPError, LocalEntryNotFoundError, OfflineModeIsEnabled

    try:
        return Path(
            snapshot_download(
                str(source), revision=revision or None, allow_patterns=["*.json", "*.safetensors", "merges.txt"]
            )
        )
    except (
        HfHubHTTPError,
        LocalEntryNotFoundError,
        OfflineModeIsEnabled,
        httpx.HTTPError,
        OSError,
        ValueError,
    ) as error:
        raise PairUnavailable(
            f"{source} is not in the local cache and could not be downloaded.",
            hint="Check the network connection, or choose the embedded pair, which needs none.",
        ) from error


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a folder.

    Raises:
        WeightsError: it is missing or not a JSON object.
    """
    return _read_json(folder / "config.json")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise WeightsError(f"{shown(path)} is missing.", hint=AGAIN) from None
    except (OSError, ValueError) as error:
        raise WeightsError(f"{shown(path)} is not readable JSON ({error}).", hint=AGAIN) from error
    if not isinstance(value, dict):
        raise WeightsError(f"{shown(path)} does not hold a JSON object.", hint=AGAIN)
    return value


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that make up one model: a single file, or every shard its index names.

    Raises:
        WeightsError: there are none, the index is damaged, or a shard is missing.
    """
    if (folder / INDEX).exists():
        shards = _read_json(folder / INDEX).get("weight_map")
        if not isinstance(shards, dict) or not shards:
            raise WeightsError(f"{shown(folder / INDEX)} names no weight files.", hint=AGAIN)
        paths = [folder / Path(str(name)).name for name in sorted(set(shards.values()))]
    else:
        paths = [folder / WEIGHTS]
    for path in paths:
        if not path.is_file():
            raise WeightsError(f"The weight file {shown(path)} is missing.", hint=AGAIN)
    return paths


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
