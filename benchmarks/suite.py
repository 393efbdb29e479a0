"""Every measurement of BENCHMARKS.md and the Compare tab, each in a process of its own."""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks import report
from specdiff_core.cli import options
from specdiff_core.explorations.fields import DRAFTING
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.pairs import ASSETS

SETTINGS = {
    "grid": """mdlm/4/1 mdlm/8/1 mdlm/9/1 mdlm/16/1 mdlm/4/2 mdlm/8/2 mdlm/9/2 mdlm/16/2
        block/4/1 block/8/1 block/9/1 block/16/1 block/4/2 block/8/2 block/9/2 block/16/2""",
    # Every method, each with a few sizes.
    "all": """block/4/1 block/9/1 block/16/1 block/16/1/auto block/9/1/9 block/9/1/16 block/16/1/24/auto
        block_markov/4/1 block_markov/9/1 block_markov/16/1 block_markov/16/1/auto block_markov/9/1/9
        block_markov/12/1/12 block_markov/16/1/16 block_markov/16/1/20 block_markov/16/1/24/auto mdlm/4/1 mdlm/9/1
        mdlm/9/1/9 mdlm_streak/4/1 mdlm_streak/9/1 mdlm_streak/9/1/auto mdlm_streak/9/1/9 mdlm_streak/9/1/0/4/self
        mdlm_streak/9/1/0/8/self mdlm_streak/9/1/0/8/trie autoregressive/2/2 autoregressive/3/3 autoregressive/4/4
        autoregressive/6/6 autoregressive/9/9/auto eagle/3/3 eagle/4/4 eagle/6/6 eagle/9/9/auto eagle/4/1/6 eagle/6/1/9
        eagle/6/1/16 prompt_lookup/9/1""",
    # Where tokens are drawn a run takes longer: fewer settings of each method.
    "fewer": """block/4/1 block/9/1 block/16/1/auto block/9/1/9 block_markov/4/1 block_markov/9/1 block_markov/16/1/auto
        block_markov/9/1/9 block_markov/16/1/16 mdlm/4/1 mdlm/9/1/9 mdlm_streak/4/1 mdlm_streak/9/1
        mdlm_streak/9/1/auto mdlm_streak/9/1/0/8/self mdlm_streak/9/1/0/8/trie autoregressive/4/4
        autoregressive/9/9/auto eagle/4/4 eagle/9/9/auto eagle/4/1/6 prompt_lookup/9/1""",
    "more_drafts": "mdlm_streak/9/1/0/2/self mdlm_streak/9/1/0/16/self mdlm_streak/9/1/0/8/multi_round",
    # The gain of self-selection: one draft and several, drawn and tested alike.
    "selected": """mdlm_streak/9/1 mdlm_streak/9/1/0/2/self mdlm_streak/9/1/0/4/self mdlm_streak/9/1/0/8/self
        mdlm_streak/9/1/0/16/self""",
    # Texts that must equal vanilla's under match.
    "equal": """block/4/1 block/16/4 block/9/1/12 block/8/1/0/4/self block/16/1/auto block_markov/9/1 block_markov/16/4
        block_markov/8/1/0/4/trie block_markov/16/1/24/auto mdlm/4/1 mdlm/16/4 mdlm_streak/9/1 mdlm_streak/9/1/0/8/trie
        mdlm_streak/8/1/0/4/multi_round autoregressive/4/4 eagle/4/4 eagle/6/1/12 prompt_lookup/9/1""",
}
SWEEP = "specdiff_core bench sweep {machine} --max-new-tokens 96 --ignore-eos --json {file}"
ON_FILE = "--prompts {out}/prompts.jsonl"
ONCE = f"{SWEEP} {ON_FILE} --repeats 1"
COMMANDS = {
    "prompts.jsonl": "benchmarks prompts --corpus {corpus} --per-flavour 10 --out {file}",
    "greedy.json": f"{SWEEP} {ON_FILE} --repeats 2 --settings {{grid}}",
    "methods.json": f"{ONCE} --settings {{all}}",
    "temperature-0.7.json": f"{ONCE} --first 5 --temperature 0.7 --settings {{fewer}}",
    "temperature-1.json": f"{ONCE} --first 5 --temperature 1 --settings {{fewer}},{{more_drafts}}",
    "selection.json": f"{ONCE} --first 5 --draft-temperature 1 --settings {{selected}}",
    "peers.json": f"benchmarks peers {{machine}} --max-new-tokens 96 --json {{file}} {ON_FILE} --repeats 1",
    "forwards.json": f"benchmarks forwards {{machine}} --max-new-tokens 96 --json {{file}} {ON_FILE} "
    "--settings {grid} --sweep {out}/greedy.json",
    "page.json": "benchmarks page --starts 8 --repeats 6 --json {file}",
    "prompts-200.jsonl": "benchmarks prompts --corpus {corpus} --per-flavour 50 --out {file}",
    "equality.json": "benchmarks equality {machine} --dtype fp32 --max-new-tokens 24 --json {file} "
    "--prompts {out}/prompts-200.jsonl --settings {equal}",
    "compare.json": "specdiff_core explore compare {machine} --json {file} --temperatures 0,0.7,1 "
    f"--methods {','.join(DRAFTING)}",
}
"""File -> the words behind ``python -m`` that write it, in their order. The report shows the
results in the same order, without those of the Compare tab."""
OPTIONAL = ("page.json",)
"""Needs a browser."""


