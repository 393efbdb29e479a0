"""Mutation tests: put one bug into a module, run the tests that cover it, and report the bugs that no test notices.

    python -m tests.mutants --all bugs                   every bug by hand (tests/bugs.diff)
    python -m tests.mutants --all decoding.verify        every generated mutant of a module
    python -m tests.mutants --sample 12                  some generated mutants, spread evenly over all modules

A generated mutant is one small change of the syntax tree: a comparison moved or turned around, an operator or a
constant changed, a bound off by one, a statement dropped, a condition negated, ``min`` for ``max``. A bug by hand is
found by its function and a pattern of the syntax tree, so moving and reformatting code leaves it valid. The working
tree is never edited: each mutant runs in a forked process whose import of the module is replaced. The diffs of those
that survive are printed. Exit status 1 if there is one, or more than half of a sample: some mutants change nothing.
"""

from __future__ import annotations

import argparse
import ast
import contextlib
import difflib
import importlib.abc
import importlib.util
import io
import multiprocessing
import multiprocessing.connection
import os
import re
import resource
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).resolve().parent.parent
LIMIT = 300  # CPU seconds of a mutant; one that needs more counts as noticed
BY_HAND = "bugs"

DISTRIBUTION = "distribution::the_text_follows_the_targets_distribution"
COVERED_BY = {
    "decoding.loop": ("decode", "tree", DISTRIBUTION),
    "decoding.verify": ("decode", "tree", "lossless", DISTRIBUTION),
    "maths.distributions": ("maths", "decode", DISTRIBUTION),
    "maths.randomness": ("maths", "chain", "distribution::several_drafts_of_a_round_really_differ"),
    "maths.unmasking": ("maths", "lossless"),
    "maths.trees": ("tree", "eagle", "network", "lossless"),
    "maths.chains": ("chain", "lossless", "distribution::drafts_follow_the_distribution_of_their_drafter"),
    "drafters.denoise": ("decode", "chain", "tree", "controller", "lossless", DISTRIBUTION),
    "models.cache": ("network",),
    "measure.race": ("measure",),
}
"""Module below ``specdiff_core`` -> the tests that must notice its mutants, the fastest first: ``distribution`` is
``tests/test_distribution.py``, ``distribution::name`` one of its tests."""


EQUIVALENT = {("maths.unmasking", "exact_positions", "-1", "-2")}  # steps begin at 0
"""Generated mutants that change nothing: module, function, unparsed code before and after."""


class Mutant(NamedTuple):
    """One change of one expression or statement."""

    module: str  # below specdiff_core
    function: str  # the qualified name of what holds it
    before: str  # unparsed
    after: str
    source: str  # of the whole module, changed
    tests: tuple[str, ...]
    name: str = ""

    def diff(self) -> str:
        old = path_of(self.module).read_text("utf-8").splitlines()
        lines = difflib.unified_diff(old, self.source.splitlines(), self.module, self.function, n=1, lineterm="")
        return "\n".join(lines) + "\n"


def path_of(module: str) -> Path:
    return ROOT / "specdiff_core" / (module.replace(".", "/") + ".py")


def id_of(short: str) -> str:
    """What pytest calls a test of :data:`COVERED_BY`."""
    file, _, name = short.partition("::")
    return f"tests/test_{file}.py" + (f"::test_{name}" if name else "")


# ---- What is changed ----

COMPARED: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,), ast.In: (ast.NotIn,),
    ast.NotIn: (ast.In,),
}  # fmt: skip
COMPUTED: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Mult,
    ast.BitOr: ast.BitAnd, ast.BitAnd: ast.BitOr,
}  # fmt: skip
SWAPPED = {"min": "max", "any": "all", "amax": "amin", "argmax": "argmin", "clamp_min": "clamp_max"}
SWAPPED |= {new: old for old, new in SWAPPED.items()}
UNCHANGED = (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom, ast.JoinedStr)
HARMLESS = ("strict", "non_blocking", "stable", "maxsize")
"""Keywords whose constants change nothing that a test could see on a CPU: checks, waits, the order of equals, room."""


