"""Finds the folder of a model: local, made from a GGUF file, or from the hub. Needs no torch."""

from __future__ import annotations

import os
from pathlib import Path

from specdiff_core.checkpoints import fetch, hub
from specdiff_core.checkpoints.folders import short_path, weight_files
from specdiff_core.schema.errors import PairUnavailable, SpecDiffError, WeightsError
from specdiff_core.schema.published import FILES

SOURCES = "Check the path: give a folder, a GGUF file, or a hub repository as owner/name."


def is_local(source: str | Path) -> bool:
    """Whether ``source`` is a path or ends in ``.gguf``, not a hub repository (``owner/name``, or a single name such as
    ``gpt2`` unless the working folder has a folder of that name) or a GGUF file in one (``owner/name:Q4_K_M``).

    For ``owner/name`` the working folder is not checked: write ``./owner/name`` for a folder in it."""
    path = Path(source)
    if path.is_absolute() or str(source).startswith("."):
        return True
    if hub.in_repository(str(source)):
        return False
    return is_gguf(path) or (os.path.isdir(path) if len(path.parts) == 1 else len(path.parts) != 2)


def is_gguf(source: str | Path) -> bool:
    """Whether ``source`` is the path of a GGUF file."""
    return Path(source).suffix.lower() == ".gguf"


def resolve(source: str | Path, revision: str = "", *, weights: bool = True) -> Path:
    """The folder of ``source``: itself, made from a GGUF file, or the hub snapshot at ``revision``.
    Missing files are downloaded, with progress to :func:`~specdiff_core.checkpoints.hub.reporting`.

    Args:
        weights: False: only config and tokenizer.

    Raises:
        WeightsError: a local path does not exist, or a GGUF file is damaged or unsupported.
        PairUnavailable: a download failed, or the cache cannot be written; the message says why.
    """
    if (file := FILES.get(str(source))) is not None:
        return resolve(fetch.fetch(file))
    if is_local(source):
        if is_gguf(source):
            return _converted(Path(source))
        if not os.path.isdir(source):  # also a name that is too long, where Path's function raises
            raise WeightsError(f"The model folder {short_path(source)} does not exist.", hint=SOURCES)
        return Path(source)
    if hub.in_repository(str(source)):
        return _converted(hub.fetch_gguf(str(source), revision))
    folder = hub.fetch(str(source), revision, weights=weights)
    if not (folder / "config.json").is_file():
        hint = f"If it has GGUF files, say which: {source}:Q4_K_M."
        raise PairUnavailable(f"{source} has no config.json: it is not a whole model.", hint=hint)
    return folder


def _converted(file: Path) -> Path:
    from specdiff_core.checkpoints import gguf  # imports the tokenizers

    return gguf.convert(file)


def cached_folder(source: str, revision: str = "") -> Path | None:
    """The folder that :func:`resolve` would return without a download; None if it needs one.

    Raises:
        WeightsError: as :func:`resolve`.
    """
    if (file := FILES.get(source)) is not None:
        path = fetch.cached(file)
        return None if path is None else resolve(path)
    if not is_local(source) and not hub.in_repository(source):
        return hub.cached_folder(source, revision)
    return resolve(source, revision) if is_local(source) or hub.cached_gguf(source, revision) else None


def is_cached(source: str, revision: str = "") -> bool:
    """Whether config and all weights are here."""
    try:
        folder = cached_folder(source, revision)
        return folder is not None and bool(weight_files(folder))
    except SpecDiffError:
        return False
