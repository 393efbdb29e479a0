"""What ``bench suite`` runs: every measurement of BENCHMARKS.md and of the page's Compare tab, as commands."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

SETTINGS = {
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
    # What self-selection brings: one draft and several, drawn and tested alike.
    "selected": """mdlm_streak/9/1 mdlm_streak/9/1/0/2/self mdlm_streak/9/1/0/4/self mdlm_streak/9/1/0/8/self
        mdlm_streak/9/1/0/16/self""",
    # What a majority of attempts is worth within seconds.
    "voted": """block/9/1 block/9/1/9 block_markov/16/1/16 mdlm_streak/9/1 mdlm/4/1 autoregressive/4/4 eagle/4/4
        prompt_lookup/9/1""",
    # What must be equal to vanilla under match.
    "equal": """block/4/1 block/16/4 block/9/1/12 block/8/1/0/4/self block/16/1/auto block_markov/9/1 block_markov/16/4
        block_markov/8/1/0/4/trie block_markov/16/1/24/auto mdlm/4/1 mdlm/16/4 mdlm_streak/9/1 mdlm_streak/9/1/0/8/trie
        mdlm_streak/8/1/0/4/multi_round autoregressive/4/4 eagle/4/4 eagle/6/1/12 prompt_lookup/9/1""",
    # What each kind of drafter spends its time on.
    "kinds": "block/9/1 block_markov/16/1/16 mdlm_streak/9/1 eagle/6/6",
    # On the page; measured on this project's own prompts, because their races ship.
    "shown": """block/9/1 block/16/1/auto block/9/1/9 block_markov/9/1 block_markov/16/1/16 mdlm/4/1 mdlm_streak/4/1
        mdlm_streak/9/1/0/4/self autoregressive/4/4 autoregressive/9/9/auto eagle/4/4 eagle/9/9/auto eagle/4/1/6
        prompt_lookup/9/1""",
}
SWEEP = "bench sweep {machine} --max-new-tokens 96 --ignore-eos --json {file}"
ON_FILE = "--prompts {out}/prompts.jsonl"
ONCE = f"{SWEEP} {ON_FILE} --repeats 1"
GRID = "--drafters none,mdlm,block --gamma 4,8,9,16 --steps 1,2"
SHOWN = f"{SWEEP} --repeats 1 --settings {{shown}} --traces {{out}}/shown-traces-"
COMMANDS = {
    "prompts.jsonl": "bench prompts --corpus {corpus} --per-flavour 10 --out {file}",
    "greedy.json": f"{SWEEP} {ON_FILE} --repeats 2 {GRID}",
    "methods.json": f"{ONCE} --settings {{all}} --traces {{out}}/traces-0",
    "temperature-0.7.json": f"{ONCE} --first 5 --temperature 0.7 --settings {{fewer}} --traces {{out}}/traces-0.7",
    "temperature-1.json": f"{ONCE} --first 5 --temperature 1 --settings {{fewer}},{{more_drafts}} "
    "--traces {out}/traces-1",
    "selection.json": f"{ONCE} --first 5 --draft-temperature 1 --settings {{selected}}",
    "budget.json": "bench budget {machine} --attempts 16 --max-new-tokens 64 --json {file} --settings {voted}",
    "hf-baseline.json": f"bench hf-baseline {{machine}} --max-new-tokens 96 --json {{file}} {ON_FILE} --repeats 1",
    "forwards.json": f"bench forwards {{machine}} --max-new-tokens 96 --json {{file}} {ON_FILE} {GRID} "
    "--sweep {out}/greedy.json",
    "split.json": f"bench split {{machine}} --max-new-tokens 96 --ignore-eos --json {{file}} {ON_FILE} --first 3 "
    "--settings {kinds}",
    "page.json": "app.measure --starts 8 --repeats 6 --json {file}",
    "prompts-200.jsonl": "bench prompts --corpus {corpus} --per-flavour 50 --out {file}",
    "equality.json": "bench equality {machine} --dtype fp32 --max-new-tokens 24 --json {file} "
    "--prompts {out}/prompts-200.jsonl --settings {equal}",
    "shown-0.json": f"{SHOWN}0 --temperature 0",
    "shown-0.7.json": f"{SHOWN}0.7 --temperature 0.7",
    "shown-1.json": f"{SHOWN}1 --temperature 1",
}
"""The file that a command writes -> the words behind ``python -m specdiff_core``, in their order. The report shows the
results in the same order, without those that the page shows."""
PAGE = "page.json"
"""Its command is no subcommand."""
OPTIONAL = (PAGE, "split.json")
"""Need a browser, and a CPU."""


def commands(corpus: Path, out: Path, machine: Sequence[str] = ()) -> dict[Path, list[str]]:
    """File -> the words of its command behind ``python -m``.

    Args:
        corpus: prompts are cut from its validation text.
        out: where all files go.
        machine: ``--device``, ``--dtype`` and ``--threads``, as they were given.
    """
    lists = {name: ",".join(keys.split()) for name, keys in SETTINGS.items()}
    found = {}
    for name, command in COMMANDS.items():
        words: list[str] = [] if name == PAGE else ["specdiff_core"]
        for word in command.split():  # first split, then filled in: a folder may hold spaces
            filled = [word.format(corpus=corpus, out=out, file=out / name, machine="", **lists)]
            words += machine if word == "{machine}" else filled
        found[out / name] = words
    return found
