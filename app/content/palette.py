"""The roles of ``specdiff_core/schema/palette.py`` as the page's custom properties."""

from __future__ import annotations

from specdiff_core.schema.palette import ROLES

__all__ = ["ROLES", "css"]


def css() -> str:
    """The roles as custom properties: ``--sd-ink`` and so on. Paper is always light."""
    light = ";".join(f"--sd-{role}:{colours[0]}" for role, colours in ROLES.items())
    dark = ";".join(f"--sd-{role}:{colours[1]}" for role, colours in ROLES.items())
    return f":root{{{light}}}@media screen{{.dark{{{dark}}}}}"
