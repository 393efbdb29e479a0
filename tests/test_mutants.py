"""The list of bugs is not stale. ``python -m tests.mutants`` tries them, one after the other."""

from __future__ import annotations

import re

from mutants import MUTANTS, ROOT, stale


def test_every_bug_has_its_line_and_its_test() -> None:
    """Each line stands exactly once in its file, and each test exists."""
    assert not stale(), f"bring tests/mutants.py up to date: {', '.join(stale())}"
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS) >= 40
    for mutant in MUTANTS:
        assert mutant.old != mutant.new
        for test in mutant.tests:
            file, _, name = test.partition("::")
            told = (ROOT / file).read_text("utf-8")
            assert not name or re.search(rf"^def {name}\(", told, re.MULTILINE), f"{mutant.name}: {test}"
