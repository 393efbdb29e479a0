"""``explore``: the questions of the page's Explore tab, answered on the terminal."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from specdiff_core.cli import options
from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.alignment import compare_traces, given_of, read_run
from specdiff_core.explorations.base import Answer, Exploration, Explored, Exploring, Step, csv_of, parse
from specdiff_core.explorations.side_by_side import SideBySide
from specdiff_core.models.own_pairs import find
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
    parser.set_defaults(exploration=kind)
    group = parser.add_argument_group("settings")
    fields = kind.form()
    for field in fields:
        told: dict[str, Any] = {"default": argparse.SUPPRESS, "help": _help(field)}
        if field["name"] in words:
            parser.add_argument(field["name"], nargs="?", metavar=field["name"].upper(), **told)
        else:
            told["help"] = argparse.SUPPRESS if field["hidden"] else told["help"]
            group.add_argument(options.flag(field["name"]), metavar="VALUE", **told)
    if kind is SideBySide:
        _add_traces(parser)
    shown = [field["name"] for field in fields if not field["hidden"]]
    if "pair" in shown:
        options.add_own_pair(parser, drafter="drafter" not in shown)
    options.add_placement(parser)
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the answer, which the page opens")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write its table")
    if kind.makes:
        parser.add_argument("--made", type=Path, metavar="FOLDER", help=f"write {kind.makes} into a new folder")


def _add_traces(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("traces")
    about = "Hold runs of two recordings against each other instead of decoding: they may be of other methods, prompts "
    about += "or machines. With --branch, --round and --take only that branch is decoded."
    group.add_argument("--traces", nargs=2, type=Path, metavar=("A", "B"), help=about)
    group.add_argument("--lanes", nargs=2, metavar=("A", "B"), help="a lane of each [default: the last]")


def _help(field: dict[str, Any]) -> str:
    default = ",".join(map(str, field["default"])) if field["list"] else field["default"]
    values = ", ".join(field["choices"]) or (
        f"{field['low']} to {field['high']}" if field["high"] is not None else "text"
    )
    notes = [
        f"{values}, or @FILE that holds it" if field["long"] else values,
        *(["separated by commas"] if field["list"] else []),
        f"default {'none' if default == '' else default}",
    ]
    return f"{field['title']}. {field['about']} [{'; '.join(notes)}]".replace("%", "%%")


def _read(value: str) -> str:
    """A long text, or what the file behind an @ holds."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{value[1:]} cannot be read: {error}.", field="texts", hint="Give a UTF-8 file.") from error


def run(args: argparse.Namespace) -> None:
    """Explore, print the table, write the files."""
    kind: type[Exploration] = args.exploration
    fields = {field["name"]: field for field in kind.form() if field["name"] in vars(args)}
    given = {name: _read(getattr(args, name)) if one["long"] else getattr(args, name) for name, one in fields.items()}
    own = options.own_pair(args)
    if not own and vars(args).get("drafter") and "drafter" not in fields:
        raise ConfigError("--drafter names the drafter of --target.", field="drafter", hint="Give --target, too.")
    given |= {name: value for name, value in own.items() if name in kind.__struct_fields__}
    what = parse(kind, kind.from_files(given))
    find(what.pair)  # one's own is known by its name from here on
    for name in ("json", "csv"):
        options.check_target(getattr(args, name), name)
    if isinstance(what, SideBySide) and args.traces:
        _of_traces(args, what)
        return
    target: Path | None = getattr(args, "made", None)
    if target is not None and target.exists():
        raise ConfigError(f"--made {str(target)!r} exists.", field="made", hint="Name one that does not.")
    exploring = Exploring(what, options.open_engine(args, what.pair, what.drafters), argv=args.argv)
    failed: BaseException | None = None
    try:
        told, races, made = _follow(exploring)
    except (Exception, KeyboardInterrupt) as error:  # raised once what was finished is written
        (done, total, _, explored, races, made, _), failed = exploring.told(), error
        if explored is None:
            raise
        told = explored
        options.say(f"It broke off after {done} of {total} steps; what they measured follows.")
    print(csv_of(told.rows), end="")
    for line in told.facts.get("told", ()):
        print(line)
    for line in told.facts.get("skipped", ()):
        options.say(f"left out: {line}")
    if args.json is not None:
        write(args.json, told, races)
    if args.csv is not None:
        args.csv.write_text(csv_of(told.rows), encoding="utf-8")
    if target is not None:
        target.mkdir(parents=True)
        for name, content in made.items():
            (target / name).write_bytes(content)
    if failed is not None:
        raise failed


def _of_traces(args: argparse.Namespace, what: SideBySide) -> None:
    """Print the rounds of two traces, and what can be said of them; decode on from one, if that is asked for."""
    lanes = args.lanes or (None, None)
    told: Answer = compare_traces(*args.traces, lanes=lanes)
    if what.branch != "none":
        place = "ab".index(what.branch)
        given = given_of(read_run(args.traces[place], lanes[place]), what.round)
        asked = msgspec.structs.replace(what, given=msgspec.json.encode(given).decode())
        engine = options.open_engine(args, str(given.config.get("pair")), asked.drafters)
        branch, *_ = _follow(Exploring(asked, engine, argv=args.argv))
        told.rows += branch.rows
        told.facts["branch"] = branch.facts["branch"]
    for line in told.facts["words"]:
        options.say(line)
    print(csv_of(told.rows), end="")
    if args.csv is not None:
        args.csv.write_text(csv_of(told.rows), encoding="utf-8")
    if args.json is not None:
        answer = {"rows": told.rows, "facts": told.facts}
        args.json.write_bytes(msgspec.json.format(msgspec.json.encode(answer), indent=1) + b"\n")


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
