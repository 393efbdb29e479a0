"""``explore``: the explorations of the page, on the terminal."""

from __future__ import annotations

import argparse
import re
from functools import partial
from pathlib import Path
from typing import Any

from specdiff_core.checkpoints.own_pairs import find
from specdiff_core.cli import options
from specdiff_core.cli.output import listing
from specdiff_core.explorations import EXPLORATIONS, find_exploration
from specdiff_core.explorations.base import Exploration
from specdiff_core.explorations.run import ExplorationResult, ExplorationRun
from specdiff_core.explorations.standalone import as_csv, html_page
from specdiff_core.measure.store import read_result, rounded, write_result
from specdiff_core.schema.errors import ConfigError, SpecDiffError
from specdiff_core.schema.fields import fields_of, parse


def add_command(commands: Any) -> None:
    """Add ``explore`` with the page's explorations; others are commands of their own."""
    about = "Answer a question by measuring."
    explore = commands.add_parser("explore", help=about, description=about)
    kinds = explore.add_subparsers(title="explorations", required=True, metavar="NAME")
    for name, kind in EXPLORATIONS.items():
        _add(commands if kind.alone else kinds, name, kind)
    about = "Print and draw an answer that --json wrote, without measuring again."
    show = options.add_parser(kinds, "show", run_show, about)
    show.add_argument("answer", type=Path, metavar="FILE", help="a file that --json wrote")
    _add_outputs(show)


def _add(commands: Any, name: str, kind: type[Exploration]) -> None:
    """Add one exploration."""
    parser = options.add_parser(commands, name, run, f"{kind.title.rstrip('?')}: {kind.question}")
    parser.set_defaults(exploration=kind)
    group = parser.add_argument_group("settings")
    fields = fields_of(kind)
    for field in fields.values():
        note = ", or @FILE to read it from a file" if field.is_long else ""
        options.add_field(group, field, note=note)
    if not fields["pair"].hidden:
        options.add_own_pair(parser, drafter="drafter" not in fields)
    options.add_placement(parser)
    _add_outputs(parser)


def _add_outputs(parser: argparse.ArgumentParser) -> None:
    add = partial(parser.add_argument, type=Path)
    add("--json", metavar="FILE", help="write the answer, which the page opens")
    add(
        "--csv",
        metavar="FILE",
        help="write its table, and the counts of each prompt beside it (X.prompts.csv for X.csv)",
    )
    add("--html", metavar="FILE", help="write the answer, its tables and its figures as one page")


def _read(value: str) -> str:
    """A long text, or the content of a file given as ``@FILE``."""
    if not value.startswith("@"):
        return value
    try:
        return Path(value[1:]).read_text(encoding="utf-8")
    except (OSError, ValueError) as error:
        raise ConfigError(f"{value[1:]} cannot be read: {error}.", field="texts", hint="Give a UTF-8 file.") from error


def run(args: argparse.Namespace) -> None:
    """Measure, print the table and the answer, write the files."""
    kind: type[Exploration] = args.exploration
    fields = fields_of(kind)
    given = options.given(args, kind)
    given |= {name: _read(value) for name, value in given.items() if fields[name].is_long}
    owned = vars(args).get("target") is not None
    if not owned and vars(args).get("drafter") and "drafter" not in fields:
        raise ConfigError("--drafter needs --target here.", field="drafter", hint="Give --target too.")
    if owned or "pair" in given:
        given["pair"], drafters = options.chosen(args)
        usual = "drafter" in fields and "drafter" not in given and fields["drafter"].default
        if "drafter" in fields and usual not in [spec.name for spec in find(given["pair"]).drafters]:
            given["drafter"] = options.only(drafters)
    exploration = parse(kind, given)
    find(exploration.pair)  # registers a pair of your own
    _check_outputs(args)
    engine = options.open_engine(args, exploration.pair, exploration.drafters)
    running = ExplorationRun(exploration, engine, argv=args.argv)
    failed: BaseException | None = None
    try:
        with options.progress_bar("step") as show:
            snapshot = running.advance(progress=lambda step: show(step.done, step.total, step.doing))
    except (Exception, KeyboardInterrupt) as error:  # raised again after writing what is complete
        snapshot, failed = running.snapshot(), error
    if (result := snapshot.result) is None:
        raise failed or SpecDiffError("Nothing was measured.", hint="Change the settings.")
    if failed is not None:
        options.say(f"Stopped after {result.done} of {result.total} steps. Results so far:")
    _put_out(args, exploration, result, snapshot.races)
    if failed is not None:
        raise failed


def _check_outputs(args: argparse.Namespace) -> None:
    """Raise a ConfigError before the work if an output cannot be written."""
    for name in ("json", "csv", "html"):
        options.check_target(getattr(args, name), name)


def run_show(args: argparse.Namespace) -> None:
    """Print a stored answer and write its figures as this version draws them."""
    _check_outputs(args)
    result = read_result(args.answer, ExplorationResult)
    exploration = parse(find_exploration(result.name), result.settings)
    files = {race: args.answer.parent / file for race, file in result.files.items()}
    _put_out(args, exploration, result, {race: file.read_bytes() for race, file in files.items() if file.is_file()})


def _put_out(
    args: argparse.Namespace, exploration: Exploration, result: ExplorationResult, races: dict[str, bytes]
) -> None:
    """Print the table, the answer and its notes, as its file says them; write the requested files."""
    report = result.report = exploration.report(*rounded((result.rows, result.facts)))
    table = as_csv(result.rows)
    print("\n".join(listing(result.rows)))
    for line in filter(None, (report.answer, *report.notes)):
        print(line)
    for line in result.facts.get("skipped", ()):
        options.say(f"left out: {line}")
    if args.json is not None:
        write(args.json, result, races)
    if args.csv is not None:
        args.csv.write_text(table, encoding="utf-8")
        if result.runs:
            args.csv.with_suffix(".prompts.csv").write_text(as_csv(result.runs), encoding="utf-8")
    if args.html is not None:
        title = find_exploration(result.name).title
        args.html.write_text(html_page(title, report), encoding="utf-8")


def write(path: Path, result: ExplorationResult, races: dict[str, bytes]) -> None:
    """Write an answer as the page reads it, and its races to ``races/NAME/`` beside it."""
    for race, trace in races.items():
        file = path.parent / "races" / path.stem / (re.sub(r"[^\w.]+", "-", race) + ".jsonl.gz")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(trace)
        result.files[race] = file.relative_to(path.parent).as_posix()
    write_result(path, result)
