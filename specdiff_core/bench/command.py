"""``python -m specdiff_core bench``: flags in, tables and JSON out. Knows which measurement needs what, no arithmetic.

The measurements themselves are imported only when one runs, so that the command line's help stays quick.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from specdiff_core import flags
from specdiff_core.errors import ConfigError, SpecDiffError

if TYPE_CHECKING:
    from specdiff_core.bench.prompts import Prompt
    from specdiff_core.bench.rows import RowLog
    from specdiff_core.bench.sweep import Cell
    from specdiff_core.config import DecodeConfig

T = TypeVar("T")
SCHEMAS = {"page": 4}
"""Kind of result -> version of its form, where it is not 1."""
SAME = ("device", "dtype", "threads", "target", "weights", "versions")
"""What a sweep and the bare passes must share before one is held against the other."""
MEASURES = {
    "sweep": "speed-up of every drafter × γ × T over vanilla",
    "generate": "the vanilla lane against transformers' generate()",
    "forwards": "bare passes, and how close the loop of --sweep FILE is to its limit",
    "equality": "match against vanilla, token for token, and vanilla against generate()",
}


def add_bench(commands: Any) -> None:
    """Add the ``bench`` command to a parser's subcommands."""
    about = "Measure speed-ups and equality; write tables and JSON. An interrupted run goes on where it stopped."
    parser = commands.add_parser("bench", help=about, description=about)
    parser.set_defaults(run=run_bench)
    add = parser.add_argument
    add("--measure", choices=list(MEASURES), default="sweep", help="; ".join(f"{k}: {v}" for k, v in MEASURES.items()))
    add("--prompts", type=Path, metavar="FILE", help='JSON lines {"id", "flavour", "prompt"}')
    add("--first", type=int, metavar="N", help="use only the first N prompts of each flavour")
    add("--drafters", default="none,mdlm,block", metavar="LIST", help="[default none,mdlm,block]")
    add("--gamma", dest="gammas", default="4,8,16", metavar="LIST", help="draft windows [default 4,8,16]")
    add(
        "--steps",
        dest="step_counts",
        default="1,2,4",
        metavar="LIST",
        help="denoising steps; T larger than γ is left out [default 1,2,4]",
    )
    add("--nodes", default="0", metavar="LIST", help="nodes of draft trees; 0 is a window [default 0]")
    add("--repeats", type=int, default=3, metavar="N", help="[default 3]")
    add("--json", type=Path, metavar="OUT", help="write the result there, and its rows beside it (.rows.jsonl)")
    add("--temperatures", default="0,0.7,1", metavar="LIST", help="of --measure equality [default 0,0.7,1]")
    add("--generate-prompts", type=int, default=100, metavar="N", help="of --measure equality [default 100]")
    add("--sweep", type=Path, metavar="FILE", help="of --measure forwards: the sweep whose cells are compared")
    add("--report", type=Path, metavar="FILE", help="write BENCHMARKS.md from the results given by --from")
    add("--from", type=Path, nargs="+", dest="results", default=[], metavar="FILE", help="results, in their order")
    add("--make-prompts", type=Path, metavar="FILE", help="cut prompts from the validation documents of --corpus")
    add("--corpus", type=Path, default=Path("corpus"), metavar="DIR", help="of --make-prompts [default corpus]")
    add("--per-flavour", type=int, default=10, metavar="N", help="of --make-prompts [default 10]")
    flags.add_settings(parser, leave=("drafter", "gamma", "steps", "tree_nodes"))
    flags.add_placement(parser)


