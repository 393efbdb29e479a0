"""Makes HTML from text, with escaping. Token text is sent as JSON instead."""

from __future__ import annotations

import html
import json
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
