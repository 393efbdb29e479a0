"""Which model pairs exist and where their files are: plain data, read without torch.

Drafters may come from outside: from an installed package by an entry point of the group ``specdiff.drafters``, or from
a call of :func:`register_drafter` (docs/extending.md).
"""

from __future__ import annotations

import dataclasses
import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.metadata import entry_points
from pathlib import Path
from typing import Annotated, Any, Literal

import msgspec

from specdiff_core.schema import published as hub
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.published import Model
from specdiff_core.schema.settings import DecodeConfig, RevealOrder

ASSETS = Path(__file__).resolve().parents[2] / "assets"
ENTRY_POINTS = "specdiff.drafters"

logger = logging.getLogger("specdiff.pairs")


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterSpec:
    """One drafter of a pair.

    ``module`` is a file of ``specdiff_core/drafters`` with a function ``build(spec, placement, *, target, pair)``, or
    such a function elsewhere, written as ``package.module:function``. ``drafting`` says how it fills a window:
    ``denoise`` in T passes, ``sequential`` with a pass for each token, ``copy`` without any pass, ``nothing`` for
    vanilla decoding.
    """

    name: str
    label: str
    module: str
    source: str = ""  # a folder, or a hub repository at ``revision``; empty: no weights
    revision: str = ""
    context: Annotated[int, msgspec.Meta(ge=1)] | None = None  # tokens that it re-reads at every step, window included
    window: Annotated[int, msgspec.Meta(ge=1)] | None = None  # the longest block that it was trained to denoise
    drafting: Literal["denoise", "sequential", "copy", "nothing"] = "denoise"
    chained: bool = False  # a denoiser that draws each token given the one before it
    trees: bool = False  # grows draft trees although it does not denoise
    logit_shift: int = 0  # declared, never detected: slot i - shift predicts token i
    mask_id: Annotated[int, msgspec.Meta(ge=0)] | None = None  # of a denoiser whose files name none, or a word for it
    plays: str = ""  # the drafter of methods that it stands for, in a pair without one of that name
    published: Model | None = None  # what is known of ``source`` before it is here
    about: str = ""

    @classmethod
    def of(cls, model: Model, **fields: Any) -> DrafterSpec:
        """A drafter whose weights are published as ``model``."""
        return cls(source=model.repo, revision=model.revision, published=model, **fields)

    def fit(self, gamma: int) -> int:
        """γ, or the window that it was trained for where that is shorter."""
        return gamma if self.window is None else min(gamma, self.window)

    @property
    def is_foreign(self) -> bool:
        """Whether its code lies outside of this project."""
        return ":" in self.module

    @property
    def can_branch(self) -> bool:
        """Whether it drafts trees: a denoiser from one pass, EAGLE with a pass for each depth."""
        return self.drafting == "denoise" or self.trees

    def passes(self, gamma: int, steps: int) -> int:
        """Drafter passes for a window of γ where T = ``steps`` is asked for; T matters to a denoiser only."""
        return {"denoise": min(steps, gamma), "sequential": gamma}.get(self.drafting, 1)

    def follow(self, config: DecodeConfig) -> DecodeConfig:
        """``config`` as this drafter can follow it: its window; one pass of a denoiser for a tree or several drafts;
        where it denoises nothing, one draft from left to right, and a tree only if it grows them. The length of a draft
        is chosen as it goes for single windows that cost a pass, and for trees from one pass."""
        gamma = self.fit(config.gamma)
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
    tokenizer: str = ""
    tokenizer_revision: str = ""  # where the tokenizer is not the target's
    offline: bool = False  # all files ship with the project
    prepend_end: bool = False  # prompts begin with the end-of-text id, as documents did in training
    suppress: tuple[int, ...] = ()  # ids the target must never say (the mask token)
    context: int = 1024
    chat: bool = False  # the target's tokenizer brings a chat template
    family: str = ""  # pairs of one family differ in their target's size; the first is called as the family
    size: str = ""  # which of them this is
    published: Model | None = None  # what is known of ``target`` before it is here
    drafters: tuple[DrafterSpec, ...] = field(default=())

    @property
    def group(self) -> str:
        """The family, or the pair alone."""
        return self.family or self.name

    @property
    def sources(self) -> tuple[tuple[str, str], ...]:
        """What it is loaded from: folders, or repositories of the hub with their revisions; target and drafters."""
        drafters = ((drafter.source, drafter.revision) for drafter in self.drafters if drafter.source)
        return ((self.target, self.revision), *drafters)

    def playing(self, part: str) -> DrafterSpec | None:
        """The drafter that methods call ``part``, by its name or because it stands for it; None if there is none."""
        named = [spec for spec in self.drafters if spec.name == part]
        return next(iter([*named, *(spec for spec in self.drafters if spec.plays == part)]), None)

    def drafter(self, name: str) -> DrafterSpec:
        """Find a drafter by name.

        Raises:
            ConfigError: this pair has none of that name.
        """
        for spec in self.drafters:
            if spec.name == name:
                return spec
        raise ConfigError(
            f"The pair {self.label} has no drafter called {str(name)[:40]!r}.",
            field="drafter",
            hint=f"Choose one of: {', '.join(spec.name for spec in self.drafters)}.",
        )


