"""How the page looks: its typefaces and palette, as styles in its head and as Gradio's theme, and its title."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from specdiff_core.schema.palette import ROLES

from .content.html import element, served
from .first_load import STATIC

FONTS = {
    "inter-latin.woff2": "U+0000-00FF, U+0131, U+0152-0153, U+02C6, U+02DA, U+02DC, U+2000-206F, "
    "U+20AC, U+2122, U+2191, U+2193, U+2212, U+2215, U+FEFF, U+FFFD",
    "inter-greek.woff2": "U+0391-03C9",
    "stix-two-math.woff2": "U+0020-FFFF, U+1D400-1D7FF",
}
"""Font files of the page -> the characters that each covers. STIX Two Math, cut to the letters of formulas, sets
MathML: without a mathematical font, fractions and sums depend on the visitor's system."""
FIRST = "base", "ui"
"""The style sheets that all views share."""


def head(address: Callable[[Path], str] = served) -> str:
    """Typeface, palette and style sheets, for ``launch(head=)``; ``address`` locates the fonts."""
    faces = [
        f"@font-face {{ font-family: {'Inter' if name.startswith('inter') else 'STIX Two Math'}; "
        f"font-weight: 400 700; font-display: swap; unicode-range: {letters}; "
        f"src: url('{address(STATIC / 'fonts' / name)}') format('woff2'); }}"
        for name, letters in FONTS.items()
    ]
    light, dark = (";".join(f"--sd-{role}:{colours[mode]}" for role, colours in ROLES.items()) for mode in (0, 1))
    colours = f":root{{{light}}}@media screen{{.dark{{{dark}}}}}"  # paper is always light
    return "\n".join(["<style>", *faces, colours, *(path.read_text(encoding="utf-8") for path in styles()), "</style>"])


def styles() -> list[Path]:
    """The style sheets in the order of the cascade: ``FIRST``, then those of the views, by name."""
    first = [STATIC / "styles" / f"{name}.css" for name in FIRST]
    return [*first, *(path for path in sorted(first[0].parent.glob("*.css")) if path not in first)]


def theme() -> Any:
    """The palette's roles as a Gradio theme; the CSS properties switch with the dark class."""
    import gradio as gr

    fonts = ["Inter", "system-ui", "-apple-system", "Segoe UI", "Roboto", "sans-serif"]
    mono = ["ui-monospace", "SF Mono", "Menlo", "Cascadia Mono", "Consolas", "DejaVu Sans Mono", "monospace"]
    roles = {
        "page": "body_background_fill",
        "ink": "body_text_color button_secondary_text_color",
        "muted": "body_text_color_subdued block_label_text_color block_title_text_color input_placeholder_color",
        "card": "background_fill_primary block_background_fill button_secondary_background_fill",
        "raised": "background_fill_secondary input_background_fill button_secondary_background_fill_hover",
        "line": "border_color_primary",
        "edge": "button_secondary_border_color checkbox_border_color",
        "accent": "border_color_accent input_border_color_focus slider_color link_text_color "
        "button_primary_background_fill button_primary_border_color checkbox_background_color_selected",
        "on-accent": "button_primary_text_color",
        "deep": "button_primary_background_fill_hover link_text_color_hover",
        "draft-tint": "color_accent_soft",
    }
    colours = {
        f"{name}{mode}": f"var(--sd-{role})"
        for role, names in roles.items()
        for name in names.split()
        for mode in ("", "_dark")
    }
    base = gr.themes.Base(font=fonts, font_mono=mono, radius_size="md", spacing_size="sm", text_size="md")
    return base.set(block_shadow="none", block_border_width="1px", button_border_width="1px", **colours)


def brand() -> str:
    """The title with its mark: two masks, a token, and the cut."""
    mark = element("span", *(element("i") for _ in range(4)), class_="sd-mark", aria_hidden="true")
    words = element(
        "div",
        element("h1", text="SpecDiff Lab"),
        element("p", text="A diffusion model drafts, the target model decides, and every timing is measured."),
    )
    return element("div", mark, words, class_="sd-brand")
