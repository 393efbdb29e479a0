"""BENCHMARKS.md: one section for each machine, written from stored results."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, Literal

from benchmarks.equality import Equality
from benchmarks.forwards import Forwards
from benchmarks.peers import Peers
from benchmarks.tables import Tabled, bounds, commit, machine, section
from specdiff_core.cli import options
from specdiff_core.measure.store import Result, read_result
from specdiff_core.measure.sweep import Sweep, number, table
from specdiff_core.schema.errors import ConfigError

TITLE = "# Benchmarks"
INTRO = """\
Written by `python -m benchmarks report` from stored results; `python -m benchmarks suite` measures them. Every number
was measured by the command below its table. Settings of one table were measured turn about on one machine, so their
ratios hold; numbers of two tables or two machines do not compare.

- Speed-up: vanilla's seconds per token over the setting's, on the decode clock, prefill included; the mean is over
  flavours, the interval a bootstrap over prompts. τ: tokens per target pass. α: accepted of tested tokens.
- γ: tokens in a window; T: denoising steps; B: nodes of a tree; K: drafts; ≤: a controller chooses, at most this.
- draft, verify, prefill, other: share of the decode clock; verify is the target's pass and the tests."""
MACHINES = ("machine", "instruction set", "system", "dtype", "threads", "versions", "measured", "commit")


class Page(Tabled, kw_only=True, tag="page"):
    """How soon the page is usable and how much it slows a decode; ``python -m benchmarks page`` writes it."""

    schema: Literal[5]  # type: ignore[assignment]  # this format has its own version number
    starts: int
    turns: int
    usable_seconds: dict[str, float]  # median, low, high
    load_seconds: dict[str, float]
    memory_mib: dict[str, float]
    first_event_seconds: dict[str, dict[str, float]]  # first and later
    attached: dict[str, dict[str, Any]]  # lane -> its clock with the page over its clock without, and an interval
    waiting: dict[str, dict[str, float | None]]  # lane -> attached and alone

    def tables(self) -> list[str]:
        first, settings = self.first_event_seconds, self.settings
        waits = [
            [wait, str(count), f"{value['median']:.2f} s", f"{bounds(value['low'], value['high'])} s"]
            for wait, count, value in (
                ("from the command to a page that plays its recording", self.starts, self.usable_seconds),
                ("from Run to the first event on the page, pressed at once", self.starts, first["first"]),
                ("the same, models loaded", self.turns, first["later"]),
                ("to start the decoding process and load the models", self.starts, self.load_seconds),
            )
        ]
        held = self.memory_mib
        costs = []
        for lane, value in self.attached.items():
            low, high = value["interval"]
            spread = [bounds(low, high, ".3f"), bounds(value["low"], value["high"], ".3f")]
            waited = [number(self.waiting[lane][side], ".3f") for side in ("attached", "alone")]
            costs.append([lane, f"{value['median']:.3f}×", *spread, *waited])
        return [
            "### The page",
            "A real server and a real browser on the same machine, which had read the files before.",
            table(["wait", "times", "median", "lowest–highest"], waits),
            f"The decoding process holds {held['median']:.0f} MiB after a race "
            f"({bounds(held['low'], held['high'], '.0f')}).",
            "Decode clock with the page attached (every event sent, the browser drawing) over the undisturbed clock of "
            "the same decode with no page open (the interval is a bootstrap over starts and their turns), and how many "
            f"threads had to wait for a processor (medians); for each of the {self.turns} turns of both it is a "
            f"page's second run; {settings['max_new_tokens']} tokens, {settings['drafter']} γ {settings['gamma']}, "
            f"T {settings['steps']}:",
            table(["lane", "median", "95 % interval", "lowest–highest", "threads waiting, attached", "alone"], costs),
        ]


KINDS: tuple[type[Result], ...] = (Sweep, Peers, Equality, Forwards, Page)


def _machine_line(results: Sequence[Result]) -> list[str]:
    """The row of a machine in the table of machines."""
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


def benchmarks(results: Sequence[Result], existing: str = "") -> str:
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
    known = {line[0]: line for line in lines[2:]}
    parts = dict(text.split("\n", 1) for text in sections)
    for name in dict.fromkeys(map(machine, results)):
        own = [result for result in results if machine(result) == name]
        known[name] = _machine_line(own)
        parts[name] = "\n\n".join(map(section, own))
    written = [f"## {name}\n\n{text.strip()}" for name, text in parts.items()]
    return "\n\n".join([TITLE, INTRO, table(MACHINES, list(known.values())), *written]) + "\n"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The flags of ``benchmarks report``."""
    parser.add_argument("results", type=Path, nargs="+", metavar="FILE", help="results, in their order")
    about = "[default BENCHMARKS.md]"
    parser.add_argument("--out", type=Path, default=Path("BENCHMARKS.md"), metavar="FILE", help=about)


def run(args: argparse.Namespace) -> None:
    """``benchmarks report``."""
    write(args.results, args.out)


def write(results: Sequence[Path], out: Path) -> None:
    """Write the sections of the results' machines into ``out``; those of other machines stay."""
    read = [read_result(path, *KINDS) for path in results]
    options.check_target(out, "out")
    try:
        existing = out.read_text(encoding="utf-8") if out.exists() else ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"{out} is no text.", field="out", hint="Give another file.") from error
    text = benchmarks(read, existing)
    out.write_text(text, encoding="utf-8")
    print(out)
