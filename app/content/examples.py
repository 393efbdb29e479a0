"""Example prompts and presets for each pair."""

from __future__ import annotations

from dataclasses import dataclass
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
        Example("Chat", "What is a noun?"),
        Example("Code", "Write a Python function that reverses a string."),
        Example("Math", "What is the area of a rectangle that is 6 m long and 4 m wide?"),
        Example("List", "What are the four seasons?"),
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


@dataclass(frozen=True, slots=True)
class Dare:
    """A run that drafts usually lose: an empty prompt or None leaves what the form has."""

    label: str
    prompt: str = ""
    temperature: float | None = 0.0


DARES = (
    Dare("a poem", "Write a poem about a lighthouse that misses the ships."),
    Dare("German", "Erzähle mir auf Deutsch, warum der Himmel blau ist."),
    Dare("temperature 1", temperature=1.0),
    Dare("random letters", "Continue this sequence: xq vjz kpw fzq jxv wkq zpf"),
)


def examples_from(pair: str) -> str:
    """The pair whose examples a pair has: itself, by default SmolLM2 if it chats, otherwise the embedded pair."""
    spec = known_pair(pair)
    return pair if pair in EXAMPLES else "smollm2" if spec and spec.chat else "embedded"


@dataclass(frozen=True, slots=True)
class Preset:
    """Named settings for a pair; ``slug`` names its recordings' files, by default the label does."""

    label: str
    config: DecodeConfig
    slug: str = ""


def _preset(label: str, method: str = "dflash", slug: str = "", **values: Any) -> Preset:
    """The settings of a method for a pair, by default the embedded one, and ``values`` that differ."""
    base = {"pair": "embedded", **values}
    config = find_method(method).config(DecodeConfig(pair=base["pair"]))
    return Preset(label, DecodeConfig.parse({**config.to_dict(), **base}), slug)


def _small(label: str, method: str = "dflash", slug: str = "", **values: Any) -> Preset:
    """A preset of SmolLM2, with a window that pays on two CPU cores (BENCHMARKS.md)."""
    return _preset(label, method, slug, **{"pair": "smollm2", "gamma": 4, **values})


PRESETS = (  # the first is what the page opens with
    _small("Four denoising steps", gamma=6, steps=4, order="max_prob"),
    _small("One denoising step (DFlash)", gamma=6),
    _small("Markov head, 4 tokens (DSpark)", "markov"),
    _small("Markov head, tree of 4 nodes", "markov_tree", tree_nodes=4),
    _small("One step, 4 tokens (DFlash)"),
    _small("Draft tree of 8 nodes (DDTree)", "ddtree", gamma=8, tree_nodes=8),
    _small("Adaptive γ", "auto", slug="chosen as it goes", gamma=8),
    _small("Prompt lookup", "prompt_lookup", gamma=8),
    _small("Sampling at 0.7, exact ratio test", rule="ratio", temperature=0.7),
    _small("Sampling at 0.7, same noise as vanilla", rule="match", temperature=0.7),
    _preset("Four denoising steps", gamma=8, steps=4),
    _preset("One pass (DFlash)"),
    _preset("Draft tree (DDTree)", "ddtree"),
    _preset("Markov head, draft tree", "markov_tree"),
    _preset("Markov head (DSpark)", "markov"),
    _preset("Adaptive γ", "auto", slug="chosen as it goes"),
    _preset("Independent drafter (SpecDiff)", "specdiff", gamma=6, steps=2),
    _preset("Self-selection of four drafts (SpecDiff-2)", "specdiff2", temperature=1.0),
    _preset("EAGLE-2", "eagle2"),
    _preset("Small autoregressive drafter", "autoregressive"),
    _preset("Sampling, exact ratio test", rule="ratio", temperature=1.0, gamma=8, steps=4),
    _preset("Same noise as vanilla", rule="match", temperature=1.0, gamma=8, steps=4),
    _preset("Naive p/q (not lossless)", rule="naive", temperature=1.0, gamma=8, steps=4, order="random"),
)
OPENING = PRESETS[0].config


def preset_indices(pair: str) -> list[int]:
    """Indices in :data:`PRESETS`: a pair's own, or the embedded pair's whose drafter it has."""
    configs = {index: preset.config for index, preset in enumerate(PRESETS)}
    if indices := [index for index, config in configs.items() if config.pair == pair]:
        return indices
    spec = known_pair(pair) or EMBEDDED
    return [index for index, item in configs.items() if item.pair == EMBEDDED.name and spec.drafter_for(item.drafter)]
