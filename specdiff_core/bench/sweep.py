"""Measures cells against vanilla, interleaved, row by row. Knows how to run, not how to report.

For every prompt and every repeat the baseline and all cells run one after the other, in an order that turns by one
each time: slow drift of the machine falls on all of them alike.
"""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from specdiff_core.bench.cells import BASELINE, SWEPT, Cell
from specdiff_core.bench.prompts import Prompt, digest
from specdiff_core.bench.rows import Row, RowLog
from specdiff_core.provenance import git_state
from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Event, RunStarted
from specdiff_core.schema.metrics import fold
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import final

if TYPE_CHECKING:
    from specdiff_core.bench.traces import Traces


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
    settings = {k: v for k, v in base.to_dict().items() if k not in SWEPT}
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
    return [{"warmup": True, **row_of(cell, run(engine, prompt, cell, short))} for cell in cells]


def describe_run(engine: Decoder, prompt: str, base: DecodeConfig) -> RunStarted:
    """The header that the engine's runs carry: device, dtype, threads, versions."""
    events = engine.decode(prompt, BASELINE.config(dataclasses.replace(base, max_new_tokens=1)), detail=False)
    for event in events:
        if isinstance(event, RunStarted):
            return event
    raise ConfigError("The engine did not say what it runs on.", hint="Report this: a run must begin with its header.")


def run(engine: Decoder, prompt: str, cell: Cell, base: DecodeConfig) -> list[Event]:
    """One decode, undisturbed: no narration."""
    return list(engine.decode(prompt, cell.config(base), detail=False))


def row_of(cell: Cell, events: Sequence[Event]) -> Row:
    """What a row keeps of a run: its sums, how it ended, and a hash of its text."""
    last = final(events)
    assert last is not None, "a decode ends with Finished or raises"
    return {
        "cell": cell.key,
        "metrics": dataclasses.asdict(fold(events)),
        "reason": last.reason,
        "text": text_hash(last.ids),
    }


def text_hash(ids: Sequence[int]) -> str:
    """Equal for equal texts."""
    return hashlib.sha256(",".join(map(str, ids)).encode()).hexdigest()[:16]


def sweep(
    engine: Decoder,
    prompts: Sequence[Prompt],
    cells: Sequence[Cell],
    base: DecodeConfig,
    *,
    repeats: int,
    path: Path | None = None,
    traces: Traces | None = None,
) -> Iterator[tuple[int, int, RowLog]]:
    """Measure everything that is not measured yet.

    All cells of a turn share one seed, ``base.seed`` + turn: with one seed for all prompts the same draws would decide
    every text, and an interval over prompts would be far too narrow.

    Args:
        base: the settings that all cells share.
        path: where rows are kept; an interrupted sweep with the same path goes on.
        traces: where the events of every measured run are kept, each after its run.

    Yields:
        (rows done, rows in all, the log) after each row, once at the start as well.

    Raises:
        ConfigError: ``path`` or ``traces`` holds another sweep, or ``path`` has rows whose events were not kept.
    """
    started = describe_run(engine, prompts[0].prompt, base)
    log = RowLog(path, header("sweep", prompts, base, started, cells, repeats=repeats, seeds="seed + turn"))
    done = {(row["prompt"], row["repeat"], row["cell"]) for row in log.rows if not row["warmup"]}
    if traces is not None:
        traces.claim(log.header, {prompt.id: prompt.flavour for prompt in prompts})
        if lost := sorted(key for key in done if not traces.holds(*key)):
            raise ConfigError(
                f"{len(lost)} runs were measured earlier and their events not kept there, first {lost[0][0]!r}.",
                field="traces",
                hint="Leave --traces out, or delete the rows to measure everything again.",
            )
    todo = [one for one in plan(prompts, cells, repeats) if (one.prompt.id, one.repeat, one.cell.key) not in done]
    total = len(done) + len(todo)
    yield len(done), total, log
    if todo:
        for row in warm_up(engine, prompts[0].prompt, cells, base):
            log.append({"prompt": prompts[0].id, "flavour": prompts[0].flavour, "repeat": -1, **row})
    for count, item in enumerate(todo, start=len(done) + 1):
        prompt, settings = item.prompt, dataclasses.replace(base, seed=base.seed + item.turn)
        events = run(engine, prompt.prompt, item.cell, settings)
        if traces is not None:  # before its row: a run whose row is kept has its trace
            traces.write(prompt.id, item.repeat, item.cell.key, events)
        facts = {"prompt": prompt.id, "flavour": prompt.flavour, "repeat": item.repeat, "warmup": False}
        log.append({**facts, **row_of(item.cell, events)})
        yield count, total, log
