"""The workloads that papers measure on: streamed from the dataset hub by ``datasets``, pinned, cached by it; and how an
answer to their problems is scored. Offline they say how to point to a file.
"""

from __future__ import annotations

import importlib
import itertools
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from specdiff_core.bench.prompts import Prompt
from specdiff_core.schema.errors import ConfigError

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """A published set of prompts."""

    name: str
    label: str
    source: str  # of the dataset hub, at ``revision``
    revision: str
    licence: str
    config: str | None = None
    split: str = "test"
    flavour: Callable[[Row], str]
    prompt: Callable[[Row], str]
    answer: Callable[[Row], str] = lambda row: ""  # empty: nothing to score

    @property
    def scored(self) -> bool:
        """Whether its prompts have answers."""
        return bool(self.answer({"answer": "1"}))


def _gsm8k_answer(row: Row) -> str:
    return str(row["answer"]).rpartition("####")[2].strip()


BOXED = "\n\nReason step by step, and put the final answer within \\boxed{}."

WORKLOADS: dict[str, Workload] = {
    one.name: one
    for one in (
        Workload(
            name="cnn_dailymail", label="CNN/DailyMail, summaries", source="abisee/cnn_dailymail", config="3.0.0",
            revision="96df5e686bee6baa90b8bee7c28b81fa3fa6223d", licence="apache-2.0", flavour=lambda row: "summary",
            prompt=lambda row: f"Summarise this article.\n\n{row['article']}\n\nSummary:",
        ),
        Workload(
            name="openwebtext", label="OpenWebText, continued", source="Skylion007/openwebtext", split="train",
            revision="79d93d786212f7344586290adb811d4ae6a1762c", licence="cc0-1.0", flavour=lambda row: "web",
            prompt=lambda row: " ".join(str(row["text"]).split(" ")[:64]),
        ),
        Workload(
            name="mt_bench", label="MT-Bench, first turns", source="HuggingFaceH4/mt_bench_prompts", split="train",
            revision="e3a795c5e9a82ee40611c416b8a7786c73198991", licence="apache-2.0",
            flavour=lambda row: str(row["category"]), prompt=lambda row: str(row["prompt"][0]),
        ),
        Workload(
            name="math500", label="MATH-500", source="HuggingFaceH4/MATH-500",
            revision="6e4ed1a2a79af7d8630a6b768ec859cb5af4d3be", licence="mit",
            flavour=lambda row: str(row["subject"]).lower(), prompt=lambda row: f"{row['problem']}{BOXED}",
            answer=lambda row: str(row["answer"]),
        ),
        Workload(
            name="gsm8k", label="GSM8K", source="openai/gsm8k", config="main",
            revision="e53f048856ff4f594e959d75785d2c2d37b678ee", licence="mit", flavour=lambda row: "math",
            prompt=lambda row: f"{row['question']}{BOXED}", answer=_gsm8k_answer,
        ),
        Workload(
            name="humaneval", label="HumanEval", source="openai/openai_humaneval",
            revision="7dce6050a7d6d172f3cc5c32aa97f52fa1a2e544", licence="mit", flavour=lambda row: "code",
            prompt=lambda row: str(row["prompt"]),
        ),
    )
}  # fmt: skip
"""By name. Spec-Bench is a file of its authors' repository, which ``--prompts FILE`` reads."""


def load_workload(name: str, count: int) -> tuple[Prompt, ...]:
    """The first ``count`` prompts of a workload, in its order.

    Raises:
        ConfigError: there is no such workload, ``datasets`` is not installed, or the hub cannot be reached; the message
            says what to do.
    """
    if name not in WORKLOADS:
        raise ConfigError(
            f"There is no workload {name[:40]!r}.", field="prompts", hint=f"Choose one of: {', '.join(WORKLOADS)}."
        )
    one = WORKLOADS[name]
    with_answers = ', "answer"' if one.scored else ""
    local = f'or give a file of your own: --prompts FILE, JSON lines {{"id", "flavour", "prompt"{with_answers}}}.'
    try:
        datasets = importlib.import_module("datasets")
    except ImportError as error:
        raise ConfigError(
            f"{one.label} is read by a package that is not installed.",
            field="prompts",
            hint=f"pip install 'datasets>=4' (which runs no code of a dataset), {local}",
        ) from error
    try:
        rows = datasets.load_dataset(one.source, one.config, split=one.split, revision=one.revision, streaming=True)
        prompts = tuple(itertools.islice(_prompts(one, rows), count))
    except Exception as error:  # whatever the hub, the network or a file says
        why = " ".join(str(error).split())[:120]
        raise ConfigError(
            f"{one.label} ({one.source}) could not be read: {type(error).__name__}: {why}.",
            field="prompts",
            hint=f"Check the network, {local}",
        ) from error
    if not prompts:
        raise ConfigError(f"{one.label} holds no prompt.", field="prompts", hint=f"Try again, {local}")
    return prompts


