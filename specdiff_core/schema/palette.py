"""Every colour by role, for light and dark; no other file has hex colours. Figures use roles, which
the page or the command line replaces with colours.

Hues follow Okabe and Ito: colour-blind people can distinguish blue, vermilion and bluish green.
Text roles reach a contrast of 4.5:1 on their own backgrounds (a test computes it), and each role
also has a glyph, underline or hatch."""

from __future__ import annotations

ROLES: dict[str, tuple[str, str]] = {
    # role: (light, dark)
    "page": ("#f5f5f1", "#0e1013"),
    "card": ("#ffffff", "#16191e"),
    "raised": ("#fafaf7", "#1c2026"),
    "ink": ("#15181d", "#eceef1"),
    "muted": ("#5a616c", "#a0a8b4"),
    "faint": ("#a3a8af", "#59616d"),
    "line": ("#e3e3dc", "#282d35"),
    "edge": ("#c9cac3", "#3b424d"),
    "accent": ("#0a5f9e", "#78b7ee"),
    "on-accent": ("#ffffff", "#08131d"),
    "draft": ("#0a5f9e", "#78b7ee"),
    "draft-tint": ("#e4eff8", "#15283a"),
    "deep": ("#084b7d", "#9accf5"),
    "on-deep": ("#ffffff", "#08131d"),
    "residual": ("#a8430a", "#f5a766"),
    "residual-tint": ("#fbebdf", "#38260f"),
    "bonus": ("#096b4c", "#63cfa4"),
    "bonus-tint": ("#def2e9", "#112f25"),
    # the ends of a map's colours: every cell carries its number in ink
    "map-good": ("#86b9e6", "#1f5f96"),
    "map-bad": ("#f0b48a", "#8a4a17"),
    "target": ("#454b55", "#b9c0ca"),
    "target-tint": ("#ececea", "#262b32"),
    "alarm": ("#9f1f1f", "#ff9d94"),
    "alarm-tint": ("#fcebe9", "#3a1a19"),
    "plum": ("#8a3384", "#e0a0e0"),
    "ochre": ("#7a5c00", "#e2c25c"),
    "mask": ("#d6d7d0", "#323843"),
    # one for each method, which also has its own dash and mark, and one for the next
    "lane-1": ("#0a5f9e", "#78b7ee"),
    "lane-2": ("#a8430a", "#f5a766"),
    "lane-3": ("#096b4c", "#63cfa4"),
    "lane-4": ("#8a3379", "#e3a3d6"),
    "lane-5": ("#6f5a00", "#e0cb55"),
    "lane-6": ("#0b6b78", "#7fdbe6"),
    "lane-7": ("#5b4bb0", "#b6adf5"),
    "lane-8": ("#7a4a2b", "#d9a987"),
    "lane-9": ("#a3154f", "#ff9ab5"),
    "lane-10": ("#4d6b0a", "#b8d96a"),
    "lane-11": ("#33508c", "#9db8f0"),
    "lane-12": ("#3d14d2", "#f07bf0"),
}
