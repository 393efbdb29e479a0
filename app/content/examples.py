"""Example prompts and presets for each pair."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from specdiff_core.schema.methods import find_method
from specdiff_core.schema.pairs import EMBEDDED, known_pair
from specdiff_core.schema.settings import DecodeConfig


@dataclass(frozen=True, slots=True)
class Example:
    """A prompt of one kind of text."""

    flavour: str
    prompt: str


EXAMPLES: dict[str, tuple[Example, ...]] = {
    "smollm2": (  # messages to an assistant
        Example("Chat", "Why is the sky blue?"),
        Example("Code", "Write a Python function that reverses a string."),
        Example("Math", "What is the area of a rectangle that is 6 m long and 4 m wide?"),
        Example("List", "List the seven days of the week."),
        Example("Story", "Tell me a short story about a girl who finds a magic key."),
    ),
    "embedded": (  # beginnings of a text
        Example("Dialogue", "User: Hi, I would like to book a table for four people tonight.\nAssistant:"),
        Example("Story", "Once upon a time, a kind old baker lived in a small village by the sea. One day,"),
        Example(
            "Math",
            "Question: Lena has 3 boxes with 12 pencils each. She gives 9 pencils to her brother. "
            "How many pencils does she have left?\nAnswer:",
        ),
        Example("Code", 'def count_vowels(text: str) -> int:\n    """\n    Return the number of vowels in text.\n'),
    ),
}
MOST = max(map(len, EXAMPLES.values()))


def examples_of(pair: str) -> tuple[Example, ...]:
    """The examples of a pair; for other pairs those of SmolLM2 if they chat, otherwise the embedded pair's."""
    spec = known_pair(pair)
    return EXAMPLES.get(pair) or EXAMPLES["smollm2" if spec and spec.chat else "embedded"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Preset:
    """Named settings for a pair: those of a method, and ``values`` that differ.

    ``slug`` names its recordings' files; by default the label does.
    """

    label: str
    method: str = "dflash"
    values: dict[str, Any] = field(default_factory=dict)
    pair: str = "embedded"
    slug: str = ""

    @property
    def config(self) -> DecodeConfig:
        """All settings, by default those of the method."""
        base = DecodeConfig(pair=self.pair)
        return DecodeConfig.parse({**find_method(self.method).config(base).to_dict(), **self.values})


def _small(label: str, method: str = "dflash", slug: str = "", **values: Any) -> Preset:
    """A preset of SmolLM2, with a window that pays on two CPU cores (BENCHMARKS.md)."""
    return Preset(label=label, method=method, values={"gamma": 4, **values}, pair="smollm2", slug=slug)


PRESETS = (  # the first is what the page opens with
    _small("Markov head, 4 tokens (DSpark)", "markov"),
    _small("Markov head, tree of 4 nodes", "markov_tree", tree_nodes=4),
    _small("One pass, 4 tokens (DFlash)"),
    _small("One pass, 8 tokens (DFlash)", gamma=8),
    _small("Draft tree of 8 nodes (DDTree)", "ddtree", gamma=8, tree_nodes=8),
    _small("Four denoising steps", gamma=8, steps=4),
    _small("Adaptive γ", "auto", slug="chosen as it goes", gamma=8),
    _small("Prompt lookup", "prompt_lookup", gamma=8),
    _small("Sampling at 0.7, exact ratio test", temperature=0.7),
    _small("Sampling at 0.7, same noise as vanilla", rule="match", temperature=0.7),
    Preset(label="Four denoising steps", values={"gamma": 8, "steps": 4}),
    Preset(label="One pass (DFlash)"),
    Preset(label="Draft tree (DDTree)", method="ddtree"),
    Preset(label="Markov head, draft tree", method="markov_tree"),
    Preset(label="Markov head (DSpark)", method="markov"),
    Preset(label="Adaptive γ", method="auto", slug="chosen as it goes"),
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
OPENING = PRESETS[0]


def presets_of(pair: str) -> list[int]:
    """Places in :data:`PRESETS`: those of a pair's own, or of the embedded pair's whose drafter it has."""
    if own := [place for place, preset in enumerate(PRESETS) if preset.pair == pair]:
        return own
    spec = known_pair(pair) or EMBEDDED
    return [
        place
        for place, preset in enumerate(PRESETS)
        if preset.pair == "embedded" and spec.playing(find_method(preset.method).drafter)
    ]
