"""Interleaves lanes: the order in which sweeps and explorations measure.

A turn is one prompt and repeat, in which every lane runs once. In a sweep the lanes of a turn race. In most
explorations (:func:`in_order`) they run one by one, every other turn in reverse order, so that a steady drift of the
machine's speed cancels.
"""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

from specdiff_core.measure.grid import SWEPT, VANILLA, BenchSetting
from specdiff_core.measure.prompts import Prompt, digest
from specdiff_core.measure.race import race
from specdiff_core.measure.store import RowLog, RunRow
from specdiff_core.provenance import git_state
from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.events import Event
from specdiff_core.schema.pairs import known_pair
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import header_of

T = TypeVar("T")


class Run(NamedTuple):
    """One decode to measure."""

    turn: int
    prompt: Prompt
    repeat: int
    lane: str
    config: DecodeConfig

    def decode(self, decoder: Decoder, **options: Any) -> list[Event]:
        """Its events; by default without the detail that only a viewer needs."""
        return list(decoder.decode(self.prompt.prompt, self.config, **{"detail": False, **options}))

    def row(self, events: Sequence[Event]) -> RunRow:
        """The row of its events."""
        where = {"prompt": self.prompt.id, "flavour": self.prompt.flavour, "repeat": self.repeat, "setting": self.lane}
        return RunRow.of_run(events, **where)


def in_order(lanes: Sequence[T], turn: int) -> Sequence[T]:
    """The lanes of a turn, in the order in which they run."""
    return lanes[:: -1 if turn % 2 else 1]


def plan(
    prompts: Sequence[Prompt],
    lanes: Mapping[str, DecodeConfig],
    repeats: int = 1,
    *,
    share: int = 0,
) -> Iterator[Run]:
    """All runs of a measurement, in order. Turn n adds n to the seed: with one seed the same draws would decide every
    text, and an interval over prompts would be far too narrow.

    Args:
        lanes: name -> settings, the baseline first.
        share: run the baseline before every so many other lanes, which share it; 0: once per turn.
    """
    first, *others = lanes
    for turn, (prompt, repeat) in enumerate(itertools.product(prompts, range(repeats))):
        if share:
            ordered = in_order(others, turn)
            order = [name for i in range(0, len(ordered), share) for name in (first, *ordered[i : i + share])]
        else:
            order = list(in_order(list(lanes), turn))
        for name in order:
            config = dataclasses.replace(lanes[name], seed=lanes[name].seed + turn)
            yield Run(turn, prompt, repeat, name, config)


def sweep(
    engine: Decoder,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    *,
    repeats: int,
    path: Path | None = None,
) -> Iterator[tuple[int, int, RowLog[RunRow]]]:
    """Measure every run whose row is missing; the lanes of a turn race, which narrows the intervals
    of a machine that does other work besides.

    Args:
        settings: the baseline first.
        base: the settings that all share.
        path: file of the rows; a benchmark with existing rows is resumed.

    Yields:
        (rows done, rows in all, the log) once at the start, then after each row; a turn's rows come together.

    Raises:
        ConfigError: ``path`` has rows of another benchmark.
    """
    lanes = {setting.key: setting.config(base) for setting in settings}

    def measure(turn: Sequence[Run]) -> Iterator[RunRow]:
        runs: dict[str, list[Event]] = defaultdict(list)
        for lane, event in race(engine, turn[0].prompt.prompt, {run.lane: run.config for run in turn}, detail=False):
            if isinstance(event, Exception):
                raise event
            runs[lane].append(event)
        return (run.row(runs[run.lane]) for run in turn)

    log = RowLog(path, header("sweep", engine, prompts, settings, base, repeats=repeats, seeds="seed + turn"), RunRow)
    todo = {(run.prompt.id, run.repeat, run.lane): run for run in plan(prompts, lanes, repeats)}
    yield from log.fill_turns(todo, lambda run: run.turn, measure)


def header(
    kind: str,
    engine: Decoder,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    **others: Any,
) -> dict[str, Any]:
    """Everything that must not change while rows are collected."""
    short = VANILLA.config(dataclasses.replace(base, max_new_tokens=1))
    started = header_of(engine.decode(prompts[0].prompt, short, detail=False))
    assert started is not None, "a run begins with its header"
    return {
        "kind": kind,
        "prompts": digest(prompts),
        "lanes": [setting.key for setting in settings],
        "settings": {name: value for name, value in base.to_dict().items() if name not in SWEPT},
        "device": started.device,
        "dtype": started.dtype,
        "threads": started.threads,
        "target": started.models.get("target", ""),
        "weights": weights_digest(base.pair),
        "versions": started.versions,
        "commit": git_state()["commit"],
        **others,
    }


def weights_digest(pair: str) -> str:
    """A short hash of a pair's local weights, so that rows of retrained models never mix."""
    spec, hasher = known_pair(pair), hashlib.sha256()
    if spec is None:
        return ""
    for source in (spec.target, *(drafter.source for drafter in spec.drafters if drafter.source)):
        for path in sorted(Path(source).glob("*.safetensors")):
            hasher.update(path.read_bytes())
    return hasher.hexdigest()[:12]
