"""Recorded speed-ups by setting, from which the Live tab predicts what a run will bring."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.measured import bounds
from specdiff_core.explorations.run import ExplorationResult
from specdiff_core.measure.grid import VANILLA, BenchSetting
from specdiff_core.measure.statistics import costs, interval
from specdiff_core.schema.errors import SpecDiffError
from specdiff_core.schema.events import RunStarted
from specdiff_core.schema.fields import parse
from specdiff_core.schema.methods import BASELINE, DRAFTED
from specdiff_core.schema.metrics import Metrics, fold, speed_up
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace
from specdiff_core.schema.wording import denoises

from .recordings import answers

LOG = logging.getLogger(__name__)
SAMPLING = {name: getattr(DecodeConfig(), name) for name in ("top_k", "top_p", "draft_temperature", "rule")}
"""How the recorded maps and comparisons sample, at any temperature; at 0 the rule doesn't matter."""


def measured(traces: Path, explore: Path, compare: Path) -> list[dict[str, Any]]:
    """Measured speed-ups over several prompts with their 95 % intervals, of the shipped races with equal settings, the
    comparison, and the γ × T maps.

    Each has ``pair``, ``temperature``, reveal ``order``, ``device`` and ``dtype``; ``about``, its source in words; and
    ``cells``: drafter and shape (:attr:`BenchSetting.group`) -> γ, T, B, K, speed-up, its ends (None: not computed),
    prompts, and in a map τ, from which windows in between are predicted."""
    return [*_of_races(traces), *_of_comparison(compare), *_of_maps(explore)]


def _of_races(folder: Path) -> Iterator[dict[str, Any]]:
    races: dict[tuple[DecodeConfig, str, str], list[tuple[Metrics, Metrics]]] = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl.gz")):
        try:
            lanes = read_trace(path).lanes
        except SpecDiffError as error:
            LOG.warning("%s is left out: %s", path, error)
            continue
        header = next((event for event in lanes.get(DRAFTED, ()) if isinstance(event, RunStarted)), None)
        runs = fold(lanes.get(BASELINE, ())), fold(lanes.get(DRAFTED, ()))
        if header and speed_up(*runs) and not header.server:
            races[DecodeConfig.parse(header.config), header.device, header.dtype].append(runs)
    for (config, device, dtype), runs_of in races.items():
        if len(runs_of) > 2 and _samples_as_recorded(config):
            slow, fast = (
                costs((str(prompt), runs[lane].seconds, runs[lane].committed) for prompt, runs in enumerate(runs_of))
                for lane in (0, 1)
            )
            row = bounds(interval(slow, fast, {"all": list(slow)})["all"], [len(slow)])
            where = {"pair": config.pair, "temperature": config.temperature, "order": config.order}
            where |= {"device": device, "dtype": dtype}
            cells = _cells({BenchSetting.of_config(config): row | {"prompts": len(slow)}})
            yield {**where, "about": "This page's recordings, one for each prompt", "cells": cells}


def _samples_as_recorded(config: DecodeConfig) -> bool:
    return all(
        getattr(config, name) == usual or (name == "rule" and not config.temperature)
        for name, usual in SAMPLING.items()
    )


def _of_comparison(folder: Path) -> Iterator[dict[str, Any]]:
    for _, answer in answers(folder, "compare"):
        groups: dict[float, dict[BenchSetting, Mapping[str, Any]]] = defaultdict(dict)
        for row in answer.rows:
            if row["setting"] != VANILLA.key and row["flavour"] == "mean" and row.get("speedup"):
                groups[row["temperature"]][BenchSetting.parse(row["setting"])] = row
        for temperature, rows in groups.items():
            where = {"pair": answer.settings["pair"], "temperature": temperature, "order": DecodeConfig().order}
            where |= _machine(answer)
            yield {**where, "about": "The recorded comparison, mean of the kinds of text", "cells": _cells(rows)}


def _of_maps(folder: Path) -> Iterator[dict[str, Any]]:
    for _, answer in answers(folder, "window-map"):
        settings: Any = parse(EXPLORATIONS["window-map"], answer.settings)
        rows = {
            BenchSetting(settings.drafter, row["gamma"], row["steps"], auto=row.get("auto", False)): row
            for row in answer.rows
            if row.get("speedup")
        }
        more = [] if settings.controller else ["tau"]
        where = {"pair": settings.pair, "temperature": settings.temperature, "order": settings.order}
        where |= _machine(answer)
        yield {**where, "about": "The recorded γ × T map", "cells": _cells(rows, *more)}


def _machine(answer: ExplorationResult) -> dict[str, str]:
    return {name: answer.machine[name] for name in ("device", "dtype")}


def _cells(rows: Mapping[BenchSetting, Mapping[str, Any]], *more: str) -> dict[str, list[list[Any]]]:
    cells: dict[str, list[list[Any]]] = defaultdict(list)
    for setting, row in rows.items():
        steps = setting.steps if setting.shape == "window" and denoises(setting.drafter) else 1
        ends = [None if row.get(end) is None else round(row[end], 3) for end in ("low", "high")]
        shape = [setting.gamma, steps, setting.tree_nodes, setting.num_drafts]
        further = [round(row[name], 3) for name in more]
        cells[setting.group].append([*shape, round(row["speedup"], 3), *ends, row["prompts"], *further])
    return dict(cells)
