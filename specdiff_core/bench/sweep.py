"""Measures settings against vanilla, interleaved, row by row.

For every prompt and every repeat vanilla and all settings run one after the other, in an order that turns by one each
time: slow drift of the machine falls on all of them alike.
"""

from __future__ import annotations

import dataclasses
import functools
import hashlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from specdiff_core.bench.grid import BASELINE, SWEPT, BenchSetting
from specdiff_core.bench.prompts import Prompt, digest
from specdiff_core.bench.store import Row, RowLog, Traces, W
from specdiff_core.provenance import git_state
from specdiff_core.schema.decoder import Decoder
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.events import Event
from specdiff_core.schema.pairs import PAIRS
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.summary import header_of

WARM_UP = 24
"""Tokens of a warm-up at most: first passes allocate memory and are slow."""


def plan(
    prompts: Sequence[Prompt], settings: Sequence[BenchSetting], repeats: int
) -> Iterator[tuple[int, Prompt, int, BenchSetting]]:
    """(turn, prompt, repeat, setting) of all measurements in their order; a turn is one prompt and repeat."""
    turns = [(prompt, repeat) for prompt in prompts for repeat in range(repeats)]
    for turn, (prompt, repeat) in enumerate(turns):
        first = turn % len(settings)
        for setting in (*settings[first:], *settings[:first]):
            yield turn, prompt, repeat, setting


def header(
    kind: str,
    engine: Decoder,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    **others: Any,
) -> dict[str, Any]:
    """What must not change while rows are collected."""
    short = BASELINE.config(dataclasses.replace(base, max_new_tokens=1))
    started = header_of(engine.decode(prompts[0].prompt, short, detail=False))
    assert started is not None, "a run begins with its header"
    return {
        "kind": kind,
        "prompts": digest(prompts),
        "cells": [setting.key for setting in settings],
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
    """A short hash of a pair's local weights: rows of retrained models never mix. Hub models are pinned already."""
    spec, found = PAIRS.get(pair), hashlib.sha256()
    if spec is None:
        return ""
    for source in (spec.target, *(drafter.source for drafter in spec.drafters if drafter.source)):
        for path in sorted(Path(source).glob("*.safetensors")):
            found.update(path.read_bytes())
    return found.hexdigest()[:12]


def run(engine: Decoder, prompt: str, setting: BenchSetting, base: DecodeConfig) -> list[Event]:
    """One decode, without the events that only a viewer needs."""
    return list(engine.decode(prompt, setting.config(base), detail=False))


def measure(
    kind: str,
    row: type[W],
    engine: Decoder,
    prompts: Sequence[Prompt],
    settings: Sequence[BenchSetting],
    base: DecodeConfig,
    *,
    repeats: int,
    path: Path | None = None,
    traces: Traces | None = None,
) -> Iterator[tuple[int, int, RowLog[W]]]:
    """Measure everything that is not measured yet.

    All settings of a turn share one seed, ``base.seed`` + turn: with one seed for all prompts the same draws would
    decide every text, and an interval over prompts would be far too narrow.

    Args:
        kind: of the benchmark, as its file names it.
        row: what is kept of a run.
        settings: the baseline first.
        base: what all of them share.
        path: where rows are written; an interrupted benchmark with the same path goes on.
        traces: where the events of every measured run are written, each after its run.

    Yields:
        (rows done, rows in all, the log) after each row, once at the start as well.

    Raises:
        ConfigError: ``path`` or ``traces`` holds another benchmark, or ``path`` has rows whose events were not written.
    """

    def one(turn: int, prompt: Prompt, repeat: int, setting: BenchSetting) -> W:
        tokens = min(WARM_UP, base.max_new_tokens) if repeat < 0 else base.max_new_tokens
        config = dataclasses.replace(base, seed=base.seed + turn, max_new_tokens=tokens)
        events = run(engine, prompt.prompt, setting, config)
        if traces is not None and repeat >= 0:  # before its row: a run that has a row has its trace
            traces.write(prompt.id, repeat, setting.key, events)
        return row.of_run(events, prompt=prompt.id, flavour=prompt.flavour, repeat=repeat, setting=setting.key)

    about = header(kind, engine, prompts, settings, base, repeats=repeats, seeds="seed + turn")
    log = RowLog(path, about, row)
    if traces is not None:
        traces.claim(log.header, {prompt.id: prompt.flavour for prompt in prompts})
        if lost := [run for run in log.rows if run.repeat >= 0 and not traces.path(*run.key).is_file()]:
            message = f"{len(lost)} runs were measured earlier and their events not written there."
            hint = "Leave --traces out, or delete the rows to measure everything again."
            raise ConfigError(message, field="traces", hint=hint)
    todo = {(item[1].id, item[2], item[3].key): item for item in plan(prompts, settings, repeats)}
    yield from log.fill(todo, one, lambda: (one(0, prompts[0], -1, setting) for setting in settings))


sweep = functools.partial(measure, "sweep", Row)
"""The rows of a sweep, as :func:`measure` yields them."""