def variants_of(node: ast.AST) -> Iterator[ast.AST]:
    """What may stand in the place of one node."""
    match node:
        case ast.Compare(left, ops, comparators):
            for i, op in enumerate(ops):
                for other in COMPARED[type(op)]:
                    yield ast.Compare(left, [*ops[:i], other(), *ops[i + 1 :]], comparators)
        case ast.BinOp(left, op, right) if type(op) in COMPUTED:
            yield ast.BinOp(left, COMPUTED[type(op)](), right)
        case ast.BoolOp(op, values):
            yield ast.BoolOp(ast.And() if isinstance(op, ast.Or) else ast.Or(), values)
        case ast.UnaryOp(ast.Not(), operand):
            yield operand
        case ast.UnaryOp(ast.USub(), ast.Constant(int() | float() as value)):
            yield ast.Constant(-value - 1)
        case ast.Constant(bool() as value):
            yield ast.Constant(not value)
        case ast.Constant(int() | float() as value):
            yield ast.Constant(value + 1)
        case ast.IfExp(test, body, orelse):
            yield ast.IfExp(test, orelse, body)
        case ast.If(ast.Name() | ast.Call() | ast.Attribute() as test, body, orelse):
            yield ast.If(ast.UnaryOp(ast.Not(), test), body, orelse)
        case ast.Slice(lower, upper, step):
            for bound in (lower, upper):
                if bound is not None and not isinstance(bound, ast.Constant):
                    moved = ast.BinOp(bound, ast.Add(), ast.Constant(1))
                    yield ast.Slice(moved if bound is lower else lower, moved if bound is upper else upper, step)
        case ast.Call(ast.Name("range"), [*first, last]):
            yield ast.Call(node.func, [*first, ast.BinOp(last, ast.Add(), ast.Constant(1))], [])
        case ast.Call(ast.Name(name), args, keywords) if name in SWAPPED:
            yield ast.Call(ast.Name(SWAPPED[name]), args, keywords)
        case ast.Call(ast.Attribute(value, name), args, keywords) if name in SWAPPED:
            yield ast.Call(ast.Attribute(value, SWAPPED[name]), args, keywords)
        case ast.Expr(ast.Call()) | ast.AugAssign() | ast.Continue() | ast.Break():
            yield ast.Pass()
        case ast.Assign([ast.Attribute() | ast.Subscript()]):
            yield ast.Pass()


def visited(node: ast.AST, function: str = "") -> Iterator[tuple[ast.AST, str]]:
    """Every node of the bodies of functions, and the function that holds it: no annotation,
    default, docstring, error or assertion."""
    if isinstance(node, UNCHANGED) or (isinstance(node, ast.keyword) and node.arg in HARMLESS):
        return
    if isinstance(node, ast.AnnAssign):
        if node.value is not None:
            yield from visited(node.value, function)
        return
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return  # a docstring
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        inner = f"{function}.{node.name}".lstrip(".")
        for child in node.body:
            if isinstance(node, ast.FunctionDef) or isinstance(child, ast.FunctionDef):
                yield from visited(child, inner)
        return
    if function:
        yield node, function
    if isinstance(node, ast.UnaryOp) and isinstance(node.operand, ast.Constant):
        return  # a negative number is changed as one
    for child in ast.iter_child_nodes(node):
        if function or isinstance(child, ast.FunctionDef | ast.ClassDef):
            yield from visited(child, function)


def replaced(source: str, node: Any, new: ast.AST) -> str:
    """``source`` with the text of ``node`` replaced."""
    lines = source.encode().splitlines(keepends=True)  # columns count bytes
    begin = sum(map(len, lines[: node.lineno - 1])) + node.col_offset
    end = sum(map(len, lines[: node.end_lineno - 1])) + node.end_col_offset
    text, raw = ast.unparse(ast.fix_missing_locations(new)), source.encode()
    if isinstance(node, ast.If):  # the whole block would lose its comments: only its condition is new
        return replaced(source, node.test, new.test)  # type: ignore[attr-defined]  # nodes with a test
    if isinstance(new, ast.expr) and not isinstance(new, ast.Slice | ast.Name | ast.Constant | ast.Call):
        text = f"({text})"
    return (raw[:begin] + text.encode() + raw[end:]).decode()