NONE = DrafterSpec(
    name="none",
    label="None (vanilla)",
    module="vanilla",
    drafting="nothing",
    about="Drafts nothing: one target pass per token.",
)
PROMPT_LOOKUP = DrafterSpec(
    name="prompt_lookup",
    label="Prompt lookup (copies from the text)",
    module="prompt_lookup",
    drafting="copy",
    about="Copies what followed the last time the text ended like this: no weights, no pass.",
)

EMBEDDED = PairSpec(
    name="embedded",
    label="Llama-Tales (embedded, offline)",
    target=str(ASSETS / "embedded" / "target"),
    tokenizer=str(ASSETS / "embedded" / "tokenizer"),
    offline=True,
    prepend_end=True,
    suppress=(1,),
    context=512,
    drafters=(
        DrafterSpec(
            name="block",
            label="Block diffusion, target-conditioned (DFlash)",
            module="block_diffusion",
            source=str(ASSETS / "embedded" / "block"),
            window=16,
            about="Denoises a block after the anchor, reading the target's own hidden states; at most 16 tokens.",
        ),
        DrafterSpec(
            name="block_markov",
            label="Block diffusion with a Markov head",
            module="block_diffusion",
            source=str(ASSETS / "embedded" / "block_markov"),
            window=16,
            chained=True,
            about="The same denoiser; from its one pass each token is drawn given the one before it, not by itself.",
        ),
        DrafterSpec(
            name="mdlm",
            label="Masked diffusion, independent (SpecDiff, MDLM)",
            module="masked_diffusion",
            source=str(ASSETS / "embedded" / "mdlm"),
            context=32,
            about="A bidirectional masked denoiser that re-reads the last tokens at every step.",
        ),
        DrafterSpec(
            name="mdlm_streak",
            label="Masked diffusion, streak-distilled (SpecDiff-2)",
            module="masked_diffusion",
            source=str(ASSETS / "embedded" / "mdlm_streak"),
            context=32,
            about="The same denoiser, aligned with its target: trained for the length of the run that survives.",
        ),
        DrafterSpec(
            name="autoregressive",
            label="Small autoregressive (standard speculative sampling)",
            module="autoregressive",
            source=str(ASSETS / "embedded" / "autoregressive"),
            drafting="sequential",
            about="A two-layer model of the same kind as the target drafts one token per pass: γ passes for γ tokens.",
        ),
        DrafterSpec(
            name="eagle",
            label="One layer over the target's features (EAGLE)",
            module="eagle",
            source=str(ASSETS / "embedded" / "eagle"),
            drafting="sequential",
            trees=True,
            about="Continues the target's last hidden states, one token per pass; with a tree, EAGLE-2.",
        ),
        PROMPT_LOOKUP,
        NONE,
    ),
)

AUTOREGRESSIVE = "A small model of the target's own family drafts one token per pass."


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """One size of a family: its target, and the drafters that were made for it alone."""

    size: str
    target: Model
    context: int
    drafters: tuple[DrafterSpec, ...] = ()


def family(
    name: str, label: str, steps: Sequence[Step], drafters: Sequence[DrafterSpec] = (), *, chat: bool = False
) -> tuple[PairSpec, ...]:
    """Published targets of one tokenizer, from the smallest to the largest, and the drafters that share their ids: a
    pair for each size, called ``name:size``, the first ``name`` alone. A target does not draft for itself."""
    return tuple(
        PairSpec(
            name=name if step is steps[0] else f"{name}:{step.size}",
            label=f"{label} · {step.size}",
            target=step.target.repo,
            revision=step.target.revision,
            context=step.context,
            chat=chat,
            family=name,
            size=step.size,
            published=step.target,
            drafters=(
                *(one for one in (*step.drafters, *drafters) if one.source != step.target.repo),
                PROMPT_LOOKUP,
                NONE,
            ),
        )
        for step in steps
    )


