"""Knows every setting of a decode: its range, its words, its symbol. Knows nothing about torch, models or widgets.

Sliders, command-line help, API docs and validation are all read from the field metadata below.
"""

from __future__ import annotations

import dataclasses
import math
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

from specdiff_core.errors import ConfigError


class RevealOrder(str, Enum):
    """Which masked positions a denoising step reveals (``specdiff_core/unmask.py``)."""

    LEFT_TO_RIGHT = "left_to_right"
    RANDOM = "random"
    ENTROPY = "entropy"
    MARGIN = "margin"
    MAX_PROB = "max_prob"
    VALUE_CONFIDENCE = "value_confidence"


class Rule(str, Enum):
    """How drafted tokens are tested (``specdiff_core/verify.py``)."""

    RATIO = "ratio"
    MATCH = "match"
    DELTA = "delta"
    NAIVE = "naive"

    @property
    def lossless(self) -> bool:
        """Whether the emitted tokens provably follow the target's law (papers.md §7)."""
        return self is not Rule.NAIVE


class Selection(str, Enum):
    """What becomes of several drafts of one round (``specdiff_core/verify.py``)."""

    SELF = "self"
    TRIE = "trie"
    MULTI_ROUND = "multi_round"


SELECTION_WORDS = {
    Selection.SELF: "Self-selection: the target scores all, the best is tested (SpecDiff-2)",
    Selection.TRIE: "Trie: the target's draws walk all of them",
    Selection.MULTI_ROUND: "Multi-round: one after the other, p/q on what is left of p",
}

ORDER_WORDS = {
    RevealOrder.LEFT_TO_RIGHT: "Left to right",
    RevealOrder.RANDOM: "Random (as MDLM, in equal steps)",
    RevealOrder.ENTROPY: "Lowest entropy first",
    RevealOrder.MARGIN: "Largest top-2 margin first",
    RevealOrder.MAX_PROB: "Most probable first",
    RevealOrder.VALUE_CONFIDENCE: "Confidence of the drawn value (LLaDA)",
}