def generated(module: str) -> list[Mutant]:
    """All mutants of a module that could be noticed."""
    source = path_of(module).read_text("utf-8")
    found = []
    for node, function in visited(ast.parse(source)):
        for new in variants_of(node):
            before, after = ast.unparse(node), ast.unparse(ast.fix_missing_locations(new))
            if isinstance(node, ast.If):
                before, after = (ast.unparse(part.test) for part in (node, new))  # type: ignore[attr-defined]  # nodes with a test
            if (module, function, before, after) not in EQUIVALENT:
                text = replaced(source, node, new)
                found.append(Mutant(module, function, before, after, text, COVERED_BY[module]))
    return found


# ---- Bugs by hand: a function, and a pattern of its syntax tree ----


HOLE = re.compile(r"\b_\d\b")
"""A name that stands for any expression."""


def parsed(code: str) -> ast.AST:
    """The syntax tree of an expression or a statement."""
    (statement,) = ast.parse(code).body
    return statement.value if isinstance(statement, ast.Expr) else statement


class Bug(NamedTuple):
    """A bug by hand."""

    name: str
    module: str
    function: str
    tests: tuple[str, ...]
    pattern: str
    bug: str

    def planted(self) -> Mutant:
        """Its mutant.

        Raises:
            LookupError: its function holds its pattern nowhere.
        """
        before = after = source = path_of(self.module).read_text("utf-8")
        pattern = parsed(self.pattern)
        form = re.compile(HOLE.sub(lambda hole: f"(?P<{hole[0]}>.+)", re.escape(ast.unparse(pattern))))
        hits = [
            (node, found)
            for node, function in visited(ast.parse(source))
            if function == self.function and type(node) is type(pattern)
            if (found := form.fullmatch(ast.unparse(node)))
        ]
        if not hits:
            raise LookupError(f"{self.name}: {self.module}:{self.function} does not hold {self.pattern}")
        for node, found in sorted(hits, key=lambda hit: (-hit[0].lineno, -hit[0].col_offset)):  # from behind
            new = parsed(HOLE.sub(lambda hole, found=found: f"({found[hole[0]]})", self.bug))
            before, after = found[0], ast.unparse(new)
            source = replaced(source, node, new)
        return Mutant(self.module, self.function, before, after, source, self.tests, self.name)


def by_hand() -> list[Bug]:
    """The bugs of ``tests/bugs.diff``."""
    found = []
    for block in (ROOT / "tests" / "bugs.diff").read_text("utf-8").split("\n\n")[1:]:
        name, header, pattern, bug = block.strip().split("\n")
        (module, function), tests = header.split()[1].split(":"), header.split()[3:]
        covering = tuple(tests) or COVERED_BY[module]
        found.append(Bug(name[2:], module, function, covering, pattern[1:], bug[1:]))
    return found


# ---- How they are run ----


class Mutated(importlib.abc.MetaPathFinder, importlib.abc.SourceLoader):
    """Imports one module from a changed source."""

    def __init__(self, mutant: Mutant) -> None:
        self._name, self._path = f"specdiff_core.{mutant.module}", str(path_of(mutant.module))
        self._source = mutant.source.encode()

    def find_spec(self, fullname: str, path: Any = None, target: Any = None) -> Any:
        if fullname != self._name:
            return None
        return importlib.util.spec_from_file_location(fullname, self._path, loader=self)

    def get_filename(self, fullname: str) -> str:
        return self._path

    def get_data(self, path: str) -> bytes:
        return self._source

    def path_stats(self, path: str) -> Any:
        raise OSError  # no bytecode is read or written


class Failures:
    """A pytest plugin that remembers the first failure."""

    first = ""

    def pytest_runtest_logreport(self, report: Any) -> None:
        if report.failed and not self.first:
            self.first = report.nodeid

    def pytest_collectreport(self, report: Any) -> None:
        if report.failed and not self.first:
            self.first = f"the import of {report.nodeid}"


