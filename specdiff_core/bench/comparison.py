"""A sweep as one table for reading: the best cell of each method, and what a round costs. Folds stored results; knows
no model, no file and no page. Everything is copied from :func:`specdiff_core.bench.report.report`, or is a quotient of
two of its numbers that is said beside it.
"""

from __future__ import annotations

import dataclasses
import re
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from specdiff_core.bench.cells import BASELINE, Cell
from specdiff_core.bench.report import metrics_of
from specdiff_core.bench.rows import Row
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.methods import METHODS, PLAIN, Method
from specdiff_core.schema.metrics import Metrics
from specdiff_core.schema.pairs import find_pair
from specdiff_core.schema.settings import Rule, Selection

SCHEMA = 1
KIND = "comparison"
CHOICE = (
    "One row for each method: of a drafter used the same way (one window, a draft tree, K drafts) the settings with "
    "the highest mean speed-up."
)
MEDIAN = (
    "One recorded race for each flavour and temperature: the run in which the fastest method had its median speed-up "
    "(of an even number, the lower one of the two in the middle)."
)
SHAPES = {"window": "one window", "tree": "draft tree", "drafts": "K drafts"}

Entry = Mapping[str, Any]


def cell_of(entry: Entry) -> Cell:
    """The cell that an entry of a report describes; fields that an older bench did not know keep their default."""
    return Cell(**{item.name: entry[item.name] for item in dataclasses.fields(Cell) if item.name in entry})


def shape_of(settings: Mapping[str, Any]) -> str:
    """How a drafter is used: ``window``, ``tree`` or ``drafts``. Reads entries of a report and settings of a method."""
    if settings.get("nodes") or settings.get("tree_nodes"):
        return "tree"
    return "drafts" if _drafts(settings) > 1 else "window"


def group_of(entry: Entry) -> str:
    """What two cells share that are one method with other numbers: the drafter and how it is used."""
    shape = shape_of(entry)
    selection = f"/{_selection(entry)}" if shape == "drafts" else ""
    return f"{entry['drafter']}/{shape}{selection}{'/auto' if entry.get('auto') else ''}"


def _drafts(entry: Mapping[str, Any]) -> int:
    return int(entry.get("drafts") or entry.get("num_drafts") or 1)


def _selection(entry: Mapping[str, Any]) -> str:
    return Selection(entry.get("selection") or PLAIN["selection"]).value


NAMED = {group_of({**PLAIN, **method.settings}) for method in METHODS}
"""The uses that a method of the literature stands for."""


def names_of(entry: Entry, pair: str) -> tuple[str, str, str]:
    """(name of the method or "", label, short label). A use that no paper names is named after its drafter."""
    same = [method for method in METHODS if method.drafter == entry["drafter"]]
    for method in same:
        if group_of({**PLAIN, **method.settings}) == group_of(entry):
            return method.name, method.label, _short(method)
    if entry.get("auto"):
        _, label, short = names_of({**entry, "auto": False}, pair)
        chosen = "nodes" if shape_of(entry) == "tree" else "γ and T"
        return "", f"{label}, {chosen} by controller", f"{short}, controller"
    use = SHAPES[shape_of(entry)]
    if shape_of(entry) == "drafts":
        use = f"{_drafts(entry)} drafts, {_selection(entry).replace('_', '-')}"
    if not same:
        label = find_pair(pair).drafter(entry["drafter"]).label
        return "", f"{label}, {use}", f"{entry['drafter']}, {use}"
    return "", f"{same[0].label}, {use}", f"{_short(same[0])}, {use}"


def _short(method: Method) -> str:
    """A name that a chart has room for: the one in brackets at the end of a label, or what stands before an
    explanation there."""
    found = re.search(r"^(.*) \(([^()]+)\)$", method.label)
    name = method.label if found is None else found[2] if found[2][0].isupper() else found[1]
    return name.replace("autoregressive", "AR")


def settings_words(entry: Entry, pair: str) -> str:
    """``γ 9, T 1``, ``γ 9, B 16`` or ``γ 9, K 4``. T stands only where the drafter denoises, ``≤`` where a controller
    chooses."""
    if entry["drafter"] == "none":
        return ""
    shape, most = shape_of(entry), "≤ " if entry.get("auto") else ""
    words = {
        "tree": f"B {most}{entry.get('nodes')}",
        "drafts": f"K {_drafts(entry)}",
        "window": f"T {most}{entry['steps']}",
    }
    plain = shape == "window" and find_pair(pair).drafter(entry["drafter"]).drafting != "denoise"
    return f"γ {most}{entry['gamma']}" + ("" if plain else f", {words[shape]}")


