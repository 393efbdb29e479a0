"""``pairs``: list the model pairs, their downloads and why one is not available here; download their files."""

from __future__ import annotations

import argparse
import json
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.cli import options
from specdiff_core.cli.output import columns
from specdiff_core.models import hub
from specdiff_core.schema.pairs import PAIRS, DrafterSpec, PairSpec, find_pair
from specdiff_core.schema.published import Model

if TYPE_CHECKING:
    from specdiff_core.models.availability import Here
    from specdiff_core.models.memory import Machine


def add_command(commands: Any) -> None:
    """Add ``pairs`` to a parser's subcommands."""
    about = "List the model pairs: size, licence, download size, and why one is not available here."
    parser = options.add_parser(commands, "pairs", run, about)
    parser.add_argument("name", metavar="NAME", nargs="?", help="show more of this pair [default: a table of all]")
    parser.add_argument("--fetch", metavar="NAME", help="download the files of this pair, for use without a network")
    parser.add_argument("--drafters", metavar="A,B", help="with --fetch: only these drafters [default all]")
    options.add_json(parser)


def run(args: argparse.Namespace) -> None:
    """``pairs``: print the registry and what is available here.

    Raises:
        SpecDiffError: there is no such pair, or a download failed; the message says why.
    """
    if args.fetch is not None:
        fetch(find_pair(args.fetch), args.drafters)
        return
    from specdiff_core.models.availability import Here, availability

    here, rows = Here(), []
    for pair in [find_pair(args.name)] if args.name else PAIRS.values():
        available, reason = availability(pair, here)
        row = {"name": pair.name, "label": pair.label, "available": available, "reason": reason}
        rows.append({**row, "memory": memory(pair, here.machine), **described(pair)})
    if args.name:
        show(find_pair(args.name), rows[0])
    else:
        table(rows, here)
    if args.json:
        print(json.dumps({"pairs": rows}, ensure_ascii=False))


def table(rows: list[dict[str, Any]], here: Here) -> None:
    """Print a line for each pair, the drafters of each family, and why pairs are not available."""
    machine = here.machine
    print(f"On this machine: {machine.device}, {machine.dtype}, {machine.free / 1e9:.1f} GB of memory free.\n")
    lines = [("PAIR", "TARGET", "PARAMETERS", "TO FETCH", "MEMORY + DRAFTER", "LICENCE", "HERE")]
    notes: dict[str, str] = {}
    for row in rows:
        model, reason = row["target"], row["reason"]
        mark = "yes" if row["available"] else notes.setdefault(reason, f"no [{len(notes) + 1}]")
        size = f"{model['parameters'] / 1e9:.1f} B" if "parameters" in model else ""
        fetched = hub.size(model["to_fetch"]) if model["to_fetch"] else "nothing"
        terms = ", ".join(_terms(model)) or "in its card"
        taken = _taken(row["memory"])
        lines.append((row["name"], model["source"], size, fetched, taken, terms, mark))
    print("\n".join(columns(lines)))
    print("\nDrafters and their download sizes:")
    for group, family in groupby(PAIRS.values(), key=lambda pair: pair.group):
        found = {one.name: one for pair in family for one in pair.drafters if one.name != "none"}
        print(f"  {group}: {', '.join(one.name + _notes(one) for one in found.values())}")
    if notes:
        print()
    for reason, mark in notes.items():
        print(f"{mark[3:]} not available: {reason}")
    print(f"\n`{hub.LIKE.replace(' --fetch', '')}` shows more of one; `{hub.LIKE}` downloads it.")


def show(pair: PairSpec, row: dict[str, Any]) -> None:
    """Print one pair with its drafters."""
    print(f"{pair.name}: {pair.label}, {row['target']['source']}, at most {pair.context:,} tokens")
    print(f"    {'available' if row['available'] else 'not available: ' + row['reason']}")
    print(f"    {row['memory']['too_large'] or _taken(row['memory']) + ' of memory'}")
    for drafter in pair.drafters:
        gone = "" if drafter_is_here(drafter) else " (its weights are not here)"
        print(f"    --drafter {drafter.name:14} {drafter.about}{_notes(drafter)}{gone}")


