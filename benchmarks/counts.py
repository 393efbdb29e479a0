"""Accepted drafts by position: our Markov drafter here and in llama.cpp, on the file and on the same numbers in F32.

Greedy, with the same window and number of tokens; nothing is timed. On F32, llama.cpp's arithmetic differs from ours
only by rounding; on the file it also rounds activations to eight bits. Where two texts part, both engines run once
more up to there, on the same text.
"""

from __future__ import annotations

import argparse
import dataclasses
import functools
import itertools
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import gguf
import msgspec
import numpy as np

from benchmarks import llama
from benchmarks.peers import Drafting, Lane, Timed, drafted, gguf_path, lanes_of, llama_cpp, timed
from benchmarks.tables import Tabled, bounds, finish, flavour_counts
from specdiff_core.cli.bench import add_measuring, begin, track
from specdiff_core.decoding.clock import DeviceClock
from specdiff_core.engine import Engine
from specdiff_core.measure.runner import header
from specdiff_core.measure.statistics import costs, interval
from specdiff_core.measure.store import Measured, RowLog
from specdiff_core.measure.sweep import table
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.settings import DecodeConfig

OURS, FILE, EXACT = "ours", "llama.cpp", "llama.cpp, F32"


class Counted(Measured, kw_only=True):
    """Every lane once on one prompt."""

    KEY = ("prompt",)
    whole: dict[str, Drafting]  # lane -> of all tokens
    common: dict[str, tuple[int, Drafting, Drafting]]  # lane of theirs -> common tokens; of these ours, theirs


@functools.cache
def in_f32(file: Path) -> tuple[Path, Any]:
    """The numbers of a GGUF file as F32, and what keeps the new file."""
    folder = tempfile.TemporaryDirectory(prefix="specdiff-")
    fresh, reader = Path(folder.name) / "f32.gguf", gguf.GGUFReader(file)
    writer = gguf.GGUFWriter(fresh, reader.fields["general.architecture"].contents())
    for key, field in reader.fields.items():
        if not key.startswith("GGUF.") and key not in ("general.architecture", "general.file_type"):
            inner = field.types[-1] if field.types[0] is gguf.GGUFValueType.ARRAY else None
            writer.add_key_value(key, field.contents(), field.types[0], inner)
    for tensor in reader.tensors:
        writer.add_tensor(tensor.name, gguf.quants.dequantize(tensor.data, tensor.tensor_type).astype(np.float32))
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return fresh, folder


def counted(engine: Engine, prompt: str, base: DecodeConfig, lanes: Mapping[str, Lane]) -> tuple[Any, Any]:
    """The fields of :class:`Counted`."""
    file = gguf_path(engine.pair.spec)
    assert file is not None, "lanes_of checks it"
    clock = DeviceClock(engine.pair.placement.device)

    def one(name: str, tokens: int) -> Timed:
        config = dataclasses.replace(base, max_new_tokens=tokens)
        if name == OURS:
            return timed(engine, prompt, config, lanes[OURS])
        return llama_cpp(engine, prompt, config, lanes[FILE], clock, file if name == FILE else in_f32(file)[0])

    runs = {name: one(name, base.max_new_tokens) for name in (OURS, FILE, EXACT)}
    common = {}
    for name in (FILE, EXACT):
        pairs = zip(runs[OURS].ids, runs[name].ids, strict=False)
        same = sum(1 for _ in itertools.takewhile(lambda ids: ids[0] == ids[1], pairs))
        both = [runs[OURS], runs[name]]
        if same < base.max_new_tokens:
            both = [one(lane, same) for lane in (OURS, name)] if same else [Timed((0, 0, 0), ())] * 2
        common[name] = (same, both[0].drafting, both[1].drafting)
    return {name: run.drafting for name, run in runs.items()}, common


class Counts(Tabled, kw_only=True, tag="counts"):
    """Accepted drafts by position, here and in llama.cpp."""

    prompts: dict[str, int]
    package: str  # llama.cpp's
    rows: list[Counted]

    def tables(self) -> list[str]:
        rows, alike = [], []
        for name in self.rows[0].common:
            same = [row.common[name] for row in self.rows]
            pairs = {
                name: [(row.whole[OURS], row.whole[name]) for row in self.rows],
                f"{name}, up to the first difference": [(ours, its) for _, ours, its in same if ours[0] and its[0]],
            }
            for label, runs in pairs.items():
                sums = [drafted(side) for side in zip(*runs, strict=True)]
                shares = [" ".join(f"{n / one['drafts']:.0%}" for n in one["positions"]) for one in sums]
                rows.append([label, *shares, *(f"{one['tau']:.2f}" for one in sums), _ratio(runs)])
            equal = sum(tokens == self.settings["max_new_tokens"] for tokens, *_ in same)
            alike.append(f"{name}: our text on {equal} of {len(same)} prompts")
        return [
            table(["llama.cpp with our drafter", "accepted, ours", "its", "τ, ours", "its", "its τ over ours"], rows),
            f"Our Markov drafter here and in llama.cpp ({self.package}), on the file and on the same numbers in F32; "
            f"γ 4, greedy, {self.settings['max_new_tokens']} tokens, end of text ignored; prompts: "
            f"{flavour_counts(self.prompts)}. "
            "Accepted: by position, of all drafts (joint acceptance); τ: 1 + accepted tokens per draft. "
            f"{'; '.join(alike)}. Its counts differ because its texts do: rounding decides near-ties, on the file "
            "(whose activations it rounds to eight bits) more often than in F32.",
        ]


def _ratio(runs: Sequence[tuple[Drafting, Drafting]]) -> str:
    """Their τ over ours, paired by prompt."""
    ours, its = (
        costs((str(number), rounds, rounds + sum(accepted)) for number, (rounds, accepted) in enumerate(side))
        for side in zip(*runs, strict=True)
    )
    found = interval(ours, its, {"all": [*ours]})["all"]
    return f"{found.value:.2f}× ({bounds(found.low, found.high)})"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_measuring(parser, by_default="block_markov/4/1")


def run(args: argparse.Namespace) -> None:
    engine, prompts, settings, base, facts, path = begin(args, lambda base, drafters: ["block_markov/4/1"])
    base = dataclasses.replace(base, temperature=0.0, ignore_eos=True)
    found, left_out = lanes_of(engine.pair.spec, settings[1:], others="llama.cpp")
    lanes = {FILE if lane.call else OURS: lane for lane in found}
    if len(lanes) < 2:
        raise ConfigError("; ".join(left_out) or "llama.cpp can't run this pair.", hint="Give --pair smollm2.")
    log = RowLog(path, header("counts", engine, prompts, settings, base), Counted)

    def measure(prompt: Any) -> Counted:
        whole, common = counted(engine, prompt.prompt, base, lanes)
        return Counted(prompt=prompt.id, flavour=prompt.flavour, whole=whole, common=common)

    log = track(log.fill({(prompt.id,): prompt for prompt in prompts}, measure))
    counts = Counter(prompt.flavour for prompt in prompts)
    rows = [msgspec.to_builtins(row) for row in log.rows]
    finish(
        args,
        log.result(
            Counts, provenance=facts, prompts=counts, package=f"{llama.PACKAGE} {version(llama.PACKAGE)}", rows=rows
        ),
    )
