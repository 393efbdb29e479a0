"""``python -m benchmarks COMMAND``: the measurements behind BENCHMARKS.md; all: ``suite``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence

from benchmarks import counts, equality, load, page, peers, prompts, report, suite
from specdiff_core.cli import call, options

COMMANDS = {
    suite: "Measure everything in README.md and BENCHMARKS.md; finished files stay.",
    report: "Write the results into README.md and BENCHMARKS.md, or check what is there.",
    prompts: "Write a file of prompts: from a corpus' validation text, or a published workload.",
    equality: "Rule match against vanilla, token for token; vanilla against generate().",
    peers: "Our lanes against transformers' own loops, on the same weights, and llama.cpp.",
    counts: "Accepted drafts by position, here and in llama.cpp.",
    page: "How soon the page is usable, and what a watching browser costs a decode.",
    load: "How many visitors the page serves at once, and whether each gets their own answer.",
}


def build_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="The measurements behind BENCHMARKS.md.")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")
    for module, about in COMMANDS.items():
        name = module.__name__.rpartition(".")[2]
        module.add_arguments(options.add_parser(commands, name, module.run, about))
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command; the exit status is that of :func:`specdiff_core.cli.call`."""
    return call(build_parser(), list(sys.argv[1:] if argv is None else argv), "benchmarks")


if __name__ == "__main__":
    raise SystemExit(main())
