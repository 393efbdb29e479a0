"""``bench``: measure settings against vanilla and transformers, write reports, and feed the page's Compare tab."""

from __future__ import annotations

import argparse
import dataclasses
import os
import shutil
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from specdiff_core.bench import store, suite
from specdiff_core.bench.budget import ATTEMPTS, TEMPERATURE, AttemptRow, budget_result, check_problems
from specdiff_core.bench.comparison import build_showcase, open_stored, write_showcase
from specdiff_core.bench.grid import SWEPT, BenchSetting, grid, listed
from specdiff_core.bench.markdown import benchmarks, section
from specdiff_core.bench.prompts import (
    Prompt,
    first_of_each,
    make_prompts,
    own_problems,
    own_prompts,
    read_prompts,
    write_prompts,
)
from specdiff_core.bench.report import reaggregate, sweep_result
from specdiff_core.bench.store import Result, RowLog, Sweep, Traces, read_result
from specdiff_core.bench.sweep import measure, sweep
from specdiff_core.bench.workloads import WORKLOADS, load_workload
from specdiff_core.cli import options
from specdiff_core.provenance import Provenance, provenance
from specdiff_core.schema.errors import ConfigError, SpecDiffError
from specdiff_core.schema.methods import methods_of
from specdiff_core.schema.pairs import ASSETS, find_pair
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

T = TypeVar("T")
L = TypeVar("L", bound=RowLog[Any])


def add_command(commands: Any) -> None:
    """Add ``bench`` and its subcommands to a parser."""
    about = "Measure speed-ups and equal texts; write tables and JSON. An interrupted run goes on where it stopped."
    bench = commands.add_parser("bench", help=about, description=about)
    kinds = bench.add_subparsers(title="what to do", required=True, metavar="WHAT")

    def parser(name: str, run: Callable[[argparse.Namespace], None], about: str) -> Callable[..., Any]:
        return options.add_parser(kinds, name, run, about).add_argument

    add = parser("sweep", run_sweep, "Speed-up of settings over vanilla.")
    _add_measuring(add, grid=True, repeats=True)
    add("--traces", type=Path, metavar="DIR", help="write the events of every measured run there")

    add = parser("budget", run_budget, "Accuracy within seconds: problems, several attempts, the commonest answer.")
    _add_measuring(add, problems=True)
    about = f"at each problem, at --temperature [default {ATTEMPTS}, at {TEMPERATURE}]; one may be greedy"
    add("--attempts", type=int, default=ATTEMPTS, metavar="K", help=about)

    add = parser("equality", run_equality, "Rule match against vanilla, token for token; vanilla against generate().")
    _add_measuring(add, grid=True)
    add("--temperatures", default="0,0.7,1", metavar="LIST", help="[default 0,0.7,1]")
    add("--generate-prompts", type=int, default=100, metavar="N", help="prompts for generate() [default 100]")

    add = parser("hf-baseline", run_hf_baseline, "Our lanes against transformers' own loops, on the same weights.")
    _add_measuring(add, repeats=True)

    add = parser("forwards", run_forwards, "Bare passes, and how close the loop of a sweep is to its limit.")
    _add_measuring(add, grid=True)
    add("--sweep", type=Path, metavar="FILE", help="the sweep whose speed-ups are held against the limit")

    add = parser("split", run_split, "Where the time of a round goes: networks, head, sampling, tests, cache, Python.")
    _add_measuring(add, grid=True)

    for kind in kinds.choices.values():
        options.add_settings(kind, leave=SWEPT)
        options.add_placement(kind)

    add = parser("report", run_report, "Write results into BENCHMARKS.md; sections of other machines stay.")
    add("results", type=Path, nargs="+", metavar="FILE", help="results, in their order")
    add("--out", type=Path, default=Path("BENCHMARKS.md"), metavar="FILE", help="[default BENCHMARKS.md]")
    add("--reaggregate", action="store_true", help="aggregate sweeps again from their traces")
    add("--traces", type=Path, metavar="DIR", help="where those traces are [default: where the sweep wrote them]")

    add = parser("showcase", run_showcase, "Write what the Compare tab shows, from one sweep for each temperature.")
    add("results", type=Path, nargs="+", metavar="FILE", help="sweeps, each measured with --json and --traces")
    add("--out", type=Path, required=True, metavar="DIR", help="usually assets/compare")

    add = parser("prompts", run_prompts, "Cut prompts from a corpus' validation documents.")
    add("--corpus", type=Path, default=Path("corpus"), metavar="DIR", help="[default corpus]")
    add("--per-flavour", type=int, default=10, metavar="N", help="[default 10]")
    add("--out", type=Path, required=True, metavar="FILE", help="JSON lines")

    add = parser("suite", run_suite, "Measure everything in BENCHMARKS.md and on the Compare tab; finished files stay.")
    add("--corpus", type=Path, required=True, metavar="DIR", help="prompts are cut from its validation text")
    add("--out", type=Path, default=Path("runs/bench"), metavar="DIR", help="[default runs/bench]")
    add("--report", type=Path, default=Path("BENCHMARKS.md"), metavar="FILE", help="[default BENCHMARKS.md]")
    compare = ASSETS / "compare"
    add("--showcase", type=Path, default=compare, metavar="DIR", help="for the Compare tab [default assets/compare]")
    options.add_placement(kinds.choices["suite"])


