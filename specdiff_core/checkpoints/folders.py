"""Reads the JSON of model folders, without torch. No code from a repository is ever run; errors name the damaged
file."""

from __future__ import annotations

import errno
import json
import os
import re
import stat
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from typing import Annotated, Any, TypeVar

import msgspec

from specdiff_core.checkpoints import hub
from specdiff_core.schema.errors import PairUnavailable, SpecDiffError, WeightsError, is_memory

C = TypeVar("C", bound=msgspec.Struct)
Size = Annotated[int, msgspec.Meta(ge=1, le=2**20)]  # size of a part of a network
Id = Annotated[int, msgspec.Meta(ge=0)]  # a token, or a layer

MOST = 16_000_000
"""Most bytes of a JSON file; the largest index of a released model has a third."""
WEIGHTS = "model.safetensors"
INDEX = "model.safetensors.index.json"
GGUF = "gguf.json"
"""In a folder made from a GGUF file: the position of each tensor in that file (:class:`Gguf`)."""


def short_path(path: str | Path) -> str:
    """The last two parts of a path, for messages: they never show a user's folders."""
    return "/".join(Path(path).parts[-2:])


def user_cache() -> Path:
    """The folder for fetched and converted files: ``$SPECDIFF_CACHE``, else in the user's cache."""
    if configured := os.environ.get("SPECDIFF_CACHE"):
        return Path(configured).expanduser().absolute()
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "specdiff"


@contextmanager
def cache_errors() -> Iterator[None]:
    """Translate OSErrors of the cache folder into PairUnavailable."""
    try:
        yield
    except OSError as error:
        what = "is full" if error.errno == errno.ENOSPC else f"cannot be used ({error.strerror or error})"
        hint = "Make room there, or set SPECDIFF_CACHE to a folder that you can write to."
        raise PairUnavailable(f"The cache folder {short_path(user_cache())} {what}.", hint=hint) from error


RELEASED = "Restore the config.json that was saved with this model."
Depth = Annotated[int, msgspec.Meta(ge=1, le=1024)] | None
CHECKED: dict[Any, str] = {
    Annotated[float, msgspec.Meta(gt=0, le=1e18)]: "rope_theta",
    Depth: "num_hidden_layers n_layer num_layers n_blocks",
    Size | None: "num_attention_heads n_head num_key_value_heads head_dim hidden_size n_embd n_inner vocab_size",
    Size | list[Size] | None: "intermediate_size",  # a list: of each layer
    Annotated[int, msgspec.Meta(ge=1)] | None: "max_position_embeddings n_positions model_length",
    Annotated[float, msgspec.Meta(ge=0, le=1)] | None: "rms_norm_eps layer_norm_epsilon",
}
"""Type -> fields that are checked in every ``config.json`` and its parts, by all names in use."""
_Checked = msgspec.defstruct("_Checked", [(n, kind, None) for kind, names in CHECKED.items() for n in names.split()])


def read_config(folder: Path) -> dict[str, Any]:
    """``config.json`` of a folder.

    Raises:
        WeightsError: it is missing, no JSON object, or has an impossible number (:data:`CHECKED`).
    """
    path = folder / "config.json"
    values = _read_json(path)
    for part in ("rope_parameters", "transformer_layer_config"):
        as_config(values.get(part) or {}, _Checked, path)
    as_config(values, _Checked, path)
    return values


ANCHOR = ("sample_from_anchor", "query_zero_predicts_next", "shift_label")
"""Fields that say whether the anchor's slot of a block predicts a token."""


def anchor_predicts(values: Mapping[str, Any]) -> bool | None:
    """Whether slot i of a block drafter predicts token i + 1, by its ``config.json``, in any layout; None: it doesn't
    say. The architecture's name isn't read: DeepSpec's files of DFlash and of DSpark share one, and so do files whose
    slots fill themselves in."""
    nested, kind = values.get("dflash_config"), values.get("speculators_model_type")
    fields = {**values, **(nested if isinstance(nested, dict) else {})}
    if (said := next((fields[name] for name in ANCHOR if fields.get(name) is not None), None)) is not None:
        return bool(said)
    if kind is not None:
        return None if kind == "dspark" else False
    if fields.get("projector_type") == "dspark":  # SpecForge
        return True
    if nested is not None:  # z-lab
        return None if fields.get("markov_rank") else False
    return True if {"num_anchors", "markov_rank"} & values.keys() else None  # DeepSpec, with a Markov head or without


