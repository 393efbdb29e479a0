"""Every measurement of README.md and BENCHMARKS.md, each in a process of its own."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from benchmarks import report
from specdiff_core.cli import options
from specdiff_core.schema.errors import ConfigError, no_such

SETTINGS = {
    "smollm2": """block/4/1 block/8/1 block_markov/4/1 block_markov/8/1/8 masked/4/1 masked/4/2 masked_streak/4/1
        eagle/2/2 prompt_lookup/8/1""",
    "drafts": """masked_streak/4/1 masked_streak/4/1/0/2/self masked_streak/4/1/0/4/self masked_streak/4/1/0/8/self
        masked_streak/4/1/0/4/multi_round block/4/1 block/4/1/0/2/self block/4/1/0/4/self block/4/1/0/8/self
        block/4/1/0/4/multi_round""",
    "embedded": """block/4/1 block/9/1 block_markov/9/1 block_markov/9/1/9 masked/4/1 masked/4/2 masked_streak/4/1
        masked_streak/9/1 autoregressive/4/4 eagle/4/4 prompt_lookup/9/1""",
    "peers": "block/4/1 block_markov/4/1 block_markov/8/1/8 prompt_lookup/8/1",
    "equality": """block/4/1 block/16/4 block/9/1/12 block_markov/9/1 masked/12/4 masked_streak/8/1/0/4/multi_round
        autoregressive/4/4 eagle/6/1/12 prompt_lookup/9/1""",
}
SMOLLM2 = "--pair smollm2 --prompts benchmarks/prompts/valid40.jsonl --max-new-tokens 64"
SWEEP, DRAFTS = "specdiff_core bench sweep", f"--repeats 1 {SMOLLM2} --rule ratio --first 2"


class Command(NamedTuple):
    """The words behind ``python -m``."""

    name: str
    flags: str
    settings: str = ""  # a key of :data:`SETTINGS`
    placed: bool = True  # whether it has the flags --device, --dtype and --threads


COMMANDS = {
    "smollm2-greedy.json": Command(SWEEP, f"--repeats 1 {SMOLLM2}", "smollm2"),
    "smollm2-sampled.json": Command(SWEEP, f"--repeats 1 {SMOLLM2} --temperature 1", "smollm2"),
    "embedded-greedy.json": Command(SWEEP, "--repeats 1 --ignore-eos", "embedded"),
    "embedded-sampled.json": Command(SWEEP, "--repeats 1 --ignore-eos --temperature 1", "embedded"),
    "smollm2-drafts.json": Command(SWEEP, f"{DRAFTS} --temperature 1", "drafts"),
    "smollm2-drafts-0.7.json": Command(SWEEP, f"{DRAFTS} --temperature 0.7", "drafts"),
    "peers.json": Command("benchmarks peers", f"--repeats 1 {SMOLLM2} --first 2", "peers"),
    "counts.json": Command("benchmarks counts", SMOLLM2),
    "equality.json": Command("benchmarks equality", "--dtype fp32 --max-new-tokens 24", "equality"),
    "page.json": Command("benchmarks page", "--idle --starts 3 --repeats 5", placed=False),
}
"""File -> the command that writes it, the most important first."""
OPTIONAL = {"counts.json": "llama.cpp", "page.json": "a browser"}
"""File -> what its command needs, without which it is left out."""


def commands(out: Path, machine: Sequence[str] = ()) -> dict[str, list[str]]:
    """File -> the words of its command behind ``python -m``.

    Args:
        out: the folder of all files.
        machine: the flags ``--device``, ``--dtype`` and ``--threads``.
    """
    by_file = {}
    for file, command in COMMANDS.items():
        words = [*command.name.split(), *(machine if command.placed else ()), *command.flags.split()]
        words += ["--json", str(out / file)]
        if command.settings:
            words += ["--settings", ",".join(SETTINGS[command.settings].split())]
        by_file[file] = words
    return by_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("names", nargs="*", metavar="FILE", help=f"only these of {', '.join(COMMANDS)}")
    about = "measurements that are already here aren't repeated [default runs/bench]"
    add("--out", type=Path, default=Path("runs/bench"), metavar="DIR", help=about)
    report.add_results(parser)
    options.add_placement(parser)


def run(args: argparse.Namespace) -> None:
    """``benchmarks suite``: no measurement shares memory with an earlier one. The files are copied to the results
    after the last one: a changed tree would mark their commit."""
    given = {name: getattr(args, name) for name in ("device", "dtype", "threads")}
    machine = [
        word for name, value in given.items() if value not in (None, "auto") for word in (f"--{name}", str(value))
    ]
    todo = commands(args.out, machine)
    for name in args.names:
        if name not in todo:
            raise no_such("measurement", name, todo, "names")
    chosen = {name: words for name, words in todo.items() if name in (args.names or todo)}
    for number, (name, words) in enumerate(chosen.items(), start=1):
        label = f"{number} of {len(chosen)}, {name}"
        if (args.out / name).exists():
            options.say(f"{label}: done already; delete it to measure it again")
            continue
        ignored = f" (without {' '.join(machine)})" if machine and not COMMANDS[name].placed else ""
        options.say(label + ignored)
        if status := subprocess.run([sys.executable, "-m", *words], check=False).returncode:
            if name not in OPTIONAL:
                hint = "Run the suite again: it resumes there."
                raise ConfigError(f"{label}: the command ended with status {status}.", field="suite", hint=hint)
            options.say(f"{label}: left out, its command ended with status {status}; it needs {OPTIONAL[name]}")
    args.results.mkdir(parents=True, exist_ok=True)
    for name in chosen:
        if (args.out / name).exists():
            shutil.copy(args.out / name, args.results)
    if args.results.resolve() == report.RESULTS:  # another folder may hold less than the documents show
        report.write()
