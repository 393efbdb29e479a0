"""``python -m specdiff_core bench``: flags in, tables and JSON out. Knows which measurement needs what, no arithmetic.

The measurements themselves are imported only when one runs, so that the command line's help stays quick.
"""

from __future__ import annotations

import argparse
import dataclasses
import json
import os
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.bench.cells import SWEPT, Cell, grid, listed
from specdiff_core.bench.reading import count_flavours, first_of_each, numbers, read_result
from specdiff_core.cli import options
from specdiff_core.schema.errors import ConfigError, SpecDiffError
from specdiff_core.schema.pairs import find_pair

if TYPE_CHECKING:
    from specdiff_core.bench.rows import RowLog
    from specdiff_core.schema.settings import DecodeConfig

MEASURES = {
    "sweep": "speed-up of every drafter × γ × T over vanilla",
    "referee": "our lanes against transformers' own generate(): plain, assisted, prompt lookup, DFlash",
    "forwards": "bare passes, and how close the loop of --sweep FILE is to its limit",
    "equality": "match against vanilla, token for token, and vanilla against generate()",
}


def add_command(commands: Any) -> None:
    """Add the ``bench`` command to a parser's subcommands."""
    about = "Measure speed-ups and equality; write tables and JSON. An interrupted run goes on where it stopped."
    parser = commands.add_parser("bench", help=about, description=about)
    parser.set_defaults(run=run_bench)
    add = parser.add_argument
    add("--measure", choices=list(MEASURES), default="sweep", help="; ".join(f"{k}: {v}" for k, v in MEASURES.items()))
    add(
        "--prompts",
        type=Path,
        metavar="FILE",
        help='JSON lines {"id", "flavour", "prompt"} [default: this project\'s own, five of each flavour]',
    )
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
    add("--drafts", default="1", metavar="LIST", help="K, drafts of a denoiser per round; 1 is one window [default 1]")
    add(
        "--selection",
        dest="selections",
        default="self",
        metavar="LIST",
        help="what becomes of K > 1 drafts: self, trie, multi_round [default self]",
    )
    add(
        "--cells",
        default="",
        metavar="LIST",
        help="cells one by one instead of a grid: drafter/γ/T, for a tree /nodes, for K drafts /0/K/selection, with "
        "/auto at the end γ and T, or a tree's nodes, are chosen as it goes; as block/9/1,block/9/1/12,block/16/1/auto",
    )
    add("--repeats", type=int, default=3, metavar="N", help="[default 3]")
    add("--json", type=Path, metavar="OUT", help="write the result there, and its rows beside it (.rows.jsonl)")
    add("--traces", type=Path, metavar="DIR", help="of --measure sweep: keep the events of every measured run there")
    add(
        "--lanes",
        default="",
        metavar="NAME=γ,…",
        help="of --measure referee: our drafters with their γ, beside vanilla [default, as far as the pair has them: "
        "autoregressive=4,prompt_lookup=9,block=9]",
    )
    add("--temperatures", default="0,0.7,1", metavar="LIST", help="of --measure equality [default 0,0.7,1]")
    add("--generate-prompts", type=int, default=100, metavar="N", help="of --measure equality [default 100]")
    add("--sweep", type=Path, metavar="FILE", help="of --measure forwards: the sweep whose cells are compared")
    add("--report", type=Path, metavar="FILE", help="write BENCHMARKS.md from the results given by --from")
    add("--from", type=Path, nargs="+", dest="results", default=[], metavar="FILE", help="results, in their order")
    add(
        "--refold",
        type=Path,
        nargs="?",
        const=Path(),
        metavar="DIR",
        help="of --report: fold sweeps again from their traces, found where they were written, or in DIR",
    )
    add(
        "--showcase",
        type=Path,
        metavar="DIR",
        help="write what the page's Compare tab ships from the sweeps given by --from, one for each temperature, each "
        "measured with --json and --traces",
    )
    add("--make-prompts", type=Path, metavar="FILE", help="cut prompts from the validation documents of --corpus")
    add("--corpus", type=Path, default=Path("corpus"), metavar="DIR", help="of --make-prompts [default corpus]")
    add("--per-flavour", type=int, default=10, metavar="N", help="of --make-prompts [default 10]")
    options.add_settings(parser, leave=SWEPT)
    options.add_placement(parser)


