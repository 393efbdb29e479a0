"""The model pairs and the sources of their files, as plain data without torch.

Installed packages can add drafters with an entry point of the group ``specdiff.drafters``, programs
with :func:`register_drafter` (docs/extending.md)."""

from __future__ import annotations

import dataclasses
import logging
import threading
from collections.abc import Iterator, MutableMapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from specdiff_core.schema import published
from specdiff_core.schema.errors import ConfigError, no_such
from specdiff_core.schema.published import FAMILIES, Family, Model
from specdiff_core.schema.settings import DecodeConfig, RevealOrder, cut_steps

ENTRY_POINTS = "specdiff.drafters"

logger = logging.getLogger("specdiff.pairs")


_PACKAGE = Path(__file__).resolve().parents[1]
ASSETS = next(path for path in (_PACKAGE / "assets", _PACKAGE.parent / "assets") if path.is_dir())
"""The folder with weights and recordings, of an installed package or a checkout."""


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterSpec:
    """One drafter of a pair.

    ``module`` is a file of ``specdiff_core/drafters`` with a function ``build(spec, placement, *,
    target, pair)``, or such a function elsewhere, written as ``package.module:function``.
    ``drafting`` says how it fills a window: ``denoise`` in T passes, ``sequential`` with a pass for
    each token, ``copy`` without any pass, ``nothing`` for vanilla decoding."""

    name: str
    label: str
    module: str
    source: str = ""  # a folder, or a hub repository at ``revision``; empty: no weights
    revision: str = ""
    context: Annotated[int, msgspec.Meta(ge=1)] | None = None  # tokens re-read at every step
    window: Annotated[int, msgspec.Meta(ge=1)] | None = None  # longest block in training
    drafting: Literal["denoise", "sequential", "copy", "nothing"] = "denoise"
    chained: bool = False  # its Markov head draws each token given the previous one
    trees: bool = False  # can make draft trees although it does not denoise
    logit_shift: int = 0  # declared, never detected: slot i - shift predicts token i
    mask_id: Annotated[int, msgspec.Meta(ge=0)] | None = None  # if its files don't say
    replaces: str = ""  # the drafter that it replaces in methods
    declared: str = ""  # the name of its kind for ``--kind``
    marks: tuple[str, ...] = ()  # one is in each config.json of its kind: a type, class or key
    published: Model | None = None  # published facts about ``source``
    about: str = ""

    def clamp_gamma(self, gamma: int) -> int:
        """γ, at most the window that it was trained for."""
        return gamma if self.window is None else min(gamma, self.window)

    @property
    def is_foreign(self) -> bool:
        """Whether its code is outside this project."""
        return ":" in self.module

    @property
    def has_files(self) -> bool:
        """Whether its files exist, for shipped drafters; True for others."""
        return not Path(self.source).is_absolute() or (Path(self.source) / "config.json").is_file()

    @property
    def can_branch(self) -> bool:
        """Whether it drafts trees: a denoiser from one pass, EAGLE with one pass per depth."""
        return self.drafting == "denoise" or self.trees

    def passes(self, gamma: int, steps: int) -> int:
        """Drafter passes for a window of γ with T = ``steps``, which only denoisers use."""
        return {"denoise": cut_steps(steps, gamma), "sequential": gamma}.get(self.drafting, 1)

    def clamp(self, config: DecodeConfig) -> DecodeConfig:
        """``config`` limited to what this drafter supports: its window; one denoising pass for a
        tree or several drafts; without denoising, one draft from left to right, and a tree only if
        it can. Adaptive lengths need single windows that cost passes, or trees from one pass."""
        gamma = self.clamp_gamma(config.gamma)
        steps = self.passes(gamma, config.steps)
        if self.drafting == "denoise":
            single = config.num_drafts == 1 and not config.tree_nodes
            auto = config.auto and config.num_drafts == 1
            return dataclasses.replace(config, gamma=gamma, steps=steps if single else 1, auto=auto)
        nodes = config.tree_nodes if self.can_branch else 0
        return dataclasses.replace(
            config,
            gamma=gamma,
            steps=steps,
            order=RevealOrder.LEFT_TO_RIGHT,
            tree_nodes=nodes,
            num_drafts=1,
            auto=config.auto and self.drafting == "sequential" and not nodes,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class PairSpec:
    """A target and the drafters that share its ids."""

    name: str
    label: str
    target: str
    revision: str = ""
    tokenizer: str = ""  # a folder, where it is not the target's
    offline: bool = False  # all files ship with the project
    prepend_end: bool = False  # prompts begin with the end-of-text id, as documents did in training
    suppress: tuple[int, ...] = ()  # ids that the target must never emit (the mask token)
    context: int = 1024
    chat: bool = False  # the target's tokenizer has a chat template
    bf16: bool = False  # preferred on a CPU that computes it
    family: str = ""  # name of a family of pairs whose targets differ in size
    size: str = ""  # within the family
    published: Model | None = None  # published facts about ``target``
    about: str = ""  # description of the target
    drafters: tuple[DrafterSpec, ...] = field(default=())

    @property
    def group(self) -> str:
        """The family, or the name of a single pair."""
        return self.family or self.name

    @property
    def short(self) -> str:
        """The label without the size."""
        return self.label.partition(" · ")[0]

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """Folders or hub repositories of target and drafters, with revisions."""
        drafters = ((drafter.source, drafter.revision) for drafter in self.drafters if drafter.source)
        return ((self.target, self.revision), *drafters)

    def drafters_for(self, part: str) -> list[DrafterSpec]:
        """The drafters that methods call ``part``: the one of that ``name``, then those that replace it."""
        fitting = [spec for spec in self.drafters if part in (spec.name, spec.replaces)]
        return sorted(fitting, key=lambda spec: spec.name != part)

    def drafter_for(self, part: str) -> DrafterSpec | None:
        """The first of :meth:`drafters_for`, or None."""
        return next(iter(self.drafters_for(part)), None)

    def drafter(self, name: str) -> DrafterSpec:
        """Find a drafter by name.

        Raises:
            ConfigError: this pair has none of that name.
        """
        by_name = {spec.name: spec for spec in self.drafters}
        if name not in by_name:
            raise no_such(f"drafter of {self.label}", name, by_name, "drafter")
        return by_name[name]


# fmt: off
DRAFTER_KINDS: dict[str, DrafterSpec] = {kind.name: kind for kind in (
    DrafterSpec(name="block", label="Block diffusion (DFlash)", module="block_diffusion",
        declared="block", marks=("dflash", "dspark"),
        about="Denoises a block after the anchor, reading the target's own hidden states."),
    DrafterSpec(name="block_markov", label="Block diffusion, Markov head (DSpark)", module="block_diffusion",
        chained=True, about="Denoises a block; from its one pass each token is drawn given the one "
        "before it, not by itself."),
    DrafterSpec(name="masked", label="Masked diffusion (SpecDiff)", module="masked_diffusion",
        declared="masked", marks=("mdlm", "cond_dim", "dream", "specdiff"),
        about="A masked denoiser: in each pass it sees the window in both directions."),
    DrafterSpec(name="masked_streak", label="Masked diffusion, streak-distilled (SpecDiff-2)",
        module="masked_diffusion", about="The same denoiser, trained to the end for long accepted runs."),
    DrafterSpec(name="autoregressive", label="Small autoregressive model",
        module="autoregressive", drafting="sequential", declared="autoregressive",
        about="A small model of the target's own kind drafts one token per pass: γ passes for γ tokens."),
    DrafterSpec(name="eagle", label="One layer over the target's features (EAGLE)", module="eagle",
        drafting="sequential", trees=True, declared="eagle", marks=("eagle",),
        about="Continues the target's last hidden states, one token per pass; with a tree, EAGLE-2."),
    DrafterSpec(name="prompt_lookup", label="Prompt lookup", module="prompt_lookup",
        drafting="copy",
        about="Copies what followed the last time the text ended like this: no weights, no pass."),
    DrafterSpec(name="none", label="None (vanilla)", module="vanilla", drafting="nothing",
        about="Drafts nothing: one target pass per token."),
)}
# fmt: on
"""Kinds of drafters, as methods name them, with the fields that drafters of a kind share."""


def drafter_spec(kind: str, **fields: Any) -> DrafterSpec:
    """A drafter of a kind, with ``fields`` replaced. Under another name it replaces its kind."""
    replaces = "" if fields.get("name", kind) == kind else kind
    return dataclasses.replace(DRAFTER_KINDS[kind], **{"replaces": replaces, **fields})


NONE, PROMPT_LOOKUP = DRAFTER_KINDS["none"], DRAFTER_KINDS["prompt_lookup"]


def _shipped(pair: str, kind: str, folder: str = "", **fields: Any) -> DrafterSpec:
    """A drafter whose weights ship with the project."""
    return drafter_spec(kind, source=str(ASSETS / pair / (folder or fields.get("name", kind))), **fields)


def _published(model: Model) -> DrafterSpec:
    fields = {"source": model.repo, "revision": model.revision, "context": model.context or None, "published": model}
    return drafter_spec(model.role, **fields, **model.drafter)


# fmt: off
EMBEDDED = PairSpec(
    name="embedded", label="Llama-Tales · 14M", target=str(ASSETS / "embedded" / "target"),
    tokenizer=str(ASSETS / "embedded" / "tokenizer"), offline=True, prepend_end=True, suppress=(1,), context=512,
    about="Llama-Tales: a tiny model, trained on stories, dialogues, sums and code. It continues "
    "text; it doesn't know facts. Watch the speed.",
    drafters=(
        _shipped("embedded", "block", window=16),
        _shipped("embedded", "block_markov", window=16),
        _shipped("embedded", "masked", window=12),
        _shipped("embedded", "masked_streak", window=12),
        _shipped("embedded", "autoregressive"),
        _shipped("embedded", "eagle"),
        PROMPT_LOOKUP,
        NONE,
    ),
)

SMOLLM2 = PairSpec(
    name="smollm2", label="SmolLM2 · 135M", target=published.SMOLLM2.repo, revision=published.SMOLLM2.revision,
    context=published.SMOLLM2.context, chat=True, bf16=True, published=published.SMOLLM2,
    about="SmolLM2-135M-Instruct by Hugging Face: a real assistant with 135 million parameters, "
    "stored in four bits. It "
    "chats, explains and writes short code in English; it often gets facts and sums wrong.",
    drafters=(
        _shipped("smollm2", "block", window=8),
        _shipped("smollm2", "block_markov", "block", window=8),
        _shipped("smollm2", "masked", window=8,
            about="Two layers of SmolLM2, taught to fill masks. It reads the text with a cache of its own, and nothing "
            "of what the target computed."),
        _shipped("smollm2", "masked_streak", window=8),
        _shipped("smollm2", "eagle"),
        PROMPT_LOOKUP,
        NONE,
    ),
)
# fmt: on


def _family(name: str, family: Family) -> Iterator[PairSpec]:
    """A pair for each target: ``name``, then ``name:size``. A target does not draft for itself."""
    drafters = [model for model in family.models if model.role != "target"]
    for index, target in enumerate(model for model in family.models if model.role == "target"):
        fitting = [drafter for drafter in drafters if drafter.size in ("", target.size) and drafter.repo != target.repo]
        yield PairSpec(
            name=f"{name}:{target.size}" if index else name,
            label=f"{family.label} · {target.size}",
            target=target.repo,
            revision=target.revision,
            context=target.context,
            chat=family.chat,
            family=name,
            size=target.size,
            published=target,
            drafters=(*map(_published, fitting), PROMPT_LOOKUP, NONE),
        )


class _Pairs(MutableMapping[str, PairSpec]):
    """Pairs by name, with the drafters of installed packages from the first look on. Not from the import on:
    such a package imports the drafting contract, which imports this module."""

    def __init__(self, *pairs: PairSpec) -> None:
        self._pairs = {pair.name: pair for pair in pairs}
        self._lock, self._registered = threading.RLock(), False

    def _all(self) -> dict[str, PairSpec]:
        with self._lock:
            if not self._registered:
                self._registered = True  # before, because registering looks
                _register_installed()
        return self._pairs

    def __getitem__(self, name: str) -> PairSpec:
        return self._all()[name]

    def __setitem__(self, name: str, pair: PairSpec) -> None:
        self._all()[name] = pair

    def __delitem__(self, name: str) -> None:
        del self._all()[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._all())

    def __len__(self) -> int:
        return len(self._all())


PAIRS = _Pairs(EMBEDDED, SMOLLM2, *(pair for name, family in FAMILIES.items() for pair in _family(name, family)))

OWN_PAIRS: dict[str, PairSpec] = {}
"""Registered pairs of your own, by name (``checkpoints/own_pairs.py``)."""
SHARED = {spec.name: spec for spec in (PROMPT_LOOKUP, NONE)}
"""The drafters of every pair, vanilla last."""


def register_drafter(spec: DrafterSpec, pairs: Sequence[str] = ()) -> None:
    """Add a drafter to ``pairs``, by default to all, also to pairs of your own; replaces one of the same name, but
    not vanilla.

    Raises:
        ConfigError: there is no such pair, or the record is invalid; nothing is added then.
    """
    try:
        msgspec.convert(dataclasses.asdict(spec), DrafterSpec)
    except (TypeError, msgspec.ValidationError) as error:
        raise ConfigError(f"The record of a drafter is invalid: {error}.", field="drafter") from error
    if not spec.name or spec.name == NONE.name or spec.drafting == NONE.drafting:
        what = f"A drafter can't have the name {spec.name!r} and the drafting {spec.drafting!r}: only vanilla can."
        raise ConfigError(what, field="drafter")
    for pair in [find_pair(name) for name in pairs or (*PAIRS, *OWN_PAIRS)]:
        others = tuple(drafter for drafter in pair.drafters if drafter.name != spec.name)
        registry = PAIRS if pair.name in PAIRS else OWN_PAIRS
        registry[pair.name] = dataclasses.replace(pair, drafters=(*others[:-1], spec, *others[-1:]))  # vanilla last
    if not pairs:
        shared = {name: drafter for name, drafter in SHARED.items() if name != spec.name}
        vanilla = shared.pop(NONE.name)
        SHARED.clear()
        SHARED.update({**shared, spec.name: spec, NONE.name: vanilla})


def known_pair(name: str) -> PairSpec | None:
    """Find a pair by name, or None."""
    return OWN_PAIRS.get(name) or PAIRS.get(name)


def find_pair(name: str) -> PairSpec:
    """Find a pair by name.

    Raises:
        ConfigError: there is none of that name.
    """
    if (spec := known_pair(name)) is None:
        raise no_such("model pair", name, PAIRS, "pair")
    return spec


def drafter_names() -> list[str]:
    """The drafters of all pairs, each once."""
    return list(dict.fromkeys(drafter.name for pair in PAIRS.values() for drafter in pair.drafters))


def _register_installed() -> None:
    """Add the drafters of installed packages: each entry point is a :class:`DrafterSpec`, or (spec, names of pairs)."""
    for entry in entry_points(group=ENTRY_POINTS):
        try:
            loaded = entry.load()
            spec, pairs = loaded if isinstance(loaded, tuple) else (loaded, ())
            register_drafter(spec, pairs)
        except Exception as error:  # a broken package must not break the others
            logger.warning("the installed drafter %r was left out: %s", entry.name, error)
