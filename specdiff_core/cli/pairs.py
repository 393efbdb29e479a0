"""``pairs``: list the model pairs, their downloads and what is missing here; fetch them."""

from __future__ import annotations

import argparse
from itertools import groupby
from typing import Any

from specdiff_core.checkpoints import hub
from specdiff_core.checkpoints.availability import Environment, availability, loaded_at_once
from specdiff_core.checkpoints.folders import short_path, weight_files
from specdiff_core.checkpoints.memory import Machine, needed, refusal
from specdiff_core.checkpoints.sources import is_cached, is_local, resolve
from specdiff_core.cli import options
from specdiff_core.cli.output import columns
from specdiff_core.schema.pairs import NONE, PAIRS, DrafterSpec, PairSpec, find_pair
from specdiff_core.schema.published import Model


def add_command(commands: Any) -> None:
    about = "List the model pairs: size, licence, download size, and why one is not available here."
    parser = options.add_parser(commands, "pairs", run, about)
    parser.add_argument("name", metavar="NAME", nargs="?", help="show more of this pair [default: a table of all]")
    parser.add_argument("--fetch", metavar="NAME", help="download the files of this pair, for use without a network")
    parser.add_argument("--drafters", metavar="A,B", help="with --fetch: only these drafters [default all]")


def run(args: argparse.Namespace) -> None:
    if args.fetch is not None:
        fetch(find_pair(args.fetch), args.drafters)
    elif args.name:
        show(find_pair(args.name), Environment())
    else:
        table(Environment())


def table(here: Environment) -> None:
    """Print a line for each pair, the drafters of each family, and why pairs are not available."""
    machine = here.machine
    free = f"{machine.free / 1e9:.1f} GB of memory free"
    print(f"On this machine: {machine.device}, {machine.dtype}, {free}.\n")
    lines = [("PAIR", "TARGET", "PARAMETERS", "DOWNLOAD", "MEMORY + DRAFTER", "LICENCE", "HERE")]
    notes: dict[str, str] = {}
    for pair in PAIRS.values():
        available, reason = availability(pair, here)
        mark = "yes" if available else notes.setdefault(reason, f"no [{len(notes) + 1}]")
        model, missing = pair.published, to_fetch(pair.target, pair.revision, pair.published)
        size = f"{model.parameters / 1e9:.1f} B" if model else ""
        terms = ", ".join(_terms(model, pair.revision)) or "in its card"
        fetched = hub.size_words(missing) if missing else "nothing"
        lines.append((pair.name, short_path(pair.target), size, fetched, memory(pair, machine), terms, mark))
    print("\n".join(columns(lines)))
    print("\nDrafters and their download sizes:")
    for group, pairs in groupby(PAIRS.values(), key=lambda pair: pair.group):
        specs = {spec.name: spec for pair in pairs for spec in pair.drafters if spec.name != NONE.name}
        print(f"  {group}: {', '.join(spec.name + _notes(spec) for spec in specs.values())}")
    if notes:
        print()
    for reason, mark in notes.items():
        print(f"{mark[3:]} not available: {reason}")
    print(f"\n`{hub.FETCH_COMMAND.replace(' --fetch', '')}` shows more of one; `{hub.FETCH_COMMAND}` downloads it.")


def show(pair: PairSpec, here: Environment) -> None:
    available, reason = availability(pair, here)
    print(f"{pair.name}: {pair.label}, {short_path(pair.target)}, at most {pair.context:,} tokens")
    print(f"    {'available' if available else 'not available: ' + reason}")
    print(f"    {refusal(pair, here.machine, loaded_at_once(pair)) or memory(pair, here.machine) + ' of memory'}")
    for drafter in pair.drafters:
        gone = "" if drafter.has_files else " (its weights are not here)"
        print(f"    --drafter {drafter.name:14} {drafter.about}{_notes(drafter)}{gone}")


def memory(pair: PairSpec, machine: Machine) -> str:
    """Memory as ``1.2 GB + 0.7``: at loading, and for the smallest drafter that is loaded later."""
    initial, needs = loaded_at_once(pair), needed(pair, machine).drafters
    sized = [spec for spec in pair.drafters if spec.published and spec.published.parameters]
    later = [needs[spec.name] for spec in sized if spec.name in needs and spec.name not in initial]
    added = f" + {min(later) / 1e9:.1f}" if later else ""
    large = ", too large" if refusal(pair, machine, initial) else ""
    return f"{needed(pair, machine, initial).total / 1e9:.1f} GB{added}{large}"


def fetch(pair: PairSpec, names: str | None) -> None:
    chosen = [pair.drafter(name.strip()) for name in names.split(",")] if names else list(pair.drafters)
    drafters = {spec.source: spec.revision for spec in chosen if spec.source and spec.has_files}
    sources = {pair.target: pair.revision} | drafters
    with hub.reporting(options.say):
        for source, revision in sources.items():
            folder = resolve(source, revision)
            at = "" if is_local(source) else f" at {hub.cached_commit(source, revision)}"
            print(f"{source}{at}: {hub.size_words(sum(file.stat().st_size for file in weight_files(folder)))} here")


def to_fetch(source: str, revision: str, published: Model | None) -> int | None:
    """Bytes of a repository or folder that are still to be downloaded; None: unknown."""
    if is_local(source) or is_cached(source, revision):
        return 0
    return (published.download if published else 0) or None


def _notes(drafter: DrafterSpec) -> str:
    """Size, licence and access of a hub drafter, and whether its commit is pinned."""
    if drafter.published is None:
        return ""
    missing = to_fetch(drafter.source, drafter.revision, drafter.published)
    size = "size unknown" if missing is None else hub.size_words(missing) if missing else "here"
    return f" [{', '.join([size, *_terms(drafter.published, drafter.revision)])}]"


def _terms(model: Model | None, revision: str) -> list[str]:
    """Licence and access of a published model, and whether this project pins its commit."""
    if model is None:
        return []
    terms = [model.licence, "gated" if model.gated else "", "" if revision else "commit not pinned"]
    return [word for word in terms if word]
