"""Draws the picture in docs/architecture.md from the imports: ``python -m tests.picture``. A test compares the two."""

from __future__ import annotations

import re
from pathlib import Path

import grimp

FILE = Path(__file__).resolve().parent.parent / "docs" / "architecture.md"


def picture() -> str:
    """The packages as a Mermaid graph, without arrows that follow from others."""
    graph = grimp.build_graph("specdiff_core", "app", "benchmarks", exclude_type_checking_imports=True)
    parts = {"app", "benchmarks", *graph.find_children("specdiff_core")} - {"specdiff_core.__main__"}
    for part in parts:
        graph.squash_module(part)
    uses = {part: graph.find_modules_directly_imported_by(part) & parts - {part} for part in parts}

    def reached(part: str) -> set[str]:
        return uses[part].union(*map(reached, uses[part]))

    direct = {part: sorted(uses[part].difference(*map(reached, uses[part]))) for part in sorted(parts)}
    arrows = (f"  {part} --> {' & '.join(others)}" for part, others in direct.items() if others)
    lines = "\n".join(["```mermaid", "graph TD", *arrows, "```"])
    return lines.replace("specdiff_core.", "")


if __name__ == "__main__":
    text = FILE.read_text(encoding="utf-8")
    FILE.write_text(re.sub(r"```mermaid\n.*?```", lambda _: picture(), text, flags=re.DOTALL), encoding="utf-8")
