"""The bugs by hand are not stale, and the generator makes what it says. ``python -m tests.mutants`` runs them."""

from __future__ import annotations

import ast

import mutants
import pytest
from mutants import COVERED_BY, EQUIVALENT, ROOT, by_hand, generated, id_of, path_of, variants_of, visited


@pytest.mark.parametrize("bug", by_hand(), ids=lambda bug: bug.name)
def test_every_bug_has_its_place_and_its_tests(bug: mutants.Bug) -> None:
    mutant = bug.planted()
    assert mutant.source != path_of(bug.module).read_text("utf-8") and ast.parse(mutant.source)
    for test in map(id_of, bug.tests):
        file, _, name = test.partition("::")
        tree = ast.parse((ROOT / file).read_text("utf-8"))
        assert not name or name in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


@pytest.mark.parametrize("module", COVERED_BY)
def test_every_generated_mutant_is_another_program(module: str) -> None:
    whole = ast.dump(ast.parse(path_of(module).read_text("utf-8")))
    mutants = generated(module)
    assert len(mutants) >= 20
    assert all(ast.dump(ast.parse(mutant.source)) != whole for mutant in mutants[::5])


def test_known_equivalents_are_not_stale(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mutants, "EQUIVALENT", set())
    known = {mutant[:4] for module, *_ in EQUIVALENT for mutant in generated(module)}
    assert known >= EQUIVALENT


def test_the_operators_by_hand() -> None:
    def changed(code: str) -> set[str]:
        nodes = visited(ast.parse(f"def f():\n    {code}"))
        return {ast.unparse(ast.fix_missing_locations(new)) for node, _ in nodes for new in variants_of(node)}

    assert changed("return a < b") == {"a <= b", "a >= b"}
    assert changed("return x[i:1]") == {"i + 1:1", "2"}
    assert changed("return s(c, d, right=True)") == {"False"}
    assert changed("return min(a) + b") == {"max(a)", "min(a) - b"}
    assert changed("x.append(a)") == {"pass"}
    assert changed("return zip(a, strict=True)") == set()
    assert changed("return x[-1]") == {"-2"}
