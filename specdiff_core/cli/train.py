"""``python -m specdiff_core train``: flags in, progress bars out. Knows the order of the parts, no objective, no loop.

Torch is imported only when a training starts, so that the command line's help stays quick.
"""

from __future__ import annotations

import argparse
import math
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.history import ROUNDS
from specdiff_core.train.defaults import EMBEDDED, PARTS, TEMPERATURES, told

LENGTH = 256  # tokens per row of a target or block batch
FRACTIONS = (  # flag, default, what it is a fraction of, whose
    ("share", 0.7, "rows that the target wrote", "drafters"),
    ("greedy", None, "those written at temperature 0", "block"),
    ("whole", 0.5, "windows fully masked, as with T = 1", "mdlm, block"),
    ("short", 0.0, "steps with blocks of half the slots", "block"),
)


def add_command(commands: Any) -> None:
    """Add the ``train`` command to a parser's subcommands."""
    about = "Train a part of a pair, in this order: " + ", ".join(PARTS) + "."
    parser = commands.add_parser("train", help=about, description=about)
    parser.set_defaults(run=run_train)
    parser.add_argument(
        "part", choices=tuple(PARTS), help="written: let the target write text for its drafters to learn from"
    )
    add = parser.add_argument
    add(
        "--corpus",
        type=Path,
        default=Path("corpus"),
        metavar="DIR",
        help="folder of NAME.train.txt[.xz] and NAME.valid.txt[.xz] [default corpus]",
    )
    add("--steps", type=int, metavar="N", help=f"optimiser steps {told('steps')}")
    add("--warmup", type=int, metavar="N", help=f"steps of rising learning rate {told('warmup')}")
    add("--decay-from", type=float, default=0.5, metavar="F", help="fraction after which it falls [default 0.5]")
    add(
        "--rate",
        type=float,
        default=1.0,
        metavar="F",
        help="learning rates, as a multiple of the usual ones: less goes on from good weights gently [default 1]",
    )
    add("--batch-tokens", type=int, metavar="N", help=f"tokens per step {told('batch_tokens')}")
    add("--length", type=int, default=LENGTH, metavar="N", help=f"tokens per row, target, block [default {LENGTH}]")
    add(
        "--streak",
        type=float,
        default=0.0,
        metavar="W",
        help="weight of the streak cross-entropy, mdlm, block [default 0]",
    )
    for name, default, about, parts in FRACTIONS:
        shown = "as written" if default is None else f"{default:g}"
        add(
            f"--{name}",
            type=float,
            default=default,
            metavar="F",
            help=f"fraction of {about}, {parts} [default {shown}]",
        )
    add(
        "--average",
        type=float,
        default=0.0,
        metavar="F",
        help="share of --start's weights in the result: often better than either, arXiv 2109.01903 [default 0]",
    )
    add("--resume", action="store_true", help="go on from the checkpoint in --run")
    add("--start", type=Path, metavar="DIR", help="begin with the weights of this exported model, not with new ones")
    add(
        "--run",
        type=Path,
        dest="run_folder",
        metavar="DIR",
        help="checkpoints, metrics.jsonl, curve.svg [default runs/PART]",
    )
    add("--out", type=Path, metavar="DIR", help="where the result goes [default assets/embedded/PART]")
    add("--tokenizer", type=Path, default=EMBEDDED / "tokenizer", metavar="DIR", help="[default the embedded pair's]")
    add("--target", type=Path, default=EMBEDDED / "target", metavar="DIR", help="[default the embedded pair's]")
    add(
        "--written",
        type=Path,
        default=Path("runs/written"),
        metavar="DIR",
        help="target-written text [default runs/written]",
    )
    add("--parts", type=int, default=100, metavar="N", help="parts of target-written text [default 100]")
    add("--texts", type=int, default=64, metavar="N", help="texts in each new part, written [default 64]")
    add(
        "--temperatures",
        type=float,
        nargs="+",
        default=TEMPERATURES,
        metavar="F",
        help=f"which the texts of a part take in turn, written [default {' '.join(f'{t:g}' for t in TEMPERATURES)}]",
    )
    add("--cache", type=Path, default=Path("runs/cache"), metavar="DIR", help="encoded text [default runs/cache]")
    add("--layers", type=int, metavar="N", help=f"layers of a new model {told('layers')}")
    add("--features", type=int, metavar="N", help="layers of the target that it reads, block [default 3, or --start's]")
    add(
        "--intermediate",
        type=int,
        metavar="N",
        help="width of its MLPs, block [default 8/3 of the target's width, or --start's]",
    )
    add(
        "--markov",
        type=int,
        default=0,
        metavar="N",
        help="width of a head that lets a token of a block depend on the one before it, block [default 0: none]",
    )
    add("--width", type=int, default=256, metavar="N", help="width of a new target or mdlm drafter [default 256]")
    add("--vocabulary", type=int, default=4096, metavar="N", help="entries of a new tokenizer [default 4096]")
    add("--seed", type=int, default=0, metavar="N", help="[default 0]")
    add("--no-compile", dest="compile", action="store_false", help="do not use torch.compile")
    add("--device", default="auto", help="auto, cpu or cuda [default auto]")
    add("--threads", type=int, metavar="N", help="CPU threads [default: torch's own choice]")