def run_bench(args: argparse.Namespace) -> None:
    """Make prompts, write a report or a showcase, or measure.

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
    if args.showcase is not None:
        from specdiff_core.bench.showcase import build_showcase, open_stored, write_showcase

        files = build_showcase([open_stored(path) for path in args.results])
        write_showcase(args.showcase, files)
        print(f"{len(files)} files, {sum(map(len, files.values())):,} bytes: {args.showcase}")
        return
    from specdiff_core.bench.goals import goals_section
    from specdiff_core.bench.rivals import rivals_section, shapes_section
    from specdiff_core.bench.tables import benchmarks, section

    options.check_target(args.report, "report")
    if args.report is not None:
        results = [stored(path, args.refold) for path in args.results]
        if not results:
            raise ConfigError("--report needs results.", field="report", hint="Name them: --from sweep.json …")
        try:
            told = (section(results) for section in (goals_section, rivals_section, shapes_section))
            text = benchmarks(results, "\n\n".join(filter(None, told)))
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
    from specdiff_core.bench.own_prompts import OWN_PROMPTS
    from specdiff_core.bench.prompts import read_prompts
    from specdiff_core.bench.report import report
    from specdiff_core.bench.sweep import sweep
    from specdiff_core.bench.traces import Traces
    from specdiff_core.provenance import provenance

    if args.traces is not None and args.measure != "sweep":
        raise ConfigError("Only --measure sweep keeps traces.", field="traces", hint="Leave --traces out.")
    if args.repeats < 1:
        raise ConfigError("--repeats must be at least 1.", field="repeats", hint="Three show the spread.")
    options.check_target(args.json, "json")
    base = options.read_settings(args)
    cells = cells_of(args, base)
    drafters = [cell.drafter for cell in cells]
    for cell in cells:
        cell.config(base)  # out of range is told before anything is loaded
    temperatures = numbers(args.temperatures, float, "temperatures")
    for temperature in temperatures:
        dataclasses.replace(base, temperature=temperature)
    if args.generate_prompts < 0:
        raise ConfigError("--generate-prompts must not be negative.", field="generate_prompts", hint="0 leaves it out.")
    prompts = first_of_each(OWN_PROMPTS if args.prompts is None else read_prompts(args.prompts), args.first)
    facts = provenance(args.argv)  # of the code that measures, not of what the repository holds later
    engine = options.open_engine(args, base.pair, drafters)
    for prompt in prompts:
        try:
            engine.encode(prompt.prompt)
        except SpecDiffError as error:
            raise ConfigError(f"{prompt.id}: {error}", field="prompts", hint=error.hint) from error
    path = args.json.with_suffix(".rows.jsonl") if args.json is not None else None
    if path is not None and path.exists():
        options.say(f"{path.name} holds earlier rows: only missing ones are measured. Delete it to measure all again.")
    if args.measure == "sweep":
        traces = None if args.traces is None else Traces(args.traces, engine.pair.tokenizer)
        log = follow(sweep(engine, prompts, cells, base, repeats=args.repeats, path=path, traces=traces))
        body: dict[str, Any] = {"cells": report(log.rows), "repeats": args.repeats}
        if traces is not None:
            body["traces"] = os.path.relpath(args.traces, args.json.parent if args.json is not None else Path())
    elif args.measure == "referee":
        from specdiff_core.bench.referee import fold_referee, referee

        log = follow(referee(engine, prompts, cells, base, repeats=args.repeats, path=path))
        body = {"result": fold_referee(log.rows, log.header["lanes"]), "repeats": args.repeats}
    elif args.measure == "equality":
        from specdiff_core.bench.equality import check_equality, fold_equality

        chosen = [cell for cell in cells if cell.drafter != "none"]
        steps = check_equality(
            engine, prompts, chosen, base, generate_prompts=args.generate_prompts, path=path, temperatures=temperatures
        )
        log = follow(steps)
        body = {"result": fold_equality(log.rows)}
    else:
        from specdiff_core.bench.forwards import measure_forwards

        return {**measure_forwards(engine, prompts, cells[1:], base, args.sweep), "schema": 1, "provenance": facts}
    return {
        **log.header,
        "schema": 1,
        "provenance": facts,
        "sessions": 1 + max((row["session"] for row in log.rows), default=0),
        "prompts": count_flavours(prompts),
        **body,
    }


def stored(path: Path, traces: Path | None) -> dict[str, Any]:
    """A result that ``bench`` wrote; where ``traces`` is given, a sweep that kept its events is folded again from them.

    Args:
        traces: the folder; an empty path: where the sweep wrote them, seen from its result.

    Raises:
        SpecDiffError: it is no result, or its traces are missing, damaged or another sweep's.
    """
    result = read_result(path)
    if traces is None or result["kind"] != "sweep":
        return result
    kept = result.get("traces")
    if not isinstance(kept, str):
        options.say(f"{path.name} was measured without --traces: it is told as it was folded then.")
        return result
    from specdiff_core.bench.refold import refold
    from specdiff_core.bench.traces import Traces

    return refold(result, Traces(path.parent / kept if traces == Path() else traces))


def cells_of(args: argparse.Namespace, base: DecodeConfig) -> tuple[Cell, ...]:
    """The baseline and what the flags of the grid span; of the referee, our lanes.

    Raises:
        ConfigError: a list holds no numbers, or they span nothing.
    """
    if args.measure == "referee":
        from specdiff_core.bench.referee import own_cells

        lanes = numbers(args.lanes, lane, "lanes") if args.lanes else []
        return own_cells(find_pair(base.pair), lanes)
    if args.cells:
        return listed(numbers(args.cells, str, "cells"), base)
    drafters = numbers(args.drafters, str, "drafters")
    gammas, steps = numbers(args.gammas, int, "gamma"), numbers(args.step_counts, int, "steps")
    nodes, drafts = numbers(args.nodes, int, "nodes"), numbers(args.drafts, int, "drafts")
    selections = numbers(args.selections, str, "selection")
    for name in selections:
        dataclasses.replace(base, selection=name)  # a misspelt one is told even where K is 1
    return grid(drafters, gammas, steps, base.pair, nodes, drafts, selections)


def lane(text: str) -> tuple[str, int]:
    """``"block=9"`` -> its drafter and γ."""
    name, _, gamma = text.partition("=")
    return name.strip(), int(gamma)


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
