"""Every setting of a decode: its type, range, description and symbol; and the kinds of tests that the rules make.

Sliders, command-line flags, API documents and validation are made from :data:`SETTINGS`."""

from __future__ import annotations

import re
from dataclasses import dataclass
from enum import StrEnum
from typing import Annotated, Any, Literal, TypedDict

import msgspec

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.fields import ask, fields_of, parse


class Option(StrEnum):
    """A setting with named values and their labels."""

    label: str

    def __new__(cls, value: str, label: str) -> Option:
        member = str.__new__(cls, value)
        member._value_, member.label = value, label
        return member


class RevealOrder(Option):
    """Which masked positions a denoising step reveals (``maths/unmasking.py``)."""

    LEFT_TO_RIGHT = "left_to_right", "Left to right"
    RANDOM = "random", "Random (as in MDLM, but in equal steps)"
    ENTROPY = "entropy", "Lowest entropy first"
    MARGIN = "margin", "Largest top-2 margin first"
    MAX_PROB = "max_prob", "Most probable first"
    VALUE_CONFIDENCE = "value_confidence", "Confidence of the drawn value (LLaDA)"


Order = Annotated[RevealOrder, ask("Reveal order", "Which masked positions each denoising step reveals.")]


class Rule(Option):
    """How drafted tokens are tested (``decoding/verify.py``)."""

    RATIO = "ratio", "Ratio: accept with min(1, p/q), exact"
    BLOCK = "block", "Block: test the draft as a whole; exact, and on average accepts at least as many tokens as Ratio"
    MATCH = "match", "Match: same noise as vanilla, identical text"
    DELTA = "delta", "Delta: accept with p, exact for any draft"
    NAIVE = "naive", "Naive: p/q in any reveal order, not always lossless"

    @property
    def lossless(self) -> bool:
        """Whether emitted tokens provably have the target's distribution (docs/theory.md)."""
        return self in (Rule.RATIO, Rule.BLOCK, Rule.MATCH, Rule.DELTA)

    @property
    def uses_q(self) -> bool:
        """Whether it tests with p/q, and as a point mass where q is not known."""
        return self in (Rule.RATIO, Rule.BLOCK, Rule.NAIVE)

    @property
    def same_text(self) -> bool:
        """Whether the text equals vanilla's at any temperature, token for token where the target's sums do."""
        return self is Rule.MATCH


class TestKind(msgspec.Struct, frozen=True, kw_only=True):
    """A kind of acceptance test. Its words are filled with a test's p, q, threshold, draw and outcome."""

    words: str  # its numbers in a sentence
    short: str  # the same where there is little room
    passed: tuple[str, str] | None = None  # words and short where a longer part of the draft passed, without a draw
    outcomes: tuple[str, str]  # accepted, rejected
    question: str = "Does this token pass the test?"
    bound: str = ""  # the acceptance probability, where it is one of a single token
    draws: bool = True  # u is drawn; False: the target draws a token, and the test compares
    walks: bool = False  # tests all children of a node at once


KindName = Literal["ratio", "delta", "block", "match", "tree"]
_BOUNDS: dict[KindName, str] = {"ratio": "min(1, p/q)", "delta": "p"}
_PQ, _SHORT, _SIGNS = "p = {p}, q = {q}; ", "u {draw} {outcome} {threshold}", ("<", "≥")
TEST_KINDS: dict[KindName, TestKind] = {
    **{
        name: TestKind(
            words=f"{_PQ}accepted with probability {bound} = {{threshold}}, drawn u = {{draw}}",
            short=_SHORT,
            outcomes=_SIGNS,
            bound=bound,
        )
        for name, bound in _BOUNDS.items()
    },
    "block": TestKind(
        words=_PQ + "the draft up to here passes as a whole with probability {threshold}, drawn u = {draw}",
        short=_SHORT,
        passed=(
            _PQ + "the draft up to here passes as a whole with probability {threshold}; a longer part of it passed",
            "in the block",
        ),
        outcomes=_SIGNS,
    ),
    "match": TestKind(
        words=_PQ + "shared noise: accepted if the target draws the same token",
        short="{outcome}",
        outcomes=("same", "differs"),
        question="Does the target draw this token too?",
        draws=False,
    ),
    "tree": TestKind(
        words="the branches here have p = {threshold} together; the target drew {outcome}",
        short="Σp {threshold}",
        outcomes=("one of them", "another token"),
        question="Does the target take one of these tokens?",
        draws=False,
        walks=True,
    ),
}
"""The kinds of tests by name, for the verifier, traces and the page."""


