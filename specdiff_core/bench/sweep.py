"""Measures cells (drafter, γ, T, tree) against vanilla, interleaved, row by row. Knows how to run, not how to report.

For every prompt and every repeat the baseline and all cells run one after the other, in an order that turns by one
each time: slow drift of the machine falls on all of them alike.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from specdiff_core.bench.prompts import Prompt, digest
from specdiff_core.bench.rows import Row, RowLog
from specdiff_core.config import DecodeConfig
from specdiff_core.decoder import Decoder
from specdiff_core.errors import ConfigError
from specdiff_core.events import RunStarted
from specdiff_core.metrics import fold
from specdiff_core.provenance import git_state
from specdiff_core.registry import PAIRS, find_pair
from specdiff_core.summary import final


@dataclass(frozen=True, slots=True, order=True)
class Cell:
    """One thing to measure."""

    drafter: str
    gamma: int
    steps: int
    nodes: int = 0  # of a draft tree; 0: a window

    def config(self, base: DecodeConfig) -> DecodeConfig:
        """``base`` with this cell's drafter, γ, T and tree."""
        return dataclasses.replace(
            base, drafter=self.drafter, gamma=self.gamma, steps=self.steps, tree_nodes=self.nodes
        )

    @property
    def key(self) -> str:
        """As it stands in rows; :meth:`of` reads it."""
        return f"{self.drafter}/{self.gamma}/{self.steps}" + (f"/{self.nodes}" if self.nodes else "")

    @classmethod
    def of(cls, key: str) -> Cell:
        drafter, *numbers = key.split("/")
        return cls(drafter, *map(int, numbers))


BASELINE = Cell("none", 1, 1)


def grid(
    drafters: Sequence[str],
    gammas: Sequence[int],
    steps: Sequence[int],
    pair: str = "embedded",
    nodes: Sequence[int] = (0,),
) -> tuple[Cell, ...]:
    """The baseline, then every drafter × γ × T with T ≤ γ ≤ the drafter's window, and every drafter × γ × tree.

    T and trees are swept for denoisers only; a tree grows from one pass, so it has no T.

    Raises:
        ConfigError: no cell is left besides the baseline, or ``pair`` has no such drafter.
    """
    spec = find_pair(pair)
    cells = [
        Cell(found.name, gamma, 1 if size else found.passes(gamma, count), size)
        for found in map(spec.drafter, drafters)
        if found.name != "none"
        for gamma in gammas
        for size in nodes
        for count in steps
        if count <= gamma and gamma == found.fit(gamma) and (not size or found.drafting == "denoise")
    ]
    if not cells and any(drafter != "none" for drafter in drafters):
        raise ConfigError(
            "Every T is larger than every γ, or every γ than the drafters' windows: there is nothing to measure.",
            field="steps",
            hint="Choose T at most γ, and γ at most 16 for block.",
        )
    return (BASELINE, *dict.fromkeys(cells))


@dataclass(frozen=True, slots=True)
class Run:
    """One decode of a sweep."""

    prompt: Prompt
    repeat: int
    cell: Cell
    turn: int  # counts (prompt, repeat) pairs


def plan(prompts: Sequence[Prompt], cells: Sequence[Cell], repeats: int) -> Iterator[Run]:
    """All measurements in their order: prompt, repeat, and the cells turned by one each time."""
    turn = 0
    for prompt in prompts:
        for repeat in range(repeats):
            first = turn % len(cells)
            for cell in (*cells[first:], *cells[:first]):
                yield Run(prompt, repeat, cell, turn)
            turn += 1


def header(
    kind: str, prompts: Sequence[Prompt], base: DecodeConfig, started: RunStarted, cells: Sequence[Cell], **others: Any
) -> Row:
    """What must not change while rows are collected."""
    settings = {k: v for k, v in base.to_dict().items() if k not in {"drafter", "gamma", "steps", "tree_nodes"}}
    return {
        "kind": kind,
        "prompts": digest(prompts),
        "cells": [cell.key for cell in cells],
        "settings": settings,
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
    """A short hash of a pair's local weights: rows of retrained models never mix. Hub models are pinned already."""
    spec, found = PAIRS.get(pair), hashlib.sha256()
    if spec is None:
        return ""
    for source in (spec.target, *(drafter.source for drafter in spec.drafters if drafter.source)):
        for path in sorted(Path(source).glob("*.safetensors")):
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def warm_up(engine: Decoder, prompt: str, cells: Sequence[Cell], base: DecodeConfig) -> list[Row]:
    """Run every cell once, briefly: first passes allocate memory and are slow. The rows are marked ``warmup``."""
    short = dataclasses.replace(base, max_new_tokens=min(24, base.max_new_tokens))
    return [{"warmup": True, **measure(engine, prompt, cell, short)} for cell in cells]


def describe_run(engine: Decoder, prompt: str, base: DecodeConfig) -> RunStarted:
    """The header that the engine's runs carry: device, dtype, threads, versions."""
    events = engine.decode(prompt, BASELINE.config(dataclasses.replace(base, max_new_tokens=1)), narrate=False)
    for event in events:
        if isinstance(event, RunStarted):
            return event
    raise ConfigError("The engine did not say what it runs on.", hint="Report this: a run must begin with its header.")


def measure(engine: Decoder, prompt: str, cell: Cell, base: DecodeConfig) -> Row:
    """One decode, undisturbed: no narration."""
    events = list(engine.decode(prompt, cell.config(base), narrate=False))
    last = final(events)
    assert last is not None, "a decode ends with Finished or raises"
    ids = ",".join(map(str, last.ids))
    return {
        "cell": cell.key,
        "metrics": dataclasses.asdict(fold(events)),
        "reason": last.reason,
        "text": hashlib.sha256(ids.encode()).hexdigest()[:16],
    }


def sweep(
    engine: Decoder,
    prompts: Sequence[Prompt],
    cells: Sequence[Cell],
    base: DecodeConfig,
    *,
    repeats: int,
    path: Path | None = None,
) -> Iterator[tuple[int, int, RowLog]]:
    """Measure everything that is not measured yet.

    All cells of a turn share one seed, ``base.seed`` + turn: with one seed for all prompts the same draws would decide
    every text, and an interval over prompts would be far too narrow.

    Args:
        base: the settings that all cells share.
        path: where rows are kept; an interrupted sweep with the same path goes on.

    Yields:
        (rows done, rows in all, the log) after each row, once at the start as well.
    """
    started = describe_run(engine, prompts[0].prompt, base)
    log = RowLog(path, header("sweep", prompts, base, started, cells, repeats=repeats, seeds="seed + turn"))
    done = {(row["prompt"], row["repeat"], row["cell"]) for row in log.rows if not row["warmup"]}
    todo = [run for run in plan(prompts, cells, repeats) if (run.prompt.id, run.repeat, run.cell.key) not in done]
    total = len(done) + len(todo)
    yield len(done), total, log
    if todo:
        for row in warm_up(engine, prompts[0].prompt, cells, base):
            log.append({"prompt": prompts[0].id, "flavour": prompts[0].flavour, "repeat": -1, **row})
    for count, run in enumerate(todo, start=len(done) + 1):
        prompt, settings = run.prompt, dataclasses.replace(base, seed=base.seed + run.turn)
        row = measure(engine, prompt.prompt, run.cell, settings)
        log.append({"prompt": prompt.id, "flavour": prompt.flavour, "repeat": run.repeat, "warmup": False, **row})
        yield count, total, log
