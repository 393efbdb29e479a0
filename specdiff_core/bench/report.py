"""Folds a sweep's rows into numbers with intervals. Pure: knows rows and arithmetic, no model, no clock and no file.

Speed-up of a cell: the baseline's seconds per token over the cell's, over all repeats of the same prompts of the same
run, on the decode clock, prefill included. At equal lengths that is the ratio of total decode seconds.
"""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from specdiff_core.bench.cells import BASELINE, Cell
from specdiff_core.bench.rows import Row
from specdiff_core.schema.errors import ConfigError
from specdiff_core.schema.metrics import Metrics

RESAMPLES = 2000
LEVEL = 0.95

Costs = Mapping[str, tuple[float, int]]  # prompt -> (seconds, tokens), repeats added up


def metrics_of(row: Row) -> Metrics:
    """The sums that :func:`specdiff_core.bench.sweep.measure` stored."""
    values = {**row["metrics"]}
    for name in ("tested_at", "accepted_at"):
        values[name] = tuple(values[name])
    return Metrics(**{item.name: values[item.name] for item in dataclasses.fields(Metrics)})


def ratio(baseline: Costs, cell: Costs, prompts: Sequence[str]) -> float:
    """Speed-up over ``prompts`` (with repetition, where they were resampled)."""
    slow = sum(baseline[name][0] for name in prompts) / sum(baseline[name][1] for name in prompts)
    fast = sum(cell[name][0] for name in prompts) / sum(cell[name][1] for name in prompts)
    return slow / fast


def interval(
    baseline: Costs, cell: Costs, groups: Mapping[str, Sequence[str]], *, seed: int = 0
) -> dict[str, tuple[float, float, float]]:
    """Speed-up with a percentile bootstrap interval, by flavour and as ``mean`` (of the flavours).

    Prompts are resampled within their flavour; repeats of a prompt stay together.

    Returns:
        name -> (value, low, high) at :data:`LEVEL`.
    """
    rng = np.random.default_rng(seed)
    values = {name: ratio(baseline, cell, prompts) for name, prompts in groups.items()}
    draws: dict[str, np.ndarray] = {}
    for name, prompts in groups.items():
        costs = np.array([[*baseline[p], *cell[p]] for p in prompts], dtype=np.float64)  # [n, 4]
        chosen = rng.integers(0, len(prompts), size=(RESAMPLES, len(prompts)))
        slow, slow_tokens, fast, fast_tokens = costs[chosen].sum(1).T
        draws[name] = (slow / slow_tokens) / (fast / fast_tokens)
    values["mean"] = sum(values.values()) / len(groups)
    draws["mean"] = np.mean([draws[name] for name in groups], axis=0)
    tail = 50 * (1 - LEVEL)
    return {
        name: (value, float(np.percentile(draws[name], tail)), float(np.percentile(draws[name], 100 - tail)))
        for name, value in values.items()
    }


def report(rows: Sequence[Row], *, seed: int = 0) -> list[dict[str, Any]]:
    """One entry per cell, the baseline first. Warm-up rows do not count.

    Only (prompt, repeat) pairs that every cell finished are used, so a sweep that is still running can be reported.

    Raises:
        ConfigError: nothing was finished, or the baseline is missing.
    """
    counted = [row for row in rows if not row["warmup"]]
    names = list(dict.fromkeys(row["cell"] for row in counted))
    by_turn: dict[tuple[str, int], set[str]] = defaultdict(set)
    for row in counted:
        by_turn[row["prompt"], row["repeat"]].add(row["cell"])
    complete = [row for row in counted if len(by_turn[row["prompt"], row["repeat"]]) == len(names)]
    if not complete or BASELINE.key not in names:
        raise ConfigError("No prompt was measured in every cell yet.", field="json", hint="Let the sweep go on.")
    flavours: dict[str, list[str]] = {}
    for row in complete:
        prompts = flavours.setdefault(row["flavour"], [])
        if row["prompt"] not in prompts:
            prompts.append(row["prompt"])
    costs = {name: _costs([row for row in complete if row["cell"] == name]) for name in names}
    names.sort(key=lambda name: name != BASELINE.key)
    texts = _texts(complete, BASELINE.key)
    return [
        _entry(
            name,
            [row for row in complete if row["cell"] == name],
            interval(costs[BASELINE.key], costs[name], flavours, seed=seed),
            texts,
        )
        for name in names
    ]


def _costs(rows: Sequence[Row]) -> dict[str, tuple[float, int]]:
    sums: dict[str, tuple[float, int]] = {}
    for row in rows:
        seconds, tokens = sums.get(row["prompt"], (0.0, 0))
        sums[row["prompt"]] = (seconds + row["metrics"]["seconds"], tokens + row["metrics"]["committed"])
    return sums


def _texts(rows: Sequence[Row], cell: str) -> dict[str, tuple[str, ...]]:
    """Prompt -> its text in every repeat."""
    texts: dict[str, tuple[str, ...]] = {}
    for row in sorted(rows, key=lambda row: int(row["repeat"])):
        if row["cell"] == cell:
            texts[row["prompt"]] = (*texts.get(row["prompt"], ()), row["text"])
    return texts


def _entry(
    name: str,
    rows: Sequence[Row],
    speed: Mapping[str, tuple[float, float, float]],
    baseline_texts: Mapping[str, tuple[str, ...]],
) -> dict[str, Any]:
    """A cell's numbers, as JSON."""
    total = sum((metrics_of(row) for row in rows), Metrics())
    by = total.seconds_by
    parts = {"draft": by.get("draft", 0.0), "verify": by.get("score", 0.0) + by.get("verify", 0.0)}
    parts |= {"prefill": by.get("prefill", 0.0), "other": total.seconds - sum(parts.values()) - by.get("prefill", 0.0)}
    flavours = list(dict.fromkeys(row["flavour"] for row in rows))
    by_flavour = {
        flavour: sum((metrics_of(row) for row in rows if row["flavour"] == flavour), Metrics()) for flavour in flavours
    }
    texts = _texts(rows, name)
    same = sum(texts[prompt] == baseline_texts[prompt] for prompt in texts)
    value, low, high = speed["mean"]
    return {
        **dataclasses.asdict(Cell.of(name)),
        "speedup": {"mean": value, "low": low, "high": high, "level": LEVEL},
        "speedup_by_flavour": {
            flavour: dict(zip(("value", "low", "high"), speed[flavour], strict=True)) for flavour in flavours
        },
        "tokens_per_second": total.tokens_per_second,
        "tau": total.tau,
        "tau_by_flavour": {flavour: part.tau for flavour, part in by_flavour.items()},
        "alpha": total.alpha,
        "alpha_by_flavour": {flavour: part.alpha for flavour, part in by_flavour.items()},
        "alpha_at": list(total.alpha_at),
        "seconds": total.seconds,
        "seconds_by": parts,  # verify: the target's pass and the tests
        "seconds_fine": dict(by),
        "rounds": total.rounds,
        "new_tokens": total.committed,
        "draft_nfe": total.nfe,
        "target_calls": total.target_calls,
        "peak_bytes": total.peak_bytes,
        "waiting": total.waiting,
        "prompts": len(texts),
        "runs": len(rows),
        "same_text_as_vanilla": same,
    }