def _add_measuring(
    add: Callable[..., Any], *, grid: bool = False, repeats: bool = False, problems: bool = False
) -> None:
    """What the measurements share; ``problems``: of prompts that have an answer."""
    own = "this project's own worked problems" if problems else "this project's own, five of each flavour"
    names = ", ".join(name for name, one in WORKLOADS.items() if one.scored or not problems)
    fields = ("id", "flavour", "prompt", *(("answer",) if problems else ()))
    line = ", ".join(f'"{name}"' for name in fields)
    about = f"JSON lines {{{line}}}, or a published workload ({names})"
    add("--prompts", metavar="FILE|NAME", help=f"{about} [default: {own}]")
    add("--count", type=int, default=40, metavar="N", help="prompts of a published workload [default 40]")
    add("--first", type=int, metavar="N", help="use only the first N prompts of each flavour")
    add("--json", type=Path, metavar="OUT", help="write the result there, and its rows beside it (.rows.jsonl)")
    if repeats:
        add("--repeats", type=int, default=3, metavar="N", help="[default 3]")
    usual = "every method of the pair" if problems else "those that transformers has too"
    for name, default, about in (
        ("drafters", "none,mdlm,block", "drafters"),
        ("gamma", "4,8,16", "draft windows"),
        ("steps", "1,2,4", "denoising steps; T larger than γ is left out"),
        ("tree-nodes", "0", "nodes of draft trees; 0 is a window"),
        ("num-drafts", "1", "K, drafts of a denoiser per round; 1 is one window"),
        ("selection", "self", "what becomes of K > 1 drafts: self, trie, multi_round"),
    ) if grid else ():  # fmt: skip
        dest = f"each_{name.replace('-', '_')}"  # a list, not the setting of that name
        add(f"--{name}", dest=dest, default=default, metavar="LIST", help=f"{about} [default {default}]")
    add(
        "--settings",
        default="",
        metavar="LIST",
        help=("one by one instead of a grid" if grid else f"beside vanilla [default: {usual}]")
        + ": drafter/γ/T, for a tree /nodes, for K drafts /0/K/selection, with /auto at the end γ and T, or a tree's "
        "nodes, are chosen as it goes; as block/9/1,block/9/1/12,block/16/1/auto",
    )


def _values(text: str, kind: Callable[[str], T], name: str) -> list[T]:
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


def _settings(args: argparse.Namespace, base: DecodeConfig) -> tuple[BenchSetting, ...]:
    """The baseline and what the flags ask for."""
    if args.settings:
        return listed(_values(args.settings, str, "settings"), base)
    selections = _values(args.each_selection, str, "selection")
    for name in selections:
        BenchSetting("none", 1, 1, selection=name).config(base)  # a misspelt one is refused even where K is 1
    return grid(
        base,
        _values(args.each_drafters, str, "drafters"),
        _values(args.each_gamma, int, "gamma"),
        _values(args.each_steps, int, "steps"),
        _values(args.each_tree_nodes, int, "tree-nodes"),
        _values(args.each_num_drafts, int, "num-drafts"),
        selections,
    )


