"""Knows which model pairs exist and where their files are: plain data. Imports neither torch nor transformers."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, field
from pathlib import Path

from specdiff_core.config import DecodeConfig, RevealOrder
from specdiff_core.errors import ConfigError

ASSETS = Path(__file__).resolve().parent.parent / "assets"


@dataclass(frozen=True, slots=True, kw_only=True)
class DrafterSpec:
    """One drafter of a pair. ``source`` is a folder (offline) or a hub repository at ``revision``."""

    name: str
    label: str
    module: str  # a file of specdiff_core/drafters
    source: str = ""
    revision: str = ""
    weights_format: str = ""  # how its state dict is named: "mdlm" or "dflash"
    context: int | None = None  # tokens that it re-reads at every step, window included
    window: int | None = None  # the longest block that it was trained to denoise
    drafting: str = "denoise"  # or "sequential": a pass for each token; or "copy": no pass at all
    chained: bool = False  # a denoiser that draws each token given the one before it
    trees: bool = False  # whether it grows draft trees although it does not denoise
    logit_shift: int = 0  # declared, never detected: slot i - shift predicts token i
    about: str = ""

    def fit(self, gamma: int) -> int:
        """γ, or the window that it was trained for where that is shorter."""
        return gamma if self.window is None else min(gamma, self.window)

    @property
    def can_branch(self) -> bool:
        """Whether it drafts trees: a denoiser from one pass, EAGLE with a pass for each depth."""
        return self.drafting == "denoise" or self.trees

    def passes(self, gamma: int, steps: int) -> int:
        """Drafter passes that a window of γ takes where T = ``steps`` is asked for: T means something to a denoiser
        only."""
        return {"denoise": min(steps, gamma), "sequential": gamma, "copy": 1}[self.drafting]

    def follow(self, config: DecodeConfig) -> DecodeConfig:
        """``config`` as this drafter can follow it: its window; one pass of a denoiser behind a tree or several drafts;
        where it denoises nothing, one draft, from left to right, and a tree only if it grows them. What a draft
        holds is chosen as it goes for single windows that cost a pass, and for trees from one pass."""
        gamma = self.fit(config.gamma)
        steps = self.passes(gamma, config.steps)
        if self.drafting == "denoise":
            single = config.num_drafts == 1 and not config.tree_nodes
            auto = config.auto and config.num_drafts == 1 and self.module != "null"
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
    name="none", label="None (vanilla)", module="null", about="Drafts nothing: one target pass per token."
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
            weights_format="dflash",
            window=16,
            about="Denoises a block after the anchor, reading the target's own hidden states; at most 16 tokens.",
        ),
        DrafterSpec(
            name="block_markov",
            label="Block diffusion with a Markov head",
            module="block_diffusion",
            source=str(ASSETS / "embedded" / "block_markov"),
            weights_format="dflash",
            window=16,
            chained=True,
            about="The same denoiser; from its one pass each token is drawn given the one before it, not by itself.",
        ),
        DrafterSpec(
            name="mdlm",
            label="Masked diffusion, independent (SpecDiff, MDLM)",
            module="masked_diffusion",
            source=str(ASSETS / "embedded" / "mdlm"),
            weights_format="mdlm",
            context=32,
            about="A bidirectional masked denoiser that re-reads the last tokens at every step.",
        ),
        DrafterSpec(
            name="mdlm_streak",
            label="Masked diffusion, streak-distilled (SpecDiff-2)",
            module="masked_diffusion",
            source=str(ASSETS / "embedded" / "mdlm_streak"),
            weights_format="mdlm",
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
            weights_format="mdlm",
            context=1024,
            about="The masked diffusion model of the founding paper, 170 M parameters.",
        ),
        PROMPT_LOOKUP,
        NONE,
    ),
)

PAIRS: dict[str, PairSpec] = {pair.name: pair for pair in (EMBEDDED, GPT2_MDLM)}


def find_pair(name: str) -> PairSpec:
    """Find a pair by name.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in PAIRS:
        raise ConfigError(
            f"There is no model pair called {str(name)[:40]!r}.",
            field="pair",
            hint=f"Choose one of: {', '.join(PAIRS)}.",
        )
    return PAIRS[name]
