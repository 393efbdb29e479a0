"""BENCHMARKS.md: one section for each machine, written from stored results."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

from benchmarks.equality import Equality
from benchmarks.forwards import Forwards
from benchmarks.interleaving import Interleaving
from benchmarks.page import Page
from benchmarks.peers import Peers
from benchmarks.tables import commit, machine, section
from specdiff_core.cli import options
from specdiff_core.measure.store import Bench, read_result
from specdiff_core.measure.sweep import Sweep, table
from specdiff_core.schema.errors import ConfigError

TITLE = "# Benchmarks"
INTRO = """\
Written by `python -m benchmarks report` from stored results; `python -m benchmarks suite` measures them. Every number
was measured by the command below its table. The settings of one table were interleaved on one machine, so their ratios
hold; numbers from different tables or machines are not comparable.

- Speed-up: vanilla's seconds per token over the setting's, on the decode clock, prefill included. The means of
  speed-up, τ and α are over flavours (α, and numbers without loops, of tables before 2026-11-28: over all tokens).
  Intervals are a bootstrap over prompts or, in newer tables with few prompts, Student's t: a bootstrap is too narrow
  there.
- fastest over it: how many times as fast the table's fastest setting is, paired by prompt, with its interval.
- (?): a speed-up more than 5 % above τ, or a mean with one. A round costs at least a vanilla token, so its clock was
  disturbed.
- τ: tokens per target pass, bonus included. α: accepted of tested tokens; by position conditional, of the rounds that
  reached it.
- γ: tokens in a window; T: denoising steps; B: nodes of a tree; K: drafts; ≤: chosen by a controller, up to this.
- draft, verify, prefill, other: shares of the decode clock; verify is the target's pass and the tests."""
MACHINES = ("machine", "instruction set", "system", "dtype", "threads", "versions", "measured", "commit")


KINDS: tuple[type[Bench], ...] = (Sweep, Peers, Equality, Interleaving, Forwards, Page)


def _machine_line(results: Sequence[Bench]) -> list[str]:
    origins = [result.provenance for result in results]
    columns: list[Iterable[str]] = [
        (origin.get("instruction_set", "–") for origin in origins),
        (origin["system"] for origin in origins),
        (result.dtype for result in results),
        (str(result.threads) for result in results),
        (f"{package} {release}" for origin in origins for package, release in origin["versions"].items() if release),
        (origin["date"][:10] for origin in origins),
        map(commit, results),
    ]
    return [machine(results[0]), *(", ".join(sorted(set(column))) for column in columns)]


def benchmarks(results: Sequence[Bench], existing: str = "") -> str:
    """The whole BENCHMARKS.md: the machines of ``results`` anew, every other section of ``existing`` as it is.

    Args:
        results: in the order in which a machine's section shows them.
        existing: what the file holds so far.

    Raises:
        ConfigError: ``existing`` is another kind of file, or a result is not whole.
    """
    if existing and not existing.startswith(TITLE):
        raise ConfigError(f"That file does not begin with {TITLE!r}.", field="out", hint="Choose another file name.")
    head, *sections = existing.rstrip().split("\n## ")
    lines = [[value.strip() for value in line.strip("|").split("|")] for line in head.split("\n") if line[:1] == "|"]
    machines = {line[0]: line for line in lines[2:]}
    bodies = dict(text.split("\n", 1) for text in sections)
    for name in dict.fromkeys(map(machine, results)):
        measured = [result for result in results if machine(result) == name]
        machines[name] = _machine_line(measured)
        bodies[name] = "\n\n".join(map(section, measured))
    rendered = [f"## {name}\n\n{text.strip()}" for name, text in bodies.items()]
    return "\n\n".join([TITLE, INTRO, table(MACHINES, list(machines.values())), *rendered]) + "\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("results", type=Path, nargs="+", metavar="FILE", help="results, in their order")
    about = "[default BENCHMARKS.md]"
    parser.add_argument("--out", type=Path, default=Path("BENCHMARKS.md"), metavar="FILE", help=about)


def run(args: argparse.Namespace) -> None:
    write(args.results, args.out)


def write(results: Sequence[Path], out: Path) -> None:
    """Write the sections of the results' machines into ``out``; those of other machines stay."""
    loaded = [read_result(path, *KINDS) for path in results]
    options.check_target(out, "out")
    try:
        existing = out.read_text(encoding="utf-8") if out.exists() else ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"{out} is no text.", field="out", hint="Give another file.") from error
    text = benchmarks(loaded, existing)
    out.write_text(text, encoding="utf-8")
    print(out)
