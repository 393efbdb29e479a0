"""``python -m specdiff_core train``: flags in, progress bars out. Knows the order of the parts, no objective, no loop.

Torch is imported only when a training starts, so that the command line's help stays quick.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core import flags
from specdiff_core.errors import ConfigError, WeightsError
from specdiff_core.registry import ASSETS

if TYPE_CHECKING:
    import numpy as np
    import torch
    from torch import nn
    from transformers import LlamaForCausalLM, PreTrainedTokenizerFast

    from specdiff_core.train.corpus import Corpus
    from specdiff_core.train.loop import Plan

EMBEDDED = ASSETS / "embedded"
PARTS = ("tokenizer", "target", "written", "mdlm", "block")
STEPS = {"target": 4000, "mdlm": 4000, "block": 4000}
LAYERS = {"target": 16, "mdlm": 4, "block": 3}
WARMUP = {"target": 50, "mdlm": 50, "block": 100}  # steps
BATCH = {"target": 4096, "mdlm": 4096, "block": 2560}  # tokens per step
ROW = 256  # tokens per row of a target or block batch


def add_train(commands: Any) -> None:
    """Add the ``train`` command to a parser's subcommands."""
    about = "Train a part of a pair, in this order: " + ", ".join(PARTS) + "."
    parser = commands.add_parser("train", help=about, description=about)
    parser.set_defaults(run=run_train)
    parser.add_argument("part", choices=PARTS, help="written: let the target write text for its drafters to learn from")
    add = parser.add_argument
    add(
        "--corpus",
        type=Path,
        default=Path("corpus"),
        metavar="DIR",
        help="folder of NAME.train.txt[.xz] and NAME.valid.txt[.xz] [default corpus]",
    )
    add("--steps", type=int, metavar="N", help=f"optimiser steps [default {STEPS['target']}]")
    add("--warmup", type=int, metavar="N", help="steps of rising learning rate [default target, mdlm 50, block 100]")
    add("--decay-from", type=float, default=0.5, metavar="F", help="fraction after which it falls [default 0.5]")
    add("--batch-tokens", type=int, metavar="N", help="tokens per step [default target, mdlm 4096, block 2560]")
    add("--resume", action="store_true", help="go on from the checkpoint in --run")
    add("--run", type=Path, dest="run_folder", metavar="DIR", help="checkpoints and metrics.jsonl [default runs/PART]")
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
    add("--parts", type=int, default=100, metavar="N", help="parts of 64 target-written texts [default 100]")
    add("--cache", type=Path, default=Path("runs/cache"), metavar="DIR", help="encoded text [default runs/cache]")
    add("--layers", type=int, metavar="N", help="layers of a new model [default target 16, mdlm 4, block 3]")
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
    from specdiff_core.train.corpus import Corpus

    for name in ("steps", "warmup", "batch_tokens", "layers", "parts", "width", "vocabulary"):
        value = getattr(args, name)
        if value is not None and value < 1:
            raise ConfigError(
                f"--{name.replace('_', '-')} must be at least 1, not {value}.", field=name, hint="Give a larger number."
            )
    corpus = Corpus.open(args.corpus)
    out = args.out or EMBEDDED / args.part
    if args.part == "tokenizer":
        from specdiff_core.train.tokenizer import train_tokenizer

        print(f"tokenizer: {train_tokenizer(corpus, out, vocab_size=args.vocabulary)}")
        return
    flags.set_threads(args.threads)
    tokenizer = load_tokenizer(args.tokenizer)
    if args.part == "written":
        _report(_write(args, corpus, tokenizer), total=args.parts)
        print(f"written: {args.written}")
        return
    train = {"target": _train_target, "mdlm": _train_mdlm, "block": _train_block}[args.part]
    print(f"{args.part}: {train(args, corpus, tokenizer, _plan(args), out)}")


def load_tokenizer(folder: Path) -> PreTrainedTokenizerFast:
    """The tokenizer that all models share.

    Raises:
        WeightsError: it has not been trained.
    """
    from transformers import PreTrainedTokenizerFast

    if not (folder / "tokenizer.json").is_file():
        raise WeightsError(f"There is no tokenizer in {folder}.", hint="Run: python -m specdiff_core train tokenizer")
    return PreTrainedTokenizerFast.from_pretrained(folder)


def load_target(folder: Path, device: torch.device) -> LlamaForCausalLM:
    """The frozen target that drafters learn from, fp32.

    Raises:
        WeightsError: it has not been trained.
    """
    import torch
    from transformers import LlamaForCausalLM

    if not (folder / "config.json").is_file():
        raise WeightsError(f"There is no target in {folder}.", hint="Run: python -m specdiff_core train target")
    return LlamaForCausalLM.from_pretrained(folder, dtype=torch.float32).to(device).eval().requires_grad_(False)


def _plan(args: argparse.Namespace) -> Plan:
    from specdiff_core.train.loop import Plan

    run = args.run_folder or Path("runs") / args.part
    return Plan(
        steps=args.steps or STEPS[args.part],
        run=run,
        warmup=args.warmup or WARMUP[args.part],
        decay_from=args.decay_from,
        resume=args.resume,
    )


def _batch(args: argparse.Namespace) -> int:
    return int(args.batch_tokens or BATCH[args.part])


def _device(args: argparse.Namespace) -> torch.device:
    from specdiff_core.device import choose_placement

    return choose_placement(args.device).device


