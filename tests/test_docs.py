"""The documents: every link leads somewhere, every command is one, every pair is listed."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from specdiff_core.cli import build_parser
from specdiff_core.schema.pairs import EMBEDDED, PAIRS

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
documents = pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)


def prose(document: Path) -> str:
    """A document without its fenced blocks."""
    return re.sub(r"```.*?```", "", document.read_text("utf-8"), flags=re.DOTALL)


def anchors(document: Path) -> set[str]:
    """What a link can name after ``#``, as GitHub makes it of headings."""
    titles = re.findall(r"^#+ +(.+)$", prose(document), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


@documents
def test_every_link_leads_somewhere(document: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", prose(document)):
        if re.match(r"https?:", link):
            continue
        name, _, anchor = link.partition("#")
        target = document.parent / name if name else document
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


@documents
def test_every_command_is_one(document: Path) -> None:
    parser = build_parser()
    for block in re.findall(r"```sh\n(.*?)```", document.read_text("utf-8"), re.DOTALL):
        for line in block.replace("\\\n", " ").splitlines():
            words = shlex.split(line, comments=True)
            if "specdiff_core" in words and "--help" not in words:
                parser.parse_args(words[words.index("specdiff_core") + 1 :])


def test_every_pair_is_listed() -> None:
    """A family with its sizes once."""
    listed = set(re.findall(r"^\| `(.+?)` \|", (ROOT / "docs" / "models.md").read_text("utf-8"), re.MULTILINE))
    assert listed == {name.partition(":")[0] for name in PAIRS} - {EMBEDDED.name}
