"""The words of the API tab: api.md, and the table of parameters."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path

from specdiff_core.schema.methods import BASELINE, METHODS
from specdiff_core.schema.settings import SETTINGS
from specdiff_core.schema.wording import values_words

from .html import element, markup

TEXT = Path(__file__).with_suffix(".md")


def section(settings: Sequence[str]) -> str:
    """How programs run a race with these settings. The browser replaces 127.0.0.1 with its own address."""
    methods = ", ".join(item.name for item in METHODS if item.name != BASELINE)
    text = TEXT.read_text(encoding="utf-8").replace("METHODS", methods).replace("SETTINGS", ", ".join(settings))
    cards = (element("article", markup(part, "h2"), class_="sd-lesson") for part in re.split(r"\n(?=## )", text))
    return element("div", *cards, class_="sd-api-cards") + parameters()


def parameters() -> str:
    """Every parameter of ``/race`` with its range and default, from the settings themselves."""
    rows = [("prompt", "text", "required", "The text to continue.")]
    for name, setting in SETTINGS.items():
        default = setting.default
        default_text = "the target's" if default is None else str(default) or "none"
        rows.append((name, values_words(setting), default_text, setting.help))
    rows.append(("include_events", "true or false", "False", "Add every event of both lanes to the result (large)."))
    titles = ("values", "default", "meaning")
    head = element(
        "thead", element("tr", *(element("th", text=title, scope="col") for title in ("parameter", *titles)))
    )
    body = element(
        "tbody",
        *(
            element(
                "tr",
                element("th", element("code", text=name), scope="row"),
                *(element("td", text=cell, data_is=title) for cell, title in zip(cells, titles, strict=True)),
            )
            for name, *cells in rows
        ),
    )
    table = element("table", head, body, tabindex="0")
    return element("article", element("h2", text="Parameters of /race"), table, class_="sd-lesson sd-api-parameters")
