"""Finds model folders, local or from the hub, and reads their JSON. It needs no torch.

No code from a repository is ever run; a damaged file is named in the error.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from specdiff_core.models import hub
from specdiff_core.schema.errors import SpecDiffError, WeightsError, is_memory

C = TypeVar("C", bound=msgspec.Struct)
Size = Annotated[int, msgspec.Meta(ge=1, le=2**20)]
"""No size of a network that fits into a machine is larger."""
Id = Annotated[int, msgspec.Meta(ge=0)]
"""A token, or a layer."""

WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
AGAIN = "Download the files again, or copy them from a clean checkout."


def shown(path: str | Path) -> str:
    """A file or folder as people may see it: the last two names, never where somebody keeps them."""
    return "/".join(Path(path).parts[-2:])


def is_local(source: str | Path) -> bool:
    """Whether ``source`` is written as a path rather than as a hub repository (``owner/name``).

    What happens to lie in the working folder decides nothing: write ``./owner/name`` to mean it.
    """
    path = Path(source)
    return path.is_absolute() or str(source).startswith(".") or len(path.parts) != 2


def resolve(source: str | Path, revision: str = "", *, weights: bool = True) -> Path:
    """The folder that holds ``source``: itself, or the hub snapshot at ``revision`` (downloaded if need be, of which
    whoever called :func:`~specdiff_core.models.hub.telling` hears).

    Args:
        weights: False: only config and tokenizer, of a few megabytes, are asked for.

    Raises:
        WeightsError: a local folder does not exist.
        PairUnavailable: the hub repository is neither cached nor to be had; the message says why.
    """
    if not is_local(source):
        return hub.fetch(str(source), revision, weights=weights)
    folder = Path(source)
    if not folder.is_dir():
        raise WeightsError(f"The model folder {shown(folder)} does not exist.", hint=AGAIN)
    return folder


RELEASED = "Restore the config.json that was saved with this model."


Depth = Annotated[int, msgspec.Meta(ge=1, le=1024)] | None
Epsilon = Annotated[float, msgspec.Meta(ge=0, le=1)] | None


class _Checked(msgspec.Struct):
    """What is checked of every ``config.json``, at its top and in parts of it, by the names in use."""

    rope_theta: Annotated[float, msgspec.Meta(gt=0, le=1e18)] = 1.0
    num_hidden_layers: Depth = None
    n_layer: Depth = None
    num_layers: Depth = None
    n_blocks: Depth = None
    num_attention_heads: Size | None = None
    n_head: Size | None = None
    rms_norm_eps: Epsilon = None
    layer_norm_epsilon: Epsilon = None


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a folder.

    Raises:
        WeightsError: it is missing, not a JSON object, or names a number that no network has (:class:`_Checked`).
    """
    path = folder / "config.json"
    values = _read_json(path)
    for part in ("rope_parameters", "transformer_layer_config"):
        as_config(values.get(part) or {}, _Checked, path)
    as_config(values, _Checked, path)
    return values


def read_generation(folder: Path) -> dict[str, Any]:
    """``generation_config.json`` of a folder; empty where there is none.

    Raises:
        WeightsError: it is not a JSON object.
    """
    path = folder / "generation_config.json"
    return _read_json(path) if path.is_file() else {}


def as_config(values: dict[str, Any], kind: type[C], path: Path | str) -> C:
    """Values of a ``config.json`` as a struct; keys that it does not name are left alone.

    Raises:
        WeightsError: a field is missing, of another type, or no possible size.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise WeightsError(f"{shown(path)}: {error}.", hint=RELEASED) from None


@contextmanager
def described(folder: Path, what: str) -> Iterator[None]:
    """Raise whatever fails inside as a WeightsError: damaged values make transformers raise nearly anything."""
    try:
        yield
    except Exception as error:
        if isinstance(error, SpecDiffError) or is_memory(error):
            raise
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        words = f"The {what} cannot be loaded from {shown(folder)}/config.json and its weights ({why})."
        raise WeightsError(words, hint=AGAIN) from error


def _read_json(path: Path) -> dict[str, Any]:
    try:
        return msgspec.convert(json.loads(path.read_text(encoding="utf-8")), dict[str, Any])
    except FileNotFoundError:
        raise WeightsError(f"{shown(path)} is missing.", hint=AGAIN) from None
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{shown(path)} is not readable as a JSON object ({error}).", hint=AGAIN) from error


def weight_files(folder: Path) -> list[Path]:
    """The safetensors files that make up one model: a single file (even beside an index, as in transformers), or every
    shard that the index names.

    Raises:
        WeightsError: there are none, the index is damaged, or a shard is missing.
    """
    if (folder / INDEX).exists() and not (folder / WEIGHTS).exists():
        shards = _read_json(folder / INDEX).get("weight_map")
        if not isinstance(shards, dict) or not shards or not all(map(_is_name, shards.values())):
            raise WeightsError(f"{shown(folder / INDEX)} names no weight files of its folder.", hint=AGAIN)
        paths = [folder / name for name in sorted(set(shards.values()))]
    else:
        paths = [folder / WEIGHTS]
    for path in paths:
        if not path.is_file():
            pickled = next(folder.glob("*.bin"), None)
            hint = AGAIN
            if pickled is not None:
                hint = f"{pickled.name} can run code and is never opened; convert it (docs/extending.md)."
            raise WeightsError(f"The weight file {shown(path)} is missing.", hint=hint)
    return paths


def _is_name(name: Any) -> bool:
    """Whether it is the name of a file, and no path to elsewhere."""
    return isinstance(name, str) and re.fullmatch(r"[\w.-]{1,200}", name) is not None
