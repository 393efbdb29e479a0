"""Recorded results for the settings of the Live tab: the predicted speed-up of a window before it
runs, and the typical speed-ups of settings that ran."""

from __future__ import annotations

import logging
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from specdiff_core.explorations import EXPLORATIONS
from specdiff_core.explorations.base import ExplorationResult
from specdiff_core.explorations.runs import narrow
from specdiff_core.measure.grid import VANILLA, BenchSetting
from specdiff_core.measure.store import read_result
from specdiff_core.schema.errors import ConfigError, SpecDiffError
from specdiff_core.schema.events import RunStarted
from specdiff_core.schema.fields import parse
from specdiff_core.schema.metrics import fold, speed_up
from specdiff_core.schema.settings import DecodeConfig
from specdiff_core.schema.trace import read_trace
from specdiff_core.schema.wording import denoises

LOG = logging.getLogger(__name__)


def predictions(folder: Path) -> dict[str, dict[str, Any]]:
    """Pair -> drafter -> ``device``, and ``cells``: temperature, T, γ, speed-up and tokens per round of each recorded
    cell, as measured."""
    by_pair: dict[str, dict[str, Any]] = {}
    for answer in _recorded(folder, "window-map"):
        settings: Any = parse(EXPLORATIONS["window-map"], answer.settings)
        pair, drafter, temperature = settings.pair, settings.drafter, settings.temperature
        device = answer.machine["device"].removeprefix("cpu: ")
        if settings.controller:
            continue
        entry = by_pair.setdefault(pair, {}).setdefault(drafter, {"device": device, "cells": []})
        for cell in answer.rows:
            steps = cell["steps"] if denoises(drafter) else 1
            values = round(cell["speedup"], 4), round(cell["tau"], 4)
            entry["cells"].append([temperature, steps, cell["gamma"], *values])
    return by_pair


def typical(traces: Path, explore: Path, compare: Path) -> list[dict[str, Any]]:
    """Measured speed-ups of the shipped results: races of several prompts with equal settings, the
    comparison by kind of text, and the cells of γ × T maps.

    Each has ``pair``, ``temperature``, ``device`` and ``dtype``; ``spread``, whether it is a range
    over prompts, which only the races have; the words ``over`` and ``about``, which say what the
    range is; and ``cells``: drafter and shape (:attr:`BenchSetting.group`) -> γ, T, B, K, lowest
    and highest speed-up, settings in words."""
    return [*_of_races(traces), *_of_comparison(compare), *_of_maps(explore)]


def _of_races(folder: Path) -> Iterator[dict[str, Any]]:
    races: dict[tuple[DecodeConfig, str, str], list[float]] = defaultdict(list)
    for path in sorted(folder.glob("*.jsonl.gz")):
        try:
            lanes = read_trace(path).lanes
        except SpecDiffError as error:
            LOG.warning("%s is left out: %s", path, error)
            continue
        header = next((event for event in lanes.get("drafted", ()) if isinstance(event, RunStarted)), None)
        gain = speed_up(fold(lanes.get("vanilla", ())), fold(lanes.get("drafted", ())))
        if header and gain and not header.server:
            races[DecodeConfig.parse(header.config), header.device, header.dtype].append(gain)
    for (config, device, dtype), gains in races.items():
        if len(gains) > 2 and _samples_as_recorded(config):
            over = f"over {len(gains)} prompts"
            about = "The lowest and the highest speed-up of this page's recordings, one for each prompt"
            ranges = {BenchSetting.of_config(config): (min(gains), max(gains))}
            where = {"pair": config.pair, "temperature": config.temperature, "device": device, "dtype": dtype}
            yield {**where, "spread": True, "over": over, "about": about, "cells": _cells(ranges)}


def _samples_as_recorded(config: DecodeConfig) -> bool:
    """Whether it samples as the recorded maps and comparisons do."""
    recorded = replace(DecodeConfig(), temperature=config.temperature)
    names = ("top_k", "top_p", "draft_temperature", *(["rule"] if config.temperature else []))
    return all(getattr(config, name) == getattr(recorded, name) for name in names)


def _of_comparison(folder: Path) -> Iterator[dict[str, Any]]:
    for answer in _recorded(folder, "compare"):
        groups: dict[float, dict[BenchSetting, dict[str, Any]]] = defaultdict(lambda: defaultdict(dict))
        for row in answer.rows:
            if row["setting"] != VANILLA.key and row["flavour"] != "mean" and row.get("speedup"):
                groups[row["temperature"]][BenchSetting.parse(row["setting"])][row["flavour"]] = row
        for temperature, settings in groups.items():
            kinds = next(iter(settings.values()))
            speeds = {setting: [row["speedup"] for row in rows.values()] for setting, rows in settings.items()}
            ranges = {setting: (min(speedups), max(speedups)) for setting, speedups in speeds.items()}
            over = f"(means of {len(kinds)} kinds of text)"
            about = (
                f"The lowest and the highest mean of a kind of text ({', '.join(kinds)}) in the recorded "
                f"comparison, {sum(row['prompts'] for row in kinds.values())} prompts in all"
            )
            where = {"pair": answer.settings["pair"], "temperature": temperature, **_machine(answer)}
            yield {**where, "spread": False, "over": over, "about": about, "cells": _cells(ranges)}


def _of_maps(folder: Path) -> Iterator[dict[str, Any]]:
    for answer in _recorded(folder, "window-map"):
        settings: Any = parse(EXPLORATIONS["window-map"], answer.settings)
        rows = [row for row in answer.rows if row.get("low")]
        most = max((row["prompts"] for row in rows), default=0)
        rows = [row for row in rows if row["prompts"] == most]
        few = f", a bootstrap over {most} prompts, so too narrow" if narrow(rows) else ""
        drafter = settings.drafter
        cells = [BenchSetting(drafter, row["gamma"], row["steps"], auto=row.get("auto", False)) for row in rows]
        ranges = {cell: (row["low"], row["high"]) for cell, row in zip(cells, rows, strict=True)}
        over = f"(95 % interval of the mean of {most} prompts)"
        about = f"The 95 % interval of the mean speed-up in the recorded γ × T map{few}"
        where = {"pair": settings.pair, "temperature": settings.temperature, **_machine(answer)}
        yield {**where, "spread": False, "over": over, "about": about, "cells": _cells(ranges)}


def _machine(answer: ExplorationResult) -> dict[str, str]:
    return {name: answer.machine[name] for name in ("device", "dtype")}


def _cells(ranges: Mapping[BenchSetting, tuple[float, float]]) -> dict[str, list[list[Any]]]:
    cells: dict[str, list[list[Any]]] = defaultdict(list)
    for setting, (low, high) in ranges.items():
        steps = setting.steps if setting.shape == "window" and denoises(setting.drafter) else 1
        numbers = setting.gamma, steps, setting.tree_nodes, setting.num_drafts, round(low, 3), round(high, 3)
        cells[setting.group].append([*numbers, setting.words])
    return dict(cells)


def _recorded(folder: Path, name: str) -> Iterator[ExplorationResult]:
    """The recorded answers of one exploration."""
    for path in sorted({*folder.glob(f"{name}.json"), *folder.glob(f"{name}.*.json")}):
        try:
            yield read_result(path, ExplorationResult)
        except ConfigError as error:  # skip a bad file, serve the others
            LOG.warning("%s is left out: %s", path, error)
