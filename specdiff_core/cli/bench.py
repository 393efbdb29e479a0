"""``bench sweep``: the speed-up of settings over vanilla; ``python -m benchmarks`` uses its flags."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from specdiff_core.cli import options
from specdiff_core.measure import store
from specdiff_core.measure.grid import SWEPT, BenchSetting, listed
from specdiff_core.measure.prompts import FORMS, Prompt, first_of_each, own_prompts, read_prompts
from specdiff_core.measure.race import check_repeats
from specdiff_core.measure.runner import sweep
from specdiff_core.measure.sweep import speeds, sweep_result, waiting_words
from specdiff_core.provenance import Provenance, provenance
from specdiff_core.schema.errors import ConfigError, SpecDiffError
from specdiff_core.schema.methods import method_for, race_lanes
from specdiff_core.schema.pairs import NONE, find_pair
from specdiff_core.schema.settings import DecodeConfig

if TYPE_CHECKING:
    from specdiff_core.engine import Engine

L = TypeVar("L", bound=store.RowLog[Any])


def add_command(commands: Any) -> None:
    about = "Measure speed-ups; print a table and write JSON. An interrupted sweep can be resumed."
    kinds = commands.add_parser("bench", help=about, description=about).add_subparsers(
        title="what to measure", required=True, metavar="WHAT"
    )
    parser = options.add_parser(kinds, "sweep", run_sweep, "Speed-up of settings over vanilla.")
    add_measuring(parser, repeats=True)


def add_measuring(
    parser: argparse.ArgumentParser, *, repeats: bool = False, by_default: str = "a method of each drafter"
) -> None:
    """Add the flags that measurements share; ``by_default`` describes the settings that are measured without
    ``--settings``."""
    add = parser.add_argument
    about = f"{FORMS}, or Spec-Bench's question.jsonl [default: this project's own]"
    add("--prompts", type=Path, metavar="FILE", help=about)
    add("--first", type=int, metavar="N", help="use only the first N prompts of each flavour")
    add("--json", type=Path, metavar="OUT", help="write the result, and its rows beside it (.rows.jsonl)")
    if repeats:
        add("--repeats", type=int, default=3, metavar="N", help="runs of each setting on each prompt [default 3]")
    form = "drafter/γ/T, with /nodes for a tree, /0/K/selection for K drafts, /auto at the end for adaptive lengths"
    about = f"settings to measure besides vanilla [default: {by_default}]: {form}; like block/9/1,block/16/1/auto"
    add("--settings", default="", metavar="LIST", help=about)
    options.add_settings(parser, leave=SWEPT)
    options.add_own_pair(parser, drafter=True)
    options.add_placement(parser)


class Measurement(NamedTuple):
    """What is measured, and where the rows go."""

    engine: Engine
    prompts: tuple[Prompt, ...]
    settings: tuple[BenchSetting, ...]  # the baseline first
    base: DecodeConfig  # what all settings share
    facts: Provenance
    path: Path | None  # file of the rows


def methods_by_default(base: DecodeConfig, drafters: Sequence[str]) -> list[str]:
    """Keys of a setting for each of ``drafters``, by default all of the pair that have files: of its first method."""
    pair = find_pair(base.pair)
    names = drafters or [spec.name for spec in pair.drafters if spec.has_files and spec.name != NONE.name]
    lanes = [race_lanes(base, [method_for(pair, name)], [name]) for name in names]
    return [BenchSetting.of_config([*lane.values()][-1]).key for lane in lanes]


def begin(
    args: argparse.Namespace, default: Callable[[DecodeConfig, Sequence[str]], Sequence[str]] = methods_by_default
) -> Measurement:
    """Read the flags of :func:`add_measuring` and load the pair.

    Args:
        default: what all settings share, and the chosen drafters -> the settings if none are given.

    Raises:
        ConfigError: a flag, a prompt or a setting can't be used.
    """
    base, drafters = options.read_settings(args), options.chosen(args)[1] if "drafter" in args else ()
    keys = map(str.strip, args.settings.split(",")) if args.settings else default(base, drafters)
    settings = listed([*keys], base)
    prompts = own_prompts() if args.prompts is None else read_prompts(args.prompts)
    if args.first is not None:
        prompts = first_of_each(prompts, args.first)
    check_repeats(getattr(args, "repeats", 1))
    options.check_target(args.json, "json")
    facts = provenance(args.argv, module=args.module)  # before the repository can change
    engine = options.open_engine(args, base.pair, [setting.drafter for setting in settings])
    for prompt in prompts:
        try:
            engine.encode(prompt.prompt)
        except SpecDiffError as error:
            raise ConfigError(f"{prompt.id}: {error.message}", field="prompts", hint=error.hint) from error
    rows = None if args.json is None else store.rows_path(args.json)
    if rows is not None and rows.exists():
        options.say(f"{rows.name} has earlier rows: only missing ones are measured. Delete it to measure all again.")
    return Measurement(engine, prompts, settings, base, facts, rows)


def track(steps: Iterator[tuple[int, int, L]]) -> L:
    """Show a progress bar until the measurement ends; returns its rows. There is a step before the first row, and the
    rows of all steps are one object."""
    done, total, rows = next(steps)
    with options.progress_bar("run") as show:
        show(done, total)
        for done, total, _ in steps:
            show(done, total)
    return rows


def run_sweep(args: argparse.Namespace) -> None:
    engine, prompts, settings, base, facts, path = begin(args)
    log = track(sweep(engine, prompts, settings, base, repeats=args.repeats, path=path))
    result = sweep_result(log, facts)
    print(speeds(result) + "\n" + waiting_words(result.waits).strip())
    if args.json is not None:
        store.write_result(args.json, result)
