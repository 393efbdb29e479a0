"""llama.cpp in this process, by the package xllamacpp: plain, drafting from n-grams, and with a drafter of ours."""

from __future__ import annotations

import functools
import importlib
import tempfile
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import httpx

from specdiff_core.attached.server import ask
from specdiff_core.checkpoints.folders import read_config
from specdiff_core.checkpoints.sources import resolve
from specdiff_core.schema.errors import ServerError
from specdiff_core.schema.pairs import DrafterSpec
from specdiff_core.schema.reported import Counts
from specdiff_core.train.export import export

PACKAGE = "xllamacpp"
CONTEXT = 2048
NGRAM_TOKENS = {"size_n": 3, "size_m": 8}
"""Tokens that a match has, and tokens that are drafted behind it; its defaults (12 and 48) hardly draft in answers."""


class Drafts(NamedTuple):
    """How a server drafts."""

    kind: str = "NONE"  # the end of the name of a common_speculative_type
    file: Path | None = None  # the drafter
    gamma: int = 0


PLAIN, NGRAMS = Drafts(), Drafts("NGRAM_SIMPLE")


def is_installed() -> bool:
    return find_spec(PACKAGE) is not None


@functools.cache
def serve(target: Path, threads: int, drafts: Drafts = PLAIN) -> Any:
    """A server with the GGUF file ``target``, loaded once: contexts share the memory bandwidth. It also listens, at its
    ``listening_address``."""
    xllamacpp: Any = importlib.import_module(PACKAGE)
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.verbosity = str(target), CONTEXT, 1, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.endpoint_metrics = True
    speculative = params.speculative
    speculative.types = [getattr(xllamacpp.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{drafts.kind}")]
    for name, value in NGRAM_TOKENS.items():
        setattr(speculative.ngram_simple, name, value)
    if drafts.file is not None:
        draft = speculative.draft
        draft.mparams.path, draft.n_max, draft.n_min, draft.p_min = str(drafts.file), drafts.gamma, 0, 0.0
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = threads
    return xllamacpp.Server(params)


def complete(server: Any, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request of ``/completion``, which has token ids; the package's own call has only text."""
    answer = httpx.post(f"{server.listening_address}/completion", json=dict(request), timeout=None, trust_env=False)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def counts(server: Any) -> Counts:
    """What a server has counted.

    Raises:
        ServerError: it does not say.
    """
    if (found := ask(server.listening_address).counts()) is None:
        raise ServerError("This llama.cpp counts no drafts.", hint=f"Install a newer {PACKAGE}.")
    return found


def kind_for(drafter: DrafterSpec) -> str:
    """How llama.cpp drafts with a block drafter of ours; empty if it can't: a Markov head goes with its file, and only
    DSpark's plain one is known there."""
    values = read_config(resolve(drafter.source, drafter.revision, weights=False))
    values = {**values, **values.get("dflash_config", {})}
    plain = any(map(values.get, ("markov_width", "markov_rank"))) and values.get("markov_head_type") != "gated"
    if drafter.chained != plain:
        return ""
    return "DRAFT_DSPARK" if plain else "DRAFT_DFLASH"


@functools.cache
def gguf_drafter(source: str, revision: str, target: Path) -> tuple[Path, Any]:
    """A drafter of ours as a GGUF file for ``target``, and what keeps the file."""
    folder = tempfile.TemporaryDirectory(prefix="specdiff-")
    file = Path(folder.name) / "drafter.gguf"
    export(resolve(source, revision), "gguf", file, target=str(target))
    return file, folder