def run_train(args: argparse.Namespace) -> None:
    """Train one part and export it.

    Raises:
        CorpusError: there is no text in ``--corpus``.
        WeightsError: an earlier part is missing.
        ConfigError: a number is out of range, or torch is too old to train.
    """
    for name in (
        "steps",
        "warmup",
        "batch_tokens",
        "length",
        "layers",
        "parts",
        "texts",
        "width",
        "vocabulary",
        "features",
        "intermediate",
    ):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(
                f"--{name.replace('_', '-')} must be at least 1, not {value}.", field=name, hint="Give a larger number."
            )
    if args.markov < 0:
        raise ConfigError(f"--markov must be 0 or more, not {args.markov}.", field="markov", hint="0 leaves it out.")
    if not 0 <= args.streak < math.inf:
        raise ConfigError(f"--streak must be 0 or more, not {args.streak}.", field="streak", hint="0 leaves it out.")
    if not 0 < args.rate < math.inf:
        raise ConfigError(f"--rate must be above 0, not {args.rate}.", field="rate", hint="1 is the usual rate.")
    if args.average and args.start is None:
        raise ConfigError("--average needs --start.", field="average", hint="There is nothing to average with.")
    for name in (*(name for name, *_ in FRACTIONS), "average"):
        value = getattr(args, name)
        if value is not None and not 0 <= value <= 1:
            raise ConfigError(f"--{name} is a fraction, not {value}.", field=name, hint="Give a number from 0 to 1.")
    for value in args.temperatures:
        if not 0 <= value <= 2:
            raise ConfigError(
                f"--temperatures lie in 0 to 2; {value} does not.", field="temperatures", hint="0 is greedy."
            )
    from specdiff_core.models.device import set_threads
    from specdiff_core.train.curve import redraw
    from specdiff_core.train.parts import job_of

    set_threads(args.threads)
    job = job_of(args)
    _report(job.events(), total=job.total, redraw=lambda: redraw(job.plan.run, job.phases, args.part))
    print(f"{args.part}: {job.finish()}")


def _report(events: Iterable[Any], *, total: int, redraw: Callable[[], Path | None]) -> None:
    """Draw progress bars from training events until they end, and the curve again at every evaluation."""
    from tqdm.auto import tqdm

    from specdiff_core.train.loop import EvalStep, TrainStep
    from specdiff_core.train.written import Wrote

    done = last = 0
    tau: dict[str, str] = {}  # once it was measured
    with tqdm(total=total, unit="step", dynamic_ncols=True) as bar:
        for event in events:
            if isinstance(event, TrainStep):
                if event.step <= last:  # the next phase counts from one again
                    done += last
                last = event.step
                bar.n = done + last
                rate = f"{event.tokens_per_second:.0f}"
                bar.set_postfix({"loss": f"{event.loss:.3f}", **tau, "tokens_per_s": rate}, refresh=False)
                bar.refresh()
            elif isinstance(event, EvalStep):
                scores = "  ".join(f"{name} {value:.3f}" for name, value in event.scores.items())
                drawn = redraw()
                bar.write(f"step {done + event.step}: {scores}" + (f"  ({drawn})" if drawn else ""))
                for name in set(ROUNDS) & set(event.scores):
                    tau["τ"] = f"{event.scores[name]:.2f}"
            elif isinstance(event, Wrote):
                bar.write(
                    f"part {event.part + 1}/{event.parts}: {event.tokens} tokens at {event.tokens_per_second:.0f}/s"
                )
                if total == event.parts:
                    bar.n = event.part + 1
                    bar.refresh()
