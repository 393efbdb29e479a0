"""``train``: one subcommand for each part of a pair, whose flags are the part's own settings; progress bars."""

from __future__ import annotations

import argparse
import dataclasses
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any, get_args, get_origin, get_type_hints

from specdiff_core.cli.options import add_parser, flag
from specdiff_core.schema.history import TAU_SCORES
from specdiff_core.train.settings import PARTS, Option, Settings, find_job

if TYPE_CHECKING:
    from specdiff_core.train.jobs import Job


def add_command(commands: Any) -> None:
    """Add ``train`` and its subcommands to a parser's subcommands."""
    about = "Train a part of a pair, in this order: " + ", ".join(PARTS) + "."
    parser = commands.add_parser("train", help=about, description=about)
    parts = parser.add_subparsers(title="parts", required=True, metavar="PART")
    for name, settings in PARTS.items():
        part = add_parser(parts, name, run_train, settings.about)
        part.set_defaults(part=name)
        add_settings(part, settings)
    curve = add_parser(parts, "curve", run_curve, "Add the curve of a run to weights that were exported without it.")
    curve.add_argument("phases", nargs="+", type=Path, metavar="RUN", help="folders with a metrics.jsonl, in order")
    curve.add_argument("--into", type=Path, required=True, metavar="FOLDER", help="the exported weights")


def add_settings(parser: argparse.ArgumentParser, settings: type[Settings]) -> None:
    """One flag for each field that has an option; its type and its default follow from the field."""
    types = get_type_hints(settings)
    defaults = {field.name: field.default for field in dataclasses.fields(settings)}
    for name, option in settings.options().items():
        kind, default = types[name], defaults[name]
        words: dict[str, Any] = {"dest": name, "default": default, "help": help_of(option, default)}
        if kind is bool:
            parser.add_argument(flag(name), action=argparse.BooleanOptionalAction, **words)
            continue
        plain = next(part for part in (get_args(kind) or (kind,)) if part is not NoneType)
        if option.choices:
            words["choices"] = option.choices
        else:
            words["metavar"] = {int: "N", float: "F", Path: "DIR"}.get(plain, "NAME")
        several = "+" if get_origin(kind) is tuple else None
        parser.add_argument(option.flag or flag(name), type=plain, nargs=several, **words)


def help_of(option: Option, default: Any) -> str:
    """What ``--help`` says about a setting: what it is, and its default."""
    if not option.about:
        return argparse.SUPPRESS
    if default is None or isinstance(default, bool):
        return option.about
    if isinstance(default, tuple):
        default = " ".join(f"{each:g}" for each in default)
    elif isinstance(default, float):
        default = f"{default:g}"
    elif isinstance(default, Path) and default.is_absolute():
        default = "the embedded pair's"
    return f"{option.about} [default {default}]"


def run_train(args: argparse.Namespace) -> None:
    """Train one part and write the result.

    Raises:
        CorpusError: there is no text in ``--corpus``, or it cannot be read.
        WeightsError: an earlier part is missing or damaged.
        ConfigError: a number is out of range, or torch is too old to train.
    """
    settings = PARTS[args.part]
    given = {name: getattr(args, name) for name in settings.options()}
    values: dict[str, Any] = {name: tuple(v) if isinstance(v, list) else v for name, v in given.items()}
    job = find_job(args.part)(settings(**values), args.argv)
    report(job)
    print(f"{args.part}: {job.finish()}")


def report(job: Job) -> None:
    """Draw a progress bar from a job's events until they end, and the curve again at every evaluation."""
    from tqdm.auto import tqdm

    from specdiff_core.train.jobs import ModelJob
    from specdiff_core.train.target_text import PartWritten
    from specdiff_core.train.trainer import EvalStep, TrainStep

    done = last = 0
    tau: dict[str, str] = {}  # once it was measured
    drawn: Path | None = None
    drawing = True
    with tqdm(total=job.total, unit="step", dynamic_ncols=True) as bar:
        for event in job.events():
            if isinstance(event, TrainStep):
                if event.step <= last:  # the next phase counts from one again
                    done += last
                last = event.step
                bar.n = done + last
                speed = f"{event.tokens_per_second:.0f}"
                bar.set_postfix({"loss": f"{event.loss:.3f}", **tau, "tokens_per_s": speed}, refresh=False)
                bar.refresh()
            elif isinstance(event, EvalStep):
                scores = "  ".join(f"{name} {value:.3f}" for name, value in event.scores.items())
                for name in set(TAU_SCORES) & set(event.scores):
                    tau["τ"] = f"{event.scores[name]:.2f}"
                try:
                    drawn = job.redraw() if drawing and isinstance(job, ModelJob) else None
                except ImportError:
                    drawing = False
                    bar.write("curve.svg is not drawn, because matplotlib is not installed: pip install matplotlib")
                bar.write(f"step {done + event.step}: {scores}" + (f"  ({drawn})" if drawn else ""))
            elif isinstance(event, PartWritten):
                speed = f"{event.tokens_per_second:.0f}"
                bar.write(f"part {event.part + 1}/{event.parts}: {event.tokens} tokens at {speed}/s")
                if job.total == event.parts:
                    bar.n = event.part + 1
                    bar.refresh()


def run_curve(args: argparse.Namespace) -> None:
    """Add a curve to a history.

    Raises:
        WeightsError: no run there fits these logs.
    """
    from specdiff_core.schema.history import HISTORY
    from specdiff_core.train.curve import attach_curve

    points = attach_curve(args.phases, args.into)
    print(f"{args.into / HISTORY}: a curve of {points} points")