def whole_turns(rows: Iterable[Row]) -> list[Row]:
    """Rows of (prompt, repeat) pairs that every cell finished, without warm-up: what a report counts."""
    counted = [row for row in rows if not row["warmup"]]
    cells = {row["cell"] for row in counted}
    seen: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in counted:
        seen[row["prompt"], row["repeat"]].add(row["cell"])
    return [row for row in counted if seen[row["prompt"], row["repeat"]] == cells]


def best_cells(cells: Sequence[Entry], extras: int | None = None) -> list[Entry]:
    """The baseline, then the best cell of each method (:data:`CHOICE`), fastest first.

    Args:
        extras: how many uses that no paper names may be among them, the fastest; None: all.

    Raises:
        ConfigError: the baseline is missing.
    """
    baseline = [entry for entry in cells if entry["drafter"] == BASELINE.drafter]
    if not baseline:
        raise ConfigError("The sweep has no baseline.", field="from", hint="Measure it with the drafter none.")
    best: dict[str, Entry] = {}
    for entry in sorted(cells, key=lambda entry: -entry["speedup"]["mean"]):
        if entry["drafter"] != BASELINE.drafter:
            best.setdefault(group_of(entry), entry)
    unnamed = [group for group in best if group not in NAMED]
    dropped = set() if extras is None else set(unnamed[extras:])
    return [baseline[0], *(entry for group, entry in best.items() if group not in dropped)]


def table_of(result: Mapping[str, Any], rows: Sequence[Row] = (), extras: int | None = None) -> dict[str, Any]:
    """One sweep as one table, in plain JSON values.

    Args:
        result: what ``bench --measure sweep`` stored.
        rows: its rows; they add how often each window position was tested.
        extras: as :func:`best_cells` takes it.

    Raises:
        ConfigError: it is no sweep, or has no baseline.
    """
    if result.get("kind") != "sweep":
        raise ConfigError("Only sweeps can be compared.", field="from", hint="Name files of --measure sweep.")
    settings, pair = result["settings"], result["settings"]["pair"]
    flavours = list(result["prompts"])
    chosen = best_cells(result["cells"], extras)
    left_out = [entry for entry in best_cells(result["cells"]) if entry not in chosen]
    counted = whole_turns(rows)
    settled = settings["temperature"] == 0 or settings["rule"] == Rule.MATCH.value
    waits = [entry["waiting"] for entry in result["cells"] if entry.get("waiting") is not None]
    origin = result["provenance"]
    return {
        "temperature": settings["temperature"],
        "rule": settings["rule"],
        "lossless": Rule(settings["rule"]).lossless,
        "settings": settings,
        "prompts": result["prompts"],
        "repeats": result["repeats"],
        "measured": len(result["cells"]) - 1,  # cells besides the baseline
        "left_out": [f"{names_of(entry, pair)[1]} ({entry['speedup']['mean']:.2f}×)" for entry in left_out],
        "waiting": max(waits, default=None),
        "target": result["target"],
        "weights": result["weights"],
        "origin": {
            "device": result["device"],
            "cpu": origin["cpu"],
            "cores": origin["cores"],
            "gpu": origin["gpu"],
            "system": origin["system"],
            "dtype": result["dtype"],
            "threads": result["threads"],
            "versions": origin["versions"],
            "date": origin["date"],
            "commit": origin["commit"],
            "dirty": origin["dirty"],
            "command": origin["command"],
            "sittings": result.get("sessions", 1),
        },
        "flavours": flavours,
        "cells": [_cell(entry, chosen[0], result["prompts"], pair, settled, counted) for entry in chosen],
    }


