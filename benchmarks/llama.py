"""llama.cpp by the package xllamacpp: plain, drafting from n-grams, and with a drafter of ours.

Each server is a process of its own (``python -m benchmarks.llama`` with its arguments as JSON). In one process with
torch it shares libgomp, which counts the threads of both, finds more than cores, and no longer lets threads spin
between two products: a pass of ours on two threads then takes 1.8 times as long.
"""

from __future__ import annotations

import functools
import importlib
import json
import subprocess
import sys
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


class Server:
    """A server with a GGUF file, in a process that ends with this one. ``address``: where it listens."""

    def __init__(self, target: Path, threads: int, drafts: Drafts) -> None:
        drafter = None if drafts.file is None else str(drafts.file)
        settings = json.dumps([str(target), threads, drafts.kind, drafter, drafts.gamma])
        command = [sys.executable, "-m", "benchmarks.llama", settings]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        assert self._process.stdout is not None, "it is a pipe"
        self.address = self._process.stdout.readline().strip()
        if not self.address:
            raise ServerError("llama.cpp did not start.", hint="Its message is above.")


@functools.cache
def serve(target: Path, threads: int, drafts: Drafts = PLAIN) -> Server:
    """A server with the GGUF file ``target``, loaded once: contexts share the memory bandwidth.

    Raises:
        ServerError: it did not start.
    """
    return Server(target, threads, drafts)


def _listen(target: str, threads: int, kind: str, drafter: str | None, gamma: int) -> None:
    """Serve until the parent process ends."""
    xllamacpp: Any = importlib.import_module(PACKAGE)
    params = xllamacpp.CommonParams()
    params.model.path, params.n_ctx, params.n_parallel, params.verbosity = target, CONTEXT, 1, -1
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = threads
    params.endpoint_metrics = True
    speculative = params.speculative
    speculative.types = [getattr(xllamacpp.common_speculative_type, f"COMMON_SPECULATIVE_TYPE_{kind}")]
    for name, value in NGRAM_TOKENS.items():
        setattr(speculative.ngram_simple, name, value)
    if drafter is not None:
        draft = speculative.draft
        draft.mparams.path, draft.n_max, draft.n_min, draft.p_min = drafter, gamma, 0, 0.0
        draft.cpuparams.n_threads = draft.cpuparams_batch.n_threads = threads
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()


def complete(server: Server, request: Mapping[str, Any]) -> dict[str, Any]:
    """The answer to a request of ``/completion``, which has token ids; the package's own call has only text."""
    answer = httpx.post(f"{server.address}/completion", json=dict(request), timeout=None, trust_env=False)
    answer.raise_for_status()
    found: dict[str, Any] = answer.json()
    return found


def counts(server: Server) -> Counts:
    """What a server has counted.

    Raises:
        ServerError: it does not say.
    """
    if (found := ask(server.address).counts()) is None:
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


if __name__ == "__main__":
    _listen(*json.loads(sys.argv[1]))