def run_tests(mutant: Mutant, sender: Any) -> None:
    """In a forked process: run the tests of a mutant and send the first failure, empty if all pass."""
    import pytest

    sys.meta_path.insert(0, Mutated(mutant))
    resource.setrlimit(resource.RLIMIT_CPU, (LIMIT, LIMIT))
    failures, output = Failures(), io.StringIO()
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(output):
        os.environ["HYPOTHESIS_STORAGE_DIRECTORY"] = folder
        options = ["-x", "-q", "-p", "no:cacheprovider", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
        status = pytest.main([*options, *map(id_of, mutant.tests)], plugins=[failures])
    if status in (0, 1):
        sender.send(failures.first)
    else:
        sender.send(RuntimeError(f"pytest ends with {status!r}: {output.getvalue()[-2000:]}"))


def judged(mutants: Sequence[Mutant], jobs: int) -> Iterator[tuple[Mutant, str, float]]:
    """Each mutant with the test that noticed it, empty if none did, and the seconds that took.

    Raises:
        RuntimeError: its tests could not be run.
    """
    forks = multiprocessing.get_context("fork")
    waiting, running = list(mutants)[::-1], dict[Any, tuple[Any, Mutant, float]]()
    while waiting or running:
        while waiting and len(running) < jobs:
            mutant = waiting.pop()
            receiver, sender = forks.Pipe(duplex=False)
            child = forks.Process(target=run_tests, args=(mutant, sender))
            child.start()
            sender.close()
            running[receiver] = child, mutant, time.monotonic()
        for receiver in multiprocessing.connection.wait(list(running)):
            child, mutant, began = running.pop(receiver)
            try:
                noticed = receiver.recv()
            except EOFError:
                noticed = "the process ended (a crash, or more than the CPU seconds it had)"
            child.join()
            if isinstance(noticed, Exception):
                raise noticed
            yield mutant, noticed, time.monotonic() - began


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__.splitlines()[0])
    wanted = parser.add_mutually_exclusive_group(required=True)
    wanted.add_argument("--all", metavar="MODULE", choices=(*COVERED_BY, BY_HAND), help="run every mutant of a module")
    wanted.add_argument("--sample", type=int, metavar="N", help="run N, spread evenly over all modules")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1)
    args = parser.parse_args(argv)

    def say(text: str) -> None:
        sys.stdout.write(text)
        sys.stdout.flush()

    if args.sample:
        every = [mutant for name in COVERED_BY for mutant in generated(name)]
        chosen = every[:: max(1, len(every) // args.sample)][: args.sample]
    else:
        chosen = [bug.planted() for bug in by_hand()] if args.all == BY_HAND else generated(args.all)

    os.chdir(ROOT)
    os.environ["OMP_NUM_THREADS"] = "1"
    import transformers.models.llama.modeling_llama  # noqa: F401  (once, before the forks; imports torch)

    sys.path[:0] = [str(ROOT), str(ROOT / "tests")]
    control = COVERED_BY.get(args.all, ("maths",))  # before the bugs by hand, CI has just run all tests
    source = path_of("maths.trees").read_text("utf-8")
    ((_, broken, _),) = judged([Mutant("maths.trees", "", "", "", source, control)], 1)
    if broken:
        say(f"without any bug, {broken} fails\n")
        return 1
    unnoticed = []
    for mutant, noticed, seconds in judged(chosen, args.jobs):
        name = mutant.name or f"{mutant.module}:{mutant.function}"
        say(f"{seconds:6.1f} s  {name:<46.46}  {noticed or 'SURVIVED'}\n")
        if not noticed:
            unnoticed.append(mutant)
            say(mutant.diff())
    say(f"{len(chosen) - len(unnoticed)} of {len(chosen)} noticed\n")
    return int(len(unnoticed) > (len(chosen) // 2 if args.sample else 0))


if __name__ == "__main__":
    sys.exit(main())
