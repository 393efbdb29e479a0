"""Make a target and a drafter of every kind from a folder of text: python recipes/pair.py --corpus DIR

A tokenizer and a target learn from the text. Then `train drafter` makes each drafter: the target
answers beginnings of the documents, and all drafters learn from the same answers. Repeat the
command to continue where it stopped, or with more --steps or --hours."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Annotated

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # the lab beside this folder

from corpus import Corpus
from target import TargetSettings, train_target
from tokenizer import train_tokenizer
from transformers import PreTrainedTokenizerFast

from benchmarks.prompts import make_prompts, write_prompts
from specdiff_core.cli import build_parser, call
from specdiff_core.cli.options import add_settings, given, say
from specdiff_core.schema.fields import option, parse

DRAFTERS = {
    "masked": "--kind masked --layers 4",
    "masked_streak": "--start {out}/masked --align streak --whole 1 --rate 0.3",
    "block": "--kind block --layers 3 --markov 0",
    "block_markov": "--kind block --layers 3",
    "eagle": "--kind eagle",
    "autoregressive": "--kind autoregressive --layers 2",
}
"""Folder -> flags of ``train drafter``."""


class Settings(TargetSettings, frozen=True, kw_only=True):
    corpus: Annotated[Path, option("folder of NAME.train.txt[.xz] and NAME.valid.txt[.xz]")] = Path("corpus")
    out: Annotated[Path, option("folder of the pair")] = Path("runs/pair")
    vocabulary: Annotated[int, option("entries of the tokenizer; tokens are stored in 16 bits", 258, 2**16)] = 4096
    prompts: Annotated[int, option("prompts of each kind of text that the target answers", 1)] = 10_000
    hours: Annotated[float, option("time of each drafter, as of `train drafter`", above=0, high=10_000)] = 1.0


def run(args: argparse.Namespace) -> None:
    """Make the parts in order.

    Raises:
        SpecDiffError: as the parts do.
    """
    settings = parse(Settings, given(args, Settings))
    corpus, out = Corpus.open(settings.corpus), settings.out.absolute()
    target = out / "target"
    if not (target / "tokenizer.json").is_file():
        train_tokenizer(corpus, vocabulary=settings.vocabulary).save_pretrained(target)
    tokenizer = PreTrainedTokenizerFast.from_pretrained(target)
    print(train_target(corpus, tokenizer, target, settings, args.argv))
    for split, count in (("train", settings.prompts), ("valid", 10)):
        write_prompts(out / f"{split}.jsonl", make_prompts(corpus.root, per_flavour=count, split=split))
    for name, flags in DRAFTERS.items():
        say(f"{name} …")
        files = {"target": target, "prompts": out / "train.jsonl", "valid": out / "valid.jsonl"}
        files |= {"answers": out / "answers", "out": out / name}
        words = [word for flag, path in files.items() for word in (f"--{flag}", str(path))]
        for field in ("hours", "seed", "device", "threads"):
            if (value := getattr(settings, field)) is not None:
                words += [f"--{field}", str(value)]
        words += [word.format(out=out) for word in flags.split()] + args.flags
        words += ["--resume"] if (out / name / "run" / "settings.json").exists() else []
        words += [] if name == next(iter(DRAFTERS)) else ["--answering", "0"]
        train = build_parser().parse_args(["train", "drafter", *words])
        train.argv = ["train", "drafter", *words]
        train.run(train)


def make_parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("flags", nargs="*", metavar="-- FLAG", help="more flags of `train drafter`, for every drafter")
    add_settings(parser, Settings)
    parser.set_defaults(run=run)
    return parser


if __name__ == "__main__":
    sys.exit(call(make_parser(), sys.argv[1:], "recipes/pair.py"))
