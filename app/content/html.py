"""Makes HTML from text or Markdown, with escaping, and addresses. Token text is sent as JSON instead."""

from __future__ import annotations

import html
import json
import re
from pathlib import Path
from typing import Any


def escape(text: object) -> str:
    """Escape text for element content and quoted attributes."""
    return html.escape(str(text), quote=True)


def element(tag: str, *children: str, text: object = "", **attributes: object) -> str:
    """One element: ``text`` is escaped, ``children`` are markup made by this module.

    Attribute names lose a trailing underscore and turn inner ones into hyphens: ``class_``, ``aria_label``.
    """
    names = (f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{''.join(names)}>{escape(text)}{''.join(children)}</{tag}>"


def json_for_script(value: Any) -> str:
    """JSON for use inside a script element: it cannot close or open a tag."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")


def served(path: Path) -> str:
    """The address of a static file, relative to the page, so that it works below any root path."""
    return f"gradio_api/file={path.as_posix()}"


def markup(text: str, heading: str = "h3") -> str:
    """HTML of our own Markdown: ``##`` as this heading, lists, paragraphs, blocks of code, bold, emphasis, and code."""
    blocks = re.findall(r"```.*?\n```|\S.*?(?=\n\n|\Z)", text, re.DOTALL)
    return "".join(_block(block, heading) for block in blocks)


def _block(text: str, heading: str) -> str:
    if text.startswith("```"):
        code = element("code", text=text.partition("\n")[2].removesuffix("\n```"))
        return element("pre", code, tabindex="0", class_="sd-code-block")
    if text.startswith("## "):
        return element(heading, _inline(text[3:]))
    if text.startswith("- "):
        items = re.split(r"^- ", text, flags=re.MULTILINE)[1:]
        return element("ul", *(element("li", _inline(item)) for item in items))
    return element("p", _inline(text))


def _inline(text: str) -> str:
    marked = escape(" ".join(text.split()))
    for mark, tag in ((r"\*\*", "b"), (r"\*", "em"), ("`", "code")):
        marked = re.sub(f"{mark}(.+?){mark}", rf"<{tag}>\1</{tag}>", marked)
    return marked
