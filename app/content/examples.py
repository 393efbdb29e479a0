"""Prompts and settings to start from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from specdiff_core.schema.methods import find_method
from specdiff_core.schema.settings import DecodeConfig


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt in the register of one training flavour."""

    flavour: str
    prompt: str


EXAMPLES = (
    Example("Dialogue", "User: Hi, I would like to book a table for four people tonight.\nAssistant:"),
    Example("Story", "Once upon a time, a kind old baker lived in a small village by the sea. One day,"),
    Example(
        "Math",
        "Question: Lena has 3 boxes with 12 pencils each. She gives 9 pencils to her brother. "
        "How many pencils does she have left?\nAnswer:",
    ),
    Example("Code", 'def count_vowels(text: str) -> int:\n    """\n    Return the number of vowels in text.\n'),
)


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """A named choice of settings: those of a method, and what is different here."""

    label: str
    method: str = "dflash"
    values: dict[str, Any] = field(default_factory=dict)

    @property
    def config(self) -> DecodeConfig:
        """All settings; what neither the method nor the preset names is at its default."""
        return DecodeConfig.parse({**find_method(self.method).config(DecodeConfig()).to_dict(), **self.values})


PRESETS = (  # the first is what the page opens with: it shows denoising
    Preset(label="Four denoising steps", values={"gamma": 8, "steps": 4}),
    Preset(label="One pass (DFlash)"),
    Preset(label="Draft tree (DDTree)", method="ddtree"),
    Preset(label="Markov head, draft tree", method="markov_tree"),
    Preset(label="Markov head (DSpark)", method="markov"),
    Preset(label="γ chosen as it goes", method="auto"),
    Preset(label="Independent drafter (SpecDiff)", method="specdiff", values={"gamma": 6, "steps": 2}),
    Preset(label="Self-selection of four drafts (SpecDiff-2)", method="specdiff2", values={"temperature": 1.0}),
    Preset(label="EAGLE-2", method="eagle2"),
    Preset(label="Small autoregressive drafter", method="autoregressive"),
    Preset(label="Sampling, exact ratio test", values={"temperature": 1.0, "gamma": 8, "steps": 4}),
    Preset(
        label="Same noise as vanilla",
        values={"rule": "match", "temperature": 1.0, "gamma": 8, "steps": 4},
    ),
    Preset(
        label="Naive p/q (not lossless)",
        values={"rule": "naive", "temperature": 1.0, "gamma": 8, "steps": 4, "order": "random"},
    ),
)