def _small(model: Model, label: str) -> DrafterSpec:
    """A small causal model that drafts."""
    return DrafterSpec.of(
        model,
        name="autoregressive",
        label=f"{label}, autoregressive",
        module="autoregressive",
        drafting="sequential",
        about=AUTOREGRESSIVE,
    )


def _dflash(model: Model, block: int) -> DrafterSpec:
    """A DFlash drafter; a block holds the anchor too."""
    return DrafterSpec.of(
        model,
        name="block",
        label="Block diffusion, target-conditioned (DFlash)",
        module="block_diffusion",
        window=block - 1,
        about=f"Denoises a block of {block} after the anchor, reading hidden states of the target.",
    )


def _dspark(model: Model) -> DrafterSpec:
    return DrafterSpec.of(
        model,
        name="block_markov",
        label="Block diffusion with a Markov head (DSpark)",
        module="block_diffusion",
        window=7,
        chained=True,
        about="A block denoiser whose tokens are drawn one after the other, each given the one before it.",
    )


def _eagle3(model: Model) -> DrafterSpec:
    return DrafterSpec.of(
        model,
        name="eagle",
        label="One layer over the target's features (EAGLE-3)",
        module="eagle",
        drafting="sequential",
        trees=True,
        about="Continues hidden states of several target layers, one token per pass; with a tree, as EAGLE-2.",
    )


_DFLASH2 = DrafterSpec.of(
    hub.QWEN3_4B_DFLASH2,
    name="block_2",
    label="Block diffusion with a path selector (DFlash 2)",
    module="block_diffusion",
    window=7,
    chained=True,
    about="A block denoiser that chooses each token of its block given the one before it.",
)

LONG = 8192
"""Tokens that a run over a target of 32k positions and more may hold: recorded passes read room for all of them."""

GPT2 = family(
    "gpt2-mdlm",
    "GPT-2 + MDLM, DiffuGPT",
    (
        Step(size="small", target=hub.GPT2, context=1024),
        Step(size="medium", target=hub.GPT2_MEDIUM, context=1024),
        Step(size="large", target=hub.GPT2_LARGE, context=1024),
        Step(size="xl", target=hub.GPT2_XL, context=1024),
        Step(size="neo-2.7b", target=hub.GPT_NEO, context=2048),
    ),
    (
        DrafterSpec.of(
            hub.MDLM_OWT,
            name="mdlm",
            label="MDLM on OpenWebText",
            module="masked_diffusion",
            context=1024,
            about="The masked diffusion model of the founding paper, 170 M parameters.",
        ),
        DrafterSpec.of(
            hub.DIFFUGPT_S,
            name="diffugpt_s",
            label="DiffuGPT small",
            module="masked_diffusion",
            context=1024,
            logit_shift=1,
            mask_id=10541,
            about="GPT-2 adapted to read both ways; a rare word of the vocabulary is its mask.",
        ),
        DrafterSpec.of(
            hub.DIFFUGPT_M,
            name="diffugpt_m",
            label="DiffuGPT medium",
            module="masked_diffusion",
            context=1024,
            logit_shift=1,
            mask_id=50257,
            about="GPT-2 medium adapted to read both ways; its mask has a row of its own.",
        ),
        _small(hub.DISTILGPT2, "DistilGPT-2"),
    ),
)
GPT2_MDLM = GPT2[0]

LLAMA2 = family(
    "llama2-diffullama",
    "Llama 2 chat + DiffuLLaMA",
    (
        Step(size="1.1b", target=hub.TINYLLAMA, context=2048),
        Step(size="7b", target=hub.LLAMA2_7B, context=4096),
        Step(size="13b", target=hub.LLAMA2_13B, context=4096),
        Step(size="70b", target=hub.LLAMA2_70B, context=4096),
    ),
    (
        DrafterSpec.of(
            hub.DIFFULLAMA,
            name="diffullama",
            plays="mdlm",
            label="DiffuLLaMA 7B",
            module="masked_diffusion",
            context=2048,
            logit_shift=1,
            mask_id=811,
            about="Llama 2 7B adapted to read both ways; a rare word of the vocabulary is its mask.",
        ),
        _small(hub.TINYLLAMA, "TinyLlama 1.1B"),
    ),
    chat=True,
)

