"""The one place where text becomes HTML on the Python side. Knows escaping, and nothing about what it escapes.

Token text normally never comes here: it travels as JSON and the browser sets it with ``textContent``.
"""

from __future__ import annotations

import html
import json
from typing import Any


def escape(text: object) -> str:
    """Text that is safe as element content and inside quoted attributes."""
    return html.escape(str(text), quote=True)


def element(tag: str, *children: str, text: object = "", **attributes: object) -> str:
    """One element: ``text`` is escaped, ``children`` are markup made by this module.

    Attribute names lose a trailing underscore and turn inner ones into hyphens: ``class_``, ``aria_label``.
    """
    names = (f' {name.rstrip("_").replace("_", "-")}="{escape(value)}"' for name, value in attributes.items())
    return f"<{tag}{''.join(names)}>{escape(text)}{''.join(children)}</{tag}>"


def json_for_script(value: Any) -> str:
    """JSON that can stand inside a script or a JavaScript source: no tag can be closed or opened by it."""
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    return text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026")
