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
from typing import Annotated, Literal

import msgspec

from specdiff_core.schema.errors import ConfigError
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
    about: str = ""

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
    memory_bytes: int = 0  # needed to load, all models together
    drafters: tuple[DrafterSpec, ...] = field(default=())

    def drafter(self, name: str) -> DrafterSpec:
        """Find a drafter by name.

        Raises:
            ConfigError: this pair has none of that name.
        """
        for spec in self.drafters:
            if spec.name == name:
                return spec
        raise ConfigError(
            f"The pair {self.name!r} has no drafter called {str(name)[:40]!r}.",
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
    memory_bytes=450_000_000,
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

GPT2_MDLM = PairSpec(
    name="gpt2-mdlm",
    label="GPT-2 + MDLM (SpecDiff's own pair, downloads 1.2 GB)",
    target="openai-community/gpt2",
    revision="607a30d783dfa663caf39e06633721c8d4cfcd7e",
    tokenizer="openai-community/gpt2",
    context=1024,
    memory_bytes=2_500_000_000,
    drafters=(
        DrafterSpec(
            name="mdlm",
            label="MDLM on OpenWebText (kuleshov-group/mdlm-owt)",
            module="masked_diffusion",
            source="kuleshov-group/mdlm-owt",
            revision="d0958fa851335ece6c15260ce0025f030673c0fb",
            context=1024,
            about="The masked diffusion model of the founding paper, 170 M parameters.",
        ),
        PROMPT_LOOKUP,
        NONE,
    ),
)

PAIRS: dict[str, PairSpec] = {pair.name: pair for pair in (EMBEDDED, GPT2_MDLM)}


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