def read_generation(folder: Path) -> dict[str, Any]:
    """``generation_config.json`` of a folder; empty if there is none.

    Raises:
        WeightsError: it is not a JSON object.
    """
    path = folder / "generation_config.json"
    return _read_json(path) if path.is_file() else {}


def as_config(values: dict[str, Any], kind: type[C], path: Path | str) -> C:
    """Values of a ``config.json`` as a struct; other keys are ignored.

    Raises:
        WeightsError: a field is missing, of another type, or impossible.
    """
    try:
        return msgspec.convert(values, kind)
    except msgspec.ValidationError as error:
        raise WeightsError(f"{short_path(path)}: {error}.", hint=RELEASED) from None


@contextmanager
def damage_errors(message: str) -> Iterator[None]:
    """Translate all exceptions into a WeightsError: damaged files raise nearly anything."""
    try:
        yield
    except BaseException as error:
        panic = type(error).__name__ == "PanicException"  # of a library in Rust; a BaseException
        if not (panic or isinstance(error, Exception)) or isinstance(error, SpecDiffError) or is_memory(error):
            raise
        why = f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"
        hint = (
            "Install what it names, or choose weights that are not quantised." if isinstance(error, ImportError) else ""
        )
        raise WeightsError(f"{message} ({why}).", hint=hint) from error


def loading_errors(folder: Path, what: str) -> AbstractContextManager[None]:
    """:func:`damage_errors` while ``what`` is loaded from a folder."""
    return damage_errors(f"The {what} cannot be loaded from {short_path(folder)}/config.json and its weights")


def check_file(path: Path, most: int = MOST) -> None:
    """Raise WeightsError unless ``path`` is a regular file of at most ``most`` bytes: pipes and devices never end."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > most:
        raise WeightsError(f"{short_path(path)} is not a file of at most {hub.size_words(most)}.")


def _read_json(path: Path) -> dict[str, Any]:
    try:
        check_file(path)
        return msgspec.convert(json.loads(path.read_text(encoding="utf-8")), dict[str, Any])
    except FileNotFoundError:
        raise WeightsError(f"{short_path(path)} is missing.") from None
    except (OSError, ValueError, RecursionError) as error:
        raise WeightsError(f"{short_path(path)} is not readable as a JSON object ({error}).") from error


class Stored(msgspec.Struct):
    """A tensor in a GGUF file."""

    kind: str  # ggml's name of its format: F32, Q4_1, …
    shape: list[int]
    start: int  # byte in the file
    heads: int = 0  # if its rows are stored in neighbouring pairs, not in two halves


class Gguf(msgspec.Struct):
    """A GGUF file and its tensors by transformers' names."""

    file: str
    size: int  # bytes
    tensors: dict[str, Stored]


def read_gguf(folder: Path) -> Gguf | None:
    """The GGUF file from which a folder of the cache was made, or None. An index in any other
    folder is ignored, because it could name any file.

    Raises:
        WeightsError: the index is damaged, or the file is missing or has another size.
    """
    path = folder / GGUF
    if folder.parent != user_cache() / "gguf" or not path.is_file():
        return None
    index = as_config(_read_json(path), Gguf, path)
    file = Path(index.file)
    if not file.is_file() or file.stat().st_size != index.size:
        raise WeightsError(
            f"{short_path(file)} is missing or has changed since it was read.", hint="Load the file again."
        )
    return index


def weight_files(folder: Path) -> list[Path]:
    """The files with a model's weights: the GGUF file that the folder was made from, a single
    safetensors file (even beside an index, as in transformers), or every shard in the index.

    Raises:
        WeightsError: there are none, the index is damaged, or a shard is missing.
    """
    if (index := read_gguf(folder)) is not None:
        return [Path(index.file)]
    if (folder / INDEX).exists() and not (folder / WEIGHTS).exists():
        shards = _read_json(folder / INDEX).get("weight_map")
        names = list(shards.values()) if isinstance(shards, dict) else []
        if not names or not all(isinstance(name, str) and re.fullmatch(r"[\w.-]{1,200}", name) for name in names):
            raise WeightsError(f"{short_path(folder / INDEX)} names no weight files of its folder.")
        paths = [folder / name for name in sorted(set(names))]
    else:
        paths = [folder / WEIGHTS]
    for path in paths:
        if not path.is_file():
            pickled = next(folder.glob("*.bin"), None)
            hint = pickled and f"{pickled.name} could run code and is never opened; convert it (docs/extending.md)."
            raise WeightsError(f"The weight file {short_path(path)} is missing.", hint=hint or "")
    return paths
