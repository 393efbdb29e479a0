"""Turns a pair's description into loaded models, or says why it cannot. The only place that loads a target.

Safetensors only, never remote code, pinned revisions. Knows nothing about decoding.
"""

from __future__ import annotations

import importlib
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import torch

from specdiff_core.errors import (
    OutOfMemory,
    PairUnavailable,
    SpecDiffError,
    TokenizerMismatch,
    WeightsError,
    is_memory,
)
from specdiff_core.models.files import (
    AGAIN,
    INDEX,
    WEIGHTS,
    check_files,
    is_local,
    read_config,
    resolve,
    shown,
    weight_files,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from specdiff_core.device import Placement
    from specdiff_core.drafters.base import Drafter
    from specdiff_core.registry import DrafterSpec, PairSpec

PATIENCE = 2.0  # seconds to wait for the hub before calling it unreachable


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPair:
    """A target, its tokenizer, and every drafter whose weights are here."""

    spec: PairSpec
    placement: Placement
    model: PreTrainedModel
    tokenizer: PreTrainedTokenizerBase
    drafters: dict[str, Drafter]
    missing: dict[str, str] = field(default_factory=dict)  # drafter -> why it is not in ``drafters``

    def name_of(self, role: str) -> str:
        """Where ``"target"`` or a drafter comes from, as traces record it: repository@revision, or pair/folder."""
        if role == "target":
            return _name(self.spec.target, self.spec.revision)
        drafter = self.spec.drafter(role)
        return _name(drafter.source, drafter.revision) if drafter.source else drafter.name


def _name(source: str, revision: str) -> str:
    if is_local(source):
        return shown(source)
    return f"{source}@{revision}" if revision else source


def load_pair(
    spec: PairSpec,
    placement: Placement,
    *,
    drafters: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> LoadedPair:
    """Load the target and the drafters (all of the pair's by default) onto ``placement``.

    A drafter whose weights are missing does not make the pair unusable: its reason is in ``missing``.

    Raises:
        ConfigError: ``drafters`` names one that the pair does not have.
        WeightsError: a file of the target is missing, truncated or of the wrong shape; the message names it.
        PairUnavailable: the hub cannot be reached and the files are not cached.
        TokenizerMismatch: tokenizer, target and drafter disagree about the vocabulary.
        OutOfMemory: the device is too small.
    """
    tell = progress or (lambda message: None)
    wanted = [spec.drafter(name) for name in drafters] if drafters is not None else list(spec.drafters)
    with _memory_errors(spec):
        tell("Looking for the target's files")
        folder = resolve(spec.target, spec.revision)
        tell("Loading the tokenizer")
        same = not spec.tokenizer or spec.tokenizer == spec.target
        tokenizer = _load_tokenizer(folder if same else resolve(spec.tokenizer, spec.tokenizer_revision))
        tell("Loading the target")
        model = _load_target(folder, spec, placement)
        if len(tokenizer) > model.config.vocab_size:
            raise TokenizerMismatch(
                f"The tokenizer of {spec.name!r} has {len(tokenizer)} ids, its target {model.config.vocab_size}.",
                hint="Target and tokenizer folders do not belong together; restore both.",
            )
        loaded: dict[str, Drafter] = {}
        missing: dict[str, str] = {}
        for drafter in wanted:
            tell(f"Loading the drafter: {drafter.label}")
            try:
                loaded[drafter.name] = _load_drafter(drafter, placement, model, spec)
            except PairUnavailable as error:
                missing[drafter.name] = str(error)
    return LoadedPair(
        spec=spec, placement=placement, model=model, tokenizer=tokenizer, drafters=loaded, missing=missing
    )


def _load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises bare Exception for a damaged tokenizer.json
        raise WeightsError(
            f"The tokenizer in {shown(folder)} is missing or damaged ({type(error).__name__}).", hint=AGAIN
        ) from error


def _load_target(folder: Path, spec: PairSpec, placement: Placement) -> PreTrainedModel:
    """A causal language model, strictly: no tensor may be missing or resized."""
    from transformers import AutoModelForCausalLM

    read_config(folder)
    check_files(folder)
    try:
        model, report = AutoModelForCausalLM.from_pretrained(
            folder,
            dtype=placement.dtype,
            device_map=_device_map(spec, placement),
            use_safetensors=True,
            trust_remote_code=False,
            output_loading_info=True,
        )
    except (OSError, ValueError, KeyError, RuntimeError) as error:
        if is_memory(error):
            raise
        raise WeightsError(
            f"The target in {shown(folder)} cannot be loaded ({type(error).__name__}).", hint=AGAIN
        ) from error
    # transformers fills missing tensors with random numbers and goes on; a target must never be made up.
    for kind in ("missing_keys", "mismatched_keys"):
        if names := sorted(str(name) for name in report.get(kind) or ()):
            raise WeightsError(
                f"{len(names)} tensors of the target in {shown(folder)} are {kind.split('_')[0]}, first {names[0]}.",
                hint=AGAIN,
            )
    return model.eval().requires_grad_(False)


def _device_map(spec: PairSpec, placement: Placement) -> dict[str, torch.device] | str | None:
    """accelerate's plan on CUDA: straight onto the device, or spread over what there is where that is too small."""
    if placement.device.type != "cuda":
        return None
    free, _ = torch.cuda.mem_get_info(placement.device)
    return "auto" if spec.memory_bytes > free else {"": placement.device}


def _load_drafter(spec: DrafterSpec, placement: Placement, target: PreTrainedModel, pair: PairSpec) -> Drafter:
    """The file name is the registry: ``specdiff_core/drafters/<module>.py`` offers ``build``."""
    module = importlib.import_module(f"specdiff_core.drafters.{spec.module}")
    drafter: Drafter = module.build(spec, placement, target=target, pair=pair)
    return drafter


@contextmanager
def _memory_errors(spec: PairSpec) -> Iterator[None]:
    """Translate every way in which torch says that memory is exhausted."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_memory(error):
            raise
        raise OutOfMemory(
            f"The pair {spec.name!r} does not fit into memory; it needs about {spec.memory_bytes / 1e9:.1f} GB.",
            hint="Close other programs, or choose the embedded pair.",
        ) from error


def availability(spec: PairSpec) -> tuple[bool, str]:
    """Whether a pair can be used here, and if not, why: ``(True, "")`` or ``(False, reason)``. Cheap; never raises.

    Local files must exist; a hub repository must be cached at its revision or the hub be reachable; memory must do.
    A missing local drafter does not count (see :attr:`LoadedPair.missing`).
    """
    try:
        sources = [(spec.target, spec.revision), *((d.source, d.revision) for d in spec.drafters if d.source)]
        remote = [(repo, revision) for repo, revision in sources if not is_local(repo)]
        if is_local(spec.target):
            folder = resolve(spec.target)
            read_config(folder)
            weight_files(folder)
        if spec.tokenizer and is_local(spec.tokenizer):
            resolve(spec.tokenizer)
        absent = [repo for repo, revision in remote if not _is_cached(repo, revision)]
        if absent and _is_offline():
            return False, f"{', '.join(absent)} is not in the local cache, and the hub is switched off (offline mode)."
        if absent and not _hub_answers():
            return False, f"{', '.join(absent)} is not in the local cache, and the model hub cannot be reached."
        free = _free_memory()
        if free < spec.memory_bytes:
            return False, f"It needs about {spec.memory_bytes / 1e9:.1f} GB of memory; {free / 1e9:.1f} GB are free."
    except SpecDiffError as error:
        return False, error.message
    except (OSError, ValueError, RuntimeError, ImportError) as error:
        return False, f"It could not be checked ({type(error).__name__}: {error})."
    return True, ""


def _is_cached(repo: str, revision: str) -> bool:
    from huggingface_hub import try_to_load_from_cache

    def has(name: str) -> bool:
        return isinstance(try_to_load_from_cache(repo, name, revision=revision or None), str)

    return has("config.json") and (has(WEIGHTS) or has(INDEX))


def _is_offline() -> bool:
    from huggingface_hub import constants

    return bool(constants.HF_HUB_OFFLINE)


def _hub_answers() -> bool:
    """Whether the hub answers within :data:`PATIENCE`; an error status is an answer."""
    from huggingface_hub import constants

    answered = threading.Event()

    def ask() -> None:
        try:
            request = urllib.request.Request(constants.ENDPOINT, method="HEAD")
            with urllib.request.urlopen(request, timeout=PATIENCE):
                answered.set()
        except urllib.error.HTTPError:
            answered.set()
        except (OSError, ValueError):
            return

    # A thread, since resolving a name obeys no timeout.
    threading.Thread(target=ask, daemon=True, name="hub-check").start()
    return answered.wait(PATIENCE)


def _free_memory() -> int:
    """Bytes free where models would go: the CUDA device if there is one, else main memory."""
    if torch.cuda.is_available():
        return int(torch.cuda.mem_get_info()[0])
    import psutil  # comes with accelerate

    return int(psutil.virtual_memory().available)
