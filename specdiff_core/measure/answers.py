"""Extracts the final answer of a solution and normalises it."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

NUMBER = r"-?\d+(?:,\d{3})*(?:\.\d+)?"
_STATED = re.compile(r"(?i:answer)\**(?: is|:)[:*\s]*([^\n]+)")
_COUNTED = re.compile(rf"\$?({NUMBER})\$?(?=[,;]?\s+(?!(?:and|or|to|over|plus|minus|times|pi|sqrt)\b)[A-Za-z]{{2}})")
"""A number before the noun that it counts, or before an explanation."""


def final_answer(text: str, *, ended: bool = True) -> str:
    """The final answer of a solution: the content of its last ``\\boxed{…}``, the text after
    ``####`` or "answer is", otherwise its last number; empty if there is none. A line with
    ``Question:`` begins another problem.

    Args:
        ended: whether the text was not cut off; the last number of one that was is not an answer.
    """
    text = re.split(r"\n\s*Question:", text)[0]
    if (boxed := _boxed(text)) is not None:
        return boxed
    if "####" in text:
        return text.rpartition("####")[2].strip().split("\n")[0].strip()
    if stated := _STATED.findall(text):
        statement = str(stated[-1]).split(". ")[0]
        if counted := _COUNTED.match(statement):
            return counted[1]
        return statement.strip().rstrip(".*$ ").lstrip("$")
    numbers = re.findall(rf"{NUMBER}(?:/\d+)?", text) if ended else ()
    return numbers[-1] if numbers else ""


def _boxed(text: str) -> str | None:
    """The content of the last ``\\boxed{…}``, whose braces may hold others."""
    start = text.rfind("\\boxed{")
    if start < 0:
        return None
    start, depth = start + len("\\boxed{"), 1
    for end, char in enumerate(text[start:], start=start):
        depth += {"{": 1, "}": -1}.get(char, 0)
        if not depth:
            return text[start:end].strip()
    return None  # incomplete


_DROPPED = re.compile(
    r"\\left|\\right|\\[!,; ()\[\]]|\\\$|\$|\*\*|\\%|%|\{,\}"
    r"|\\(?:text|mbox|mathrm)\{[^}]*\}(?:\^\{?\d\}?)?|\^\{?\\circ\}?|\s"
)
"""Formatting without meaning: spaces, sized brackets, dollar signs, units."""


def canonical(answer: str) -> str:
    """An answer in normal form: numbers and quotients by value, ``1,200.50`` and
    ``\\frac{2401}{2}`` as ``1200.5``; expressions without formatting (spaces, units, ``\\dfrac``,
    ``\\left``, dollar signs); words in lower case. Empty if nothing is left."""
    plain = _plain(re.sub(r"^\s*\\text\{([^}]*)\}\s*$", r"\1", answer))
    if words := re.fullmatch(r"\(?([A-Za-z]+)\)?", plain):
        return words[1].lower()
    if (value := _number(plain)) is None:
        return plain
    short = f"{Decimal(value.numerator) / Decimal(value.denominator):f}"
    return short if Fraction(short) == value else str(value)


def _plain(answer: str) -> str:
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
    except (ValueError, ZeroDivisionError):  # thousands of digits, or division by zero
        return None