def _prepare(
    args: argparse.Namespace,
    base: DecodeConfig,
    settings: Sequence[BenchSetting],
    prompts: tuple[Prompt, ...] = (),
) -> tuple[Engine, tuple[Prompt, ...], Provenance, Path | None]:
    """The engine, the prompts (those of the flags, if none are given), the provenance and the file of the rows. What is
    wrong is found before anything is measured.

    Raises:
        SpecDiffError: a flag or a prompt cannot be used.
    """
    if getattr(args, "repeats", 1) < 1:
        raise ConfigError("--repeats must be at least 1.", field="repeats", hint="Three show the spread.")
    options.check_target(args.json, "json")
    prompts = prompts or _prompts(args, own_prompts())
    facts = provenance(args.argv)  # of the code that measures, not of what the repository holds later
    engine = options.open_engine(args, base.pair, [setting.drafter for setting in settings])
    for prompt in prompts:
        try:
            engine.encode(prompt.prompt)
        except SpecDiffError as error:
            raise ConfigError(f"{prompt.id}: {error.message}", field="prompts", hint=error.hint) from error
    rows = None if args.json is None else store.rows_path(args.json)
    if rows is not None and rows.exists():
        options.say(f"{rows.name} holds earlier rows: only missing ones are measured. Delete it to measure all again.")
    return engine, prompts, facts, rows


def _prompts(args: argparse.Namespace, own: tuple[Prompt, ...]) -> tuple[Prompt, ...]:
    """Those of a file, of a published workload, or ``own``; as many of them as were asked for.

    Raises:
        ConfigError: they cannot be read, or none is left.
    """
    if args.count < 1:
        raise ConfigError("--count leaves no prompt.", field="count", hint="Give at least 1.")
    if args.prompts is not None:
        own = load_workload(args.prompts, args.count) if args.prompts in WORKLOADS else read_prompts(Path(args.prompts))
    return own if args.first is None else first_of_each(own, args.first)


def _follow(steps: Iterable[tuple[int, int, L]]) -> L:
    """Draw a progress bar until the measurement ends; returns its rows."""
    from tqdm.auto import tqdm

    with tqdm(unit="run", dynamic_ncols=True) as bar:
        for step in steps:
            bar.n, bar.total, log = step
            bar.refresh()
    return log


def _finish(args: argparse.Namespace, result: Result) -> None:
    """Print the tables; write the JSON."""
    print(section(result))
    if args.json is not None:
        store.write_result(args.json, result)


def run_sweep(args: argparse.Namespace) -> None:
    """``bench sweep``."""
    base = options.read_settings(args)
    settings = _settings(args, base)
    engine, prompts, facts, path = _prepare(args, base, settings)
    tokenizer: Any = engine.pair.tokenizer
    traces = None if args.traces is None else Traces(args.traces, tokenizer)
    log = _follow(sweep(engine, prompts, settings, base, repeats=args.repeats, path=path, traces=traces))
    where = os.path.relpath(args.traces, args.json.parent if args.json else Path()) if args.traces else ""
    _finish(args, sweep_result(log, facts, traces=where))


def run_budget(args: argparse.Namespace) -> None:
    """``bench budget``."""
    others = {} if "temperature" in args else {"temperature": TEMPERATURE}
    base = options.read_settings(args, **others)
    keys = [BenchSetting.of_config(method.config(base)).key for method in methods_of(base.pair)]
    settings = listed(_values(args.settings, str, "settings") if args.settings else keys, base)
    prompts = _prompts(args, own_problems())
    check_problems(prompts, base, args.attempts)
    engine, prompts, facts, path = _prepare(args, base, settings, prompts)
    log = _follow(measure("budget", AttemptRow, engine, prompts, settings, base, repeats=args.attempts, path=path))
    _finish(args, budget_result(log, prompts, facts))


def run_equality(args: argparse.Namespace) -> None:
    """``bench equality``."""
    from specdiff_core.bench.equality import aggregate, check_equality

    base = options.read_settings(args)
    temperatures = _values(args.temperatures, float, "temperatures")
    for temperature in temperatures:
        dataclasses.replace(base, temperature=temperature)
    if (count := args.generate_prompts) < 0:
        raise ConfigError("--generate-prompts must not be negative.", field="generate_prompts", hint="0 leaves it out.")
    settings = _settings(args, base)[1:]
    engine, prompts, facts, path = _prepare(args, base, settings)
    log = _follow(check_equality(engine, prompts, settings, base, temperatures, generate_prompts=count, path=path))
    _finish(args, log.result(store.Equality, provenance=facts, result=aggregate(log.rows)))


