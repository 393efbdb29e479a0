"""``train``: a drafter for any target, and smaller weights. See also ``recipes/``."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.checkpoints.hub import PROGRAM
from specdiff_core.cli.options import add_parser, add_placement, add_settings, given, say, stopping
from specdiff_core.measure.prompts import FORMS, read_prompts
from specdiff_core.schema.errors import OutOfMemory, is_memory
from specdiff_core.schema.pairs import NONE
from specdiff_core.train.settings import DrafterSettings, open_run

if TYPE_CHECKING:
    from specdiff_core.train.drafter import DrafterTraining


def add_command(commands: Any) -> None:
    about = "Train a drafter for any target, or shrink weights."
    parser = commands.add_parser("train", help=about, description=about)
    parts = parser.add_subparsers(title="parts", required=True, metavar="PART")
    add_drafter(parts)
    add_export(parts)
    small = add_parser(parts, "shrink", run_shrink, "Quantise the weights of a folder, in place.")
    small.add_argument("folder", type=Path, metavar="FOLDER", help="weights in safetensors")
    bits = "8, with a scale per row, or 4, with one for every 32 columns [default 8]"
    small.add_argument("--bits", type=int, choices=(8, 4), default=8, help=bits)


def add_drafter(parts: Any) -> None:
    about = "Have a target answer prompts, then train a drafter on the answers. Ctrl-C stops and saves everything."
    parser = add_parser(parts, "drafter", run_drafter, about)
    add = parser.add_argument
    add("--target", required=True, metavar="SOURCE", help="a folder, or a hub repository")
    add("--prompts", required=True, type=Path, metavar="FILE", help=FORMS)
    folder = "the drafter's folder; answers and checkpoints go to DIR/run"
    add("--out", required=True, type=Path, metavar="DIR", help=folder)
    add("--resume", action="store_true", help="continue the run in --out, with its settings")
    add("--answers", type=Path, metavar="DIR", help="the target's answers [default: in --out]")
    valid = "prompts to measure τ on [default: some of --prompts, held out from training]"
    add("--valid", type=Path, metavar="FILE", help=valid)
    add_settings(parser, DrafterSettings)
    add_placement(parser)


def add_export(parts: Any) -> None:
    about = "Write a drafter in a layout that a serving engine loads, and say what each engine does with it."
    parser = add_parser(parts, "export", run_export, about)
    add = parser.add_argument
    add("drafter", type=Path, metavar="DRAFTER", help="the drafter's folder")
    layouts = "speculators: vLLM; z-lab: SGLang; gguf: llama.cpp; eagle: EAGLE heads"
    add("--to", required=True, metavar="LAYOUT", help=layouts)
    add("--out", required=True, type=Path, metavar="PATH", help="the folder to write, or the GGUF file")
    about = "the model that it was trained for: a folder, GGUF file or repository"
    add("--target", default="", metavar="SOURCE", help=f"{about} [needed for gguf, and for what its files lack]")
    about = "what the engine calls that model, such as owner/name [default: what the drafter's config says]"
    add("--verifier", default="", metavar="NAME", help=about)


def run_export(args: argparse.Namespace) -> None:
    from specdiff_core.train.export import export

    for sentence in export(args.drafter, args.to, args.out, target=args.target, verifier=args.verifier):
        print(sentence)


def run_drafter(args: argparse.Namespace) -> None:
    prompts, valid = read_prompts(args.prompts), read_prompts(args.valid) if args.valid else ()
    settings = open_run(args.out, given(args, DrafterSettings), resume=args.resume)
    say("loading …")
    from specdiff_core.checkpoints.own_pairs import parse, register_pair
    from specdiff_core.checkpoints.sources import is_local
    from specdiff_core.engine import Engine
    from specdiff_core.models.device import set_threads
    from specdiff_core.train.drafter import DrafterTraining

    set_threads(args.threads)
    pair = register_pair(parse({"target": args.target, "context": args.context}).name)
    placement: dict[str, Any] = {"device": args.device, "dtype": args.dtype}
    engine = Engine.load(pair.name, drafters=(NONE.name,), progress=say, **placement)
    with stopping() as stop:
        folders: dict[str, Any] = {"answers": args.answers, "valid": valid, "stopped": stop.is_set, "argv": args.argv}
        training = DrafterTraining(engine, prompts, args.out, settings, **folders)
        try:
            report(training)
        except Exception as error:
            if is_memory(error):
                hint = "Lower --slots or --rows, and continue with --resume."
                raise OutOfMemory("The device ran out of memory.", hint=hint) from error
            raise
        card = training.finish()
    if card is not None:
        drafter = args.out if is_local(args.out) else f"./{args.out}"
        print(f"{card}\nRace it: {PROGRAM} race --target {args.target} --drafter {drafter} --prompt …")
    if stop.is_set():
        say("Stopped. To continue, repeat the command with --resume.")
        raise KeyboardInterrupt


def report(training: DrafterTraining) -> None:
    from tqdm.auto import tqdm

    bar_format = "{l_bar}{bar}| {n:.0f} of {total:.0f} {unit}{postfix}"
    postfix: dict[str, str] = {}
    unit = "tokens" if training.settings.tokens else "s"
    with tqdm(total=training.total, unit=unit, dynamic_ncols=True, bar_format=bar_format) as bar:
        for event in training.events():
            if "scores" in event:
                bar.write(f"step {event['step']}: " + "  ".join(f"{k} {v:.3f}" for k, v in event["scores"].items()))
                postfix["τ"] = f"{event['scores']['tokens_per_round/mean']:.2f}"
            for name, digits in (("answers", 0), ("loss", 3), ("tokens", 0), ("tokens_per_second", 0)):
                if name in event:
                    postfix[name] = f"{event[name]:.{digits}f}"
            bar.n = min(training.done, training.total)
            bar.set_postfix(postfix, refresh=False)
            bar.refresh()


def run_shrink(args: argparse.Namespace) -> None:
    from specdiff_core.checkpoints.writing import shrink

    shrink(args.folder, args.bits)
