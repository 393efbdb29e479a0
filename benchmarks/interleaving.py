"""Lanes on one clock against lanes one after the other: the same ratio, and less spread on a busy machine."""

from __future__ import annotations

import argparse
import contextlib
import itertools
import subprocess
import sys
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import fmean, pstdev
from typing import Any, ClassVar

from benchmarks.tables import Tabled, bounds, finish
from specdiff_core.cli.bench import add_measuring, begin, track
from specdiff_core.engine import Engine
from specdiff_core.explorations.figures import percent
from specdiff_core.measure.grid import BenchSetting
from specdiff_core.measure.prompts import Prompt
from specdiff_core.measure.race import race
from specdiff_core.measure.runner import header
from specdiff_core.measure.statistics import mean_interval
from specdiff_core.measure.store import Measured, RowLog
from specdiff_core.measure.sweep import table
from specdiff_core.schema.events import Event
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.settings import DecodeConfig

QUIET, BUSY = "quiet", "one core busy"
WAYS = ("together", "apart")
"""On one clock, or one after the other."""


class Turn(Measured, kw_only=True):
    """The speed-up of one setting on one prompt, measured both ways in turn."""

    KEY: ClassVar[tuple[str, ...]] = ("prompt", "machine", "repeat")
    machine: str  # quiet or busy
    repeat: int
    speedups: dict[str, float]  # by way


@contextlib.contextmanager
def busy(on: bool) -> Iterator[None]:
    """Keep a core busy with a process of no use."""
    process = subprocess.Popen([sys.executable, "-c", "while True: pass"]) if on else None
    try:
        yield
    finally:
        if process is not None:
            process.kill()
            process.wait()


def both_ways(engine: Engine, prompt: str, lanes: Mapping[str, DecodeConfig], turn: int) -> dict[str, float]:
    """The speed-up of the second lane over the first, by way."""
    results = {}
    for way in WAYS if turn % 2 else WAYS[::-1]:
        groups = [lanes] if way == "together" else [{name: lane} for name, lane in lanes.items()]
        runs: dict[str, list[Event]] = defaultdict(list)
        for group in groups:
            for name, event in race(engine, prompt, group, detail=False):
                if isinstance(event, Exception):
                    raise event
                runs[name].append(event)
        slow, fast = (fold(runs[name]) for name in lanes)
        results[way] = (slow.seconds / slow.committed) / (fast.seconds / fast.committed)
    return results


def measure(
    engine: Engine,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    *,
    repeats: int,
    busy_prompts: int,
    busy_repeats: int,
    path: Path | None,
) -> Iterator[tuple[int, int, RowLog[Turn]]]:
    """Both ways ``repeats`` times on each prompt, then ``busy_repeats`` times on some of them beside a busy core."""
    lanes = {setting.key: setting.config(base) for setting in settings[:2]}
    todo = {(prompt.id, QUIET, n): prompt for n, prompt in itertools.product(range(repeats), prompts)}
    busy_turns = itertools.product(range(busy_repeats), prompts[:busy_prompts])
    todo |= {(prompt.id, BUSY, n): prompt for n, prompt in busy_turns}
    numbers = {key: number for number, key in enumerate(todo)}

    def one(key: tuple[str, str, int]) -> Turn:
        with busy(key[1] == BUSY):
            speedups = both_ways(engine, todo[key].prompt, lanes, numbers[key])
        prompt = todo[key]
        return Turn(prompt=prompt.id, flavour=prompt.flavour, machine=key[1], repeat=key[2], speedups=speedups)

    extra = {"busy_prompts": busy_prompts, "busy_repeats": busy_repeats, "repeats": repeats}
    log = RowLog(path, header("interleaving", engine, prompts, settings[:2], base, **extra), Turn)
    yield from log.fill({key: key for key in todo}, one)


def aggregate(turns: Sequence[Turn]) -> dict[str, Any]:
    """By machine: the mean speed-up of each way, the mean of their paired ratio with its interval, and the spread of a
    prompt's repeats (coefficient of variation)."""
    answer: dict[str, Any] = {}
    for machine in (QUIET, BUSY):
        rows = [turn for turn in turns if turn.machine == machine]
        by_prompt: dict[str, list[Turn]] = defaultdict(list)
        for row in rows:
            by_prompt[row.prompt].append(row)
        ratio = mean_interval(
            [fmean(t.speedups["together"] / t.speedups["apart"] for t in of) for of in by_prompt.values()]
        )
        entry: dict[str, Any] = {"turns": len(rows), "prompts": len(by_prompt), "ratio": ratio.value}
        entry |= {"low": ratio.low, "high": ratio.high}
        for way in WAYS:
            values = [[turn.speedups[way] for turn in of] for of in by_prompt.values()]
            entry[way] = fmean(itertools.chain(*values))
            entry[f"{way}_spread"] = fmean(pstdev(own) / fmean(own) for own in values)
            entry[f"{way}_range"] = [min(map(min, values)), max(map(max, values))]
        answer[machine] = entry
    return answer


class Interleaving(Tabled, kw_only=True, tag="interleaving"):
    """Lanes on one clock against lanes one after the other."""

    result: dict[str, Any]  # of :func:`aggregate`

    def tables(self) -> list[str]:
        rows = []
        for machine, entry in self.result.items():
            for way in WAYS:
                spread = percent(entry[f"{way}_spread"]) if machine == BUSY else "–"
                rows.append([machine, way, f"{entry[way]:.2f}×", bounds(*entry[f"{way}_range"]), spread])
        quiet = self.result[QUIET]
        return [
            "### Lanes on one clock, or one after the other",
            f"{self.settings['pair']}, {self.settings['max_new_tokens']} tokens. On a quiet machine the speed-up of "
            f"lanes that run together is {quiet['ratio']:.3f} ({bounds(quiet['low'], quiet['high'], '.3f')}) of that "
            f"of lanes one after the other, paired by {quiet['prompts']} prompts. Spread: the coefficient of variation "
            f"of a prompt's {self.result[BUSY]['turns'] // self.result[BUSY]['prompts']} repeats.",
            table(["machine", "lanes", "mean speed-up", "single runs", "spread"], rows),
        ]


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_measuring(parser, settings="the pair's block drafter", repeats=True)
    for name, about in {"prompts": "prompts", "repeats": "repeats of each"}.items():
        parser.add_argument(f"--busy-{name}", type=int, default=5, metavar="N", help=f"{about} beside a busy core [5]")


def run(args: argparse.Namespace) -> None:
    (engine, prompts, settings, base), facts, path = begin(args, lambda base, drafters: ["block/4/1"])
    log = track(
        measure(
            engine,
            prompts,
            settings,
            base,
            repeats=args.repeats,
            busy_prompts=args.busy_prompts,
            busy_repeats=args.busy_repeats,
            path=path,
        )
    )
    finish(args, log.result(Interleaving, provenance=facts, result=aggregate(log.rows)))