def memory(pair: PairSpec, machine: Machine) -> dict[str, Any]:
    """Bytes that a pair needs when loaded, what each hub drafter adds, and why the pair is too large, if it is."""
    from specdiff_core.models.availability import loaded
    from specdiff_core.models.memory import needed, refusal

    first, every = loaded(pair), needed(pair, machine).drafters
    return {
        "needed": needed(pair, machine, first).total,
        "drafters": {one.name: every[one.name] for one in pair.drafters if one.name in every and _is_known(one, first)},
        "free": machine.free,
        "too_large": refusal(pair, machine, first),
    }


def described(pair: PairSpec) -> dict[str, Any]:
    """A pair's facts, for programs; bytes are those still to be fetched."""
    return {
        "family": pair.group,
        "size": pair.size,
        "context": pair.context,
        "chat": pair.chat,
        "target": _model(pair.target, pair.revision, pair.published),
        "drafters": {one.name: drafter_is_here(one) for one in pair.drafters},
        "models": {
            one.name: {
                **_model(one.source, one.revision, one.published),
                "logit_shift": one.logit_shift,
                "mask_id": one.mask_id,
            }
            for one in pair.drafters
            if one.source
        },
    }


def fetch(pair: PairSpec, names: str | None) -> None:
    """Download target and drafters of ``pair``, and print their sizes.

    Raises:
        SpecDiffError: there is no such drafter, or a download failed.
    """
    from specdiff_core.models.folders import is_local, resolve, weight_files

    chosen = [pair.drafter(name.strip()) for name in names.split(",")] if names else list(pair.drafters)
    sources = dict(
        [
            (pair.target, pair.revision),
            *((one.source, one.revision) for one in chosen if one.source and drafter_is_here(one)),
        ]
    )
    if pair.tokenizer:
        sources.setdefault(pair.tokenizer, pair.tokenizer_revision)
    with hub.reporting(options.say):
        for source, revision in sources.items():
            folder = resolve(source, revision)
            at = "" if is_local(source) else f" at {hub.commit(source, revision)}"
            print(f"{source}{at}: {hub.size(sum(file.stat().st_size for file in weight_files(folder)))} here")


def drafter_is_here(drafter: DrafterSpec) -> bool:
    """Whether a shipped drafter's files exist; True for hub drafters, which are checked with their pair."""
    folder = Path(drafter.source)
    return not drafter.source or not folder.is_absolute() or (folder / "config.json").is_file()


def _model(source: str, revision: str, published: Model | None) -> dict[str, Any]:
    """A repository or folder, for programs; ``pinned``: whether this project pins its commit."""
    from specdiff_core.models.folders import is_cached, is_local, shown

    if is_local(source):
        return {"source": shown(source), "to_fetch": 0}
    known = published or Model(repo=source, parameters=0)
    here = is_cached(source, revision)
    return {
        "source": source,
        "revision": hub.commit(source, revision),
        "pinned": bool(revision),
        "parameters": known.parameters,
        "licence": known.licence,
        "gated": known.gated,
        "to_fetch": 0 if here else known.download or None,  # None: unknown
    }


def _notes(drafter: DrafterSpec) -> str:
    """Size, licence and access of a hub drafter, and whether its commit is pinned."""
    if drafter.published is None:
        return ""
    model = _model(drafter.source, drafter.revision, drafter.published)
    left = model["to_fetch"]
    size = "size unknown" if left is None else hub.size(left) if left else "here"
    return f" [{', '.join([size, *_terms(model)])}]"


def _is_known(drafter: DrafterSpec, first: list[str]) -> bool:
    """Whether the size of a drafter that is loaded later is known."""
    return drafter.name not in first and bool(drafter.published and drafter.published.parameters)


def _taken(memory: dict[str, Any]) -> str:
    """``1.2 GB + 0.7``: when loaded, and the smallest drafter that is loaded later."""
    more = f" + {min(memory['drafters'].values()) / 1e9:.1f}" if memory["drafters"] else ""
    return f"{memory['needed'] / 1e9:.1f} GB{more}{', too large' if memory['too_large'] else ''}"


def _terms(model: dict[str, Any]) -> list[str]:
    licence = [model["licence"]] if model.get("licence") else []
    gated = ["gated"] if model.get("gated") else []
    loose = [] if model.get("pinned", True) else ["commit not pinned"]
    return [*licence, *gated, *loose]