_DIFFUCODER = DrafterSpec.of(
    hub.DIFFUCODER,
    name="diffucoder",
    plays="mdlm",
    label="DiffuCoder 7B",
    module="masked_diffusion",
    context=2048,
    logit_shift=1,
    mask_id=151666,
    about="Masked diffusion for code, adapted from Qwen2.5-Coder: SpecDiff-2's drafter.",
)
_DREAM = DrafterSpec.of(
    hub.DREAM,
    name="dream",
    label="Dream 7B",
    module="masked_diffusion",
    context=2048,
    logit_shift=1,
    mask_id=151666,
    about="Masked diffusion adapted from Qwen2.5.",
)
QWEN25 = family(
    "qwen2.5-diffucoder",
    "Qwen2.5 Instruct + DiffuCoder, Dream",
    (
        Step(size="7b", target=hub.QWEN25_7B, context=LONG),
        Step(size="14b", target=hub.QWEN25_14B, context=LONG),
        Step(size="32b", target=hub.QWEN25_32B, context=LONG),
        Step(size="72b", target=hub.QWEN25_72B, context=LONG),
        Step(size="coder-7b", target=hub.QWEN25_CODER_7B, context=LONG),
        Step(size="coder-14b", target=hub.QWEN25_CODER_14B, context=LONG),
        Step(size="coder-32b", target=hub.QWEN25_CODER_32B, context=LONG),
    ),
    (_DIFFUCODER, _DREAM, _small(hub.QWEN25_HALF, "Qwen2.5 0.5B")),
    chat=True,
)

QWEN3 = family(
    "qwen3-dflash",
    "Qwen3 + DFlash, DSpark, EAGLE-3",
    (
        Step(
            size="4b",
            target=hub.QWEN3_4B,
            context=LONG,
            drafters=(
                _dflash(hub.QWEN3_4B_DFLASH, 16),
                _dspark(hub.QWEN3_4B_DSPARK),
                _DFLASH2,
                _eagle3(hub.QWEN3_4B_EAGLE3),
            ),
        ),
        Step(
            size="8b",
            target=hub.QWEN3_8B,
            context=LONG,
            drafters=(
                _dflash(hub.QWEN3_8B_DFLASH, 16),
                _dspark(hub.QWEN3_8B_DSPARK),
                _eagle3(hub.QWEN3_8B_EAGLE3),
            ),
        ),
    ),
    (_small(hub.QWEN3_HALF, "Qwen3 0.6B"),),
    chat=True,
)

LLAMA31 = family(
    "llama3.1-dflash",
    "Llama 3.1 Instruct + DFlash",
    (Step(size="8b", target=hub.LLAMA31_8B, context=LONG, drafters=(_dflash(hub.LLAMA31_8B_DFLASH, 10),)),),
    (_small(hub.LLAMA32_1B, "Llama 3.2 1B"),),
    chat=True,
)

PAIRS: dict[str, PairSpec] = {pair.name: pair for pair in (EMBEDDED, *GPT2, *LLAMA2, *QWEN25, *QWEN3, *LLAMA31)}


OWN_PAIRS: dict[str, PairSpec] = {}
"""Pairs that somebody brought, by the name that says what they are (``models/own_pairs.py``)."""


def register_drafter(spec: DrafterSpec, pairs: Sequence[str] = ()) -> None:
    """Add a drafter to ``pairs``, by default to all of them; one of the same name is replaced, but for vanilla.

    Raises:
        ConfigError: there is no such pair, or the record is not right; nothing is added then.
    """
    try:
        msgspec.convert(dataclasses.asdict(spec), DrafterSpec)
    except (TypeError, msgspec.ValidationError) as error:
        raise ConfigError(f"This is no record of a drafter: {error}.", field="drafter") from error
    if not spec.name or spec.name == NONE.name or spec.drafting == NONE.drafting:
        raise ConfigError(
            f"A drafter cannot be {spec.name!r}, {spec.drafting}: that is vanilla decoding.", field="drafter"
        )
    for pair in [find_pair(name) for name in pairs or tuple(PAIRS)]:
        others = tuple(one for one in pair.drafters if one.name != spec.name)
        PAIRS[pair.name] = dataclasses.replace(pair, drafters=(*others[:-1], spec, *others[-1:]))  # vanilla stays last


def find_pair(name: str) -> PairSpec:
    """Find a pair by name.

    Raises:
        ConfigError: there is none of that name.
    """
    if (own := OWN_PAIRS.get(name)) is not None:
        return own
    if name not in PAIRS:
        raise ConfigError(
            f"There is no model pair called {str(name)[:40]!r}.",
            field="pair",
            hint=f"Choose one of: {', '.join(PAIRS)}.",
        )
    return PAIRS[name]


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
        except Exception as error:  # one broken package must not take all pairs away
            logger.warning("the drafter %r of an installed package was left out: %s", entry.name, error)


_register_installed()
