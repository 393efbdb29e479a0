"""Which of their own pairs visitors may load: any on a private server; on a public host only what
the environment allows.
"""

from __future__ import annotations

import os
import threading
from fnmatch import fnmatchcase
from pathlib import Path

from specdiff_core.checkpoints.folders import short_path
from specdiff_core.checkpoints.own_pairs import OWN, parse_name, register_pair
from specdiff_core.checkpoints.sources import cached_folder, is_local
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import OWN_PAIRS
from specdiff_core.schema.published import FILES

from .host import is_public

ALLOWED = "SPECDIFF_OWN_PAIRS"
"""Environment variable: patterns of hub repositories and folders that visitors may load, separated
by commas (``Qwen/*, /models/*``); empty: none."""
_LOOKUP = threading.Lock()


def patterns() -> tuple[str, ...]:
    if (allowed := os.environ.get(ALLOWED)) is not None:
        return tuple(part.strip() for part in allowed.split(",") if part.strip())
    return () if is_public() else ("*",)


def may_fetch(source: str) -> bool:
    """Whether a visitor's run may download a hub repository: on a public host only one of a single
    small file, or one that the environment allows."""
    return not is_public() or source in FILES or any(fnmatchcase(source, pattern) for pattern in patterns())


def _here(source: str, revision: str) -> Path:
    if (folder := cached_folder(source, revision)) is None:
        hint = "Choose it in Live’s settings, under “Use your own pair”, which shows the download."
        raise ConfigError(f"{source} hasn’t been downloaded to this server.", field="pair", hint=hint)
    return folder


def check(name: str, *, downloads: bool = False) -> None:
    """Register the pair of a name if it is a visitor's own and may be loaded here.

    Args:
        downloads: whether configs and GGUF files that are missing here are downloaded. Settings are checked without a
            network: a link must not make the server look anything up.

    Raises:
        ConfigError: it may not, or a file isn't here.
        SpecDiffError: as :func:`~specdiff_core.checkpoints.own_pairs.register_pair`.
    """
    if not name.startswith(OWN):
        return
    pair = parse_name(name)
    for source in (pair.target, *pair.drafter):
        # On a public host, a pattern for repositories must not open the server's own folders.
        fitting = [pattern for pattern in patterns() if not (is_local(source) and is_public()) or pattern[:1] in "/."]
        if ".." in source or not any(fnmatchcase(source, pattern) for pattern in fitting):
            shown_name = short_path(source) if is_local(source) else source
            hint = f"Its operator can allow it with {ALLOWED}. Or run the lab yourself."
            raise ConfigError(f"{shown_name} may not be loaded on this server.", field="pair", hint=hint)
    if name in OWN_PAIRS:
        return
    if not downloads:
        register_pair(name, _here)
        return
    # The hub may take long to answer, and visitor after visitor would take a thread of the server.
    if not _LOOKUP.acquire(blocking=not is_public()):
        hint = "Try again in a few seconds."
        raise ConfigError("This server is looking up another pair.", field="pair", hint=hint)
    try:
        register_pair(name)
    finally:
        _LOOKUP.release()