def commands(corpus: Path, out: Path, machine: Sequence[str] = ()) -> dict[Path, list[str]]:
    """File -> the words of its command behind ``python -m``.

    Args:
        corpus: prompts are cut from its validation text.
        out: the folder of all files.
        machine: the flags ``--device``, ``--dtype`` and ``--threads``.
    """
    lists = {name: ",".join(keys.split()) for name, keys in SETTINGS.items()}
    by_file = {}
    for name, command in COMMANDS.items():
        words: list[str] = []
        for word in command.split():  # first split, then filled in: a folder may hold spaces
            filled = [word.format(corpus=corpus, out=out, file=out / name, machine="", **lists)]
            words += machine if word == "{machine}" else filled
        by_file[out / name] = words
    return by_file


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--corpus", type=Path, required=True, metavar="DIR", help="prompts are cut from its validation text")
    add("--out", type=Path, default=Path("runs/bench"), metavar="DIR", help="[default runs/bench]")
    add("--report", type=Path, default=Path("BENCHMARKS.md"), metavar="FILE", help="[default BENCHMARKS.md]")
    about = "for the Compare tab [default assets/compare]"
    add("--shown", type=Path, default=ASSETS / "compare", metavar="DIR", help=about)
    options.add_placement(parser)


def run(args: argparse.Namespace) -> None:
    """``benchmarks suite``: no measurement shares memory with an earlier one."""
    machine = ["--device", args.device, "--dtype", args.dtype]
    machine += ["--threads", str(args.threads)] if args.threads else []
    todo = commands(args.corpus, args.out, machine)
    for number, (file, words) in enumerate(todo.items(), start=1):
        name = f"{number} of {len(todo)}, {file.name}"
        if file.exists():
            options.say(f"{name}: done already; delete it to measure it again")
            continue
        options.say(name)
        if status := subprocess.run([sys.executable, "-m", *words], check=False).returncode:
            if file.name not in OPTIONAL:
                hint = "Run the suite again: it resumes there."
                raise ConfigError(f"{name}: the command ended with status {status}.", field="suite", hint=hint)
            options.say(f"{name}: left out, its command ended with status {status}")
    results = [file for file in todo if file.suffix == ".json" and file.exists()]
    compare = args.out / "compare.json"
    report.write([file for file in results if file != compare], args.report)
    shutil.copy(args.out / "selection.json", args.shown)
    shutil.copy(compare, args.shown)
    shutil.copytree(args.out / "races" / compare.stem, args.shown / "races" / compare.stem, dirs_exist_ok=True)
