"""Prompt files for benchmarks: beginnings of validation documents, or a published workload."""

from __future__ import annotations

import argparse
import lzma
import re
from collections.abc import Sequence
from pathlib import Path

import msgspec

from benchmarks.workloads import WORKLOADS, load_workload
from specdiff_core.measure.prompts import Prompt
from specdiff_core.schema.errors import ConfigError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add("--corpus", type=Path, default=Path("corpus"), metavar="DIR", help="cut its validation text [default corpus]")
    add("--per-flavour", type=int, default=10, metavar="N", help="prompts of each flavour of the corpus [default 10]")
    add("--workload", metavar="NAME", help=f"a published workload instead: {', '.join(WORKLOADS)}")
    add("--count", type=int, default=40, metavar="N", help="prompts of a workload [default 40]")
    add("--out", type=Path, required=True, metavar="FILE", help="JSON lines")


def run(args: argparse.Namespace) -> None:
    if min(args.per_flavour, args.count) < 1:
        raise ConfigError("That leaves no prompt.", field="count", hint="Give at least 1.")
    if args.workload:
        prompts = load_workload(args.workload, args.count)
    else:
        prompts = make_prompts(args.corpus, per_flavour=args.per_flavour)
    write_prompts(args.out, prompts)
    print(f"{len(prompts)} prompts: {args.out}")


def write_prompts(path: Path, prompts: Sequence[Prompt]) -> None:
    """Write a file that ``read_prompts`` reads."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"".join(msgspec.json.encode(prompt) + b"\n" for prompt in prompts))


def make_prompts(
    corpus: Path, *, per_flavour: int = 10, characters: int = 200, split: str = "valid"
) -> tuple[Prompt, ...]:
    """The beginnings of evenly spaced documents, of the validation text unless ``split`` is ``train``, cut after a
    word: the same for the same corpus.

    Where there are enough, only documents at least twice as long are taken, so that every prompt is a beginning.
    """
    ending = f".{split}.txt"
    files = {path.name.partition(ending)[0]: path for path in sorted(corpus.glob(f"*{ending}*"), reverse=True)}
    if not files:
        hint = f"Give --corpus a folder with NAME{ending}[.xz] for each flavour."
        kind = "validation" if split == "valid" else "training"
        raise ConfigError(f"No {kind} text found in {corpus}.", field="corpus", hint=hint)
    prompts = []
    for flavour, path in sorted(files.items()):
        raw = path.read_bytes()
        text = (lzma.decompress(raw) if path.suffix == ".xz" else raw).decode()
        documents = [document.strip() for document in text.split("<|endoftext|>") if document.strip()]
        long = [text for text in documents if len(text) >= 2 * characters]
        pool = long if len(long) >= per_flavour else documents
        count = min(per_flavour, len(pool))
        for number in range(count):
            text = cut(pool[number * len(pool) // count], characters)
            name = flavour if split == "valid" else f"{flavour}.{split}"
            prompts.append(Prompt(id=f"{name}-{number + 1:03d}", flavour=flavour, prompt=text))
    return tuple(prompts)


def cut(text: str, characters: int) -> str:
    """At most ``characters`` of ``text``, up to the end of a word unless there is only one."""
    if len(text) <= characters:
        return text
    words = re.match(rf"(?s).{{,{characters}}}(?<=\S)(?=\s)", text)
    return words[0] if words else text[:characters]
