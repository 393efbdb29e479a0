"""Formulas as native MathML: letters and the shapes between them. Knows notation, no method and no number."""

from __future__ import annotations

from app.html import element

SIGNS = frozenset("=∼∣·,+−≤<∈∝←…")


def atom(text: str) -> str:
    """A variable, a number, an operator or a word, by its letters."""
    if text in SIGNS:
        return element("mo", text=text)
    if text.replace(".", "").isdigit():
        return element("mn", text=text)
    return element("mi", text=text) if len(text) <= 2 else element("mi", text=text, mathvariant="normal")


def row(*parts: str) -> str:
    """Several things as one. What is no markup yet becomes an :func:`atom`."""
    return element("mrow", *map(_made, parts))


def _made(part: str) -> str:
    return part if part.startswith("<m") else atom(part)


def sub(base: str, *below: str) -> str:
    """base_below."""
    return element("msub", _made(base), row(*below))


def power(base: str, *above: str) -> str:
    """base^above."""
    return element("msup", _made(base), row(*above))


def hat(base: str) -> str:
    """A guess at ``base``."""
    return element("mover", _made(base), element("mo", text="^"), accent="true")


def fraction(above: str, below: str) -> str:
    """above / below."""
    return element("mfrac", _made(above), _made(below))


def total(below: str, above: str = "") -> str:
    """A sum with its limits."""
    return _big("∑", below, above)


def product(below: str, above: str = "") -> str:
    """A product with its limits."""
    return _big("∏", below, above)


def under(word: str, below: str) -> str:
    """An operator in letters, as max, with what stands under it."""
    return element("munder", element("mo", text=word, movablelimits="false"), _made(below))


def _big(sign: str, below: str, above: str) -> str:
    kind = "munderover" if above else "munder"
    return element(kind, element("mo", text=sign), _made(below), *([_made(above)] if above else []))


def bracket(*parts: str, ends: str = "()") -> str:
    """Parts between brackets that grow with them."""
    return element("mrow", element("mo", text=ends[0]), *map(_made, parts), element("mo", text=ends[1]))


def space(width: str = "1.2em") -> str:
    """Room, by default as between two halves of a line."""
    return element("mspace", width=width)


def formula(*parts: str, words: str) -> str:
    """A formula on a line of its own; ``words`` say it aloud where MathML is not read."""
    return element("math", row(*parts), display="block", alttext=words, aria_label=words)
