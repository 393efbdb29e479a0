"""Loads the models of a pair, from safetensors and GGUF files only, without remote code."""

from __future__ import annotations

import importlib
import json
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import torch
from tokenizers import normalizers, pre_tokenizers
from transformers import AutoTokenizer, PreTrainedTokenizerBase

from specdiff_core.checkpoints import hub
from specdiff_core.checkpoints.folders import check_file, damage_errors, read_config, read_generation, short_path
from specdiff_core.checkpoints.memory import find_machine, needed, refusal
from specdiff_core.checkpoints.sources import is_local, resolve
from specdiff_core.drafters.base import Drafter
from specdiff_core.models.causal import end_ids, load_causal
from specdiff_core.models.device import Placement, loading_threads
from specdiff_core.models.kernels import kernel
from specdiff_core.schema.errors import (
    ConfigError,
    OutOfMemory,
    PairUnavailable,
    SpecDiffError,
    TokenizerMismatch,
    is_memory,
)
from specdiff_core.schema.pairs import DrafterSpec, PairSpec, register_drafter
from specdiff_core.schema.published import FILES
from specdiff_core.templating import try_tokenizer

logger = logging.getLogger("specdiff.loading")

TOKENIZER_FILES, TOKENIZER_BYTES = {".json", ".jinja", ".txt", ".model", ".tiktoken"}, 64_000_000
"""Suffixes of the files that a tokenizer is loaded from, and their largest size."""
LEAST_NAMED = 0.95  # share of a target's ids that its tokenizer must have
ENDS = ("<|im_end|>", "<|eot_id|>", "<|eom_id|>", "<|eot|>", "<|eom|>", "<|end|>", "<|return|>", "<|call|>", "<turn|>",
        "<end_of_turn>", "<|END_OF_TURN_TOKEN|>", "<|endoftext|>", "<|end_of_text|>", "</s>")  # fmt: skip
