"""Sweeps of the scripted decoder with their traces, stored as bench stores them: what a showcase is made from."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from app_fakes import FakeDecoder

from specdiff_core.bench.grid import BASELINE, BenchSetting
from specdiff_core.bench.prompts import Prompt
from specdiff_core.bench.report import sweep_result
from specdiff_core.bench.store import Traces, write_result
from specdiff_core.bench.sweep import sweep
from specdiff_core.provenance import Provenance
from specdiff_core.schema.settings import DecodeConfig

SETTINGS = (
    BASELINE,
    BenchSetting("block", 4, 1),
    BenchSetting("block", 9, 1),
    BenchSetting("block", 9, 1, 9),
    BenchSetting("autoregressive", 4, 4),
    BenchSetting("mdlm_streak", 9, 1, 0, 4),
    BenchSetting("mdlm", 4, 1, 9),
)
FLAVOURS = ("code", "stories")
ORIGIN: Provenance = {
    "date": "2026-01-02T03:04+00:00",
    "command": "python -m specdiff_core bench sweep --json sweep.json",
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
    folder: Path,
    temperature: float,
    *,
    settings: Sequence[BenchSetting] = SETTINGS,
    per_flavour: int = 3,
    repeats: int = 1,
) -> Path:
    """Measure and store one sweep as ``bench sweep --json --traces`` does; the path of its result."""
    prompts = [
        Prompt(id=f"{flavour}-{number}", flavour=flavour, prompt=f"A prompt {number} of {flavour}")
        for flavour in FLAVOURS
        for number in range(per_flavour)
    ]
    base = DecodeConfig(max_new_tokens=24, ignore_eos=True, temperature=temperature)
    path, traces = folder / f"t{temperature:g}.json", Traces(folder / f"traces-{temperature:g}")
    rows = path.with_suffix(".rows.jsonl")
    *_, (_, _, log) = sweep(FakeDecoder(), prompts, settings, base, repeats=repeats, path=rows, traces=traces)
    write_result(path, sweep_result(log, ORIGIN, traces=traces.folder.name))
    return path
