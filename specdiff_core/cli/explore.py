"""``explore``: the questions of the page's Explore tab, answered on the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from specdiff_core.cli import options
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.base import Exploration, Explored, Exploring, Step, csv_of, parse
from specdiff_core.schema.errors import ConfigError, SpecDiffError


def add_command(commands: Any) -> None:
    """Add ``explore`` with a subcommand for each exploration to a parser; those that stand alone, too, are commands."""
    about = "Answer a question by measuring: the explorations of the page."
    explore = commands.add_parser("explore", help=about, description=about)
    kinds = explore.add_subparsers(title="questions", required=True, metavar="QUESTION")
    for name, kind in EXPLORATIONS.items():
        _add(kinds, name, kind)
        if kind.command:
            _add(commands, name, kind, kind.files)


def _add(commands: Any, name: str, kind: type[Exploration], words: Sequence[str] = ()) -> None:
    """One exploration. ``words``: the fields that are given without their names."""
    parser = options.add_parser(commands, name, run, f"{kind.title}. {kind.question}")
    parser.set_defaults(kind=kind)
    group = parser.add_argument_group("settings")
    for field in kind.form():
        told: dict[str, Any] = {"default": argparse.SUPPRESS, "help": _help(field)}
        if field["name"] in words:
            parser.add_argument(field["name"], nargs="?", metavar=field["name"].upper(), **told)
        else:
            group.add_argument(options.flag(field["name"]), metavar="VALUE", **told)
    options.add_placement(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer, which the page opens")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write its table")
    if kind.makes:
        parser.add_argument("--made", type=Path, metavar="FOLDER", help=f"write {kind.makes} into a new folder")


def _help(field: dict[str, Any]) -> str:
    default = ",".join(map(str, field["default"])) if field["list"] else field["default"]
    values = ", ".join(field["choices"]) or (
        f"{field['low']} to {field['high']}" if field["high"] is not None else "text"
    )
    notes = [
        values,
        *(["separated by commas"] if field["list"] else []),
        f"default {'none' if default == '' else default}",
    ]
    return f"{field['title']}. {field['about']} [{'; '.join(notes)}]".replace("%", "%%")


def run(args: argparse.Namespace) -> None:
    """Explore, print the table, write the files."""
    kind: type[Exploration] = args.kind
    names = {field["name"] for field in kind.form()}
    what = parse(kind, kind.from_files({name: value for name, value in vars(args).items() if name in names}))
    for name in ("json", "csv"):
        options.check_target(getattr(args, name), name)
    target: Path | None = getattr(args, "made", None)
    if target is not None and target.exists():
        raise ConfigError(f"--made {str(target)!r} exists.", field="made", hint="Name one that does not.")
    told, races, made = _follow(Exploring(what, options.open_engine(args, what.pair, what.drafters), argv=args.argv))
    print(csv_of(told.rows), end="")
    for line in told.facts.get("told", ()):
        print(line)
    for line in told.facts.get("skipped", ()):
        options.say(f"left out: {line}")
    if args.csv is not None:
        args.csv.write_text(csv_of(told.rows), encoding="utf-8")
    if args.json is not None:
        write(args.json, told, races)
    if target is not None:
        target.mkdir(parents=True)
        for name, content in made.items():
            (target / name).write_bytes(content)


def _follow(exploring: Exploring) -> tuple[Explored, dict[str, bytes], dict[str, bytes]]:
    """Draw a progress bar until the end."""
    from tqdm.auto import tqdm

    with tqdm(unit="step", dynamic_ncols=True) as bar:

        def show(step: Step) -> None:
            bar.n, bar.total = step.done, step.total
            bar.set_postfix_str(step.doing, refresh=False)
            bar.refresh()

        told = exploring.advance(progress=show)
    if told.explored is None:
        raise SpecDiffError("Nothing was measured.", hint="Change the settings.")
    return told.explored, told.races, told.made


def write(path: Path, told: Explored, races: dict[str, bytes]) -> None:
    """Write an answer as the page reads it, and its races beside it (``.races.json``)."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(msgspec.json.format(msgspec.json.encode(told), indent=1) + b"\n")
    if races:
        path.with_suffix(".races.json").write_bytes(msgspec.json.encode(races) + b"\n")  # bytes as base64