def _prompts(one: Workload, rows: Iterator[Row]) -> Iterator[Prompt]:
    for number, row in enumerate(rows, start=1):
        yield Prompt(
            id=f"{one.name}-{number:04}", flavour=one.flavour(row), prompt=one.prompt(row), answer=one.answer(row)
        )


NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?"
_STATED = re.compile(r"(?i:answer)\**(?: is|:)[:*\s]*([^\n]+)")
_COUNTED = re.compile(rf"\$?({NUMBER})\$?(?=[,;]?\s+(?!(?:and|or|to|over|plus|minus|times|pi|sqrt)\b)[A-Za-z]{{2}})")
"""A number before the word for what it counts, or before a reason."""


def answered(text: str, *, ended: bool = True) -> str:
    """The final answer of a worked solution: what stands in its last ``\\boxed{…}``, after ``####`` or "answer is", or
    else its last number; empty where there is none. Whatever follows ``Question:`` on a line of its own is another
    problem, which a target may go on with.

    Args:
        ended: whether the text came to its own end. The last number of one that was cut off is no answer.
    """
    text = re.split(r"\n\s*Question:", text)[0]
    if (boxed := _boxed(text)) is not None:
        return boxed
    if "####" in text:
        return text.rpartition("####")[2].strip().split("\n")[0].strip()
    if stated := _STATED.findall(text):
        said = str(stated[-1]).split(". ")[0]
        if counted := _COUNTED.match(said):
            return counted[1]
        return said.strip().rstrip(".*$ ").lstrip("$")
    numbers = re.findall(rf"{NUMBER}(?:/\d+)?", text) if ended else ()
    return numbers[-1] if numbers else ""


def _boxed(text: str) -> str | None:
    """The content of the last ``\\boxed{…}``, whose braces may hold others."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    start, depth = start + len("\\boxed{"), 1
    for place, char in enumerate(text[start:], start=start):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if not depth:
            return text[start:place].strip()
    return None  # it was not written to its end


_DROPPED = re.compile(
    r"\\left|\\right|\\[!,; ()\[\]]|\\\$|\$|\*\*|\\%|%|\{,\}"
    r"|\\(?:text|mbox|mathrm)\{[^}]*\}(?:\^\{?\d\}?)?|\^\{?\\circ\}?|\s"
)
"""What only sets an expression: spaces, brackets that grow, dollar signs, units."""


def canonical(answer: str) -> str:
    """An answer as every other way to write it: numbers and quotients of numbers by their value, ``1,200.50`` and
    ``\\frac{2401}{2}`` as ``1200.5``; expressions without what only sets them (spaces, units, ``\\dfrac``, ``\\left``,
    dollar signs); words in small letters. Empty where nothing is left."""
    plain = _plain(re.sub(r"^\s*\\text\{([^}]*)\}\s*$", r"\1", answer))
    if words := re.fullmatch(r"\(?([A-Za-z]+)\)?", plain):
        return words[1].lower()
    if (value := _number(plain)) is None:
        return plain
    short = f"{Decimal(value.numerator) / Decimal(value.denominator):f}"
    return short if Fraction(short) == value else str(value)


def _plain(answer: str) -> str:
    """An expression without what only sets it."""
    answer = re.sub(r"\\[dt]frac", r"\\frac", answer)
    answer = re.sub(r"\\frac\s*(?:\{([^{}]*)\}|(\d))\s*(?:\{([^{}]*)\}|(\d))", r"\\frac{\1\2}{\3\4}", answer)
    answer = re.sub(r"\\sqrt\s*(\d)", r"\\sqrt{\1}", answer)
    answer = _DROPPED.sub("", answer)
    answer = re.sub(r"(\d),(?=\d{3}(\D|$))", r"\1", answer)
    return re.sub(r"^[A-Za-z](?:=|\\in)", "", answer.rstrip(".")).removeprefix("+")


def _number(answer: str) -> Fraction | None:
    """The value of a number, a quotient or a ``\\frac{a}{b}``."""
    if parts := re.fullmatch(r"(-?)\\frac\{(-?\d+)\}\{(-?\d+)\}", answer):
        return _quotient(f"{parts[1]}{parts[2]}".replace("--", ""), parts[3])
    if parts := re.fullmatch(r"(-?\d*\.?\d+)(?:/(\d+))?", answer):
        return _quotient(parts[1], parts[2] or "1")
    return None


def _quotient(numerator: str, denominator: str) -> Fraction | None:
    try:
        return Fraction(numerator) / Fraction(denominator)
    except (ValueError, ZeroDivisionError):  # thousands of digits, or none below the line
        return None