"""Tokens that end a turn or a text, by name, as llama.cpp knows them."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPair:
    """A target, its tokenizer, and the loaded drafters."""

    spec: PairSpec
    placement: Placement
    model: Any  # the target: a CausalLM of this lab, or a model of transformers
    tokenizer: PreTrainedTokenizerBase
    drafters: dict[str, Drafter]
    missing: dict[str, str] = field(default_factory=dict)  # drafter -> reason
    trained_for: dict[str, str] = field(default_factory=dict)  # drafter -> target in its config
    ends: tuple[int, ...] = ()  # ids that end a text, from tokenizer and both configs
    stock_reason: str = ""  # why this lab's network does not run the target; empty if it does

    @property
    def network(self) -> str:
        """Describes what runs the target."""
        if self.stock_reason:
            return f"transformers' own module: {self.stock_reason}"
        return f"this lab's network; products by {kernel(self.placement.device, self.placement.dtype)}"

    def mismatch(self, drafter: str) -> str:
        """A note if the drafter was trained for another target, such as another precision."""
        base, target = self.trained_for.get(drafter, ""), self.source_name("target")
        trained = f"the drafter was trained for {base}" if Path(base).name != Path(target).name and base else ""
        return trained or str(getattr(self.drafters.get(drafter), "note", ""))

    def add(self, drafter: DrafterSpec, progress: Callable[[str], None]) -> None:
        """Load a drafter of the pair; if it is not available, the reason is in ``missing``.

        Raises:
            Stopped: ``progress`` raised it.
            SpecDiffError: its files are damaged in a way that its own code reports.
        """
        progress(f"Loading the drafter: {drafter.label}")
        self.missing.pop(drafter.name, None)
        try:
            memory = _memory_errors(self.spec, self.placement, [drafter.name])
            with hub.reporting(progress), memory, loading_threads(self.placement.device):
                if drafter.source:
                    folder = resolve(drafter.source, drafter.revision, weights=False)
                    if not drafter.is_foreign:
                        self.trained_for[drafter.name] = str(read_config(folder).get("trained_for", ""))
                    _check_room(self.spec, self.placement, drafter)
                self.drafters[drafter.name] = self.build(drafter)
        except (PairUnavailable, TokenizerMismatch) as error:
            self.missing[drafter.name] = str(error)
        except Exception as error:  # the target and other drafters still work
            if isinstance(error, SpecDiffError) or is_memory(error):
                raise
            logger.warning("the drafter %s of %s was not loaded", drafter.name, self.spec.name, exc_info=error)
            self.missing[drafter.name] = (
                f"{drafter.module} cannot be loaded: {type(error).__name__}: {error}"
                if drafter.is_foreign
                else f"{short_path(drafter.source)}: no model can be loaded from its files ({type(error).__name__})."
            )

    def build(self, drafter: DrafterSpec) -> Drafter:
        """Build a drafter for this target, by the function that its ``module`` names.

        Raises:
            SpecDiffError: its files are missing or damaged, or it was made for another target.
        """
        module, _, function = drafter.module.partition(":")
        path = module if function else f"specdiff_core.drafters.{module}"
        build = getattr(importlib.import_module(path), function or "build")
        built: Drafter = build(drafter, self.placement, target=self.model, pair=self.spec)
        return built

    def source_name(self, role: str) -> str:
        """The source of ``"target"`` or a drafter: repository@revision, or pair/folder."""
        if role == "target":
            return _name(self.spec.target, self.spec.revision)
        drafter = self.spec.drafter(role)
        return _name(drafter.source, drafter.revision) if drafter.source else drafter.name


def _name(source: str, revision: str) -> str:
    if is_local(source):
        return short_path(source)
    if (file := FILES.get(source)) is not None:
        return f"{source}@{file.revision}/{file.name}"
    if revision:
        return f"{source}@{revision}"
    commit = hub.cached_commit(source.partition(":")[0], "")
    return f"{source}@{commit} (not pinned by this project: as first fetched here)" if commit else source


def load_pair(
    spec: PairSpec,
    placement: Placement,
    *,
    drafters: Sequence[str] | None = None,
    progress: Callable[[str], None] | None = None,
) -> LoadedPair:
    """Load the target and the drafters (all of the pair's by default) onto ``placement``.

    A drafter that can't be loaded is left out, with the reason in ``missing``.

    Raises:
        ConfigError: ``drafters`` names one that the pair does not have.
        WeightsError: a file of the target is missing or damaged; the message names it.
        PairUnavailable: the hub cannot be reached and the files are not cached.
        TokenizerMismatch: tokenizer and target disagree about the vocabulary.
        OutOfMemory: the device is too small.
    """
    report = progress or (lambda message: None)
    specs = spec.drafters if drafters is None else [spec.drafter(name) for name in drafters]
    names = [drafter.name for drafter in specs]
    with hub.reporting(report), _memory_errors(spec, placement, names), loading_threads(placement.device):
        report("Looking for the target's files")
        folder = resolve(spec.target, spec.revision, weights=False)
        report("Loading the tokenizer")
        foreign = spec.published is None and not spec.offline
        tokenizer = _load_tokenizer(resolve(spec.tokenizer) if spec.tokenizer else folder, trial=foreign)
        spread = _fit(spec, placement, names)
        folder = resolve(spec.target, spec.revision)
        report("Loading the target")
        device = placement.device
        model, why_stock = load_causal(folder, placement.dtype, context=spec.context, device=device, spread=spread)
        _check_tokenizer(tokenizer, model, spec)
    pair = LoadedPair(
        spec=spec,
        placement=placement,
        model=model,
        tokenizer=tokenizer,
        drafters={},
        ends=_ends(folder, tokenizer, model),
        stock_reason=why_stock,
    )
    for drafter in specs:
        pair.add(drafter, report)
    return pair


def as_source(source: Any, tokenizer: Any, folder: Path) -> str:
    """A folder, repository or drafter's name as text. A record is registered; a loaded model is written to ``folder``
    with its tokenizer.

    Raises:
        ConfigError: it is no model, or has no tokenizer.
        SpecDiffError: the disk is full.
    """
    if isinstance(source, DrafterSpec):
        register_drafter(source)
        return source.name
    if isinstance(source, str | Path):
        return str(source.absolute() if isinstance(source, Path) else source)
    if tokenizer is None or not hasattr(source, "save_pretrained"):
        what = f"A {type(source).__name__} can't be loaded{' without a tokenizer' if tokenizer is None else ''}."
        hint = "Give a folder, a hub repository, or a model of transformers with tokenizer=."
        raise ConfigError(what, field="target", hint=hint)
    try:
        for part in (source, tokenizer):
            part.save_pretrained(folder)
    except OSError as error:
        what = f"The loaded model can't be written to {short_path(folder)} ({error.strerror or error})."
        raise SpecDiffError(what, hint="Set TMPDIR to a folder with more room.") from error
    return str(folder)


def _ends(folder: Path, tokenizer: PreTrainedTokenizerBase, model: Any) -> tuple[int, ...]:
    """Every id that ends a text: those that tokenizer and configs name, and the known ones in the chat template."""
    template = str(tokenizer.chat_template or "")
    # Harmony's <|end|> ends a message within an answer.
    used = [name for name in ENDS if name in template and not (name == "<|end|>" and "<|return|>" in template)]
    vocabulary = tokenizer.get_vocab()
    stated = [tokenizer.eos_token_id, model.config.eos_token_id, read_generation(folder).get("eos_token_id")]
    stated.append([vocabulary.get(name) for name in used])
    size = int(model.config.vocab_size)
    return tuple(dict.fromkeys(end for entry in stated for end in end_ids(entry, size)))


def _load_tokenizer(folder: Path, *, trial: bool = False) -> PreTrainedTokenizerBase:
    """The tokenizer in a folder, after a ``trial`` in another process."""
    with damage_errors(f"The tokenizer in {short_path(folder)}, or its config.json, is missing or damaged"):
        for path in folder.iterdir():
            if path.suffix in TOKENIZER_FILES and not path.is_dir():
                check_file(path, TOKENIZER_BYTES)
        if trial and (file := folder / "tokenizer.json").is_file():
            try_tokenizer(file)
        tokenizer = AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
        backend = getattr(tokenizer, "backend_tokenizer", None)
        if isinstance(getattr(backend, "pre_tokenizer", None), pre_tokenizers.Metaspace):
            _spell_as_released(backend, folder / "tokenizer.json")
        _keep_blanks(backend)
        return tokenizer


def _spell_as_released(backend: Any, file: Path) -> None:
    """Put a blank before a text, and before what follows a special token, if the file says so. The
    classes of transformers 5 replace that rule of Llama's and Mistral's files by one of their own."""
    rules = json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}
    if rules.get("pre_tokenizer") is None and "Prepend" in json.dumps(rules.get("normalizer")):
        normalizer = normalizers.Lowercase()
        normalizer.__setstate__(json.dumps(rules["normalizer"]).encode())  # whatever its class
        backend.normalizer, backend.pre_tokenizer = normalizer, None


def _keep_blanks(backend: Any) -> None:
    """Keep a text's first blank, which SentencePiece's decoders remove: an answer is not the beginning of a text."""
    decoder = getattr(backend, "decoder", None)
    if decoder is None:
        return
    state = json.loads(decoder.__getstate__())
    for part in state.get("decoders", [state]):
        if part["type"] == "Strip":
            part["start"] = 0
        if part["type"] == "Metaspace":
            part["prepend_scheme"] = "never"
    decoder.__setstate__(json.dumps(state).encode())
    backend.decoder = decoder


def _check_tokenizer(tokenizer: PreTrainedTokenizerBase, model: Any, spec: PairSpec) -> None:
    """Raise TokenizerMismatch unless both agree on ids. The target's table may be a bit larger, and
    tokens that were added to the tokenizer only, such as ``[PAD]``, are never read (:meth:`Engine.encode`)."""
    size, added = int(model.config.vocab_size), tokenizer.get_added_vocab()
    vocabulary = tokenizer.get_vocab()
    last = max((token for name, token in vocabulary.items() if name not in added), default=0)
    if last >= size:
        what = f"The tokenizer of {spec.name!r} has the id {last}, its target only {size} ids."
    elif (tokens := sum(token < size for token in vocabulary.values())) < size * LEAST_NAMED:
        what = f"The tokenizer of {spec.name!r} has {tokens} ids, its target {size}."
    else:
        return
    raise TokenizerMismatch(what, hint="Use the tokenizer that was saved with the target.")


def _fit(spec: PairSpec, placement: Placement, drafters: Sequence[str]) -> dict[int | str, int] | None:
    """None if the pair fits on its device; otherwise the bytes of each device that accelerate may
    use, with room left on the first for everything else. Raises OutOfMemory if it does not fit."""
    machine = find_machine(placement.device.type, placement.dtype_name)
    if why := refusal(spec, machine, drafters):
        raise OutOfMemory(f"The pair {spec.name!r} was not loaded. {why}", hint="Or close other programs.")
    need = needed(spec, machine, drafters)
    if need.total <= machine.free:
        return None
    index = placement.device.index or 0
    devices: dict[int | str, int] = {i: torch.cuda.mem_get_info(i)[0] for i in range(torch.cuda.device_count())}
    devices[index] -= need.total - need.weights
    return {**devices, "cpu": machine.beside - sum(free for i, free in devices.items() if i != index)}


def _check_room(spec: PairSpec, placement: Placement, drafter: DrafterSpec) -> None:
    """Raise PairUnavailable if a drafter doesn't fit into the free memory."""
    machine = find_machine(placement.device.type, placement.dtype_name)
    need = needed(spec, machine, [drafter.name]).drafters[drafter.name]
    if need > machine.free:
        needs = f"The drafter {drafter.name!r} needs about {need / 1e9:.1f} GB of memory in {machine.dtype}"
        free = f"{machine.free / 1e9:.1f} GB are free."
        raise PairUnavailable(f"{needs}; {free}", hint="Choose a smaller target or drafter.")


@contextmanager
def _memory_errors(spec: PairSpec, placement: Placement, drafters: Sequence[str]) -> Iterator[None]:
    """Translate torch's errors for exhausted memory into OutOfMemory."""
    try:
        yield
    except (MemoryError, RuntimeError) as error:
        if not is_memory(error):
            raise
        machine = find_machine(placement.device.type, placement.dtype_name)
        total = needed(spec, machine, drafters).total
        what = f"The pair {spec.name!r} does not fit: it needs about {total / 1e9:.1f} GB of memory."
        raise OutOfMemory(what, hint="Close other programs, or choose the embedded pair.") from error
