"""Escaping, and colours that can be read."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from app import palette
from app.html import element, escape, json_for_script
from app.pages import api, brand, learn

STATIC = Path(palette.__file__).resolve().parent / "static"


@given(st.text())
def test_text_never_becomes_markup(text: str) -> None:
    """No angle bracket or quote survives, in content or in an attribute."""
    safe = escape(text)
    assert not set("<>\"'") & set(safe)
    assert element("p", text=text, title=text) == f'<p title="{safe}">{safe}</p>'


@given(st.text())
def test_json_cannot_leave_its_script(text: str) -> None:
    """It is the same value, and it holds no tag and no line separator that old scripts choke on."""
    code = json_for_script({"text": text})
    assert json.loads(code) == {"text": text}
    assert not re.search(r"[<>&\u2028\u2029]", code)


def test_attribute_names() -> None:
    """Python words become HTML names."""
    assert element("i", class_="a", aria_label="b") == '<i class="a" aria-label="b"></i>'


def test_pages_are_balanced_markup() -> None:
    """Every element that opens closes."""
    for page in (learn(), api(), brand()):
        for tag in ("div", "article", "table", "tr", "td", "p", "pre"):
            assert len(re.findall(f"<{tag}[ >]", page)) == page.count(f"</{tag}>")


@pytest.mark.parametrize("mode", [0, 1], ids=["light", "dark"])
@pytest.mark.parametrize(
    ("text", "ground"),
    [
        ("ink", "page"), ("ink", "card"), ("ink", "raised"),
        ("muted", "page"), ("muted", "card"), ("muted", "raised"),
        ("draft", "card"), ("draft", "draft-tint"), ("residual", "card"), ("residual", "residual-tint"),
        ("bonus", "card"), ("bonus", "bonus-tint"), ("target", "card"), ("target", "target-tint"),
        ("alarm", "alarm-tint"),
        ("muted", "draft-tint"), ("muted", "residual-tint"), ("ink", "alarm-tint"),
        *((f"lane-{number}", ground) for number in range(1, 8) for ground in ("card", "raised")),
        ("accent", "page"), ("on-accent", "accent"), ("on-accent", "deep"),
    ],
)  # fmt: skip
def test_contrast(text: str, ground: str, mode: int) -> None:
    """Text reaches WCAG AA (4.5:1) on every ground it is set on."""
    assert palette.contrast(palette.ROLES[text][mode], palette.ROLES[ground][mode]) >= 4.5


def test_contrast_by_hand() -> None:
    """Black on white is 21:1 by definition."""
    assert palette.contrast("#000000", "#ffffff") == pytest.approx(21)
    assert palette.contrast("#777777", "#777777") == 1


def test_no_other_file_holds_a_colour_and_every_role_exists() -> None:
    """Roles are the only way to a colour."""
    for path in STATIC.iterdir():
        source = path.read_text(encoding="utf-8")
        assert not re.search(r"#(?:[0-9a-f]{6}|[0-9a-f]{3})\b", source, re.IGNORECASE), path.name
        for role in re.findall(r"var\(--sd-([a-z-]+)\)", source):
            assert role in palette.ROLES, f"{path.name}: --sd-{role}"


def test_the_player_never_writes_markup() -> None:
    """Token text reaches the page by text nodes only."""
    for path in STATIC.glob("*.js"):
        source = path.read_text(encoding="utf-8")
        for way in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
            assert way not in source, f"{path.name}: {way}"