def _train_target(
    args: argparse.Namespace, corpus: Corpus, tokenizer: PreTrainedTokenizerFast, plan: Plan, out: Path
) -> Path:
    import torch

    from specdiff_core.provenance import command
    from specdiff_core.train.cards import card_of_target
    from specdiff_core.train.target import export_target, new_target, train_target

    with torch.random.fork_rng():
        torch.manual_seed(args.seed)  # transformers initialises from the global stream
        model = new_target(len(tokenizer), layers=args.layers or LAYERS["target"], width=args.width).to(_device(args))
    events = train_target(
        model,
        corpus,
        tokenizer,
        args.cache,
        plan,
        rows=max(1, _batch(args) // ROW),
        length=ROW,
        seed=args.seed,
        compile=args.compile,
    )
    _report(events, total=plan.steps)
    export_target(model, tokenizer, out)
    return card_of_target(
        model,
        tokenizer,
        corpus,
        args.cache,
        run=plan.run,
        folder=out,
        command=command(args.argv),
        seed=args.seed,
    )


def _train_mdlm(
    args: argparse.Namespace, corpus: Corpus, tokenizer: PreTrainedTokenizerFast, plan: Plan, out: Path
) -> Path:
    import torch

    from specdiff_core.train.mdlm import export, new_mdlm, train_mdlm

    target = load_target(args.target, _device(args))
    with torch.random.fork_rng():
        torch.manual_seed(args.seed)
        model = new_mdlm(
            len(tokenizer),
            tokenizer.mask_token_id,
            blocks=args.layers or LAYERS["mdlm"],
            width=args.width,
            target=target,
        ).to(target.device)
    events = train_mdlm(
        model,
        target,
        corpus,
        tokenizer,
        args.cache,
        plan,
        written=_written_stream(args.written),
        tokens=_batch(args),
        seed=args.seed,
        compile=args.compile,
    )
    _report(events, total=plan.steps)
    export(model, out)
    return _drafter_card(args, model, corpus, plan, out)


def _train_block(
    args: argparse.Namespace, corpus: Corpus, tokenizer: PreTrainedTokenizerFast, plan: Plan, out: Path
) -> Path:
    from specdiff_core.train.block import drafter_config, export, new_drafter, train_block

    target = load_target(args.target, _device(args))
    config = drafter_config(target, layers=args.layers or LAYERS["block"], mask_id=tokenizer.mask_token_id)
    model = new_drafter(target, config, args.seed).to(target.device)
    events = train_block(
        model,
        target,
        corpus,
        tokenizer,
        args.cache,
        plan,
        written=args.written,
        write_parts=args.parts,
        rows=max(1, _batch(args) // ROW),
        length=ROW,
        seed=args.seed,
        compile=args.compile,
    )
    _report(events, total=plan.steps)
    export(model, out)
    return _drafter_card(args, model, corpus, plan, out)


def _drafter_card(args: argparse.Namespace, model: nn.Module, corpus: Corpus, plan: Plan, out: Path) -> Path:
    from specdiff_core.provenance import command
    from specdiff_core.train.cards import card_of_drafter

    words = command(args.argv)
    return card_of_drafter(args.part, model, corpus, run=plan.run, folder=out, command=words, seed=args.seed)


def _write(args: argparse.Namespace, corpus: Corpus, tokenizer: PreTrainedTokenizerFast) -> Iterator[Any]:

    from specdiff_core.train.corpus import encode_documents
    from specdiff_core.train.written import write, writer_of

    end = tokenizer.eos_token_id
    documents = {
        name: encode_documents(corpus, name, "train", tokenizer.backend_tokenizer, end, args.cache)
        for name in corpus.flavours
    }
    writer = writer_of(load_target(args.target, _device(args)))
    yield from write(
        writer,
        documents,
        args.written / "train",
        parts=args.parts,
        temperatures=(0.0, 0.0, 0.7, 1.0),  # as train_block asks for, which then finds them here
        end=end,
        forbidden=(tokenizer.mask_token_id,),
        seed=args.seed,
    )


def _written_stream(folder: Path) -> list[np.ndarray]:
    """Target-written text as one stream of tokens; none where nothing was written."""
    from specdiff_core.train.windows import stream_of
    from specdiff_core.train.written import Written

    if not any((folder / "train").glob("part-*.npz")):
        flags.say(f"no target-written text in {folder}: learning from the corpus only (see: train written)")
        return []
    return [stream_of(Written.load(folder / "train"))]


def _report(events: Iterable[Any], *, total: int) -> None:
    """Draw progress bars from training events until they end."""
    from tqdm.auto import tqdm

    from specdiff_core.train.loop import EvalStep, TrainStep
    from specdiff_core.train.written import Wrote

    done = last = 0
    with tqdm(total=total, unit="step", dynamic_ncols=True) as bar:
        for event in events:
            if isinstance(event, TrainStep):
                if event.step <= last:  # the next phase counts from one again
                    done += last
                last = event.step
                bar.n = done + last
                bar.set_postfix(loss=f"{event.loss:.3f}", tokens_per_s=f"{event.tokens_per_second:.0f}", refresh=False)
                bar.refresh()
            elif isinstance(event, EvalStep):
                scores = "  ".join(f"{name} {value:.3f}" for name, value in event.scores.items())
                bar.write(f"step {done + event.step}: {scores}")
            elif isinstance(event, Wrote):
                bar.write(
                    f"part {event.part + 1}/{event.parts}: {event.tokens} tokens at {event.tokens_per_second:.0f}/s"
                )
                if total == event.parts:
                    bar.n = event.part + 1
                    bar.refresh()
