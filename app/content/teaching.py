"""The teacher's guide on the page: docs/teaching.md, which has headings, lists and paragraphs."""

from __future__ import annotations

import re
from pathlib import Path

from app.content.html import element, escape

GUIDE = Path(__file__).resolve().parents[2] / "docs" / "teaching.md"
"""A wheel has no documents."""


def guide(path: Path = GUIDE) -> str:
    """The guide, folded; empty where it was not installed."""
    if not path.is_file():
        return ""
    blocks = path.read_text(encoding="utf-8").strip().split("\n\n")[1:]  # its title is the summary
    summary = element("summary", text="For the teacher: minutes, wrong guesses to expect, and the key")
    return element("details", summary, *map(_block, blocks), class_="sd-lesson sd-teacher", id="sd-teacher")


def _block(text: str) -> str:
    if text.startswith("## "):
        return element("h3", _inline(text[3:]))
    if text.startswith("- "):
        items = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
        return element("ul", *(element("li", _inline(item)) for item in items))
    return element("p", _inline(text))


def _inline(text: str) -> str:
    """Bold, emphasis and code."""
    found = escape(" ".join(text.split()))
    for mark, tag in ((r"\*\*", "b"), (r"\*", "em"), ("`", "code")):
        found = re.sub(f"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", found)
    return found