RULE_WORDS = {
    Rule.RATIO: "Ratio: accept with min(1, p/q), exact",
    Rule.MATCH: "Match: same noise as vanilla, identical text",
    Rule.DELTA: "Delta: accept with p, exact for any draft",
    Rule.NAIVE: "Naive: p/q in any reveal order, not always lossless",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """One transformation of logits into a distribution. ``temperature`` 0 is one-hot; 0 and 1.0 switch k and p off."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0


def setting(
    default: Any,
    label: str,
    help: str,
    *,
    symbol: str = "",
    unit: str = "",
    low: float | None = None,
    high: float | None = None,
    step: float | None = None,
    advanced: bool = False,
) -> Any:
    """A dataclass field with everything a slider, a flag and a validator need."""
    metadata = {
        "label": label,
        "help": help,
        "symbol": symbol,
        "unit": unit,
        "low": low,
        "high": high,
        "step": step,
        "advanced": advanced,
    }
    return field(default=default, metadata=metadata)


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    """All settings of one decode. Construction validates; use :meth:`parse` for untrusted values.

    Raises:
        ConfigError: a value is out of range or of the wrong type; ``field`` names it.
    """

    pair: str = setting("embedded", "Model pair", "Target and drafters that share one tokenizer.")
    drafter: str = setting("block", "Drafter", "What proposes tokens; 'none' is vanilla decoding.")
    gamma: int = setting(
        8,
        "Draft window",
        "Tokens drafted per round. A drafter takes no more than it was trained for (block: 16).",
        symbol="γ",
        unit="tokens",
        low=1,
        high=32,
        step=1,
    )
    steps: int = setting(
        1,
        "Denoising steps",
        "Drafter passes that fill the window; 1 reveals all at once. At most γ.",
        symbol="T",
        unit="passes",
        low=1,
        high=32,
        step=1,
    )
    auto: bool = setting(
        False,
        "Choose γ, T or nodes as it goes",
        "Each round takes the T, at most the one set, that promises the most tokens per second by what earlier rounds "
        "showed, and ends the draft, after γ tokens at most, where another position would cost more than it brings. "
        "A tree from one pass gets the nodes that are worth their rows, B at most.",
        advanced=True,
    )
    order: RevealOrder = setting(
        RevealOrder.LEFT_TO_RIGHT, "Reveal order", "Which masked positions each denoising step reveals."
    )
    tree_nodes: int = setting(
        0,
        "Draft tree",
        "Nodes of a tree of drafts, grown from one drafter pass (EAGLE-2: one per depth) and verified in one target "
        "pass; 0 drafts one window.",
        symbol="B",
        unit="nodes",
        low=0,
        high=128,
        step=1,
        advanced=True,
    )
    num_drafts: int = setting(
        1,
        "Drafts",
        "Drawn independently from one drafter pass and scored in one target pass. With more than one and a greedy "
        "target, an empty drafter temperature means 1.",
        symbol="K",
        unit="drafts",
        low=1,
        high=16,
        step=1,
        advanced=True,
    )
    selection: Selection = setting(
        Selection.SELF, "Of several drafts", "What the target does with them. All three are lossless.", advanced=True
    )
    rule: Rule = setting(Rule.RATIO, "Verification rule", "How the target's pass accepts or rejects drafted tokens.")
    temperature: float = setting(
        0.0,
        "Temperature",
        "Of the target: 0 always takes the most probable token.",
        low=0.0,
        high=2.0,
        step=0.1,
    )
    draft_temperature: float | None = setting(
        None,
        "Drafter temperature",
        "Of the drafter; empty means the target's. Under an exact rule it changes the acceptance only, never the law.",
        low=0.0,
        high=2.0,
        step=0.1,
        advanced=True,
    )
    top_k: int = setting(
        0, "Top-k", "Keep the k most probable tokens; 0 keeps all.", symbol="k", low=0, high=4096, step=1, advanced=True
    )
    top_p: float = setting(
        1.0,
        "Top-p",
        "Keep the smallest set of tokens with this probability; 1 keeps all.",
        low=0.01,
        high=1.0,
        step=0.01,
        advanced=True,
    )
    seed: int = setting(
        0,
        "Seed",
        "Same seed, same text (with auto above temperature 0: under match only).",
        low=0,
        high=2**31 - 1,
        step=1,
        advanced=True,
    )
    max_new_tokens: int = setting(
        96, "New tokens", "Stop after this many tokens.", unit="tokens", low=1, high=480, step=1, advanced=True
    )
    ignore_eos: bool = setting(
        False, "Ignore end of text", "Go on after an end-of-text token (for benchmarks of equal length).", advanced=True
    )

    def __post_init__(self) -> None:
        for item in dataclasses.fields(self):
            object.__setattr__(self, item.name, _coerce(item, getattr(self, item.name)))
        if self.steps > self.gamma:
            raise ConfigError(
                f"T = {self.steps} denoising steps cannot reveal γ = {self.gamma} tokens.",
                field="steps",
                hint=f"Choose T at most {self.gamma}, or a larger γ.",
            )
        if self.num_drafts > 1 and self.tree_nodes:
            raise ConfigError(
                f"K = {self.num_drafts} drafts and a tree of {self.tree_nodes} nodes exclude each other.",
                field="num_drafts",
                hint="Set the draft tree to 0, or K to 1.",
            )

    @property
    def sampling(self) -> Sampling:
        """The target's transformation: it defines p."""
        return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)

    @property
    def draft_sampling(self) -> Sampling:
        """The drafter's transformation: it defines q, used both to draw and to test."""
        temperature = self.temperature if self.draft_temperature is None else self.draft_temperature
        if self.draft_temperature is None and self.num_drafts > 1 and not temperature:
            temperature = 1.0  # K greedy drafts would be one draft
        return Sampling(temperature=temperature, top_k=self.top_k, top_p=self.top_p)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as stored in traces and share links."""
        return {
            item.name: value.value if isinstance(value := getattr(self, item.name), Enum) else value
            for item in dataclasses.fields(self)
        }

    @classmethod
    def parse(cls, values: dict[str, Any]) -> DecodeConfig:
        """Build a config from untrusted values (strings from a URL, JSON from an API)."""
        known = {item.name for item in dataclasses.fields(cls)}
        for name in values:
            if name not in known:
                raise ConfigError(
                    f"There is no setting called {str(name)[:40]!r}.",
                    field=str(name)[:40],
                    hint=f"Settings are: {', '.join(sorted(known))}.",
                )
        return cls(**values)


def _coerce(item: dataclasses.Field[Any], value: Any) -> Any:
    """One value, checked against its field: type, then range."""
    meta, kind = item.metadata, str(item.type)
    label = f"{meta['label']} ({meta['symbol']})" if meta["symbol"] else str(meta["label"])
    if "None" in kind and (value is None or value == ""):
        return None
    if kind == "str":
        if not isinstance(value, str) or not value:
            raise ConfigError(f"{label} must be a name.", field=item.name, hint="Choose one from the list.")
        return value
    if kind == "bool":
        if isinstance(value, bool):
            return value
        if str(value).lower() in {"true", "false", "0", "1"}:
            return str(value).lower() in {"true", "1"}
        raise ConfigError(f"{label} must be true or false.", field=item.name, hint="Use true or false.")
    if kind in {"RevealOrder", "Rule", "Selection"}:
        enums: dict[str, type[Enum]] = {"RevealOrder": RevealOrder, "Rule": Rule, "Selection": Selection}
        choices = enums[kind]
        try:
            return choices(value)
        except ValueError:
            names = ", ".join(str(choice.value) for choice in choices)
            raise ConfigError(
                f"{label} {str(value)[:40]!r} does not exist.", field=item.name, hint=f"Choose one of: {names}."
            ) from None
    low, high = meta["low"], meta["high"]
    limits = f"between {low} and {high}"
    try:
        number = math.nan if "_" in str(value) else float(value)  # Python alone reads "1_0" as ten
    except (TypeError, ValueError, OverflowError):
        number = math.nan
    if isinstance(value, bool) or math.isnan(number):
        told = f"{label} is empty." if value in (None, "") else f"{label} must be a number, not {str(value)[:40]!r}."
        raise ConfigError(told, field=item.name, hint=f"Give a number {limits}.")
    if not low <= number <= high:
        raise ConfigError(
            f"{label} = {str(value)[:40]} is out of range.", field=item.name, hint=f"Give a number {limits}."
        )
    if kind == "int":
        if number != int(number):
            raise ConfigError(
                f"{label} must be a whole number, not {str(value)[:40]}.", field=item.name, hint=f"Choose {limits}."
            )
        return int(number)
    return number


def check_prompt(prompt: object) -> str:
    """The prompt, if it is text that can be continued.

    Raises:
        ConfigError: it is no text, or empty.
    """
    if not isinstance(prompt, str):
        raise ConfigError("The prompt must be text.", field="prompt", hint="Write a few words, or take an example.")
    if not prompt.strip():
        raise ConfigError("The prompt is empty.", field="prompt", hint="Write a few words, or take an example.")
    if any("\ud800" <= char <= "\udfff" for char in prompt):  # half a UTF-16 pair: no tokenizer takes it
        raise ConfigError(
            "The prompt holds characters that are no text.", field="prompt", hint="Type it again as plain text."
        )
    return prompt