def run_bench(args: argparse.Namespace) -> None:
    """Make prompts, write a report, or measure.

    Raises:
        SpecDiffError: a file or a setting is wrong.
    """
    if args.make_prompts is not None:
        from specdiff_core.bench.prompts import make_prompts, write_prompts
        from specdiff_core.train.corpus import Corpus

        prompts = make_prompts(Corpus.open(args.corpus), per_flavour=args.per_flavour)
        write_prompts(args.make_prompts, prompts)
        print(f"{len(prompts)} prompts: {args.make_prompts}")
        return
    from specdiff_core.bench.goals import goals_section
    from specdiff_core.bench.tables import benchmarks, section

    flags.check_target(args.report, "report")
    if args.report is not None:
        results = [read_result(path) for path in args.results]
        if not results:
            raise ConfigError("--report needs results.", field="report", hint="Name them: --from sweep.json …")
        try:
            text = benchmarks(results, goals_section(results))
        except (AttributeError, LookupError, TypeError, ValueError) as error:
            names = ", ".join(str(path) for path in args.results)
            raise ConfigError(
                f"One of {names} does not hold what bench writes ({type(error).__name__}: {error}).",
                field="from",
                hint="Measure it again.",
            ) from error
        args.report.write_text(text, encoding="utf-8")
        print(args.report)
        return
    result = measure(args)
    print(section(result))
    if args.json is not None:
        args.json.parent.mkdir(parents=True, exist_ok=True)
        args.json.write_text(json.dumps(result, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Run one measurement to its end and return its result."""
    from specdiff_core.bench.prompts import read_prompts
    from specdiff_core.bench.report import report
    from specdiff_core.bench.sweep import sweep
    from specdiff_core.provenance import provenance

    if args.prompts is None:
        raise ConfigError("bench needs prompts.", field="prompts", hint="Add --prompts FILE.jsonl, or --make-prompts.")
    if args.repeats < 1:
        raise ConfigError("--repeats must be at least 1.", field="repeats", hint="Three show the spread.")
    flags.check_target(args.json, "json")
    drafters = numbers(args.drafters, str, "drafters")
    base = flags.read_settings(args)
    cells = cells_of(args, drafters, base)
    for cell in cells:
        cell.config(base)  # out of range is told before anything is loaded
    temperatures = numbers(args.temperatures, float, "temperatures")
    for temperature in temperatures:
        dataclasses.replace(base, temperature=temperature)
    if args.generate_prompts < 0:
        raise ConfigError("--generate-prompts must not be negative.", field="generate_prompts", hint="0 leaves it out.")
    prompts = first_of_each(read_prompts(args.prompts), args.first)
    facts = provenance(args.argv)  # of the code that measures, not of what the repository holds later
    engine = flags.open_engine(args, base.pair, drafters)
    for prompt in prompts:
        try:
            engine.encode(prompt.prompt)
        except SpecDiffError as error:
            raise ConfigError(f"{prompt.id}: {error}", field="prompts", hint=error.hint) from error
    path = args.json.with_suffix(".rows.jsonl") if args.json is not None else None
    if path is not None and path.exists():
        flags.say(f"{path.name} holds earlier rows: only missing ones are measured. Delete it to measure all again.")
    if args.measure == "sweep":
        log = follow(sweep(engine, prompts, cells, base, repeats=args.repeats, path=path))
        body: dict[str, Any] = {"cells": report(log.rows), "repeats": args.repeats}
    elif args.measure == "generate":
        from specdiff_core.bench.stock import compare, fold_stock

        log = follow(compare(engine, prompts, base, repeats=args.repeats, path=path))
        body = {"result": fold_stock(log.rows), "repeats": args.repeats}
    elif args.measure == "equality":
        from specdiff_core.bench.equality import check_equality, fold_equality

        chosen = [cell for cell in cells if cell.drafter != "none"]
        steps = check_equality(
            engine, prompts, chosen, base, generate_prompts=args.generate_prompts, path=path, temperatures=temperatures
        )
        log = follow(steps)
        body = {"result": fold_equality(log.rows)}
    else:
        return measure_forwards(args, engine, prompts, base, facts)
    return {
        **log.header,
        "schema": 1,
        "provenance": facts,
        "sessions": 1 + max((row["session"] for row in log.rows), default=0),
        "prompts": count_flavours(prompts),
        **body,
    }


def measure_forwards(
    args: argparse.Namespace, engine: Any, prompts: Sequence[Prompt], base: DecodeConfig, facts: dict[str, Any]
) -> dict[str, Any]:
    """Bare passes for every cell of the grid; with ``--sweep`` the share of the limit that the loop reached there."""
    from specdiff_core.bench.forwards import efficiency, measure_cell, typical_context
    from specdiff_core.bench.sweep import BASELINE, Cell, describe_run, header

    swept = {}
    if args.sweep is not None:
        stored = read_result(args.sweep)
        if stored["kind"] != "sweep":
            raise ConfigError(f"{args.sweep} is no sweep.", field="sweep", hint="Name a file of --measure sweep.")
        try:
            swept = {
                Cell(entry["drafter"], entry["gamma"], entry["steps"], entry.get("nodes", 0)): entry
                for entry in stored["cells"]
            }
        except (LookupError, TypeError) as error:
            raise ConfigError(f"{args.sweep} is no whole sweep.", field="sweep", hint="Measure it again.") from error
    drafters = [name for name in numbers(args.drafters, str, "drafters") if name != "none"]
    cells = cells_of(args, drafters, base)[1:]
    if not cells:
        raise ConfigError("--measure forwards needs a drafter.", field="drafters", hint="Name one besides none.")
    head = header("forwards", prompts, base, describe_run(engine, prompts[0].prompt, base), cells)
    if swept and (other := [name for name in SAME if stored.get(name) != head[name]]):
        raise ConfigError(
            f"{args.sweep} was measured with another {', '.join(other)}.",
            field="sweep",
            hint="Measure both on one machine, with the same models and settings.",
        )
    ids = typical_context(engine, prompts[0].prompt, base)
    entries = []
    for cell in cells:
        entry = measure_cell(engine, ids, cell, base)
        if found := swept.get(cell):
            entry["efficiency"] = efficiency(entry, found, swept[BASELINE])
        entries.append(entry)
    return {**head, "schema": 1, "provenance": facts, "cells": entries}


def cells_of(args: argparse.Namespace, drafters: Sequence[str], base: DecodeConfig) -> tuple[Cell, ...]:
    """The baseline and what ``--drafters``, ``--gamma``, ``--steps`` and ``--nodes`` span.

    Raises:
        ConfigError: a list holds no numbers, or they span nothing.
    """
    from specdiff_core.bench.sweep import grid

    gammas, steps = numbers(args.gammas, int, "gamma"), numbers(args.step_counts, int, "steps")
    return grid(drafters, gammas, steps, base.pair, numbers(args.nodes, int, "nodes"))


def follow(steps: Iterable[tuple[int, int, RowLog]]) -> RowLog:
    """Draw a progress bar until the measurement ends; returns its rows."""
    from tqdm.auto import tqdm

    logs = []
    with tqdm(unit="run", dynamic_ncols=True) as bar:
        for done, total, log in steps:
            logs = [log]
            bar.total, bar.n = total, done
            bar.refresh()
    return logs[0]


def numbers(text: str, kind: Callable[[str], T], name: str) -> list[T]:
    """``"4,8,16"`` -> ``[4, 8, 16]``.

    Raises:
        ConfigError: one of them is not a ``kind``.
    """
    try:
        values = [kind(part.strip()) for part in text.split(",") if part.strip()]
    except ValueError:
        values = []
    if not values:
        raise ConfigError(f"--{name} {text[:40]!r} is not a list.", field=name, hint="Separate values by commas.")
    return values


def first_of_each(prompts: Sequence[Prompt], count: int | None) -> tuple[Prompt, ...]:
    """The first ``count`` prompts of every flavour."""
    seen: dict[str, int] = {}
    kept = []
    for prompt in prompts:
        seen[prompt.flavour] = seen.get(prompt.flavour, 0) + 1
        if count is None or seen[prompt.flavour] <= count:
            kept.append(prompt)
    if not kept:
        raise ConfigError("--first leaves no prompt.", field="first", hint="Give at least 1.")
    return tuple(kept)


def count_flavours(prompts: Sequence[Prompt]) -> dict[str, int]:
    """How many prompts there are of each flavour."""
    flavours = [prompt.flavour for prompt in prompts]
    return {flavour: flavours.count(flavour) for flavour in dict.fromkeys(flavours)}


def read_result(path: Path) -> dict[str, Any]:
    """A JSON result that ``bench`` wrote.

    Raises:
        ConfigError: it is not one.
    """
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise ConfigError(f"{path} is not readable JSON ({error}).", field="from", hint="Name a result.") from error
    if not isinstance(value, dict) or not isinstance(value.get("kind"), str):
        raise ConfigError(f"{path} is no result of bench.", field="from", hint="Name a file written by --json.")
    if value.get("schema") != SCHEMAS.get(value["kind"], 1):
        raise ConfigError(f"{path} is a result of another version.", field="from", hint="Measure it again.")
    return value