class Selection(Option):
    """How the target uses several drafts of one round (``decoding/verify.py``)."""

    SELF = "self", "Self-selection: the target scores all, the best is tested (SpecDiff-2)"
    TRIE = "trie", "Trie: they form a tree, and the target follows the branch of its own tokens"
    MULTI_ROUND = "multi_round", "Multi-round: one after the other, p/q on what is left of p"


class Template(Option):
    """How a prompt becomes what the target reads (``specdiff_core/chat.py``)."""

    AUTO = "auto", "As the target expects: a chat message if it has a template"
    PLAIN = "plain", "The beginning of a text"
    CHAT = "chat", "A chat message, answered at once"
    THINK = "think", "A chat message, answered after thinking"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """How logits become a distribution. Temperature 0: one-hot; top-k 0, top-p 1: all tokens."""

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0


def cut_steps(steps: int, gamma: int) -> int:
    """T, at most γ, because each denoising step reveals at least one token; 1 if nothing is drafted."""
    return max(1, min(steps, gamma))


@dataclass(frozen=True, slots=True, kw_only=True)
class DecodeConfig:
    """All settings of one decode. Construction validates; use :meth:`parse` for untrusted names as well.

    Raises:
        ConfigError: a value is out of range or of the wrong type; ``field`` names it.
    """

    # fmt: off
    pair: Annotated[str, ask("Model pair", "Target and drafters that share one tokenizer.", least=1)] = "embedded"
    drafter: Annotated[str, ask("Drafter", "What proposes tokens; 'none' is vanilla decoding.", least=1)] = "block"
    gamma: Annotated[int, ask(
        "Draft window", "Tokens drafted per round, at most as many as the drafter was trained for.",
        1, 32, symbol="γ", unit="tokens",
    )] = 8
    steps: Annotated[int, ask(
        "Denoising steps", "Drafter passes that fill the window; 1 reveals all positions at once. At most γ.",
        1, 32, symbol="T", unit="passes",
    )] = 1
    auto: Annotated[bool, ask(
        "Adaptive γ, T or nodes",
        "A controller picks T for each round, up to the one set, for the most tokens per second, "
        "judging by earlier rounds. It ends a draft early, after at most γ tokens, when another "
        "position would cost more than it gains. A tree from one pass keeps up to B nodes: those "
        "that save more than they cost.",
    )] = False
    order: Order = RevealOrder.LEFT_TO_RIGHT
    tree_nodes: Annotated[int, ask(
        "Draft tree",
        "Nodes of a draft tree, grown from one drafter pass (EAGLE-2: one per depth) and verified "
        "in one target pass; 0 drafts one window.",
        0, 128, symbol="B", unit="nodes",
    )] = 0
    num_drafts: Annotated[int, ask(
        "Drafts",
        "Drawn independently from one drafter pass and scored in one target pass. With several "
        "drafts and a greedy target, an empty drafter temperature means 1.",
        1, 16, symbol="K", unit="drafts",
    )] = 1
    selection: Annotated[Selection, ask(
        "Use of several drafts", "How the target uses the K drafts. All three ways are lossless."
    )] = Selection.SELF
    rule: Annotated[Rule, ask(
        "Verification rule", "How the target's pass accepts or rejects drafted tokens."
    )] = Rule.BLOCK
    temperature: Annotated[float, ask(
        "Temperature", "The target’s; 0 always takes the most probable token.", 0.0, 2.0, step=0.1
    )] = 0.0
    draft_temperature: Annotated[float, ask(
        "Drafter temperature",
        "Empty means the target's. With an exact rule it changes only the acceptance rate, never "
        "the distribution of the text.",
        0.0, 2.0, step=0.1,
    )] | None = None
    top_k: Annotated[int, ask(
        "Top-k", "Keep the k most probable tokens; 0 keeps all.", 0, 4096, symbol="k"
    )] = 0
    top_p: Annotated[float, ask(
        "Top-p", "Keep the fewest tokens whose probabilities add up to this; 1 keeps all.", 0.01, 1.0, step=0.01
    )] = 1.0
    seed: Annotated[int, ask(
        "Seed", "The same seed gives the same text (with auto above temperature 0, only under match).", 0, 2**31 - 1
    )] = 0
    max_new_tokens: Annotated[int, ask(
        "New tokens", "Stop after this many tokens, or where the context is full.", 1, 2**20, unit="tokens"
    )] = 96
    ignore_eos: Annotated[bool, ask(
        "Ignore end of text", "Continue past end-of-text tokens, so that all runs have the same length."
    )] = False
    template: Annotated[Template, ask(
        "The prompt is", "How the prompt is presented to the target."
    )] = Template.AUTO
    system: Annotated[str, ask(
        "System prompt", "The beginning of a chat, if the target supports one.", most=4000
    )] = ""
    stop: Annotated[str, ask(
        "Stop at", "The text ends before the first of these strings, one per line, with \\n for a line break.",
        most=400, lines=True,
    )] = ""
    # fmt: on

    def __post_init__(self) -> None:
        for name, field in SETTINGS.items():
            object.__setattr__(self, name, field.read(getattr(self, name)))
        if cut_steps(self.steps, self.gamma) < self.steps:
            what = f"T = {self.steps} denoising steps cannot reveal γ = {self.gamma} tokens."
            raise ConfigError(what, field="steps", hint=f"Choose T at most {self.gamma}, or a larger γ.")
        if self.num_drafts > 1 and self.tree_nodes:
            what = f"K = {self.num_drafts} drafts and a tree of {self.tree_nodes} nodes can’t be combined."
            raise ConfigError(what, field="num_drafts", hint="Set the draft tree to 0, or K to 1.")
        if self.stop.startswith(("\n", "\r")):
            hint = "Write \\n for a line break; in Python, give a list of strings."
            raise ConfigError("“Stop at” begins with an empty line.", field="stop", hint=hint)

    @property
    def sampling(self) -> Sampling:
        """The target's sampling, which defines p."""
        return Sampling(temperature=self.temperature, top_k=self.top_k, top_p=self.top_p)

    @property
    def draft_sampling(self) -> Sampling:
        """The drafter's sampling, which defines q, both for drawing and for testing."""
        temperature = self.temperature if self.draft_temperature is None else self.draft_temperature
        if self.draft_temperature is None and self.num_drafts > 1 and not temperature:
            temperature = 1.0  # K greedy drafts would be equal
        return Sampling(temperature=temperature, top_k=self.top_k, top_p=self.top_p)

    @property
    def rule_used(self) -> Rule:
        """The rule that tests: at temperature 0 ``block`` accepts what ``ratio`` accepts, which costs less."""
        return Rule.RATIO if self.rule is Rule.BLOCK and not self.temperature else self.rule

    @property
    def lossless(self) -> bool:
        """Whether the text provably has the target's distribution: by its rule, or because ``naive`` has no position
        here that is revealed before one to its left (trees and several drafts come from one step)."""
        single = self.num_drafts == 1 and not self.tree_nodes
        return self.rule.lossless or not single or self.steps == 1 or self.order is RevealOrder.LEFT_TO_RIGHT

    @property
    def stops(self) -> tuple[str, ...]:
        """The strings before which the text ends."""
        return tuple(line.replace("\\n", "\n") for line in re.split(r"\r?\n", self.stop) if line)

    def to_dict(self) -> dict[str, Any]:
        """Plain values, as stored in traces and share links."""
        values: dict[str, Any] = msgspec.to_builtins(self)
        return values

    @classmethod
    def parse(cls, values: dict[str, Any]) -> DecodeConfig:
        """A config from untrusted values (strings from a URL, JSON from an API)."""
        return parse(cls, values)


class Settings(TypedDict, total=False):
    """The fields of :class:`DecodeConfig` as keyword arguments, for editors; a test compares both."""

    pair: str
    drafter: str
    gamma: int
    steps: int
    auto: bool
    order: RevealOrder | str
    tree_nodes: int
    num_drafts: int
    selection: Selection | str
    rule: Rule | str
    temperature: float
    draft_temperature: float | None
    top_k: int
    top_p: float
    seed: int
    max_new_tokens: int
    ignore_eos: bool
    template: Template | str
    system: str
    stop: str


SETTINGS = fields_of(DecodeConfig)
"""Name -> setting, in display order."""


def check_prompt(prompt: object) -> str:
    """The prompt, if it is valid.

    Raises:
        ConfigError: it is not text, or empty.
    """
    hint = "Write a few words, or choose an example."
    if not isinstance(prompt, str):
        raise ConfigError("The prompt must be text.", field="prompt", hint=hint)
    if not prompt.strip():
        raise ConfigError("The prompt is empty.", field="prompt", hint=hint)
    try:
        prompt.encode()
    except UnicodeEncodeError:
        hint = "Type it again as plain text."
        raise ConfigError("The prompt contains characters that aren’t text.", field="prompt", hint=hint) from None
    return prompt
