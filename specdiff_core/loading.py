"""Turns a pair's description into loaded models, on the device that was chosen.

Safetensors only, never remote code, pinned revisions.
"""

from __future__ import annotations

import importlib
import logging
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch

from specdiff_core.models.causal import load_causal, load_stock
from specdiff_core.models.folders import AGAIN, is_local, read_generation, resolve, shown
from specdiff_core.models.kernels import kernel
from specdiff_core.models.network import Decoder
from specdiff_core.models.parallel import ranks
from specdiff_core.schema.errors import (
    OutOfMemory,
    PairUnavailable,
    SpecDiffError,
    TokenizerMismatch,
    WeightsError,
    is_memory,
)

if TYPE_CHECKING:
    from transformers import PreTrainedModel, PreTrainedTokenizerBase

    from specdiff_core.drafters.base import Drafter
    from specdiff_core.models.device import Placement
    from specdiff_core.schema.pairs import DrafterSpec, PairSpec

logger = logging.getLogger("specdiff.loading")

LEAST_NAMED = 0.95
"""Share of a target's ids that its tokenizer must name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class LoadedPair:
    """A target, its tokenizer, and every drafter whose weights are here."""

    spec: PairSpec
    placement: Placement
    model: Any  # the target: a Decoder of this lab, or a model of transformers
    tokenizer: PreTrainedTokenizerBase
    drafters: dict[str, Drafter]
    missing: dict[str, str] = field(default_factory=dict)  # drafter -> why it is not in ``drafters``
    ends: tuple[int, ...] = ()  # ids that end a text, as tokenizer, config and generation_config say
    stock_reason: str = ""  # why the target is not run by this lab's network, where it is not

    @property
    def network(self) -> str:
        """What runs the target, in words."""
        if self.stock_reason:
            return f"transformers' own module: {self.stock_reason}"
        made = f"this lab's network; products by {kernel(self.placement.device, self.placement.dtype)}"
        return made if self.placement.graphs is None else f"{made}; {self.placement.graphs}"

    def stock(self, role: str = "target") -> PreTrainedModel:
        """The weights of ``"target"``, or of a small drafter of its kind, in transformers' own module: loaded anew,
        unless that is what runs them."""
        drafter = None if role == "target" else self.spec.drafter(role)
        held: Any = self.model if drafter is None else self.drafters[role]
        model = held if drafter is None else held.reader.model
        if isinstance(model, Decoder):
            source, revision = (
                (self.spec.target, self.spec.revision) if drafter is None else (drafter.source, drafter.revision)
            )
            return load_stock(resolve(source, revision), self.placement.dtype, device=self.placement.device, role=role)
        stock: PreTrainedModel = model
        return stock

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

    A drafter whose weights are missing, damaged or for other ids does not make the pair unusable: its reason is in
    ``missing``.

    Raises:
        ConfigError: ``drafters`` names one that the pair does not have.
        WeightsError: a file of the target is missing, truncated or of the wrong shape; the message names it.
        PairUnavailable: the hub cannot be reached and the files are not cached.
        TokenizerMismatch: tokenizer and target disagree about the vocabulary.
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
        model, why_stock = load_causal(
            folder,
            placement.dtype,
            context=spec.context,
            device=placement.device,
            device_map=_device_map(spec, placement),
            split=ranks() > 1,
        )
        _check_tokenizer(tokenizer, model, spec)
        loaded: dict[str, Drafter] = {}
        missing: dict[str, str] = {}
        for drafter in wanted:
            tell(f"Loading the drafter: {drafter.label}")
            try:
                loaded[drafter.name] = _load_drafter(drafter, placement, model, spec)
            except (PairUnavailable, TokenizerMismatch) as error:
                missing[drafter.name] = str(error)
            except Exception as error:  # whatever is wrong with one drafter, target and other drafters still work
                if isinstance(error, SpecDiffError) or is_memory(error):
                    raise
                logger.warning("the drafter %s of %s was not loaded", drafter.name, spec.name, exc_info=error)
                missing[drafter.name] = (
                    f"{drafter.module} cannot be loaded: {type(error).__name__}: {error}"
                    if drafter.is_foreign
                    else f"{drafter.source}: its files do not make a model ({type(error).__name__})."
                )
    return LoadedPair(
        spec=spec,
        placement=placement,
        model=model,
        tokenizer=tokenizer,
        drafters=loaded,
        missing=missing,
        ends=_ends(folder, tokenizer, model),
        stock_reason=why_stock,
    )


def _ends(folder: Path, tokenizer: PreTrainedTokenizerBase, model: Any) -> tuple[int, ...]:
    """Every id that ends a text: chat models have one for a message beside that of a document."""
    told = [tokenizer.eos_token_id, model.config.eos_token_id, read_generation(folder).get("eos_token_id")]
    each = [one for entry in told for one in (entry if isinstance(entry, list) else [entry])]
    return tuple(dict.fromkeys(one for one in each if isinstance(one, int)))


def _load_tokenizer(folder: Path) -> PreTrainedTokenizerBase:
    from transformers import AutoTokenizer

    try:
        return AutoTokenizer.from_pretrained(folder, trust_remote_code=False)
    except Exception as error:  # the tokenizers library raises bare Exception for a damaged tokenizer.json
        raise WeightsError(
            f"The tokenizer in {shown(folder)}, or the config.json beside it, is missing or damaged "
            f"({type(error).__name__}).",
            hint=AGAIN,
        ) from error


def _check_tokenizer(tokenizer: PreTrainedTokenizerBase, model: Any, spec: PairSpec) -> None:
    """Ids must mean the same to both. A target's table may be padded a little beyond the tokenizer, not more."""
    names, table = len(tokenizer), int(model.config.vocab_size)
    ends = model.config.eos_token_id
    ends = ends if isinstance(ends, list) else [ends]
    if not table * LEAST_NAMED <= names <= table:
        what = f"The tokenizer of {spec.name!r} has {names} ids, its target {table}."
    elif None not in ends and tokenizer.eos_token_id not in ends:
        what = (
            f"The tokenizer of {spec.name!r} ends a text with id {tokenizer.eos_token_id}, its target with {ends[0]}."
        )
    else:
        return
    raise TokenizerMismatch(what, hint="Target and tokenizer folders do not belong together; restore both.")


def _device_map(spec: PairSpec, placement: Placement) -> str | None:
    """accelerate's plan, which spreads a target over what there is, where a CUDA device is too small for it."""
    if placement.device.type != "cuda" or ranks() > 1:
        return None
    free, _ = torch.cuda.mem_get_info(placement.device)
    return "auto" if spec.memory_bytes > free else None


def _load_drafter(spec: DrafterSpec, placement: Placement, target: Any, pair: PairSpec) -> Drafter:
    """Import the drafter's module and call what builds it."""
    module, _, function = spec.module.partition(":")
    path = module if function else f"specdiff_core.drafters.{module}"
    build = getattr(importlib.import_module(path), function or "build")
    drafter: Drafter = build(spec, placement, target=target, pair=pair)
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
