"""Formulas as MathML, and words with their letters."""

from __future__ import annotations

import re
from collections.abc import Iterable

import msgspec
from latex2mathml.converter import convert

from .html import element, escape


class Formula(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A formula in LaTeX, and its text alternative."""

    latex: str
    words: str


def formula(equation: Formula) -> str:
    """A formula as MathML, with a text alternative. Its parts, separated by ``quad`` in LaTeX, wrap
    on narrow screens. Two bars enclose what is between them, without a space."""
    latex = re.sub(r"\|([^|]+)\|", r"\\left|\1\\right|", equation.latex)
    parts = (convert(part, display="block") for part in re.split(r"\\q?quad", latex))
    inner = "".join(part[part.index(">") + 1 : -len("</math>")] for part in parts)
    return element("math", inner, alttext=equation.words, aria_label=equation.words, display="block")


def letters(words: str) -> str:
    """Words with letters of a formula as HTML; ``α_j`` gets a subscript, and ``α^(n)`` a superscript."""
    return re.sub(r"\^\(([^()]*)\)", r"<sup>\1</sup>", re.sub(r"_(\w)", r"<sub>\1</sub>", escape(words)))


def typeset(formulas: Iterable[Formula], meanings: str) -> str:
    """Formulas, and below them what their letters mean."""
    caption = element("figcaption", letters(meanings))
    return element("figure", *map(formula, formulas), caption, class_="sd-formula", tabindex="0")