def _cell(
    entry: Entry, baseline: Entry, prompts: Mapping[str, int], pair: str, settled: bool, rows: Sequence[Row]
) -> dict[str, Any]:
    cell = cell_of(entry)
    name, label, short = names_of(entry, pair)
    rounds, tokens = entry["rounds"], entry["new_tokens"]
    total = sum((metrics_of(row) for row in rows if row["cell"] == cell.key), Metrics())
    speed = entry["speedup"]
    drafted = entry["drafter"] != "none"
    spread = drafted and all(count > 1 for count in prompts.values())
    return {
        "key": cell.key,
        "group": group_of(entry),
        "shape": shape_of(entry),
        "method": name,
        "label": label,
        "short": short,
        "words": settings_words(entry, pair),
        **dataclasses.asdict(cell),
        "speedup": {
            "value": speed["mean"],
            "low": speed["low"] if spread else None,  # one prompt of a flavour: nothing to resample there
            "high": speed["high"] if spread else None,
            "level": speed["level"],
        },
        "pooled_speedup": entry["tokens_per_second"] / baseline["tokens_per_second"],
        "cost": cost_per_round(entry["tau"], entry["tokens_per_second"] / baseline["tokens_per_second"]),
        "tau": entry["tau"],
        "alpha": entry["alpha"],
        "alpha_at": entry["alpha_at"],
        "tested_at": list(total.tested_at),
        "by_flavour": {flavour: _flavour(entry, flavour, drafted and count > 1) for flavour, count in prompts.items()},
        "tokens_per_second": entry["tokens_per_second"],
        "seconds_per_round": {part: value / rounds for part, value in entry["seconds_by"].items()},
        "target_passes_per_token": entry["target_calls"] / tokens,
        "drafter_passes_per_token": entry["draft_nfe"] / tokens,
        "drafter_passes_per_round": entry["draft_nfe"] / rounds,
        "peak_bytes": entry["peak_bytes"],
        "waiting": entry.get("waiting"),
        "runs": entry["runs"],
        "new_tokens": tokens,
        "rounds": rounds,
        "texts": entry["prompts"],
        "same_text_as_vanilla": entry["same_text_as_vanilla"] if settled else None,  # else two samples of one law
    }


def _flavour(entry: Entry, flavour: str, spread: bool) -> dict[str, Any]:
    speed, tau = entry["speedup_by_flavour"][flavour], entry["tau_by_flavour"][flavour]
    return {
        "value": speed["value"],
        "low": speed["low"] if spread else None,
        "high": speed["high"] if spread else None,
        "tau": tau,
        "alpha": entry["alpha_by_flavour"][flavour],
        "cost": cost_per_round(tau, speed["value"]),
    }


def cost_per_round(tau: float | None, speedup: float) -> float | None:
    """Decode seconds of one round over those of one vanilla token, prefill shared out over both: τ / speed-up, because
    a round of vanilla is one token."""
    return None if tau is None else tau / speedup


def median_run(rows: Sequence[Row], flavour: str, key: str) -> tuple[str, int, float]:
    """(prompt id, repeat, speed-up) of the run of ``flavour`` in which cell ``key`` has its median speed-up
    (:data:`MEDIAN`).

    Raises:
        ConfigError: no run of that flavour was finished.
    """
    paces: dict[tuple[str, int], dict[str, float]] = defaultdict(dict)
    for row in whole_turns(rows):
        if row["flavour"] == flavour and row["cell"] in {BASELINE.key, key}:
            sums = row["metrics"]
            paces[row["prompt"], row["repeat"]][row["cell"]] = sums["seconds"] / sums["committed"]
    speeds = sorted((pace[BASELINE.key] / pace[key], run) for run, pace in paces.items())
    if not speeds:
        raise ConfigError(f"No run of {flavour!r} was finished.", field="from", hint="Let the sweep go on.")
    value, (prompt, repeat) = speeds[(len(speeds) - 1) // 2]
    return prompt, repeat, value


def comparison(tables: Sequence[dict[str, Any]]) -> dict[str, Any]:
    """Tables of several temperatures as one object, coolest first.

    Raises:
        ConfigError: there is none, or two have one temperature.
    """
    ordered = sorted(tables, key=lambda table: float(table["temperature"]))
    heats = [table["temperature"] for table in ordered]
    if not heats or len(set(heats)) < len(heats):
        raise ConfigError(
            "A comparison needs one sweep for each temperature.",
            field="from",
            hint=f"These were given: {', '.join(f'{heat:g}' for heat in heats) or 'none'}.",
        )
    return {"schema": SCHEMA, "kind": KIND, "choice": CHOICE, "median": MEDIAN, "tables": ordered}