def run_hf_baseline(args: argparse.Namespace) -> None:
    """``bench hf-baseline``."""
    from specdiff_core.bench.hf_baseline import aggregate, hf_baseline, usual_settings

    base = options.read_settings(args)
    usual = usual_settings(find_pair(base.pair))
    settings = listed(_values(args.settings, str, "settings") if args.settings else usual, base)
    engine, prompts, facts, path = _prepare(args, base, settings)
    log = _follow(hf_baseline(engine, prompts, settings, base, repeats=args.repeats, path=path))
    counts, numbers = Counter(prompt.flavour for prompt in prompts), aggregate(log.rows, log.header["lanes"])
    _finish(args, log.result(store.HfBaseline, provenance=facts, prompts=counts, result=numbers))


def run_forwards(args: argparse.Namespace) -> None:
    """``bench forwards``."""
    from specdiff_core.bench.forwards import forwards

    base = options.read_settings(args)
    settings = _settings(args, base)[1:]
    stored = None if args.sweep is None else read_result(args.sweep, Sweep)
    engine, prompts, facts, _ = _prepare(args, base, settings)
    _finish(args, forwards(engine, prompts, settings, base, stored, facts))


def run_split(args: argparse.Namespace) -> None:
    """``bench split``."""
    from specdiff_core.bench.split import split, watched

    base = options.read_settings(args)
    settings = _settings(args, base)
    with watched() as watch:
        engine, prompts, facts, _ = _prepare(args, base, settings)
        _finish(args, split(engine, prompts, settings, base, watch, facts))


def run_report(args: argparse.Namespace) -> None:
    """``bench report``."""
    results = []
    for path in args.results:
        result = read_result(path, Result)
        if args.reaggregate and isinstance(result, Sweep) and result.traces:
            result = reaggregate(result, Traces(args.traces or path.parent / result.traces))
        elif args.reaggregate and isinstance(result, Sweep):
            options.say(f"{path.name} was measured without --traces: it is reported as it was aggregated then.")
        results.append(result)
    options.check_target(args.out, "out")
    try:
        existing = args.out.read_text(encoding="utf-8") if args.out.exists() else ""
    except UnicodeDecodeError as error:
        raise ConfigError(f"{args.out} is no text.", field="out", hint="Give another file.") from error
    text = benchmarks(results, existing)
    args.out.write_text(text, encoding="utf-8")
    print(args.out)


def run_showcase(args: argparse.Namespace) -> None:
    """``bench showcase``."""
    files = build_showcase([open_stored(path) for path in args.results])
    write_showcase(args.out, files)
    print(f"{len(files)} files, {sum(map(len, files.values())):,} bytes: {args.out}")


def run_prompts(args: argparse.Namespace) -> None:
    """``bench prompts``."""
    from specdiff_core.train.corpus import Corpus

    if args.per_flavour < 1:
        raise ConfigError("--per-flavour must be at least 1.", field="per_flavour", hint="Ten show the spread.")
    prompts = make_prompts(Corpus.open(args.corpus), per_flavour=args.per_flavour)
    write_prompts(args.out, prompts)
    print(f"{len(prompts)} prompts: {args.out}")


def run_suite(args: argparse.Namespace) -> None:
    """``bench suite``: each command in a process of its own, so that no measurement finds what another left in
    memory."""
    machine = ["--device", args.device, "--dtype", args.dtype]
    machine += ["--threads", str(args.threads)] if args.threads else []
    todo = suite.commands(args.corpus, args.out, machine)
    for number, (file, words) in enumerate(todo.items(), start=1):
        name = f"{number} of {len(todo)}, {file.name}"
        if file.exists():
            options.say(f"{name}: is there already; delete it to measure it again")
            continue
        options.say(name)
        if status := subprocess.run([sys.executable, "-m", *words], check=False).returncode:
            if file.name not in suite.OPTIONAL:
                hint = "Run the suite again: it goes on there."
                raise ConfigError(f"{name}: the command ended with status {status}.", field="suite", hint=hint)
            options.say(f"{name}: left out, its command ended with status {status}")
    results = [file for file in todo if file.suffix == ".json" and file.exists()]
    shown = [file for file in results if file.name.startswith("shown-")]
    reported = [file for file in results if file not in shown]
    run_report(argparse.Namespace(results=reported, out=args.report, reaggregate=False))
    run_showcase(argparse.Namespace(results=shown, out=args.showcase))
    shutil.copy(args.out / "selection.json", args.showcase)
