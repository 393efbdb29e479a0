"""Sweeps of the scripted decoder with their traces, stored as bench stores them: what a showcase is made from."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from app_fakes import FakeDecoder

from specdiff_core.bench.cells import BASELINE, Cell
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.reading import count_flavours
from specdiff_core.bench.report import report
from specdiff_core.bench.sweep import sweep
from specdiff_core.bench.traces import Traces
from specdiff_core.schema.settings import DecodeConfig

CELLS = (
    BASELINE,
    Cell("block", 4, 1),
    Cell("block", 9, 1),
    Cell("block", 9, 1, 9),
    Cell("autoregressive", 4, 4),
    Cell("mdlm_streak", 9, 1, 0, 4),
    Cell("mdlm", 4, 1, 9),
)
FLAVOURS = ("code", "stories")
ORIGIN = {
    "date": "2026-01-02T03:04+00:00",
    "command": "python -m specdiff_core bench --json sweep.json",
    "commit": "0123456789ab",
    "dirty": False,
    "cpu": "A test processor",
    "cores": 2,
    "threads": 1,
    "gpu": "",
    "system": "Linux x86_64",
    "versions": {"python": "3", "torch": "0"},
}


def store_sweep(
    folder: Path, temperature: float, *, cells: Sequence[Cell] = CELLS, per_flavour: int = 3, repeats: int = 1
) -> Path:
    """Measure and store one sweep as ``bench --json --traces`` does; the path of its result."""
    prompts = [
        Prompt(id=f"{flavour}-{number}", flavour=flavour, prompt=f"A prompt {number} of {flavour}")
        for flavour in FLAVOURS
        for number in range(per_flavour)
    ]
    base = DecodeConfig(max_new_tokens=24, ignore_eos=True, temperature=temperature)
    path, traces = folder / f"t{temperature:g}.json", Traces(folder / f"traces-{temperature:g}")
    rows = path.with_suffix(".rows.jsonl")
    *_, (_, _, log) = sweep(FakeDecoder(), prompts, cells, base, repeats=repeats, path=rows, traces=traces)
    result: dict[str, Any] = {
        **log.header,
        "schema": 1,
        "provenance": ORIGIN,
        "sessions": 1,
        "prompts": count_flavours(prompts),
        "cells": report(log.rows),
        "repeats": repeats,
        "traces": traces.folder.name,
    }
    path.write_text(json.dumps(result), encoding="utf-8")
    return path
